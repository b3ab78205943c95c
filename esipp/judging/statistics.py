"""Statistics: distributions, proportions and exact tests. Pure."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


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

    def as_json(self) -> dict[str, Any]:
        """The distribution as the ledger keeps it, with every sample."""
        if not self.samples:
            return {"n": 0, "samples": []}
        rounded = [round(each, 4) for each in self.samples]
        told = {"p50": self.quantile(0.5), "p95": self.quantile(0.95), "max": self.samples[-1]}
        return {"n": len(rounded), **{name: round(each, 4) for name, each in told.items()}, "samples": rounded}


def binomial_p(hits: int, trials: int, share: float) -> float:
    """The exact two-sided p-value of a number of hits, if each trial hits with probability ``share``.

    The sum of the probabilities of all outcomes that are no likelier than the observed one.
    """

    def log_probability(k: int) -> float:
        choose = math.lgamma(trials + 1) - math.lgamma(k + 1) - math.lgamma(trials - k + 1)
        return choose + k * math.log(share) + (trials - k) * math.log1p(-share)

    seen = log_probability(hits)
    likelihoods = (log_probability(k) for k in range(trials + 1))
    return min(1.0, sum(math.exp(each) for each in likelihoods if each <= seen + 1e-9))


def power(trials: int, alpha: float, share: float) -> float:
    """The power of the exact two-sided test at ``alpha`` to tell a split of ``share`` from an equal one."""
    tail, most = 0.0, -1
    for hits, likely in enumerate(_binomial(trials, 0.5)):
        tail += likely
        if 2.0 * tail >= alpha:
            break
        most = hits
    unequal = _binomial(trials, share)
    return sum(unequal[: most + 1]) + sum(unequal[trials - most :]) if most >= 0 else 0.0


def _binomial(trials: int, share: float) -> list[float]:
    """The probability of each number of hits."""
    return [_likely(hits, trials, share) for hits in range(trials + 1)]


def _likely(hits: int, trials: int, share: float) -> float:
    """The probability of this number of hits."""
    choose = math.lgamma(trials + 1) - math.lgamma(hits + 1) - math.lgamma(trials - hits + 1)
    return math.exp(choose + hits * math.log(share) + (trials - hits) * math.log1p(-share))


def more_lost_p(lost: int, asked: int, control_lost: int, control_asked: int) -> float:
    """The probability of at least this many losses if the control loses as often (Fisher, one-sided)."""
    losses, total = lost + control_lost, asked + control_asked
    if not losses:
        return 1.0

    def choose(of: int, some: int) -> float:
        return math.lgamma(of + 1) - math.lgamma(some + 1) - math.lgamma(of - some + 1)

    whole = choose(total, losses)
    possible = range(max(lost, losses - control_asked), min(losses, asked) + 1)
    return min(1.0, sum(math.exp(choose(asked, n) + choose(control_asked, losses - n) - whole) for n in possible))


def least_share(hits: int, trials: int, likely: float) -> float:
    """The smallest share at which at least this many hits of these trials have at least the probability ``likely``."""
    low, high = 0.0, 1.0
    for _ in range(40):
        share = (low + high) / 2.0
        fewer = sum(_likely(n, trials, share) for n in range(hits)) if 0.0 < share < 1.0 else 0.0
        low, high = (low, share) if 1.0 - fewer >= likely else (share, high)
    return high


def family_wise(tests: int, alpha: float) -> float:
    """The probability that at least one of these tests fails by chance: Bonferroni's bound, also if they depend."""
    return min(1.0, tests * alpha)


def family_wise_words(tests: int, alpha: float) -> str:
    """The same as a sentence, for the summary of a run."""
    return (
        f"{tests} balance tests at {alpha:g} each: if every split is fair, at least one of them fails by chance in at "
        f"most {family_wise(tests, alpha):.2%} of runs (Bonferroni)"
    )
