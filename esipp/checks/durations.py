"""How long each part of a run takes as a rule, and so how long the rest of one takes: data, and a sum over it.

Measured on whole runs of four kind nodes on four cores. Other clusters are faster or slower as a whole, so that what
is done corrects what is to come. Nothing is judged by these numbers.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from esipp.checks.check import Check


@dataclass(frozen=True)
class Typical:
    """A phase as ``Run.phase`` names it, and what its seconds follow from.

    Args:
        phase: its name.
        of: the kinds of checks (their classes) that need it; with none named, every run has it.
        base: seconds, however little is asked.
        check: seconds for each check of those kinds.
        connection: seconds for each connection of those checks, of which each has as many as a path gets.
        move: seconds for each move that a load balancer has to follow.
        parts: seconds for each trial, or each thing that is done while traffic flows; where parts are named, checks of
            no other part need the phase.
        together: whether the parts run side by side.
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
HEALTH_TRIALS, INTEROP = frozenset({"HealthScenarioCheck"}), frozenset({"InteroperabilityCheck"})
BESIDE = frozenset({"IsolationCheck", "IsolationHealthCheck"})
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
    Typical("trials", HEALTH_TRIALS, parts=HEALTH, together=True),
    Typical("cordon", HEALTH_TRIALS, parts={"cordoned": 3}),
    Typical("inter-operation", INTEROP, parts={"neighbours": 25, "names": 15, "many": 15}, together=True),
    Typical("many services", INTEROP, parts={"many": 10}),
    Typical("edit services", frozenset({"ApiCheck"}), base=1, check=0.08),
    Typical("settle side by side", BESIDE, base=1),
    Typical("side by side", BESIDE, base=12),
    Typical("flips", frozenset({"FlippedCheck"}), base=21),
    Typical("moves", frozenset({"EndpointChangeCheck"}), base=75, move=6.8),
    Typical("continuity", frozenset({"ContinuityCheck"}), base=14, parts=WHILE_TRAFFIC_FLOWS),
    Typical("strike", base=6, check=0.01),
)
"""In the order in which a run comes to them."""

TRUST = 20.0
"""Seconds of typical phases that must be done before they count as much as the table does."""


def expected(checks: Iterable[Check], samples: int, moves: int) -> dict[str, float]:
    """Seconds that each phase takes as a rule where these checks are asked, in order; only those that are needed."""
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
    """The trial that a check is judged from, or what is done while its traffic flows; empty where it is neither."""
    return str(getattr(check, "trial", "") or getattr(check, "phase", ""))


def pace(typical: Mapping[str, float], done: Mapping[str, float]) -> float:
    """How many times slower this run is than the table, as far as its phases are done; 1.0 at first.

    Bounded, as one odd phase says little of the others.
    """
    known = [name for name in done if name in typical]
    wanted, taken = sum(typical[name] for name in known), sum(done[name] for name in known)
    return min(4.0, max(0.4, (taken + TRUST) / (wanted + TRUST)))
