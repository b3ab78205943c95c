"""Losses: requests without an answer, the gaps that they form, and which of them belong to a change. Pure."""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from esipp.checks.timing import Blur, Held, hold
from esipp.judging.controls import Vantage
from esipp.judging.timeline.streams import Sample, longest_gap

LATE_ANSWER = 0.9
"""Seconds after which an answer is late. A dropped SYN is retransmitted after one second, so a longer answer shows that
the first SYN was lost."""

SPLIT = 2.0
"""Seconds without a missed request after which another gap begins."""

RESOLUTION = 0.06
"""Seconds by which a time may be off: a request every 20 ms, a health check every 20 ms, and the time in transit."""

CLEAN = 25
"""Requests in a row that must have gone elsewhere, for a load balancer that uses up to three nodes at once and does not
report its decisions: as many miss one of three by chance in 1 of 25,000 cases."""

BURST, BURST_SECONDS = 3, 0.5
"""``BURST`` losses within ``BURST_SECONDS`` are not stray, however long after the decision of the load balancer."""

SERIES, SERIES_GAP = 6, 1.0
"""``SERIES`` losses, each within ``SERIES_GAP`` seconds of the next, are not stray: every Nth request, for long."""


# -------------------------------------------------------------------------------- gaps in a stream of requests
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


def is_late(sample: Sample) -> bool:
    """Whether an answer came late."""
    return sample.answered and sample.ended - sample.started >= LATE_ANSWER


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
    return longest_gap(each for each in samples if gap.first - SPLIT <= each.started <= gap.last + SPLIT)


@dataclass(frozen=True)
class Uncertain:
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


def uncertain(samples: Sequence[Sample], causes: Sequence[float], vantage: Vantage) -> list[Uncertain]:
    """The gaps of a way, each compared with the controls of the same client at that time.

    A late answer does not count if the controls of all nodes were as late, nor does a lost request while all controls
    were in trouble.
    """
    found = gaps(samples, causes)
    if not found:
        return []
    ours = {id(s) for s in samples if (not s.answered or is_late(s)) and _is_ours(s, vantage)}
    sure = gaps((s for s in samples if id(s) not in ours), causes)
    made = []
    for gap in found:
        inside = [each.seconds for each in sure if gap.first <= each.first and each.last <= gap.last]
        blur = Blur(kept_from_asking(samples, gap), vantage.slow(gap.first, gap.last))
        made.append(Uncertain(gap, max(inside, default=0.0), blur))
    return made


def _is_ours(sample: Sample, vantage: Vantage) -> bool:
    if not sample.answered:
        return bool(vantage.ours(sample.started, sample.started))
    slow = vantage.slow(sample.started, sample.started)
    return sample.ended - sample.started - slow < LATE_ANSWER


# --------------------------------------------------------------------------- until a node is left
@dataclass(frozen=True)
class Losses:
    """Requests through the VIP without an answer: ``first`` and ``last`` are when they started.

    ``reset`` are those that had been accepted. ``outage`` is the longest time from the start of a request without an
    answer to the start of the next answered one. ``end`` is the last one lost before the load balancer had left the
    node; ``stray`` counts the isolated ones after it.
    """

    timed_out: int = 0
    refused: int = 0
    reset: int = 0
    wrong: int = 0
    first: float | None = None
    last: float | None = None
    outage: float = 0.0
    end: float | None = None
    stray: int = 0

    @property
    def count(self) -> int:
        """All of them."""
        return self.timed_out + self.refused + self.reset + self.wrong

    @property
    def is_one_stray(self) -> bool:
        """Whether a single request was lost: a stray one that timed out."""
        return self.count == self.stray == self.timed_out == 1


def count_losses(samples: Sequence[Sample], until: float) -> Losses:
    """Count the requests without an answer; samples are in order of start."""
    timed_out = refused = reset = wrong = 0
    first = last = began = None
    outage = 0.0
    for sample in samples:
        if sample.answered:
            outage = max(outage, sample.started - began) if began is not None else outage
            began = None
            continue
        timed_out += sample.outcome in ("timeout", "pending")
        refused += sample.outcome in ("refused", "unreachable")
        reset += sample.outcome == "reset"
        wrong += sample.outcome in ("invalid", "misdirected", "error")
        first = sample.started if first is None else first
        last = sample.started
        began = sample.started if began is None else began
    if began is not None:
        outage = max(outage, min(until, samples[-1].ended) - began)
    return Losses(timed_out, refused, reset, wrong, first, last, outage, last)


def in_flight(sample: Sample, moment: float) -> bool:
    """Whether a lost request may have been lost by an event after its start."""
    under_way = sample.outcome == "reset" or sample.started > moment - RESOLUTION
    return not sample.answered and sample.started < moment < sample.ended and under_way


def first_clean(samples: Sequence[Sample], through: Callable[[Sample], bool]) -> float:
    """The last loss before the first run of clean requests, answered and not through the node; infinite if none."""
    lost: float | None = None
    clean = 0
    for sample in samples:
        if not sample.answered:
            lost, clean = sample.started, 0
        else:
            clean = 0 if through(sample) else clean + 1
        if lost is not None and clean >= CLEAN:
            return lost
    return float("inf")


def lasting(lost: Sequence[float], limit: float) -> float | None:
    """The last loss that belongs to a change that ended at ``limit``; None if all of them are stray.

    A load balancer may report a decision and not act on it: losses after the limit count if they continue steadily.
    """
    end = max((at for at in lost if at <= limit), default=None)
    late = [at for at in lost if at > limit]
    series = 0
    for number, at in enumerate(late):
        series = series + 1 if number and at - late[number - 1] <= SERIES_GAP else 1
        burst = number + 1 >= BURST and at - late[number + 1 - BURST] <= BURST_SECONDS
        if burst or series >= SERIES:
            end = at
    return end
