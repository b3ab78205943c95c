"""How the trials of a suite went. No I/O: they are run in fixtures/trials.py."""

from dataclasses import dataclass, field

from esipp.checks.trials import ScenarioCheck
from esipp.judging.frame import Decision, ours_failed, undecided


@dataclass
class Course:
    """How the trials of a suite went: one that breaks off leaves its own checks undecided, and no others.

    ``trouble`` says why a trial broke off; what it has seen by then does not count. ``broken`` says the same where
    the fault is ours.
    """

    trouble: dict[str, str] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)

    def cut_short(self, check: ScenarioCheck) -> Decision | None:
        """The decision on a check whose trial broke off; None if it did not."""
        if check.trial in self.broken:
            return ours_failed(check, "nothing", f"esipp itself failed: {self.broken[check.trial]}")
        if check.trial in self.trouble:
            return undecided(check, self.trouble[check.trial])
        return None
