"""The offset of another process's clock."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Clock:
    """The offset of a prober's monotonic clock to this process's.

    Args:
        offset: seconds by which the prober's clock is ahead.
        uncertainty: maximum error of the offset in seconds, in both directions.
    """

    offset: float
    uncertainty: float

    def ours(self, theirs: float) -> float:
        """Convert a time of the prober's clock to this process's monotonic clock, rounded to microseconds."""
        return round(theirs - self.offset, 6)


def between(since: float, until: float) -> float:
    """Seconds between two moments, both to 0.1 ms, as ledgers had them at first."""
    return round(round(until, 4) - round(since, 4), 4)
