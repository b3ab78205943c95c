"""Registration of this scenario."""

from esipp.checks.catalog import events_of
from esipp.checks.rights import DISCOVERY, rights
from esipp.judging.scenario import Scenario, Typical
from esipp.judging.schedule import planned
from esipp.scenarios.service_change.evidence import ServiceChangeEvidence
from esipp.scenarios.service_change.judge import decide
from esipp.scenarios.service_change.sections import section, summary
from esipp.scenarios.service_change.subject import ServiceChange

SCENARIO = Scenario(
    name="service_change",
    suite="changes",
    record="changes",
    subjects=(ServiceChange,),
    evidence=ServiceChangeEvidence,
    decide=decide,
    section=section,
    summary=summary,
    phases=(Typical("changes", base=2, events=tuple(map(planned, events_of("changes").values()))),),
    rights=(
        *rights("create delete get list patch", "services"),
        *rights("create delete get", "pods"),
        *rights("list", "endpointslices", DISCOVERY),
    ),
)
