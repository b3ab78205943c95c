"""Trials: something is done on the cluster, step by step, and looked at. What all suites that do so have in common.

No I/O: how trials are performed side by side is in fixtures/trials.py.
"""

from dataclasses import dataclass, field
from typing import Any

from esipp.deciding import Decision, ours_failed, undecided
from esipp.rows import Difference, Row


@dataclass(frozen=True, kw_only=True)
class TrialRow(Row):
    """A row that is judged from what a trial saw.

    Args:
        trial: the trial that must be performed.
        claim: what of it the row is about; the suite's judge has one function for each.
        must: what must be seen, in a few words.
        tripped_by: the broken data plane or API server that trips it.
    """

    trial: str
    claim: str
    must: str
    tripped_by: str
    differences: tuple[Difference, ...] = ()

    @property
    def expected(self) -> str:
        """What must be seen."""
        return self.must

    @property
    def fails_if(self) -> str:
        """The broken data plane or API server that trips it."""
        return self.tripped_by

    def as_json(self) -> dict[str, Any]:
        """The row as one JSON object."""
        return super().as_json() | {"expect": self.must}


@dataclass
class Course:
    """How the trials of a suite went: one that breaks off leaves its own rows undecided, and no others.

    ``trouble`` says why a trial broke off; what it has seen by then does not count. ``broken`` says the same where
    the fault is ours.
    """

    trouble: dict[str, str] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)

    def cut_short(self, row: TrialRow) -> Decision | None:
        """The decision on a row whose trial broke off; None if it did not."""
        if row.trial in self.broken:
            return ours_failed(row, "nothing", f"esipp itself failed: {self.broken[row.trial]}")
        if row.trial in self.trouble:
            return undecided(row, self.trouble[row.trial])
        return None
