"""Doubts: endpoint changes that do not count against a load balancer, as a health check was wrong meanwhile. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from esipp.checks.model import Family
from esipp.scenarios.endpoint_change.timeline import Timeline


@dataclass(frozen=True)
class Doubt:
    """A node with a wrong health check in a family, from the endpoint change ``number`` on."""

    node: str
    family: Family
    since: float
    until: float
    number: int


def doubts(lines: Sequence[Timeline]) -> list[Doubt]:
    """All doubts; each lasts until the node's next change."""
    found = []
    for place, line in enumerate(lines):
        later = [each.change.cause for each in lines[place + 1 :] if each.change.node == line.change.node]
        until = min(later, default=math.inf)
        found += [
            Doubt(line.change.node, family, line.change.cause, until, line.change.number)
            for family, at in line.health.items()
            if at is None
        ]
    return found


def _meets(doubt: Doubt, line: Timeline, family: Family) -> bool:
    return doubt.family is family and doubt.since < line.until and line.change.cause < doubt.until


def about(line: Timeline, family: Family, all_doubts: Sequence[Doubt]) -> Doubt | None:
    """The doubt about the node of a change during that change: then the change says nothing about the load balancer."""
    return next((each for each in all_doubts if each.node == line.change.node and _meets(each, line, family)), None)


def beside(line: Timeline, family: Family, all_doubts: Sequence[Doubt]) -> Doubt | None:
    """The doubt about any node during a change: a fault in that change may come from there."""
    return next((each for each in all_doubts if _meets(each, line, family)), None)


def words(found: Sequence[Doubt]) -> str:
    """The nodes with a wrong health check, and the change from which on, as text."""
    firsts: dict[str, int] = {}
    for each in found:
        firsts.setdefault(each.node, each.number)
    return ", ".join(f"the health check of {node} is wrong from change {number} on" for node, number in firsts.items())
