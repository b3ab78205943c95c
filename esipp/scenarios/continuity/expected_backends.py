"""Expected backends: when each pod may answer, and through which node, from the events of our pod watch. Pure."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from esipp.judging.samples import Sample, Stream
from esipp.scenarios.continuity.evidence import Seen
from esipp.scenarios.endpoint_change.expected_backends import LATE, SLACK, STALE
from esipp.scenarios.endpoint_change.timeline import UNREADY_BESIDE, Mark

EARLY = 1.0
"""Seconds before our watch reports a pod ready in which it may already answer: others may hear of it sooner."""


@dataclass(frozen=True)
class Span:
    """When a pod may answer: from ``since`` until ``here`` through its own node, until ``elsewhere`` through others."""

    since: float
    here: float = math.inf
    elsewhere: float = math.inf


def spans(marks: Iterable[Mark], nodes: Mapping[str, str], health: Iterable[Mapping[str, Stream]]) -> "Spans":
    """When each pod may answer: while ready, or terminating and serving, plus the time that proxies may need."""
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
            # the Service whose health checks were probed lost it sooner; the proxy follows for this one only now
            own[-1] = Span(own[-1].since, max(own[-1].here, mark.at + LATE), max(own[-1].elsewhere, mark.at + LATE))
        elif mark.what == "gone" and is_open:
            own[-1] = Span(own[-1].since, mark.at + LATE, mark.at + LATE)
    return found


Spans = dict[str, list[Span]]


def told_503(stream: Stream | None, after: float) -> float:
    """When a node first answered 503 after a time; infinite if it never did."""
    if stream is None:
        return math.inf
    return next((s.started for s in stream.samples if s.started >= after and s.outcome == "503"), math.inf)


def misplaced(sample: Sample, allowed: Mapping[str, Sequence[Span]], local: bool, node: str = "") -> str:
    """Why an answer comes from a wrong backend; empty if the backend is an expected one.

    Args:
        sample: an answered request.
        allowed: when which pod may answer.
        local: whether the pod's own node decides, as under Local.
        node: the only node whose pods may answer; empty for any.
    """
    if sample.pod not in allowed:
        return f"{sample.pod or 'an unknown pod'} is not a backend"
    if node and sample.node != node:
        return f"node {node} forwarded it to a pod on node {sample.node}"
    for span in allowed[sample.pod]:
        if span.since <= sample.ended and sample.started <= (span.here if local else span.elsewhere):
            return ""
    return f"{sample.pod} was neither ready nor terminating and serving"


def terminating(seen: Seen, checks: Stream, since: float, until: float) -> list[tuple[str, float, float]]:
    """The terminating pods of the endpoint node in a time span, each with the time in which only KEP-1669 protects it.

    That time begins with the node's first 503 (infinite if there was none) and ends when the pod may stop serving.
    """
    found = []
    for mark in seen.marks:
        if mark.what == "deleting" and since <= mark.at < until and seen.nodes.get(mark.pod) == seen.places.endpoint:
            found.append((mark.pod, told_503(checks, mark.at), mark.at + seen.serves - SLACK))
    return found
