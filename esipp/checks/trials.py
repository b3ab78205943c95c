"""Trials: something is done on the cluster, step by step, and looked at. What all suites that do so have in common.

No I/O: how trials are performed side by side is in fixtures/trials.py.
"""

from dataclasses import dataclass
from typing import Any

from esipp.checks.check import Check, Difference


@dataclass(frozen=True, kw_only=True)
class ScenarioCheck(Check):
    """A check that is judged from what a trial saw.

    Args:
        trial: the trial that must be performed.
        claim: what of it the check is about; the suite's judge has one function for each.
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
        """The check as one JSON object."""
        return super().as_json() | {"expect": self.must}
