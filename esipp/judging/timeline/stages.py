"""Stages: a stream of probes, cut where something changes. Pure."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

from esipp.judging.timeline.streams import Sample, Stream


class Cut(NamedTuple):
    """The probes that started from one change to the next.

    ``under_way`` are those that were answered after the next change had begun, by the rules of before or after it.
    """

    until: float
    samples: list[Sample]
    under_way: list[Sample]


def answered(sample: Sample) -> bool:
    """Whether one of our pods answered."""
    return sample.answered


def cut(
    stream: Stream, causes: Sequence[float], end: float, responds: Callable[[Sample], bool] = answered
) -> list[Cut]:
    """A stream, cut at the times of the changes.

    Args:
        stream: the probes.
        causes: when each change was asked for, in order.
        end: when the last stage was over.
        responds: whether something responded to a probe. What nothing responded to belongs to where it began.
    """
    found = []
    for since, until in zip(causes, [*causes[1:], end], strict=True):
        made, late = list[Sample](), list[Sample]()
        for sample in stream.view(since, until):
            (late if responds(sample) and sample.ended > until else made).append(sample)
        found.append(Cut(until, made, late))
    return found
