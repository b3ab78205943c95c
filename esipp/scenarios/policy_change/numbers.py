"""What programs read of policy changes: their part of report.json, and the durations that ``esipp diff`` compares."""

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from typing_extensions import TypedDict

from esipp.base.clock import between
from esipp.base.schema import Count, note
from esipp.judging.scenario import Durations, Numbers
from esipp.ledger.reading import RecordedRun
from esipp.scenarios.policy_change.evidence import PolicyChangeEvidence
from esipp.scenarios.policy_change.judge import followed
from esipp.scenarios.policy_change.timeline import PolicyAction


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
    made = [_change("neighbour", name, flip) for name, each in others.items() for flip in each.flips]
    return made + [_change("own", name.value, flip) for name, course in seen.courses.items() for flip in course.flips]


def _change(kind: Literal["neighbour", "own"], service: str, flip: PolicyAction) -> PolicyChange:
    return {
        "kind": kind,
        "service": service,
        "number": flip.number,
        "to": flip.to.value,
        "policy": flip.policy,
        "health_port": flip.health_port,
        "seconds": between(flip.cause, flip.answered),
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
                    took[phase.flip] = max(took.get(phase.flip, 0.0), lasting.since - phase.flip.cause)
        for flip, seconds in took.items():
            yield f"to {flip.to.value}", [seconds]


NUMBERS = Numbers("flips", list[PolicyChange], _numbers)
DURATIONS = Durations(
    "traffic following policy changes",
    "from the policy change until the last path shows the new policy for good; one value per change",
    _durations,
)
