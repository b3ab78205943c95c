"""Registration of the interoperability scenarios."""

from esipp.checks.interoperability import InteroperabilityCheck
from esipp.judging.scenario import RunThen, Scenario
from esipp.scenarios.interoperability.evidence import Seen
from esipp.scenarios.interoperability.judge import judge


def _lacks(check: InteroperabilityCheck, seen: Seen, then: RunThen) -> str:
    tried = check.trial in seen.trouble or check.trial in seen.broken or getattr(seen, check.trial, None)
    return "" if tried or then.asked(check) else f"the scenario {check.trial} did not run"


SCENARIO = Scenario(
    name="interoperability",
    record="interoperability",
    checks=(InteroperabilityCheck,),
    evidence=Seen,
    judge=judge,
    lacks=_lacks,
)
