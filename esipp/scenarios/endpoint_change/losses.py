"""Losses of endpoint changes: requests without an answer, and those lost until the load balancer left a node. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from esipp.judging.samples import Sample

RESOLUTION = 0.06
"""Seconds by which a time may be off: a request every 20 ms, a health check every 20 ms, and the time in transit."""

CLEAN = 25
"""Requests in a row that must have gone elsewhere, for a load balancer that uses up to three nodes at once and does not
report its decisions: as many miss one of three by chance in 1 of 25,000 cases."""

BURST, BURST_SECONDS = 3, 0.5
"""``BURST`` losses within ``BURST_SECONDS`` are not stray, however long after the decision of the load balancer."""

SERIES, SERIES_GAP = 6, 1.0
"""``SERIES`` losses, each within ``SERIES_GAP`` seconds of the next, are not stray: every Nth request, for long."""


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
