"""Registration of the interoperability scenarios."""

from esipp.checks.interoperability import InteroperabilityCheck
from esipp.checks.rights import DISCOVERY, GATES, rights
from esipp.judging.scenario import RunThen, Scenario, Typical
from esipp.judging.schedule import Event
from esipp.scenarios.interoperability.evidence import Seen
from esipp.scenarios.interoperability.judge import judge


def _lacks(check: InteroperabilityCheck, seen: Seen, then: RunThen) -> str:
    tried = check.trial in seen.trouble or check.trial in seen.broken or getattr(seen, check.trial, None)
    return "" if tried or then.asked(check) else f"the scenario {check.trial} did not run"


CREATION = "creation of many Services"

SCENARIO = Scenario(
    name="interoperability",
    suite="interoperability",
    record="interoperability",
    checks=(InteroperabilityCheck,),
    evidence=Seen,
    judge=judge,
    lacks=_lacks,
    phases=(
        Typical(
            "inter-operation",
            events=(
                Event("neighbours", 25),
                Event("names", 15),
                Event(CREATION, 15, loads=True, of=("many",)),
            ),
        ),
        Typical("many services", events=(Event("many", 10, measures=True, loads=True),)),
    ),
    rights=(*GATES, *rights("get patch", "services"), *rights("list", "endpointslices", DISCOVERY)),
)
