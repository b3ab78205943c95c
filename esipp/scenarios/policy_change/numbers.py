"""What programs read of policy changes: their part of report.json, and the durations that ``esipp diff`` compares."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from typing_extensions import TypedDict

from esipp.base.clock import between
from esipp.base.schema import Count, note
from esipp.judging.scenario import Durations, Numbers
from esipp.ledger.reading import RecordedRun
from esipp.scenarios.policy_change.evidence import PolicyAction, PolicyChangeEvidence
from esipp.scenarios.policy_change.judge import followed


class PolicyChange(TypedDict):
    """A change of ``externalTrafficPolicy``: the Service, what it changed to, and how long the API server took."""

    kind: Literal["neighbour", "own"]
    service: str
    number: Count
    to: str
    policy: str | None
    health_port: int | None
    seconds: Annotated[float, note("until the API server accepted the change")]


def _numbers(run: RecordedRun) -> list[PolicyChange]:
    seen = run.evidence_of(PolicyChangeEvidence) or PolicyChangeEvidence()
    others = seen.window.neighbours if seen.window else {}
    made = [_change("neighbour", name, change) for name, each in others.items() for change in each.changes]
    return made + [
        _change("own", name.value, change) for name, course in seen.courses.items() for change in course.changes
    ]


def _change(kind: Literal["neighbour", "own"], service: str, change: PolicyAction) -> PolicyChange:
    return {
        "kind": kind,
        "service": service,
        "number": change.number,
        "to": change.to.value,
        "policy": change.policy,
        "health_port": change.health_port,
        "seconds": between(change.cause, change.answered),
    }


def _durations(run: RecordedRun) -> Iterator[tuple[str, Sequence[float]]]:
    seen = run.evidence_of(PolicyChangeEvidence)
    ground = seen.ground if seen else None
    if seen is None or ground is None:
        return
    for course in seen.witnessed.values():
        took: dict[PolicyAction, float] = {}
        for at, family in course.data:
            for phase, lasting in followed(course, ground, at, family, strictly=True):
                if lasting is not None:
                    took[phase.change] = max(took.get(phase.change, 0.0), lasting.since - phase.change.cause)
        for change, seconds in took.items():
            yield f"to {change.to.value}", [seconds]


NUMBERS = Numbers("flips", list[PolicyChange], _numbers)
DURATIONS = Durations(
    "traffic following policy changes",
    "from the policy change until the last path shows the new policy for good; one value per change",
    _durations,
)
