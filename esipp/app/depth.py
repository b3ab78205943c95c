"""How deep a run asks, and how much of that fits into a time: ``--time-budget`` drops depth, never checks."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from esipp.base.errors import PreflightError
from esipp.base.plural import counted
from esipp.checks.check import Check
from esipp.checks.power import missed, say_share
from esipp.judging.durations import expected
from esipp.ledger.progress import say_seconds

LEAST_SAMPLES, LEAST_MOVES = 20, 3
"""What is left at least: with less, a path or a load balancer shows next to nothing."""

SHARES = (1.0, 0.75, 0.5, 0.35, 0.25, 0.15, 0.1, 0.0)
"""The shares of the depth that are tried, in this order."""


@dataclass(frozen=True)
class Depth:
    """Connections per path, and endpoint changes of each kind."""

    samples: int
    moves: int

    def seconds(self, checks: Iterable[Check]) -> float:
        """How long a run of these checks usually takes."""
        return sum(expected(checks, self.samples, self.moves).values())


@dataclass(frozen=True)
class Cut:
    """A depth that was cut to fit, and the usual seconds of a run with it."""

    depth: Depth
    seconds: float
    budget: float

    @property
    def words(self) -> str:
        """What is asked, how long it takes, and what that can miss."""
        depth = f"{counted(self.depth.samples, 'connection')} per path, {counted(self.depth.moves, 'endpoint change')}"
        fits = "about" if self.seconds <= self.budget else "even the least takes longer, about"
        chance = say_share(missed(self.depth.samples))
        return (
            f"{depth} of each kind; {fits} {say_seconds(self.seconds)} of {say_seconds(self.budget)}. A defect that "
            f"hits 1 % of the connections of one path is missed with a chance of {chance}"
        )


def read_budget(text: str) -> float:
    """The seconds of a time such as ``10m``, ``90s`` or ``1h30m``.

    Raises:
        PreflightError: it is none.
    """
    found = re.fullmatch(r"(?:(\d+)h)?(?:(\d+)m)?(?:(\d+)s)?", text.strip())
    parts = found.groups() if found and text.strip() else ()
    seconds = sum(int(part) * size for part, size in zip(parts, (3600, 60, 1), strict=False) if part)
    if not seconds:
        raise PreflightError(f"--time-budget '{text}' is no time.", "use 10m, 90s or 1h30m.")
    return float(seconds)


def within(checks: Iterable[Check], most: Depth, budget: float) -> Cut:
    """The largest depth whose run usually fits into ``budget`` seconds, or the least that makes sense."""
    checks = list(checks)
    for share in SHARES:
        depth = Depth(
            max(min(LEAST_SAMPLES, most.samples), round(most.samples * share)),
            max(min(LEAST_MOVES, most.moves), round(most.moves * share)),
        )
        seconds = depth.seconds(checks)
        if seconds <= budget:
            break
    return Cut(depth, seconds, budget)
