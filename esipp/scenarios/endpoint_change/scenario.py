"""Registration of the scenario of endpoint changes."""

from collections.abc import Mapping

from esipp.checks.endpoint_change import EndpointChange, EndpointChangeCheck
from esipp.checks.model import Balancer
from esipp.checks.rights import GATES, SLICES
from esipp.judging.frame import Decision
from esipp.judging.scenario import RunThen, Scenario, Typical
from esipp.judging.schedule import PlannedEvent
from esipp.scenarios.endpoint_change.evidence import Moved
from esipp.scenarios.endpoint_change.judge import Judge, judges_of
from esipp.scenarios.endpoint_change.numbers import DURATIONS, NUMBERS, brief
from esipp.scenarios.endpoint_change.sections import key_figures, section, summary


def _decide(check: EndpointChangeCheck, judges: Mapping[Balancer, Judge]) -> Decision:
    return judges[check.subject.balancer].decide(check)


def _lacks(check: EndpointChangeCheck, moved: Moved, then: RunThen) -> str:
    known = then.asked(check) or check.subject.balancer in moved.results
    return "" if known else f"there were no endpoint changes behind {check.subject.balancer}"


BALANCERS = (Balancer.DEFAULT, Balancer.ECMP, Balancer.PROXY)

SCENARIO = Scenario(
    name="endpoint_change",
    suite="convergence",
    record="convergence",
    subjects=(EndpointChange,),
    evidence=Moved,
    analyse=judges_of,
    decide=_decide,
    lacks=_lacks,
    section=section,
    summary=summary,
    brief=brief,
    key_figures=key_figures,
    numbers=NUMBERS,
    durations=DURATIONS,
    phases=(
        Typical(
            "endpoint changes",
            base=75,
            move=6.8,
            events=tuple(PlannedEvent(each.value, measures=True) for each in BALANCERS),
        ),
    ),
    rights=(*GATES, *SLICES),
)
