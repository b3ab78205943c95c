"""Expected backends: when each pod may answer, and through which node's nodePort. Pure."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from esipp.judging.samples import Sample, Stream
from esipp.scenarios.endpoint_change.plan import Kind
from esipp.scenarios.endpoint_change.timeline import Mark, Timeline

SLACK = 0.5
"""Seconds after a node's 503 in which a removed pod may still answer: rules change first, then the health check, so
only requests in flight remain."""

LATE = 3.0
"""Seconds after a deleted pod left the EndpointSlices in which it may still answer: the proxy's own lag. Until then it
counts as terminating and serving, so the node's 503 does not mean that it no longer serves."""

STALE = 10.0
"""Seconds after a pod was removed in which it may still answer if its node never said 503: no proxy needs longer."""

FEW, FEW_SECONDS = 2, 1.0
"""The last ``FEW`` requests before an answer, none older than ``FEW_SECONDS``, show the rules of the other family."""

NEAR = 0.25
"""Seconds around an answer in which the probes of both families show whose rules still lead to its pod."""


@dataclass(frozen=True)
class Span:
    """A pod may answer from ``since`` to ``until``: ready, or terminating and serving."""

    since: float
    until: float = math.inf


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


def spans(
    lines: Iterable[Timeline], marks: Sequence[Mark], opened: Iterable[tuple[str, float]]
) -> dict[str, list[Span]]:
    """When each pod may answer, from the timelines of the changes; ``opened`` are pods made ready otherwise."""
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
    """The answers of a stream from wrong backends; ``node`` is the node of the dialled nodePort, empty for a VIP."""
    found = []
    for sample in stream.samples:
        if not sample.answered:
            continue
        why, late = "", False
        if sample.pod not in allowed:
            why = f"{sample.pod or 'an unknown pod'} is not a backend"
        elif node and sample.node != node:
            why = f"node {node} forwarded it to a pod on node {sample.node}"
        elif not any(span.since <= sample.ended and sample.started <= span.until for span in allowed[sample.pod]):
            why = f"{sample.pod} was neither ready nor terminating and serving"
            late = any(span.until < sample.started <= span.until + LATE for span in allowed[sample.pod])
        if why:
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
