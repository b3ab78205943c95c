"""How a clock elsewhere stands to ours."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Clock:
    """How a prober's monotonic clock stands to this process's.

    Args:
        offset: seconds that the prober's is ahead.
        uncertainty: seconds that the offset may be wrong at most, either way.
    """

    offset: float
    uncertainty: float

    def ours(self, theirs: float) -> float:
        """The time of this process's monotonic clock at a time of the prober's, in seconds, to the microsecond."""
        return round(theirs - self.offset, 6)
