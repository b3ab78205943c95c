"""Measured times with their resolution, for comparison with bounds. Pure."""

from dataclasses import dataclass

from esipp.checks.timing import Blur, Held, hold, needed


@dataclass(frozen=True)
class Measured:
    """A time in seconds, and its uncertainty: the longest time between two of our probes, and that of our clocks."""

    seconds: float
    resolution: float

    def against(self, bound: float) -> Held:
        """Whether it keeps a bound, if it is known well enough. The bound itself gets no allowance."""
        return hold(self.seconds, bound, Blur(self.resolution))


def too_coarse(measured: Measured, bound: float) -> str:
    """Why a time decides nothing, as text."""
    return (
        f"not measured well enough: the resolution at {measured.seconds:.2f} s is {measured.resolution:.2f} s, but a "
        f"bound of {bound:.2f} s needs {needed(bound):.2f} s or better"
    )
