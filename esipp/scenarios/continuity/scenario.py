"""Registration of the continuity scenario."""

from collections.abc import Mapping

from esipp.checks.check import Feature
from esipp.checks.continuity import ContinuityCheck
from esipp.checks.observation import Verdict
from esipp.judging.scenario import RunThen, Scenario
from esipp.scenarios.continuity.evidence import Seen
from esipp.scenarios.continuity.judge import Judge


def _judge(check: ContinuityCheck, judge: Judge, features: Mapping[str, Feature], facts: Mapping[str, str]) -> Verdict:
    return judge.verdict(check, features, facts)


def _lacks(check: ContinuityCheck, seen: Seen, then: RunThen) -> str:
    asked = (check.way, check.family)
    known = then.asked(check) or asked in seen.streams or asked in seen.obstacles or seen.trouble
    return "" if known else f"no request was sent through {check.way.slug} over {check.family}"


SCENARIO = Scenario(
    name="continuity",
    record="continuity",
    checks=(ContinuityCheck,),
    evidence=Seen,
    analyse=Judge,
    judge=_judge,
    lacks=_lacks,
)
