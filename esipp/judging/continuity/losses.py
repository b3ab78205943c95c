"""What was lost, what came late, and for how long: of the requests of one way in one phase. Pure."""

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from esipp.checks.timing import Blur, Held, hold
from esipp.judging.controls import Vantage
from esipp.judging.endpoint_change.samples import Sample

LATE = 0.9
"""Seconds after which an answer is late. A SYN that is dropped is sent again after one second: an answer that takes
longer shows that the first one met nobody."""

SPLIT = 2.0
"""Seconds without a missed request after which another gap begins."""


@dataclass(frozen=True)
class Gap:
    """A time in which requests were missed: from the start of the first one to that of the last one."""

    first: float
    last: float
    missed: int

    @property
    def seconds(self) -> float:
        """How long it was."""
        return self.last - self.first


@dataclass(frozen=True)
class Tally:
    """How many requests there were, lost or late ones, and the longest gap."""

    requests: int = 0
    lost: int = 0
    late: int = 0
    gap: Gap | None = None

    @property
    def words(self) -> str:
        """The numbers in words."""
        said = f"{self.lost} of {self.requests} requests lost, {self.late} late"
        return said + (f", longest gap {self.gap.seconds:.2f} s" if self.gap else "")

    def as_json(self) -> dict[str, Any]:
        """The numbers as the ledger keeps them."""
        gap = round(self.gap.seconds, 4) if self.gap else 0.0
        return {"requests": self.requests, "lost": self.lost, "late": self.late, "gap": gap}


def is_late(sample: Sample) -> bool:
    """Whether an answer came late."""
    return sample.answered and sample.ended - sample.started >= LATE


def gaps(samples: Iterable[Sample], causes: Sequence[float] = ()) -> list[Gap]:
    """The gaps, none of which spans a moment at which something else was done; ``samples`` in order of start."""
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
    """That requests of a gap were answered after all, and by which nodes' pods: late, which a busy node may be, too."""
    late = [sample for sample in samples if gap.first <= sample.started <= gap.last and is_late(sample)]
    nodes = sorted({sample.node for sample in late if sample.node})
    by = f", by pods of {', '.join(nodes)}" if nodes else ""
    return f"{len(late)} of {gap.missed} requests missed in it were answered, but late{by}" if late else ""


def kept_from_asking(samples: Iterable[Sample], gap: Gap) -> float:
    """For how long we ourselves were kept from asking around a gap: so well its length is known."""
    starts = [s.started for s in samples if gap.first - SPLIT <= s.started <= gap.last + SPLIT]
    return max((after - before for before, after in pairwise(starts)), default=0.0)


@dataclass(frozen=True)
class Measured:
    """A gap, how much of it is certain, and how well it is known.

    ``certain`` is the longest gap of those requests in it whose loss or lateness is not explained by our own slowness.
    """

    gap: Gap
    certain: float
    blur: Blur

    def held(self, bound: float) -> Held:
        """Whether it keeps a bound."""
        held = hold(self.certain, bound, self.blur)
        return Held.UNKNOWN if held is Held.WITHIN and self.gap.seconds > bound else held


def measured(samples: Sequence[Sample], causes: Sequence[float], vantage: Vantage) -> list[Measured]:
    """The gaps of a way, each held against what the controls of the same client showed at that time.

    An answer that was late by no more than the controls were at all nodes is ours, and so is a request that was lost
    when all of them were in trouble.
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
