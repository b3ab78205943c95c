"""Two samples of one quantity: whether they differ, by how much, and what is left of that among many comparisons.

numpy and scipy are loaded only when something is compared.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from esipp.judging.statistics import Distribution

LEAST = 4
"""Samples that each side must have: with fewer, even two samples that do not overlap prove nothing at 5 %."""

ALPHA = 0.05
"""The chance, over all comparisons of one diff together, that any difference is told that is none."""

_NORMAL = 1.959964
"""Standard deviations around the mean that hold 95 % of a normal distribution."""


@dataclass(frozen=True)
class Compared:
    """Two samples beside each other, in seconds, or whatever ``unit`` says.

    Args:
        what: what was measured; ``of``: the kind of measure.
        old, new: the samples.
        p: of the Mann-Whitney U test, two-sided; 1 where too few samples allow none.
        adjusted: p after Holm's correction for all tests of the diff.
        shift: the Hodges-Lehmann estimate of how much later the new samples are, negative if sooner.
        low, high: its 95 % confidence interval.
    """

    of: str
    what: str
    old: Distribution
    new: Distribution
    p: float = 1.0
    adjusted: float = 1.0
    shift: float = 0.0
    low: float = 0.0
    high: float = 0.0
    unit: str = "s"

    @property
    def enough(self) -> bool:
        """Whether there are samples enough to be tested at all."""
        return min(len(self.old.samples), len(self.new.samples)) >= LEAST

    @property
    def differs(self) -> bool:
        """Whether a difference is shown. Where none is, that does not say that they are equal."""
        return self.enough and self.adjusted < ALPHA


def compare_samples(of: str, what: str, old: Sequence[float], new: Sequence[float], unit: str = "s") -> Compared:
    """Compare two samples: Mann-Whitney U, which assumes no shape, and the Hodges-Lehmann shift."""
    made = Compared(of, what, Distribution.of(old), Distribution.of(new), unit=unit)
    if not made.enough:
        return made
    import numpy as np
    from scipy.stats import mannwhitneyu  # type: ignore[import-untyped]  # scipy brings no types

    x, y = np.asarray(made.old.samples), np.asarray(made.new.samples)
    apart = np.sort(np.subtract.outer(y, x), axis=None)
    n, m = len(x), len(y)
    # the confidence limits are order statistics of all differences (Moses), by the normal approximation
    rank = max(0, math.floor(n * m / 2 - _NORMAL * math.sqrt(n * m * (n + m + 1) / 12)))
    low, high = float(apart[rank]), float(apart[-1 - rank])
    constant = x[0] == x[-1] == y[0] == y[-1]  # where everything is one value, there is nothing to rank
    p = 1.0 if constant else float(mannwhitneyu(x, y, alternative="two-sided").pvalue)
    return replace(made, p=p, adjusted=p, shift=float(np.median(apart)), low=low, high=high)


def correct(compared: Sequence[Compared]) -> list[Compared]:
    """Holm's correction over all that were tested: the chance of a single false alarm stays below ``ALPHA``."""
    tested = sorted((each.p, place) for place, each in enumerate(compared) if each.enough)
    found = list(compared)
    least = 0.0
    for before, (p, place) in enumerate(tested):
        least = max(least, min(1.0, p * (len(tested) - before)))
        found[place] = replace(found[place], adjusted=least)
    return found
