"""Which pod may answer when, and which node's pod: from what our watch saw of the pods. Pure."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from esipp.judging.continuity.evidence import Seen
from esipp.judging.endpoint_change.expected_backends import LATE, SLACK, STALE
from esipp.judging.endpoint_change.samples import Sample, Stream
from esipp.judging.endpoint_change.timeline import UNREADY_BESIDE, Mark

EARLY = 1.0
"""Seconds before our watch sees a pod ready in which it may answer: news take different ways."""


@dataclass(frozen=True)
class Span:
    """A pod may answer from ``since`` on, until ``here`` where its own node decides, and ``elsewhere`` by others."""

    since: float
    here: float = math.inf
    elsewhere: float = math.inf


def spans(marks: Iterable[Mark], nodes: Mapping[str, str], health: Iterable[Mapping[str, Stream]]) -> "Spans":
    """When each pod may answer: ready, or serving while it ends; and for as long as proxies may take to follow."""
    checks = list(health)
    found: dict[str, list[Span]] = {}
    ending: set[str] = set()
    for mark in sorted(marks, key=lambda each: each.at):
        own = found.setdefault(mark.pod, [])
        is_open = bool(own) and own[-1].here == math.inf
        if mark.what == "ready" and not is_open:
            own.append(Span(mark.at - EARLY))
        elif mark.what == "deleting":
            ending.add(mark.pod)
        elif mark.what == "unready" and is_open and mark.pod not in ending:
            told = [told_503(each.get(nodes.get(mark.pod, "")), mark.at) for each in checks]
            here = max(told) + SLACK if told and max(told) < math.inf else mark.at + STALE
            own[-1] = Span(own[-1].since, here, mark.at + STALE)
        elif mark.what == UNREADY_BESIDE and own and own[-1].here < math.inf:
            # whose health checks were asked had lost it sooner; this one's proxy begins to follow now
            own[-1] = Span(own[-1].since, max(own[-1].here, mark.at + LATE), max(own[-1].elsewhere, mark.at + LATE))
        elif mark.what == "gone" and is_open:
            own[-1] = Span(own[-1].since, mark.at + LATE, mark.at + LATE)
    return found


Spans = dict[str, list[Span]]


def told_503(stream: Stream | None, after: float) -> float:
    """When a node first said 503 after a moment; infinite where it never did."""
    if stream is None:
        return math.inf
    return next((s.started for s in stream.samples if s.started >= after and s.outcome == "503"), math.inf)


def misplaced(sample: Sample, allowed: Mapping[str, Sequence[Span]], local: bool, node: str = "") -> str:
    """Why nobody may have given an answer like that; empty if it is all right.

    Args:
        sample: an answered request.
        allowed: when which pod may answer.
        local: whether the pod's own node decides, as under Local.
        node: the only node whose pods may answer; empty for any.
    """
    if sample.pod not in allowed:
        return f"{sample.pod or 'somebody'} was never to be asked"
    if node and sample.node != node:
        return f"node {node} handed it on to a pod of node {sample.node}"
    for span in allowed[sample.pod]:
        if span.since <= sample.ended and sample.started <= (span.here if local else span.elsewhere):
            return ""
    return f"{sample.pod} was neither ready nor serving while it ends"


def terminating(seen: Seen, checks: Stream, since: float, until: float) -> list[tuple[str, float, float]]:
    """The pods of the endpoint node that were told to end in a time: from when to when it serves by contract alone.

    From the node's first 503 on, until the pod need not serve any longer; infinite where the node never said 503.
    """
    found = []
    for mark in seen.marks:
        if mark.what == "deleting" and since <= mark.at < until and seen.nodes.get(mark.pod) == seen.places.endpoint:
            found.append((mark.pod, told_503(checks, mark.at), mark.at + seen.serves - SLACK))
    return found
