"""Typical duration of each phase of a run, and the estimate of the remaining time.

The numbers come from whole runs on four kind nodes with four cores. Other clusters are faster or slower as a whole, so
finished phases correct the estimate. No verdict depends on these numbers.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from esipp.checks.check import Check


@dataclass(frozen=True)
class Typical:
    """The typical duration of a phase.

    Args:
        phase: its name, as in ``Run.phase``.
        of: the classes of checks that need it; empty for a phase of every run.
        base: seconds in any case.
        check: seconds for each check of these classes.
        connection: seconds for each connection of these checks. Each check has as many as a path gets.
        move: seconds for each endpoint change that a load balancer has to follow.
        parts: seconds for each scenario, or for each change during steady traffic. If it is given, only checks of these
            parts need the phase.
        together: whether the parts run in parallel.
    """

    phase: str
    of: frozenset[str] = frozenset()
    base: float = 0.0
    check: float = 0.0
    connection: float = 0.0
    move: float = 0.0
    parts: Mapping[str, float] = field(default_factory=dict)
    together: bool = False


PATHS, QUESTIONS = frozenset({"PathCheck"}), frozenset({"HealthAnswerCheck"})
HEALTH_SCENARIOS, INTEROPERABILITY = frozenset({"HealthScenarioCheck"}), frozenset({"InteroperabilityCheck"})
ISOLATION = frozenset({"IsolationCheck", "IsolationHealthCheck"})
WHILE_TRAFFIC_FLOWS = {
    "quiet": 5, "rolling-update": 31, "deleted": 18, "readiness-flaps": 24, "policy-flips": 18, "cordon": 7,
    "drain": 23, "exclude": 9, "kube-proxy": 10, "speaker": 6, "api-server": 54, "kubelet": 75,
}  # fmt: skip
HEALTH = {"lifecycle": 18, "terminating": 8, "placement": 82, "stable": 82}

PHASES = (
    Typical("preflight", base=0.7),
    Typical("arrange", base=5, check=0.0065),
    Typical("clients", base=1.5, check=0.0006),
    Typical("settle", PATHS, base=1, check=0.004),
    Typical("observe", PATHS, base=5, connection=0.00038),
    Typical("packets", PATHS, check=0.0002),
    Typical("settle health checks", QUESTIONS, base=1),
    Typical("ask health checks", QUESTIONS, base=2, check=0.006),
    Typical("trials", HEALTH_SCENARIOS, parts=HEALTH, together=True),
    Typical("cordon", HEALTH_SCENARIOS, parts={"cordoned": 3}),
    Typical("inter-operation", INTEROPERABILITY, parts={"neighbours": 25, "names": 15, "many": 15}, together=True),
    Typical("many services", INTEROPERABILITY, parts={"many": 10}),
    Typical("edit services", frozenset({"ApiCheck"}), base=1, check=0.08),
    Typical("settle side by side", ISOLATION, base=1),
    Typical("side by side", ISOLATION, base=12),
    Typical("flips", frozenset({"FlippedCheck"}), base=21),
    Typical("moves", frozenset({"EndpointChangeCheck"}), base=75, move=6.8),
    Typical("continuity", frozenset({"ContinuityCheck"}), base=14, parts=WHILE_TRAFFIC_FLOWS),
    Typical("strike", base=6, check=0.01),
)
"""All phases, in the order of a run."""

TRUST = 20.0
"""Seconds of finished typical phases that count as much as the table."""


def expected(checks: Iterable[Check], samples: int, moves: int) -> dict[str, float]:
    """Return the typical seconds of each phase that these checks need, in order."""
    checks = list(checks)
    seconds: dict[str, float] = {}
    for typical in PHASES:
        own = [check for check in checks if type(check).__name__ in typical.of] if typical.of else checks
        asked = {part_of(check) for check in own} & typical.parts.keys()
        if not own or (typical.parts and not asked):
            continue
        spent = typical.base + len(own) * (typical.check + samples * typical.connection) + moves * typical.move
        parts = [typical.parts[part] for part in asked]
        seconds[typical.phase] = spent + (max(parts) if parts and typical.together else sum(parts))
    return seconds


def part_of(check: Check) -> str:
    """Return the scenario of a check, or the change during its steady traffic; empty for other checks."""
    return str(getattr(check, "trial", "") or getattr(check, "phase", ""))


def pace(typical: Mapping[str, float], done: Mapping[str, float]) -> float:
    """Return how many times slower this run is than the table, by its finished phases; 1.0 at first.

    The result is bounded, because one unusual phase says little about the others.
    """
    known = [name for name in done if name in typical]
    wanted, taken = sum(typical[name] for name in known), sum(done[name] for name in known)
    return min(4.0, max(0.4, (taken + TRUST) / (wanted + TRUST)))
