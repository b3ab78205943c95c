"""A measured time and how well it is known, held against a bound. Pure."""

from dataclasses import dataclass
from enum import Enum

MOST, SHARE = 0.5, 0.25
"""A bound is judged where a time is known within half a second, or within a quarter of the bound, if that is less. Half
a second is half of the shortest health check period that Kubernetes' load balancers use (1 s): a check more or less is
told apart by it. A quarter keeps a failed check more than promised visible where N is up to three."""


class Held(Enum):
    """Whether a bound was kept: ``UNKNOWN`` where the time is not known well enough to say."""

    KEPT = "kept"
    BROKEN = "broken"
    UNKNOWN = "unknown"


def needed(bound: float) -> float:
    """Within how many seconds a time must be known to be held against a bound."""
    return min(MOST, SHARE * bound)


@dataclass(frozen=True)
class Measured:
    """Seconds, and how far off they may be: the longest time without a probe of ours around it, and our clocks."""

    seconds: float
    resolution: float

    def against(self, bound: float) -> Held:
        """Whether it keeps a bound. Nothing of ours is added to the bound.

        A time that is not known well decides only where all that it may be is on one side of the bound.
        """
        if self.seconds + self.resolution <= bound:
            return Held.KEPT
        if self.seconds - self.resolution > bound:
            return Held.BROKEN
        if self.resolution > needed(bound):
            return Held.UNKNOWN
        return Held.BROKEN if self.seconds > bound else Held.KEPT


def too_coarse(measured: Measured, bound: float) -> str:
    """Why a time decides nothing, in words."""
    return (
        f"{measured.seconds:.2f} s were measured with a resolution of {measured.resolution:.2f} s; "
        f"to judge the bound of {bound:.2f} s, {needed(bound):.2f} s or less are needed: this machine was too busy"
    )
