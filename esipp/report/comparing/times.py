"""Durations of two runs compared: the distributions of each run, and the test whether two of them differ."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from esipp.checks.model import Outcome
from esipp.judging.scenario import Durations, scenarios
from esipp.judging.statistics import Distribution, same_p
from esipp.ledger.reading import RecordedRun

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


Name = tuple[str, str]
"""The kind of measure, and the measure."""

PROBES = "answered probes"


def _durations() -> list[Durations]:
    """Those of scenarios."""
    return [found for each in scenarios() if (found := each.part("numbers", "DURATIONS"))]


def kinds() -> dict[str, str]:
    """The kinds of measures, and what one sample is."""
    return {
        PROBES: "from dialling to the answer; one value per path, the median of its sampled connections, as a multiple "
        "(x) of the median of all paths in its run, because all paths are dialled at once and share the machine's load",
        **{each.name: each.sample for each in _durations()},
    }


@dataclass(frozen=True)
class Times:
    """The tested distributions of two runs; ``probes`` are the medians of all paths of each run, in seconds."""

    compared: tuple[Compared, ...] = ()
    probes: tuple[float, float] | None = None


def compare_times(old: RecordedRun, new: RecordedRun) -> Times:
    """Test all distributions that both runs have, and correct for their number."""
    before, after = samples(old), samples(new)
    compared = [compare_samples(*name, before[name], after[name]) for name in before if name in after]
    one, two = _by_path(old), _by_path(new)
    both = [path for path in one if path in two]
    if not both:
        return Times(tuple(correct(compared)))
    was, now = (Distribution.of(run[path] for path in both).p50 for run in (one, two))
    ways: dict[str, list[str]] = {}
    for path, way in _ways(new):
        if path in one and path in two:
            ways.setdefault(way, []).append(path)
    for way, paths in ways.items():
        # rounded, so that equal values stay equal
        relative = [round(one[path] / was, 6) for path in paths], [round(two[path] / now, 6) for path in paths]
        compared.append(compare_samples(PROBES, way, *relative, unit="x"))
    return Times(tuple(correct(compared)), (was, now))


def samples(run: RecordedRun) -> Mapping[Name, list[float]]:
    """Every distribution of a run except its probes, in seconds.

    Evidence of another version of the suite that this version cannot read is left out.
    """
    found: dict[Name, list[float]] = {}
    for measured in _durations():
        for what, taken in measured.make(run):
            found.setdefault((measured.name, what), []).extend(taken)
    return found


def _by_path(run: RecordedRun) -> Mapping[str, float]:
    """The time to an answer by path, in seconds: the median of its sampled connections."""
    found = {}
    for path, probes in run.probes.items():
        # grouped probes have the start of the first and the end of the last probe
        took = [each.ended - each.started for each in probes if each.times == 1 and each.outcome == Outcome.ANSWERED]
        if took and min(took) > 0:
            found[path] = Distribution.of(took).p50
    return found


def _ways(run: RecordedRun) -> Iterable[tuple[str, str]]:
    """Each path with its way in."""
    for path, place in {check.path: check.place for check in run.checks if check.place}.items():
        way = " ".join(part for part in (place.service, place.entry) if part)
        yield path, f"{way}, {place.protocol}, {place.family}"
