"""How deep a run asks, and how much of that fits into a time: ``--time-budget`` drops depth, never checks."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from esipp.base.plural import counted
from esipp.checks.check import Check
from esipp.checks.power import missed, say_share
from esipp.judging.durations import expected
from esipp.ledger.progress import say_seconds
from esipp.ledger.run import Settings

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


def fitted(settings: Settings, checks: Iterable[Check], say: Callable[[str], None]) -> Settings:
    """The settings with as much depth as fits into their time budget, which is said; unchanged without a budget."""
    if settings.time_budget is None:
        return settings
    cut = within(checks, Depth(settings.samples, settings.moves), settings.time_budget)
    say(f"--time-budget: {cut.words}.")
    return replace(settings, samples=cut.depth.samples, moves=cut.depth.moves)
