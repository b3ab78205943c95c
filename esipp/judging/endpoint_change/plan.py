"""Which pod moves when: a seeded random sequence, made before anything happens. Pure.

Each load balancer has one pod a node (a slot). A slot is open (its pod is ready) or closed (its pod runs, and is not
ready). A pod that was deleted is made again, closed; until it is there its slot is away.
"""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What is done.

    ``opened``: the pod of a bare node becomes ready. ``closed``: it becomes unready while it runs. ``deleted``: with
    a grace period in which it goes on serving. ``killed``: deleted without one. ``elsewhere``: one is opened on
    another node and one is closed here, at once.
    """

    OPENED = "opened"
    CLOSED = "closed"
    DELETED = "deleted"
    KILLED = "killed"
    ELSEWHERE = "elsewhere"


DOWNS = (Kind.CLOSED, Kind.DELETED, Kind.KILLED)

LEAST = {Kind.DELETED: 2, Kind.KILLED: 1, Kind.CLOSED: 1}
"""How often each way down comes at least, if there are so many moves: a check is about each, and chance would now and
then leave one out. Twice what is graceful, as a balancer need not have used the node at that moment.
"""

FIRST = 1
"""Moves more than ``LEAST`` that make sure that every balancer has a change to follow.

Without it, one that uses one node at a time had none in a run of four moves (2026-11-23, kind-iptables, MetalLB in L2
mode, seed 388983): its core checks were undecided.
"""

AWAY_MOVES = {Kind.DELETED: 3, Kind.KILLED: 2}
"""So many moves later a slot is asked again at the earliest, if there is another one: its pod has to end and start."""


@dataclass(frozen=True)
class Step:
    """One move: ``up`` is the slot that opens, ``down`` the one that closes; None where there is none."""

    kind: Kind
    up: int | None = None
    down: int | None = None


def plan(seed: str, slots: int, moves: int) -> list[Step]:
    """A sequence of so many moves up and as many down, beginning and ending with slot 0 or another one open alone.

    There is always an open slot, and of each way down at least ``LEAST``. With ``FIRST`` more, the first move takes the
    only open pod to another node: a balancer that uses one node at a time cannot but have used that one.

    Raises:
        ValueError: there are fewer than two slots.
    """
    if slots < 2:
        raise ValueError("nothing can move with fewer than two nodes")
    chance = random.Random(seed)
    is_open = {slot: slot == 0 for slot in range(slots)}
    away = dict.fromkeys(range(slots), 0)
    ups, downs = moves, moves
    owed = Counter(LEAST) if moves >= sum(LEAST.values()) else Counter[Kind]()
    first = moves >= sum(LEAST.values()) + FIRST
    steps: list[Step] = []
    while ups or downs:
        if first and not steps:
            step = Step(Kind.ELSEWHERE, chance.randrange(1, slots), 0)
        else:
            step = _choose(chance, is_open, away, ups, downs, owed)
        owed -= Counter([step.kind])
        steps.append(step)
        away = {slot: max(0, left - 1) for slot, left in away.items()}
        if step.up is not None:
            is_open[step.up], away[step.up] = True, 0
            ups -= 1
        if step.down is not None:
            is_open[step.down], away[step.down] = False, AWAY_MOVES.get(step.kind, 0)
            downs -= 1
    return steps


def _choose(
    chance: random.Random, is_open: dict[int, bool], away: dict[int, int], ups: int, downs: int, owed: Counter[Kind]
) -> Step:
    last_ones = downs <= owed.total()
    opened = [slot for slot, state in is_open.items() if state]
    closed = [slot for slot, state in is_open.items() if not state]
    soonest = min((away[slot] for slot in closed), default=0)
    there = [slot for slot in closed if away[slot] == soonest]
    kinds: list[Kind] = []
    if there and ups:
        kinds += [Kind.OPENED] * len(DOWNS)  # as likely as all ways down together
    if len(opened) > 1 and downs:
        kinds += owed.elements() if last_ones else DOWNS
    if there and ups and downs and not last_ones:
        kinds += [Kind.ELSEWHERE] * 2  # takes no longer than either of its halves
    kind = chance.choice(kinds)
    up = chance.choice(there) if kind in (Kind.OPENED, Kind.ELSEWHERE) else None
    down = chance.choice(opened) if kind is not Kind.OPENED else None
    return Step(kind, up, down)


def last_open(steps: Sequence[Step]) -> int:
    """The slot that is open when all is done."""
    is_open = {0}
    for step in steps:
        is_open |= {step.up} if step.up is not None else set()
        is_open -= {step.down} if step.down is not None else set()
    return min(is_open)
