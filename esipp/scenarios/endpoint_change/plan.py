"""The plan of endpoint changes: a seeded random sequence, made before anything happens. Pure.

Each load balancer has one pod on each node (a slot). A slot is open (its pod is ready) or closed (its pod runs, but is
not ready). A deleted pod is created again, closed; until it exists, its slot is away.
"""

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from esipp.checks.endpoint_change import EVENTS, Kind

LEAST = {kind: event.least for kind, event in EVENTS.items() if event.least}
"""The least number of each kind of removal."""

FIRST = 1
"""Changes beyond ``LEAST`` that make sure that every load balancer has a change to follow.

Without it, one that uses one node at a time had none in a run of four moves (2026-11-23, kind-iptables, MetalLB in L2
mode, seed 388983): its core checks were undecided.
"""


@dataclass(frozen=True)
class Step:
    """One step of the plan: ``up`` is the slot that opens, ``down`` the one that closes; None if there is none."""

    kind: Kind
    up: int | None = None
    down: int | None = None


def plan(seed: str, slots: int, moves: int) -> list[Step]:
    """A sequence of ``moves`` openings and as many closings; only one slot is open at its begin and its end.

    At least one slot is always open, and each kind of removal occurs at least ``LEAST`` times. With ``FIRST`` more, the
    first step moves the only open pod to another node: even a load balancer of one node at a time has used that node.

    Raises:
        ValueError: there are fewer than two slots.
    """
    if slots < 2:
        raise ValueError("endpoint changes need at least two nodes")
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
            is_open[step.down], away[step.down] = False, step.kind.event.rests
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
    possible = {
        (True, False): bool(there and ups),
        (False, True): len(opened) > 1 and downs > 0,
        (True, True): bool(there and ups and downs) and not last_ones,
    }
    kinds: list[Kind] = []
    for kind, event in EVENTS.items():
        if possible[event.adds, event.removes]:
            due = owed[kind] if last_ones and event.removes else event.weight
            kinds += [kind] * due
    kind = chance.choice(kinds)
    up = chance.choice(there) if kind.event.adds else None
    down = chance.choice(opened) if kind.event.removes else None
    return Step(kind, up, down)


def last_open(steps: Sequence[Step]) -> int:
    """The slot that is open at the end."""
    is_open = {0}
    for step in steps:
        is_open |= {step.up} if step.up is not None else set()
        is_open -= {step.down} if step.down is not None else set()
    return min(is_open)
