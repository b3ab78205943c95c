"""A measured time and how well it is known: what is held against a bound. Pure."""

from dataclasses import dataclass

from esipp.checks.timing import Blur, Held, hold, needed


@dataclass(frozen=True)
class Measured:
    """Seconds, and how far off they may be: the longest time without a probe of ours around it, and our clocks."""

    seconds: float
    resolution: float

    def against(self, bound: float) -> Held:
        """Whether it keeps a bound, as far as it is known well enough. Nothing of ours is added to the bound."""
        return hold(self.seconds, bound, Blur(self.resolution))


def too_coarse(measured: Measured, bound: float) -> str:
    """Why a time decides nothing, in words."""
    return (
        f"not measured well enough: the resolution reached at {measured.seconds:.2f} s is {measured.resolution:.2f} s, "
        f"{needed(bound):.2f} s or less are needed to judge {bound:.2f} s"
    )
