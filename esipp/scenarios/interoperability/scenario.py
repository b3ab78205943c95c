"""Registration of the interoperability scenarios."""

from esipp.checks.interoperability import Interoperability, InteroperabilityCheck
from esipp.checks.rights import DISCOVERY, GATES, rights
from esipp.judging.scenario import RunThen, Scenario, Typical
from esipp.judging.schedule import PlannedEvent
from esipp.scenarios.interoperability.evidence import InteroperabilityEvidence
from esipp.scenarios.interoperability.judge import decide
from esipp.scenarios.interoperability.sections import section


def _lacks(check: InteroperabilityCheck, seen: InteroperabilityEvidence, then: RunThen) -> str:
    name = check.subject.scenario
    tried = name in seen.trouble or name in seen.broken or getattr(seen, name, None)
    return "" if tried or then.asked(check) else f"the scenario {name} did not run"


CREATION = "creation of many Services"

SCENARIO = Scenario(
    name="interoperability",
    suite="interoperability",
    record="interoperability",
    subjects=(Interoperability,),
    evidence=InteroperabilityEvidence,
    decide=decide,
    lacks=_lacks,
    section=section,
    phases=(
        Typical(
            "interoperability",
            events=(
                PlannedEvent("neighbours", 25),
                PlannedEvent("names", 15),
                PlannedEvent(CREATION, 15, loads=True, of=("many",)),
            ),
        ),
        Typical("many Services", events=(PlannedEvent("many", 10, measures=True, loads=True),)),
    ),
    rights=(*GATES, *rights("get patch", "services"), *rights("list", "endpointslices", DISCOVERY)),
)
