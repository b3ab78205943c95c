"""Registration of the scenario of policy changes, and of the Services that they must leave alone."""

from esipp.checks.check import is_about
from esipp.checks.policy_change import (
    BESIDE,
    ChangingService,
    Isolated,
    IsolatedConnections,
    IsolatedHealth,
    PolicyChange,
    PolicyChangeCheck,
    PolicyClaim,
    WhilePoliciesChange,
    WhilePoliciesChangeCheck,
)
from esipp.checks.rights import rights
from esipp.judging.scenario import RunThen, Scenario, Typical
from esipp.judging.schedule import PlannedEvent
from esipp.scenarios.policy_change.evidence import PolicyChangeEvidence
from esipp.scenarios.policy_change.judge import decide
from esipp.scenarios.policy_change.numbers import DURATIONS, NUMBERS
from esipp.scenarios.policy_change.sections import section, summary


def _lacks(check: WhilePoliciesChangeCheck, seen: PolicyChangeEvidence, then: RunThen) -> str:
    if then.asked(check):
        return ""
    if is_about(check, PolicyChange):
        return _changed(check, seen)
    if BESIDE in seen.trouble or BESIDE in seen.broken:
        return ""
    window = seen.window
    if window is None:
        return "no Services were dialled while others changed their policy"
    if is_about(check, Isolated):
        known = window.evidence.observations.keys() | window.evidence.obstacles.keys()
        return next((f"{path.key} was not dialled" for path in check.subject.paths if path.key not in known), "")
    if is_about(check, IsolatedConnections):
        return ""
    assert is_about(check, IsolatedHealth)
    asked = (check.subject.place, check.subject.family) in window.health
    return "" if asked else f"the health check of the {check.subject.place} was not probed over {check.subject.family}"


def _changed(check: PolicyChangeCheck, seen: PolicyChangeEvidence) -> str:
    service = check.subject.service.value
    if service in seen.trouble or service in seen.broken:
        return ""
    course = seen.courses.get(check.subject.service)
    if course is None:
        return f"the policy of {service} was not changed"
    if check.subject.claim is PolicyClaim.KEPT:
        dialled = any((each.at, each.family) == (check.subject.at, check.subject.family) for each in course.kept)
    elif check.subject.at is None:
        dialled = any(family is check.subject.family for _, _, family in course.health)
    else:
        dialled = (check.subject.at, check.subject.family) in course.data or (
            check.subject.at,
            check.subject.family,
        ) in course.obstacles
    return "" if dialled else f"{service} was not dialled there over {check.subject.family}"


SCENARIO = Scenario(
    name="policy_change",
    suite="compatibility",
    order=1,
    record="flips",
    subjects=(WhilePoliciesChange,),
    evidence=PolicyChangeEvidence,
    decide=decide,
    lacks=_lacks,
    section=section,
    summary=summary,
    numbers=NUMBERS,
    durations=DURATIONS,
    phases=(
        Typical("settle side by side", (Isolated, IsolatedConnections, IsolatedHealth), base=1),
        Typical("side by side", (Isolated, IsolatedConnections, IsolatedHealth), base=14),
        Typical(
            "policy changes",
            (PolicyChange,),
            base=3,
            events=tuple(PlannedEvent(each.value, 21, measures=True) for each in ChangingService),
        ),
    ),
    rights=rights("get patch", "services"),
)
