"""Decisions by counting: followed changes, answering pods, and source addresses. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from esipp.checks.check import Status
from esipp.checks.endpoint_change import AFTER_503, EXPECTED, What
from esipp.checks.model import Family
from esipp.judging.frame import Decision
from esipp.judging.topology import parse_address
from esipp.scenarios.endpoint_change.expected_backends import Wrong
from esipp.scenarios.endpoint_change.plan import Kind
from esipp.scenarios.endpoint_change.rest import Rest
from esipp.scenarios.endpoint_change.timeline import Change, Timeline


def all_followed(due: Sequence[Timeline], late: Sequence[Timeline], what: str, check: What) -> Decision:
    """Whether each of the due changes was followed."""
    if not due:
        return Decision(Status.INCONCLUSIVE, EXPECTED[check], "nothing", "no endpoint change had to be followed")
    ups = sum(1 for line in due if line.change.up)
    said = f"{what} in {len(due) - len(late)} of {len(due)} changes ({ups} up, {len(due) - ups} down)"
    first = ", ".join(name_of(line.change) for line in late[:4]) + (" …" if len(late) > 4 else "")
    return Decision(Status.FAIL if late else Status.PASS, EXPECTED[check], said, first and f"not followed: {first}")


def with_rest(followed: Decision, rest: Rest) -> Decision:
    """The same decision with the losses between endpoint changes, and those of a control meanwhile.

    A load balancer that keeps a removed node for one connection in fifty loses few requests during changes, as others
    do by chance.
    """
    followed = replace(followed, observed=f"{followed.observed}; {rest.words}") if rest.asked else followed
    if rest.blames:
        why = "requests are lost between endpoint changes, and the control lost fewer"
        reason = f"{followed.reason}; {why}" if followed.reason else why
        return replace(followed, status=Status.FAIL, reason=reason)
    if rest.open and followed.status is Status.PASS:
        why = f"{rest.lost} requests were lost between endpoint changes, with too few control requests to compare"
        return replace(followed, status=Status.INCONCLUSIVE, reason=why)
    return followed


def name_of(change: Change) -> str:
    """A change as text."""
    direction = f" {'up' if change.up else 'down'}" if change.kind is Kind.ELSEWHERE else ""
    return f"change {change.number} ({change.kind.value}{direction}, {change.node})"


def places(wrong: Sequence[Wrong], requests: int) -> Decision:
    """Whether only expected backends answered."""
    said = f"{len(wrong)} of {requests} requests were answered by a wrong backend"
    reason = f"{wrong[0].why} ({wrong[0].stream})" if wrong else ""
    excused = [each for each in wrong if each.evidence]
    seen = AFTER_503 if wrong and len(excused) == len(wrong) else ""
    reason += f"; {excused[0].evidence}" if seen else ""
    return Decision(Status.FAIL if wrong else Status.PASS, EXPECTED[What.PLACE], said, reason, seen)


def sources(samples: Mapping[Family, Iterable[Iterable[object]]], allowed: Mapping[Family, frozenset[str]]) -> Decision:
    """Whether every answer shows an allowed source."""
    right: dict[str, int] = {}
    wrong: dict[str, int] = {}
    for family, streams in samples.items():
        good = {parse_address(each) for each in allowed.get(family, ())}
        for stream in streams:
            for sample in stream:
                source = getattr(sample, "source", "")
                if source:
                    into = right if parse_address(source) in good else wrong
                    into[source] = into.get(source, 0) + 1
    total = sum(right.values()) + sum(wrong.values())
    said = f"the right source in {sum(right.values())} of {total} answers"
    if not total:
        return Decision(Status.INCONCLUSIVE, EXPECTED[What.SOURCE], said, "no request was answered")
    others = ", ".join(f"{source} x{count}" for source, count in sorted(wrong.items()))
    reason = f"wrong sources: {others}" if wrong else ""
    return Decision(Status.FAIL if wrong else Status.PASS, EXPECTED[What.SOURCE], said, reason)
