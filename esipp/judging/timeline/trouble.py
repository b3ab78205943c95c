"""Trouble of our own: what leaves a stream of probes without a say. Pure."""

from collections.abc import Collection, Iterable, Sequence

from esipp.judging.timeline.streams import Sample, longest_gap

OURS = "error"
"""The prober's outcome for an error of its own: a source port that is taken, for example. It proves nothing."""

MOST_ERRORS = 3
"""The most probes of a stream with such an error, if no verdict depends on a single one of them."""

MOST_GAP = 3.0
"""Seconds without a single probe after which a stream proves nothing: this machine is too busy."""


def failed(
    samples: Collection[Sample], deciding: Sequence[tuple[float, float]] = (), most: int = MOST_ERRORS, name: str = ""
) -> str:
    """A sentence if the prober itself failed too often; empty if not.

    Args:
        samples: all probes.
        deciding: the times in which a single probe may decide.
        most: the number of errors that do not matter at other times.
        name: which probes they are.
    """
    errors = [sample.started for sample in samples if sample.outcome == OURS]
    if len(errors) <= most and not any(since <= at <= until for at in errors for since, until in deciding):
        return ""
    return f"the prober itself failed in {len(errors)} of {len(samples)} probes" + (f" ({name})" if name else "")


def paused(samples: Iterable[Sample], name: str = "") -> str:
    """A sentence if this machine was too busy to probe for longer than ``MOST_GAP``; empty if not."""
    longest = longest_gap(samples)
    if longest <= MOST_GAP:
        return ""
    which = f" ({name})" if name else ""
    return f"this machine sent no probe for {longest:.1f} s{which}; at most {MOST_GAP:.0f} s are acceptable"
