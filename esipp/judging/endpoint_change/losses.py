"""Requests that had no answer: how many, and which of them a balancer's steering away from a node lost. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from esipp.judging.endpoint_change.samples import Sample

RESOLUTION = 0.06
"""Seconds by which a time may be off: a request each 20 ms, a health check each 20 ms, and the time on the way."""

CLEAN = 25
"""Requests in a row that must have gone elsewhere, of a balancer that uses up to three nodes at once and does not tell
what it decides: as many miss one of three by chance in 1 of 25,000 cases."""

BURST, BURST_SECONDS = 3, 0.5
"""So many losses in so many seconds are no strays, however long after the balancer decided."""

SERIES, SERIES_GAP = 6, 1.0
"""Nor are so many of which each is within so many seconds of the next: every Nth request, for long."""


@dataclass(frozen=True)
class Losses:
    """Requests through the VIP that had no answer: ``first`` and ``last`` are when they started.

    ``reset`` are those that had been accepted. ``outage`` is the longest time from the start of a request without an
    answer to that of the next one with one. ``end`` is the last one that the steering away from a node lost; ``stray``
    are the isolated ones after it.
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
    """What had no answer among these, in order of start."""
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
    """Whether a request that was lost may have been lost by what happened at a moment after its start."""
    under_way = sample.outcome == "reset" or sample.started > moment - RESOLUTION
    return not sample.answered and sample.started < moment < sample.ended and under_way


def first_clean(samples: Sequence[Sample], through: Callable[[Sample], bool]) -> float:
    """The last loss before the first run of clean requests: answered, and not through the node; infinite if none."""
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
    """The last of these losses that a steering lost which was over at ``limit``; None if all of them are strays.

    A balancer may say that it steered and go on all the same: losses after the limit count where they go on steadily.
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
