"""Registration of the interoperability scenarios."""

from esipp.checks.interoperability import InteroperabilityCheck
from esipp.checks.rights import DISCOVERY, GATES, rights
from esipp.judging.scenario import RunThen, Scenario, Typical
from esipp.scenarios.interoperability.evidence import Seen
from esipp.scenarios.interoperability.judge import judge
from esipp.scenarios.interoperability.sections import section


def _lacks(check: InteroperabilityCheck, seen: Seen, then: RunThen) -> str:
    tried = check.trial in seen.trouble or check.trial in seen.broken or getattr(seen, check.trial, None)
    return "" if tried or then.asked(check) else f"the scenario {check.trial} did not run"


SCENARIO = Scenario(
    name="interoperability",
    suite="interoperability",
    record="interoperability",
    checks=(InteroperabilityCheck,),
    evidence=Seen,
    judge=judge,
    lacks=_lacks,
    section=section,
    phases=(
        Typical("inter-operation", parts={"neighbours": 25, "names": 15, "many": 15}, together=True),
        Typical("many services", parts={"many": 10}),
    ),
    rights=(*GATES, *rights("get patch", "services"), *rights("list", "endpointslices", DISCOVERY)),
)
