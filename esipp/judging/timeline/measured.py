"""Measured times, compared with bounds as far as they are known. Pure."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from esipp.checks.timing import Blur, Held, hold, needed

T = TypeVar("T")


@dataclass(frozen=True)
class Measured:
    """A time in seconds, and its uncertainty. ``doubt`` is why it does not count even where it is above a bound."""

    seconds: float
    blur: Blur
    doubt: str = ""

    @property
    def resolution(self) -> float:
        """By how much the time may be wrong."""
        return self.blur.seconds

    def against(self, bound: float) -> Held:
        """Whether it keeps a bound, if it is known well enough. The bound itself gets no allowance."""
        held = hold(self.seconds, bound, self.blur)
        return Held.UNKNOWN if held is Held.OVER and self.doubt else held

    def too_coarse(self, bound: float) -> str:
        """Why it decides nothing, as text."""
        return self.doubt or (
            f"not measured well enough: the resolution at {self.seconds:.2f} s is {self.resolution:.2f} s, but a "
            f"bound of {bound:.2f} s needs {needed(bound):.2f} s or better"
        )


@dataclass
class Compared(Generic[T]):
    """Measured times by how they compare with a bound, each with what it is about."""

    over: list[tuple[T, Measured]] = field(default_factory=list)
    within: list[tuple[T, Measured]] = field(default_factory=list)
    unknown: list[tuple[T, Measured]] = field(default_factory=list)

    @property
    def kept(self) -> dict[str, int]:
        """How many are surely within the bound, and how many surely above it."""
        return {"kept": len(self.within), "broken": len(self.over)}

    def vague(self, bound: float, least: float) -> Measured | None:
        """The measured time that leaves the comparison undecided; None if enough of them are known well enough.

        Args:
            bound: the bound. A time that is apparently above it must be known.
            least: the share that must be within it surely.
        """
        apparent = [each for _, each in self.unknown if each.seconds > bound]
        if not apparent and len(self.within) >= least * (len(self.within) + len(self.unknown)):
            return None
        return max(apparent or [each for _, each in self.unknown], key=lambda each: each.seconds)


def compare(found: Iterable[tuple[T, Measured]], bound: float) -> Compared[T]:
    """Measured times by how they compare with a bound."""
    compared = Compared[T]()
    for about, measured in found:
        held = measured.against(bound)
        into = {Held.OVER: compared.over, Held.WITHIN: compared.within, Held.UNKNOWN: compared.unknown}[held]
        into.append((about, measured))
    return compared


def coarsest(found: Iterable[tuple[T, Measured]]) -> float:
    """The worst resolution of these times."""
    return max(each.resolution for _, each in found)
