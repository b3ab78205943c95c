"""Moves that a load balancer cannot be blamed for, as a health check that it goes by was wrong meanwhile. Pure."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from esipp.checks.model import Family
from esipp.judging.endpoint_change.timeline import Timeline


@dataclass(frozen=True)
class Doubt:
    """A node whose health check of a family did not say what it had to, from the move ``number`` on."""

    node: str
    family: Family
    since: float
    until: float
    number: int


def doubts(lines: Sequence[Timeline]) -> list[Doubt]:
    """Each of them; one lasts until the health check follows the node's next change."""
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
    """The doubt about the node of a change, in the time of it: then the change says nothing of the balancer."""
    return next((each for each in all_doubts if each.node == line.change.node and _meets(each, line, family)), None)


def beside(line: Timeline, family: Family, all_doubts: Sequence[Doubt]) -> Doubt | None:
    """The doubt about any node in the time of a change: what went wrong with it may come from there."""
    return next((each for each in all_doubts if _meets(each, line, family)), None)


def words(found: Sequence[Doubt]) -> str:
    """Whose health check was wrong, and from when on."""
    firsts: dict[str, int] = {}
    for each in found:
        firsts.setdefault(each.node, each.number)
    return ", ".join(f"the health check of {node} is wrong from move {number} on" for node, number in firsts.items())
