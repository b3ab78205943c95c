"""Distributions and proportions. Pure."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Distribution:
    """All samples of something, in order of size, in seconds."""

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
    """The exact two-sided p-value of so many hits, where each trial hits with probability ``share``.

    The sum of the probabilities of all outcomes that are no likelier than the one that was seen.
    """

    def log_probability(k: int) -> float:
        choose = math.lgamma(trials + 1) - math.lgamma(k + 1) - math.lgamma(trials - k + 1)
        return choose + k * math.log(share) + (trials - k) * math.log1p(-share)

    seen = log_probability(hits)
    likelihoods = (log_probability(k) for k in range(trials + 1))
    return min(1.0, sum(math.exp(each) for each in likelihoods if each <= seen + 1e-9))
