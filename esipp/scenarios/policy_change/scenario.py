"""Registration of the scenario of policy changes, and of the Services that they must leave alone."""

from esipp.checks.policy_change import (
    FlipClaim,
    FlippedCheck,
    Flipping,
    IsolationCheck,
    IsolationHealthCheck,
    PolicyChangeCheck,
)
from esipp.checks.rights import rights
from esipp.judging.scenario import RunThen, Scenario, Typical
from esipp.judging.schedule import Event
from esipp.scenarios.policy_change.evidence import Seen
from esipp.scenarios.policy_change.isolation_judge import BESIDE
from esipp.scenarios.policy_change.judge import judge


def _lacks(check: PolicyChangeCheck, seen: Seen, then: RunThen) -> str:
    if then.asked(check):
        return ""
    if isinstance(check, FlippedCheck):
        return _flipped(check, seen)
    if BESIDE in seen.trouble or BESIDE in seen.broken:
        return ""
    window = seen.window
    if window is None:
        return "no Services were dialled while others changed their policy"
    if isinstance(check, IsolationCheck):
        known = window.evidence.observations.keys() | window.evidence.obstacles.keys()
        return next((f"{path.key} was not dialled" for path in check.paths if path.key not in known), "")
    assert isinstance(check, IsolationHealthCheck)
    asked = (check.place, check.family) in window.health
    return "" if asked else f"the health check of the {check.place} was not probed over {check.family}"


def _flipped(check: FlippedCheck, seen: Seen) -> str:
    service = check.service.value
    if service in seen.trouble or service in seen.broken:
        return ""
    course = seen.courses.get(check.service)
    if course is None:
        return f"the policy of {service} was not changed"
    if check.claim is FlipClaim.KEPT:
        dialled = any((each.at, each.family) == (check.at, check.family) for each in course.kept)
    elif check.at is None:
        dialled = any(family is check.family for _, _, family in course.health)
    else:
        dialled = (check.at, check.family) in course.data or (check.at, check.family) in course.obstacles
    return "" if dialled else f"{service} was not dialled there over {check.family}"


SCENARIO = Scenario(
    name="policy_change",
    suite="compatibility",
    order=1,
    record="flips",
    checks=(PolicyChangeCheck,),
    evidence=Seen,
    judge=judge,
    lacks=_lacks,
    phases=(
        Typical("settle side by side", (IsolationCheck, IsolationHealthCheck), base=1),
        Typical("side by side", (IsolationCheck, IsolationHealthCheck), base=12),
        Typical("flips", (FlippedCheck,), events=tuple(Event(each.value, 21, measures=True) for each in Flipping)),
    ),
    rights=rights("get patch", "services"),
)
