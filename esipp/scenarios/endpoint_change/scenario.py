"""Registration of the scenario of endpoint changes."""

from collections.abc import Callable, Mapping
from functools import cache

from esipp.checks.check import Feature
from esipp.checks.endpoint_change import EndpointChange, EndpointChangeCheck
from esipp.checks.model import Balancer
from esipp.checks.observation import Verdict
from esipp.checks.rights import GATES, SLICES
from esipp.judging.frame import give_verdict
from esipp.judging.scenario import RunThen, Scenario, Typical
from esipp.scenarios.endpoint_change.figures import section
from esipp.scenarios.endpoint_change.judge import Judge, Moved
from esipp.scenarios.endpoint_change.sections import summary

Judges = Callable[[Balancer], Judge]


def _judges(moved: Moved) -> Judges:
    return cache(lambda balancer: Judge(moved.results[balancer]))


def _judge(
    check: EndpointChangeCheck, judges: Judges, features: Mapping[str, Feature], facts: Mapping[str, str]
) -> Verdict:
    return give_verdict(check, features, facts, lambda: judges(check.subject.balancer).decide(check), check.differences)


def _lacks(check: EndpointChangeCheck, moved: Moved, then: RunThen) -> str:
    known = then.asked(check) or check.subject.balancer in moved.results
    return "" if known else f"there were no endpoint changes behind {check.subject.balancer}"


SCENARIO = Scenario(
    name="endpoint_change",
    suite="convergence",
    record="convergence",
    subjects=(EndpointChange,),
    evidence=Moved,
    analyse=_judges,
    judge=_judge,
    lacks=_lacks,
    section=section,
    summary=summary,
    phases=(Typical("moves", base=75, move=6.8),),
    rights=(*GATES, *SLICES),
)
