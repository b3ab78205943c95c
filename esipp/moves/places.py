"""Which pod may answer when: neither an unready one, nor one of another node behind a nodePort. Pure."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from esipp.moves.samples import Sample, Stream
from esipp.moves.timeline import Mark, Timeline

SLACK = 1.0
"""Seconds after a node's 503 in which a pod that went may still answer: the health check says what the proxy of one
family has done, and the other family's may be later."""

STALE = 10.0
"""Seconds after a pod went in which it may still answer where the node never said 503: no proxy needs longer."""


@dataclass(frozen=True)
class Span:
    """A pod may answer from ``since`` to ``until``: ready, or terminating and serving."""

    since: float
    until: float = math.inf


@dataclass(frozen=True)
class Wrong:
    """A request that was answered by whom it must not."""

    stream: str
    sample: Sample
    why: str


def spans(lines: Iterable[Timeline], marks: Sequence[Mark], opened_before: Iterable[str] = ()) -> dict[str, list[Span]]:
    """When each pod may answer, from what became of the changes; ``opened_before`` were ready from the beginning."""
    allowed = {pod: [Span(-math.inf)] for pod in opened_before}
    gone = {mark.pod: mark.at for mark in marks if mark.what == "gone"}
    for line in sorted(lines, key=lambda each: each.change.cause):
        change = line.change
        of = allowed.setdefault(change.pod, [])
        if change.up:
            of.append(Span(change.cause))
            continue
        left = gone.get(change.pod, math.inf) + SLACK if change.graceful else change.cause + STALE
        if not change.graceful and line.health is not None:
            left = min(left, line.health + SLACK)
        if of:
            of[-1] = Span(of[-1].since, left)
    return allowed


def wrong_places(stream: Stream, allowed: Mapping[str, Sequence[Span]], node: str = "") -> list[Wrong]:
    """The answers of a stream that nobody may have given; ``node`` is whose nodePort was dialled, empty for a VIP."""
    found = []
    for sample in stream.samples:
        if not sample.answered:
            continue
        why = ""
        if sample.pod not in allowed:
            why = f"{sample.pod or 'somebody'} was never to be asked"
        elif node and sample.node != node:
            why = f"node {node} handed it on to a pod of node {sample.node}"
        elif not any(span.since <= sample.ended and sample.started <= span.until for span in allowed[sample.pod]):
            why = f"{sample.pod} was neither ready nor serving while it ends"
        if why:
            found.append(Wrong(stream.name, sample, why))
    return found
