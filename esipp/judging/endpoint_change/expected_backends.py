"""Which pod may answer when: neither an unready one, nor one of another node behind a nodePort. Pure."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from esipp.judging.endpoint_change.plan import Kind
from esipp.judging.endpoint_change.samples import Sample, Stream
from esipp.judging.endpoint_change.timeline import Mark, Timeline

SLACK = 0.5
"""Seconds after a node's 503 in which a pod that went may still answer: rules are changed first, the health check then,
so that only requests that are on their way are left."""

LATE = 3.0
"""Seconds in which a pod may still answer that was deleted and has left the EndpointSlices: the proxy's own lag. Until
then it counts as terminating and serving, and the node's 503 does not say that it serves no more."""

STALE = 10.0
"""Seconds after a pod went in which it may still answer where the node never said 503: no proxy needs longer."""

FEW, FEW_SECONDS = 2, 1.0
"""So many requests before an answer, none of them older than so many seconds, say what the other family's rules do."""

NEAR = 0.25
"""Seconds around an answer in which the probes of both families say whose rules still lead to its pod."""


@dataclass(frozen=True)
class Span:
    """A pod may answer from ``since`` to ``until``: ready, or terminating and serving."""

    since: float
    until: float = math.inf


@dataclass(frozen=True)
class Wrong:
    """A request that was answered by whom it must not; ``late`` if that pod might, until shortly before.

    ``evidence`` is what shows that the node's 503 was the other family's: empty where nothing does.
    """

    stream: str
    sample: Sample
    why: str
    late: bool = False
    evidence: str = ""


def spans(
    lines: Iterable[Timeline], marks: Sequence[Mark], opened: Iterable[tuple[str, float]]
) -> dict[str, list[Span]]:
    """When each pod may answer, from what became of the changes; ``opened`` were made ready beside them, and when."""
    gone = {mark.pod: mark.at for mark in marks if mark.what in ("gone", "slice-gone")}  # the last of them counts
    began: list[tuple[float, str]] = [(at, pod) for pod, at in opened]
    ended: list[tuple[float, str, float]] = []
    for line in lines:
        change = line.change
        if change.up:
            began.append((change.cause, change.pod))
            continue
        if change.kind in (Kind.DELETED, Kind.KILLED):
            left = gone.get(change.pod, math.inf) + LATE
        else:
            told = [at for at in line.health.values() if at is not None]
            left = max(told) + SLACK if told and line.told else change.cause + STALE
        ended.append((change.cause, change.pod, left))
    allowed: dict[str, list[Span]] = {}
    for at, pod in sorted(began):
        until = min(((cause, left) for cause, of, left in ended if of == pod and cause > at), default=(0.0, math.inf))
        allowed.setdefault(pod, []).append(Span(at, until[1]))
    return allowed


def wrong_places(stream: Stream, allowed: Mapping[str, Sequence[Span]], node: str = "") -> list[Wrong]:
    """The answers of a stream that nobody may have given; ``node`` is whose nodePort was dialled, empty for a VIP."""
    found = []
    for sample in stream.samples:
        if not sample.answered:
            continue
        why, late = "", False
        if sample.pod not in allowed:
            why = f"{sample.pod or 'somebody'} was never to be asked"
        elif node and sample.node != node:
            why = f"node {node} handed it on to a pod of node {sample.node}"
        elif not any(span.since <= sample.ended and sample.started <= span.until for span in allowed[sample.pod]):
            why = f"{sample.pod} was neither ready nor serving while it ends"
            late = any(span.until < sample.started <= span.until + LATE for span in allowed[sample.pod])
        if why:
            found.append(Wrong(stream.name, sample, why, late))
    return found


@dataclass(frozen=True)
class Paths:
    """Both families' nodePort of a node: ``own`` is that of the family in which an answer came."""

    own: Stream
    other: Stream


def other_family_spoke(sample: Sample, paths: Paths) -> str:
    """What shows that a node said 503 for the other family's rules, while those of an answer's family were as before.

    At the moment of the answer the node's nodePort of its family was answered by the same pod, and that of the other
    family was asked and was silent. Empty where that was not seen: then nothing excuses the answer.
    """
    near = (sample.started - NEAR, sample.started + NEAR)
    own = [each for each in paths.own.view(*near) if each.answered and each.pod == sample.pod]
    before = paths.other.view(-math.inf, sample.started)
    answered = [each for each in before if each.answered and each.pod == sample.pod]
    silent = [each for each in before[-FEW:] if each.started >= sample.started - FEW_SECONDS]
    if not own or not silent or any(each.answered for each in silent):
        return ""
    since = f"{sample.started - answered[-1].started:.2f} s before" if answered else "before"
    return (
        f"at that moment {sample.node} still led to {sample.pod} in this family ({len(own)} answers), and had stopped "
        f"{since} in the other one ({len(silent)} requests without an answer)"
    )


def with_evidence(wrong: Iterable[Wrong], paths: Mapping[str, Paths]) -> list[Wrong]:
    """Each wrong answer with what excuses it, by the node that gave it."""
    return [
        replace(each, evidence=other_family_spoke(each.sample, paths[each.sample.node]))
        if each.late and each.sample.node in paths
        else each
        for each in wrong
    ]
