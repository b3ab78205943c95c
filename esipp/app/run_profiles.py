"""The profiles of a run: how much is asked, and how often."""

from collections.abc import Mapping
from dataclasses import dataclass

from esipp.checks.check import Check, Level, Subject
from esipp.checks.health import HealthScenario
from esipp.ledger.run import DEFAULT_MOVES, DEFAULT_SAMPLES


@dataclass(frozen=True)
class RunProfile:
    """A choice of checks, and of their depth.

    Args:
        name: its name.
        what: what it is, in a few words.
        samples: connections per path.
        moves: endpoint changes of each kind.
        suites: the suites; none for all.
        levels: the levels of its checks.
        without: subjects that take long and are left out.
        disruptive: whether it does what others on the cluster notice.
    """

    name: str
    what: str
    samples: int = DEFAULT_SAMPLES
    moves: int = DEFAULT_MOVES
    suites: frozenset[str] = frozenset()
    levels: tuple[Level, ...] = tuple(Level)
    without: tuple[type[Subject], ...] = ()
    disruptive: bool = False

    def admits(self, check: Check) -> bool:
        """Whether it has a check."""
        if self.suites and check.suite not in self.suites:
            return False
        return check.level in self.levels and not isinstance(check.subject, self.without)


QUICK = RunProfile(
    "quick",
    "core checks of source addresses at every node, health checks and three endpoint changes, 20 connections per path",
    samples=20,
    moves=3,
    suites=frozenset({"source_ip", "nodes", "vantages", "health_checks", "convergence"}),
    levels=(Level.CORE,),
    without=(HealthScenario,),
)
STANDARD = RunProfile("standard", "all that others on the cluster do not notice")
FULL = RunProfile("full", "also what they do notice, as with --allow-disruptive", disruptive=True)

PROFILES: Mapping[str, RunProfile] = {each.name: each for each in (QUICK, STANDARD, FULL)}
"""All profiles, the quickest first."""
