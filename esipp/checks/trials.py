"""``ScenarioCheck``, the base of checks that are judged from a scenario. No I/O.

esipp/scenarios/context.py runs scenarios in parallel.
"""

from dataclasses import dataclass
from typing import Any

from esipp.checks.check import Check
from esipp.checks.known_differences import KnownDifference


@dataclass(frozen=True, kw_only=True)
class ScenarioCheck(Check):
    """A check that is judged from the evidence of a scenario.

    Args:
        trial: the scenario.
        claim: the claim about the scenario; the suite's judge has one function for each.
        must: what the check expects, in a few words.
        tripped_by: the fault that the check detects.
    """

    trial: str
    claim: str
    must: str
    tripped_by: str
    differences: tuple[KnownDifference, ...] = ()

    @property
    def expected(self) -> str:
        """Return what the check expects."""
        return self.must

    @property
    def fails_if(self) -> str:
        """Return the fault that the check detects."""
        return self.tripped_by

    def as_json(self) -> dict[str, Any]:
        """Return the check as a JSON object."""
        return super().as_json() | {"expect": self.must}
