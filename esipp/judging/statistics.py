"""Statistics: distributions, proportions and exact tests. Pure.

The tests are scipy's. It takes seconds to load, so only the first test loads it, or ``load`` does before.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any


def _scipy() -> Any:
    from scipy import stats  # type: ignore[import-untyped]  # scipy brings no types

    return stats


def load() -> None:
    """Load what the tests need, so that the first one does not wait for it."""
    _scipy()


@dataclass(frozen=True)
class Distribution:
    """All samples of one quantity in seconds, sorted."""

    samples: tuple[float, ...] = ()

    @classmethod
    def of(cls, samples: Iterable[float]) -> "Distribution":
        """The distribution of these."""
        return cls(tuple(sorted(samples)))

    def quantile(self, share: float) -> float:
        """The smallest sample that at least this share of all does not exceed (nearest rank)."""
        return self.samples[max(0, math.ceil(share * len(self.samples)) - 1)]

    @property
    def p50(self) -> float:
        """The median."""
        return self.quantile(0.5)

    @property
    def p95(self) -> float:
        """The sample that 95 % of all do not exceed."""
        return self.quantile(0.95)

    @property
    def most(self) -> float:
        """The largest sample."""
        return self.samples[-1]


def binomial_p(hits: int, trials: int, share: float) -> float:
    """The p-value of the exact two-sided binomial test: each trial hits with probability ``share``."""
    return float(_scipy().binomtest(hits, trials, share).pvalue)


def at_least_p(hits: int, trials: int, share: float) -> float:
    """The probability of at least this many hits, if each trial hits with probability ``share``."""
    return float(_scipy().binomtest(hits, trials, share, alternative="greater").pvalue)


def power(trials: int, alpha: float, share: float) -> float:
    """The power of the exact two-sided test at ``alpha`` to tell a split of ``share`` from an equal one."""
    binom = _scipy().binom
    most = int(binom.ppf(alpha / 2, trials, 0.5)) - 1
    return float(binom.cdf(most, trials, share) + binom.sf(trials - most - 1, trials, share)) if most >= 0 else 0.0


def more_lost_p(lost: int, asked: int, control_lost: int, control_asked: int) -> float:
    """The probability of at least this many losses if the control loses as often (Fisher's exact test, one-sided)."""
    if not lost:
        return 1.0
    table = [[lost, asked - lost], [control_lost, control_asked - control_lost]]
    return float(_scipy().fisher_exact(table, alternative="greater").pvalue)


def same_p(old: Sequence[float], new: Sequence[float]) -> float:
    """The p-value of two samples of one distribution, whichever it is (Mann-Whitney U test, two-sided)."""
    return float(_scipy().mannwhitneyu(old, new, alternative="two-sided").pvalue)


def least_share(hits: int, trials: int, likely: float) -> float:
    """The smallest share at which at least this many hits of these trials have at least the probability ``likely``."""
    return float(_scipy().beta.ppf(likely, hits, trials - hits + 1))


def family_wise(tests: int, alpha: float) -> float:
    """The probability that at least one of these tests fails by chance: Bonferroni's bound, also if they depend."""
    return min(1.0, tests * alpha)


def family_wise_words(tests: int, alpha: float) -> str:
    """The same as a sentence, for the summary of a run."""
    return (
        f"{tests} balance tests at {alpha:g} each: if every split is fair, at least one of them fails by chance in at "
        f"most {family_wise(tests, alpha):.2%} of runs (Bonferroni)"
    )
