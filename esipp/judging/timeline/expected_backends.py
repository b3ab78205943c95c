"""Expected backends: when each pod may answer, and through which nodes. Pure."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from esipp.judging.timeline.streams import UNREADY_BESIDE, Mark, Sample, Stream

SLACK = 0.5
"""Seconds after a node's 503 in which a removed pod may still answer: rules change first, then the health check, so
only requests in flight remain."""

LATE = 3.0
"""Seconds after a deleted pod left the EndpointSlices in which it may still answer: the proxy's own lag. Until then it
counts as terminating and serving, so the node's 503 does not mean that it no longer serves."""

STALE = 10.0
"""Seconds after a pod was removed in which it may still answer if its node never said 503: no proxy needs longer."""

EARLY = 1.0
"""Seconds before our watch reports a pod ready in which it may already answer: others may hear of it sooner."""


@dataclass(frozen=True)
class Span:
    """When a pod may answer: from ``since`` until ``here`` through its own node, until ``elsewhere`` through others.

    That is while it is ready, or terminating and serving, and as long as proxies may take to follow.
    """

    since: float
    here: float = math.inf
    elsewhere: float = math.inf


Spans = dict[str, list[Span]]
"""The spans of each pod; one that never was a backend has none, and is not in it."""


@dataclass(frozen=True)
class Removal:
    """A pod that may no longer answer: removed at ``at``, it may answer until ``until``."""

    pod: str
    at: float
    until: float


def spans_of_actions(added: Iterable[tuple[str, float]], removed: Sequence[Removal]) -> Spans:
    """When each pod may answer, where we added and removed all pods: ``added`` has each pod, and when."""
    found: Spans = {}
    for at, pod in sorted((at, pod) for pod, at in added):
        ends = ((each.at, each.until) for each in removed if each.pod == pod and each.at > at)
        _, until = min(ends, default=(0.0, math.inf))
        found.setdefault(pod, []).append(Span(at, until, until))
    return found


def spans_of_marks(marks: Iterable[Mark], nodes: Mapping[str, str], health: Iterable[Mapping[str, Stream]]) -> Spans:
    """When each pod may answer, by the events of our watches, where controllers add and remove pods.

    Args:
        marks: the events.
        nodes: the node of each pod.
        health: the health checks of nodes, once for each family.
    """
    checks = list(health)
    found: Spans = {}
    ending: set[str] = set()
    for mark in sorted(marks, key=lambda each: each.at):
        own = found.setdefault(mark.pod, [])
        is_open = bool(own) and own[-1].here == math.inf
        if mark.what == "ready" and not is_open:
            own.append(Span(mark.at - EARLY))
        elif mark.what == "deleting":
            ending.add(mark.pod)
        elif mark.what == "unready" and is_open and mark.pod not in ending:
            answered_503 = [first_503(each.get(nodes.get(mark.pod, "")), mark.at) for each in checks]
            own[-1] = replace(own[-1], here=until_followed(mark.at, answered_503), elsewhere=mark.at + STALE)
        elif mark.what == UNREADY_BESIDE and own and own[-1].here < math.inf:
            # the Service whose health checks were probed lost it sooner; the proxy follows for this one only now
            own[-1] = replace(
                own[-1], here=max(own[-1].here, mark.at + LATE), elsewhere=max(own[-1].elsewhere, mark.at + LATE)
            )
        elif mark.what == "gone" and is_open:
            own[-1] = replace(own[-1], here=mark.at + LATE, elsewhere=mark.at + LATE)
    return found


def until_followed(removed: float, answered_503: Sequence[float]) -> float:
    """Until when a pod that became unready may answer.

    Args:
        removed: when it became unready.
        answered_503: when its node said 503, in each family; infinite where it did not.
    """
    return max(answered_503) + SLACK if answered_503 and max(answered_503) < math.inf else removed + STALE


def first_503(checks: Stream | None, after: float) -> float:
    """When a node first answered 503 after a time; infinite if it never did."""
    if checks is None:
        return math.inf
    return next((s.started for s in checks.samples if s.started >= after and s.outcome == "503"), math.inf)


def misplaced(
    sample: Sample, allowed: Mapping[str, Sequence[Span]], *, local: bool = True, node: str = "", overdue: float = 0.0
) -> str:
    """Why an answer comes from a wrong backend; empty if the backend is an expected one.

    Args:
        sample: an answered request.
        allowed: when which pod may answer.
        local: whether the pod's own node decides, as under Local.
        node: the only node whose pods may answer; empty for any.
        overdue: seconds for which a pod may answer beyond its time.
    """
    if sample.pod not in allowed:
        return f"{sample.pod or 'an unknown pod'} is not a backend"
    if node and sample.node != node:
        return f"node {node} forwarded it to a pod on node {sample.node}"
    for span in allowed[sample.pod]:
        if span.since <= sample.ended and sample.started <= (span.here if local else span.elsewhere) + overdue:
            return ""
    return f"{sample.pod} was neither ready nor terminating and serving"
