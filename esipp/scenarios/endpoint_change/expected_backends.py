"""Answers from wrong backends after endpoint changes, and the evidence that excuses one. Pure."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from esipp.judging.timeline import (
    LATE,
    SLICE_GONE,
    Mark,
    Removal,
    Sample,
    Span,
    Spans,
    Stream,
    misplaced,
    spans_of_actions,
    until_followed,
)
from esipp.scenarios.endpoint_change.evidence import Timeline

FEW, FEW_SECONDS = 2, 1.0
"""The last ``FEW`` requests before an answer, none older than ``FEW_SECONDS``, show the rules of the other family."""

NEAR = 0.25
"""Seconds around an answer in which the probes of both families show whose rules still lead to its pod."""


@dataclass(frozen=True)
class Wrong:
    """A request answered by a wrong backend; ``late`` if that pod was an expected one until shortly before.

    ``evidence`` shows that the node's 503 was that of the other family; empty if nothing shows it.
    """

    stream: str
    sample: Sample
    why: str
    late: bool = False
    evidence: str = ""


def spans(lines: Sequence[Timeline], marks: Sequence[Mark], opened: Iterable[tuple[str, float]]) -> Spans:
    """When each pod may answer, from the timelines of the changes; ``opened`` are pods made ready otherwise."""
    gone = {mark.pod: mark.at for mark in marks if mark.what in ("gone", SLICE_GONE)}  # the last of them counts
    added = [(line.change.pod, line.change.cause) for line in lines if line.change.up]
    removed = []
    for line in lines:
        change = line.change
        if change.up:
            continue
        answered_503 = [math.inf if at is None else at for at in line.health.values()]
        deletes = change.kind.event.deletes
        until = gone.get(change.pod, math.inf) + LATE if deletes else until_followed(change.cause, answered_503)
        removed.append(Removal(change.pod, change.cause, until))
    return spans_of_actions([*opened, *added], removed)


def wrong_places(stream: Stream, allowed: Mapping[str, Sequence[Span]], node: str = "") -> list[Wrong]:
    """The answers of a stream from wrong backends; ``node`` is the node of the dialled nodePort, empty for a VIP."""
    found = []
    for sample in stream.samples:
        if sample.answered and (why := misplaced(sample, allowed, node=node)):
            known = allowed.get(sample.pod, ()) if not node or sample.node == node else ()
            late = any(span.here < sample.started <= span.here + LATE for span in known)
            found.append(Wrong(stream.name, sample, why, late))
    return found


@dataclass(frozen=True)
class Paths:
    """The nodePort of a node in both families: ``own`` is that of the answer's family."""

    own: Stream
    other: Stream


def other_family_spoke(sample: Sample, paths: Paths) -> str:
    """The evidence that a node's 503 was about the other family's rules, while those of the answer's family were not
    changed yet.

    Around the answer, the same pod answered at the node's nodePort in its family, and the nodePort in the other family
    was probed and silent. Empty without that evidence: then nothing excuses the answer.
    """
    near = (sample.started - NEAR, sample.started + NEAR)
    own = [each for each in paths.own.view(*near) if each.answered and each.pod == sample.pod]
    before = paths.other.view(-math.inf, sample.started)
    answered = [each for each in before if each.answered and each.pod == sample.pod]
    silent = [each for each in before[-FEW:] if each.started >= sample.started - FEW_SECONDS]
    if not own or not silent or any(each.answered for each in silent):
        return ""
    since = f"{sample.started - answered[-1].started:.2f} s earlier" if answered else "earlier"
    return (
        f"at that time {sample.node} still led to {sample.pod} in this family ({len(own)} answers), and no longer in "
        f"the other family, since {since} ({len(silent)} requests without an answer)"
    )


def with_evidence(wrong: Iterable[Wrong], paths: Mapping[str, Paths]) -> list[Wrong]:
    """Each wrong answer with the evidence that excuses it, by its node."""
    return [
        replace(each, evidence=other_family_spoke(each.sample, paths[each.sample.node]))
        if each.late and each.sample.node in paths
        else each
        for each in wrong
    ]
