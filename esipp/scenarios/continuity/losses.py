"""Losses of continuity: lost and late requests of one way in one phase, and the gaps they form. Pure."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from esipp.checks.timing import Blur, Held, hold
from esipp.judging.controls import Vantage
from esipp.judging.samples import Sample

LATE = 0.9
"""Seconds after which an answer is late. A dropped SYN is retransmitted after one second, so a longer answer shows that
the first SYN was lost."""

SPLIT = 2.0
"""Seconds without a missed request after which another gap begins."""


@dataclass(frozen=True)
class Gap:
    """A time in which requests were lost or late: from the start of the first to the start of the last."""

    first: float
    last: float
    missed: int

    @property
    def seconds(self) -> float:
        """How long it was."""
        return self.last - self.first


@dataclass(frozen=True)
class Tally:
    """The number of requests, of lost and late ones, and the longest gap."""

    requests: int = 0
    lost: int = 0
    late: int = 0
    gap: Gap | None = None

    @property
    def words(self) -> str:
        """The numbers as text."""
        said = f"{self.lost} of {self.requests} requests lost, {self.late} late"
        return said + (f", longest gap {self.gap.seconds:.2f} s" if self.gap else "")

    def as_json(self) -> dict[str, Any]:
        """The numbers as a ledger record."""
        gap = round(self.gap.seconds, 4) if self.gap else 0.0
        return {"requests": self.requests, "lost": self.lost, "late": self.late, "gap": gap}


def is_late(sample: Sample) -> bool:
    """Whether an answer came late."""
    return sample.answered and sample.ended - sample.started >= LATE


def gaps(samples: Iterable[Sample], causes: Sequence[float] = ()) -> list[Gap]:
    """The gaps, split at the times of the single changes; ``samples`` are in order of start."""
    found: list[Gap] = []
    missed = [s.started for s in samples if not s.answered or is_late(s)]
    marks = sorted(causes)
    for at in missed:
        last = found[-1] if found else None
        if last and at - last.last <= SPLIT and bisect_right(marks, at) == bisect_right(marks, last.last):
            found[-1] = Gap(last.first, at, last.missed + 1)
        else:
            found.append(Gap(at, at, 1))
    return found


def tally(samples: Sequence[Sample], causes: Sequence[float] = ()) -> Tally:
    """The numbers of these requests."""
    found = gaps(samples, causes)
    longest = max(found, key=lambda gap: gap.seconds, default=None)
    lost = sum(1 for s in samples if not s.answered)
    return Tally(len(samples), lost, sum(1 for s in samples if is_late(s)), longest)


def say_late(samples: Iterable[Sample], gap: Gap) -> str:
    """The late answers in a gap and the nodes of their pods, as text; a busy node may also answer late."""
    late = [sample for sample in samples if gap.first <= sample.started <= gap.last and is_late(sample)]
    nodes = sorted({sample.node for sample in late if sample.node})
    by = f", by pods of {', '.join(nodes)}" if nodes else ""
    return f"{len(late)} of its {gap.missed} requests were answered late{by}" if late else ""


def kept_from_asking(samples: Iterable[Sample], gap: Gap) -> float:
    """The longest time between two requests around a gap, which limits how well its length is known."""
    starts = [s.started for s in samples if gap.first - SPLIT <= s.started <= gap.last + SPLIT]
    return max((after - before for before, after in pairwise(starts)), default=0.0)


@dataclass(frozen=True)
class Measured:
    """A gap, the part of it that is certain, and its uncertainty.

    ``certain`` is the longest gap of those of its requests whose loss or delay our own slowness does not explain.
    """

    gap: Gap
    certain: float
    blur: Blur

    def held(self, bound: float) -> Held:
        """Whether it keeps a bound."""
        held = hold(self.certain, bound, self.blur)
        return Held.UNKNOWN if held is Held.WITHIN and self.gap.seconds > bound else held


def measured(samples: Sequence[Sample], causes: Sequence[float], vantage: Vantage) -> list[Measured]:
    """The gaps of a way, each compared with the controls of the same client at that time.

    A late answer does not count if the controls of all nodes were as late, nor does a lost request while all controls
    were in trouble.
    """
    found = gaps(samples, causes)
    if not found:
        return []
    ours = {id(s) for s in samples if (not s.answered or is_late(s)) and _is_ours(s, vantage)}
    sure = gaps((s for s in samples if id(s) not in ours), causes)
    told = []
    for gap in found:
        inside = [each.seconds for each in sure if gap.first <= each.first and each.last <= gap.last]
        blur = Blur(kept_from_asking(samples, gap), vantage.slow(gap.first, gap.last))
        told.append(Measured(gap, max(inside, default=0.0), blur))
    return told


def _is_ours(sample: Sample, vantage: Vantage) -> bool:
    if not sample.answered:
        return bool(vantage.ours(sample.started, sample.started))
    slow = vantage.slow(sample.started, sample.started)
    return sample.ended - sample.started - slow < LATE
