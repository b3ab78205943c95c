"""What makes a node healthy or unhealthy: so many results in a row. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

PASSES = 200


@dataclass(frozen=True)
class Result:
    """What one check found: an HTTP status, or why there was none."""

    status: int | None
    error: str | None
    at: float  # monotonic

    @property
    def passed(self) -> bool:
        """Only 200 is a pass."""
        return self.status == PASSES

    def __str__(self) -> str:
        return f"status {self.status}" if self.status is not None else str(self.error)


@dataclass
class Health:
    """One node's health for one Service in one family; unhealthy until checks have passed."""

    healthy_after: int
    unhealthy_after: int
    since: float
    healthy: bool = False
    last: Result | None = None
    streak: int = field(default=0, repr=False)  # results in a row that speak against what it is now

    def record(self, result: Result, *, passed: bool) -> bool:
        """Take in a result; say whether it turned the node."""
        self.last = result
        self.streak = 0 if passed == self.healthy else self.streak + 1
        if self.streak < (self.unhealthy_after if self.healthy else self.healthy_after):
            return False
        self.healthy, self.streak, self.since = passed, 0, result.at
        return True
