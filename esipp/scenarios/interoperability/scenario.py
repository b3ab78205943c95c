"""Registration of the interoperability scenarios."""

from esipp.checks.interoperability import Interoperability, InteroperabilityCheck
from esipp.checks.rights import DISCOVERY, GATES, rights
from esipp.judging.scenario import RunThen, Scenario, Typical
from esipp.scenarios.interoperability.evidence import Seen
from esipp.scenarios.interoperability.judge import decide
from esipp.scenarios.interoperability.sections import section


def _lacks(check: InteroperabilityCheck, seen: Seen, then: RunThen) -> str:
    name = check.subject.scenario
    tried = name in seen.trouble or name in seen.broken or getattr(seen, name, None)
    return "" if tried or then.asked(check) else f"the scenario {name} did not run"


SCENARIO = Scenario(
    name="interoperability",
    suite="interoperability",
    record="interoperability",
    subjects=(Interoperability,),
    evidence=Seen,
    decide=decide,
    lacks=_lacks,
    section=section,
    phases=(
        Typical("inter-operation", parts={"neighbours": 25, "names": 15, "many": 15}, together=True),
        Typical("many services", parts={"many": 10}),
    ),
    rights=(*GATES, *rights("get patch", "services"), *rights("list", "endpointslices", DISCOVERY)),
)
