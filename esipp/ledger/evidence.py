"""The evidence of each suite's judge in the ledger: one ``judged`` record for each judge."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from esipp.checks.model import Balancer
from esipp.scenarios.api.judge import Seen as Edited
from esipp.scenarios.continuity.evidence import Seen as Flowed
from esipp.scenarios.endpoint_change.judge import Result
from esipp.scenarios.paths.excuses import Steer
from esipp.scenarios.health.evidence import Seen as Health
from esipp.scenarios.interoperability.evidence import Seen as InterOperated
from esipp.scenarios.paths.judge import Evidence
from esipp.scenarios.policy_change.evidence import Seen as Flipped
from esipp.judging.topology import Topology
from esipp.ledger.codec import decode, encode

PATHS, HEALTH, INTEROPERABILITY, API = "paths", "health_checks", "interoperability", "compatibility"
FLIPS, CONVERGENCE, CONTINUITY = "flips", "convergence", "continuity"


@dataclass(frozen=True)
class Window:
    """The evidence of the path judge without observations, witnesses, features and facts, which have their own
    records.
    """

    topology: Topology
    samples: int
    obstacles: Mapping[str, str] = field(default_factory=dict)
    blind: str = ""
    steers: Sequence[Steer] = ()
    clocks: Mapping[str, float] = field(default_factory=dict)
    doubts: Mapping[str, str] = field(default_factory=dict)
    windows: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Moved:
    """What the judges of the convergence suite are given."""

    results: Mapping[Balancer, Result]


TYPES: Mapping[str, type] = {
    PATHS: Window,
    HEALTH: Health,
    INTEROPERABILITY: InterOperated,
    API: Edited,
    FLIPS: Flipped,
    CONVERGENCE: Moved,
    CONTINUITY: Flowed,
}
"""What each judge is given, by the name that its record has."""


def window_of(evidence: Evidence) -> Window:
    """What of the evidence of paths has no records of its own."""
    known = evidence.obstacles, evidence.blind, tuple(evidence.steers), evidence.clocks
    return Window(evidence.topology, evidence.samples, *known, evidence.doubts, evidence.windows)


def judged(suite: str, seen: object) -> dict[str, Any]:
    """The fields of the record."""
    of = TYPES[suite]
    assert isinstance(seen, of), f"the judge of {suite} needs {of.__name__}"
    return {"suite": suite, "seen": encode(seen)}


def read_judged(suite: str, seen: Any) -> Any:
    """What the judge of a suite was given.

    Raises:
        EvidenceError: it cannot be read.
    """
    return decode(seen, TYPES[suite])
