"""Statistical comparison of two samples: test, shift, and correction for many comparisons.

numpy and scipy are loaded at the first comparison.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from esipp.judging.statistics import Distribution, same_p

LEAST = 4
"""Minimum number of samples per side: with fewer, even disjoint samples prove nothing at 5 %."""

ALPHA = 0.05
"""The chance of any false difference over all comparisons of one diff."""

_NORMAL = 1.959964
"""The standard deviations around the mean that contain 95 % of a normal distribution."""


@dataclass(frozen=True)
class Compared:
    """Two compared samples, in seconds or in ``unit``.

    Args:
        of, what: the kind of measure, and the measure.
        old, new: the samples.
        p: p-value of the two-sided Mann-Whitney U test; 1 with too few samples.
        adjusted: p after Holm's correction for all tests of the diff.
        shift: the Hodges-Lehmann estimate of how much larger the new samples are; negative if smaller.
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
        """Whether both sides have enough samples for a test."""
        return min(len(self.old.samples), len(self.new.samples)) >= LEAST

    @property
    def differs(self) -> bool:
        """Whether a difference is proven. Without one, the samples need not be equal."""
        return self.enough and self.adjusted < ALPHA


def compare_samples(of: str, what: str, old: Sequence[float], new: Sequence[float], unit: str = "s") -> Compared:
    """Compare two samples: Mann-Whitney U, which assumes no distribution, and the Hodges-Lehmann shift."""
    made = Compared(of, what, Distribution.of(old), Distribution.of(new), unit=unit)
    if not made.enough:
        return made
    import numpy as np

    x, y = np.asarray(made.old.samples), np.asarray(made.new.samples)
    apart = np.sort(np.subtract.outer(y, x), axis=None)
    n, m = len(x), len(y)
    # the confidence limits are order statistics of all differences (Moses), by the normal approximation
    rank = max(0, math.floor(n * m / 2 - _NORMAL * math.sqrt(n * m * (n + m + 1) / 12)))
    low, high = float(apart[rank]), float(apart[-1 - rank])
    constant = x[0] == x[-1] == y[0] == y[-1]  # equal values cannot be ranked
    p = 1.0 if constant else same_p(made.old.samples, made.new.samples)
    return replace(made, p=p, adjusted=p, shift=float(np.median(apart)), low=low, high=high)


def correct(compared: Sequence[Compared]) -> list[Compared]:
    """Holm's correction over all tests: the chance of any false alarm stays below ``ALPHA``."""
    tested = sorted((each.p, place) for place, each in enumerate(compared) if each.enough)
    found = list(compared)
    least = 0.0
    for before, (p, place) in enumerate(tested):
        least = max(least, min(1.0, p * (len(tested) - before)))
        found[place] = replace(found[place], adjusted=least)
    return found
