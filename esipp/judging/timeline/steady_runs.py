"""Steady runs: when right answers begin that last, in a stream of probes. Pure."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from esipp.judging.timeline.streams import Sample

SILENCE = 0.9
"""Seconds without an answer that do not end a run of right answers: a lost probe is a loss, and no other answer."""

Fits = Callable[[Sample], bool | None]
"""Whether a probe is right; None for one that neither begins nor ends a run, as it got no answer."""


@dataclass(frozen=True)
class SteadyRun:
    """Right answers without a wrong one in between: from when to when, and how many."""

    since: float
    until: float
    probes: int

    def lasts(self, seconds: float, probes: int) -> bool:
        """Whether it lasted for so many seconds, with so many probes."""
        return self.until - self.since >= seconds and self.probes >= probes


def last_run(samples: Sequence[Sample], until: float, fits: Fits, *, pauses: bool = True) -> SteadyRun | None:
    """The run of right answers that goes on until the end; None if there is none.

    Args:
        samples: the probes, in order of their start.
        until: the end of the time in question.
        fits: whether a probe is right.
        pauses: whether a time without any probe of ours counts as silence. Without it, only probes without an answer
            do: a machine that was too busy to probe then says nothing about the product.
    """
    since, probes = until, 0
    silent: float | None = None  # the last probe without an answer before ``since``
    for sample in reversed(samples):
        right = fits(sample)
        silent = sample.started if right is None and silent is None else silent
        pause = since - sample.started > SILENCE
        silence = right is None and silent is not None and silent - sample.started >= SILENCE
        if right is False or (pause if pauses else silence):
            break
        if right:
            since, silent = sample.started, None
            probes += 1
    return SteadyRun(since, until, probes) if probes else None


def first_run(samples: Sequence[Sample], fits: Fits, seconds: float, probes: int) -> float | None:
    """When the first run of right answers began that lasted for so many seconds, with so many probes."""
    since: float | None = None
    count = 0
    for sample in samples:
        right = fits(sample)
        if right is False:
            since, count = None, 0
        elif right:
            since = sample.started if since is None else since
            count += 1
            if sample.started - since >= seconds and count >= probes:
                return since
    return None
