"""Interruptions: which parts of a scenario broke off, and why. No I/O: scenarios/context.py runs them."""

from dataclasses import dataclass, field

from esipp.checks.check import Check
from esipp.judging.frame import Decision, ours_failed, undecided


@dataclass
class Interruptions:
    """The parts of a scenario that broke off; each leaves only its own checks undecided.

    ``trouble`` says why a part broke off; its evidence up to then does not count. ``broken`` says the same for
    errors of esipp itself.
    """

    trouble: dict[str, str] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)

    def cut_short(self, check: Check) -> Decision | None:
        """The decision on a check whose part broke off; None if it did not."""
        if check.subject.part in self.broken:
            return ours_failed(check, "nothing", f"esipp itself failed: {self.broken[check.subject.part]}")
        if check.subject.part in self.trouble:
            return undecided(check, self.trouble[check.subject.part])
        return None
