"""What was seen of health checks: the evidence that the judge reads. Frozen or filled once, without any I/O."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from esipp.health.model import Answer, Place, Situation
from esipp.model import Family
from esipp.observation import Observation
from esipp.trials import Course

Node = tuple[Place, Family]

WATCHER = "outside-1"
"""The client that asks and dials in all trials."""


@dataclass(frozen=True)
class Followed:
    """How one node's health check followed a round.

    ``seconds`` from the change until the answers were right three times in a row, None if they never were within the
    budget; ``last`` is the last wrong answer, ``after`` counts the answers that came when it had settled.
    """

    seconds: float | None
    last: str = ""
    after: Mapping[str, int] = field(default_factory=dict)

    def as_json(self) -> dict[str, Any]:
        """As the ledger keeps it."""
        return {"seconds": self.seconds, "last": self.last, "after": dict(self.after)}


@dataclass(frozen=True)
class Round:
    """One round of the placement trial: what was done, what is true now, how every node's answer followed.

    ``status`` is how the status followed, ``count`` how localEndpoints did.
    """

    number: int
    done: str
    truth: Mapping[Place, int]
    status: Mapping[Node, Followed]
    count: Mapping[Node, Followed]

    def as_json(self) -> dict[str, Any]:
        """As the ledger keeps it."""

        def told(followed: Mapping[Node, Followed]) -> dict[str, Any]:
            return {f"{place.value} {family.value}": each.as_json() for (place, family), each in followed.items()}

        return {
            "number": self.number,
            "done": self.done,
            "truth": {place.value: count for place, count in self.truth.items()},
            "status": told(self.status),
            "count": told(self.count),
        }


@dataclass(frozen=True)
class Leaving:
    """The window in which a node's only pod was terminating and still served.

    ``answers`` of the node's health check from the first 503 on, ``dialled`` what its nodePort gave meanwhile: how
    often which backend answered with which source; or how it did not. ``foreign`` counts those that the leaving pod
    did not see with the client's own address, ``disbelieved`` says why the client's address proves nothing.
    """

    answers: tuple[Answer, ...]
    dialled: Mapping[str, int]
    foreign: int
    trouble: str = ""
    disbelieved: str = ""


@dataclass(frozen=True)
class Fact:
    """What a step of the life cycle trial showed.

    ``refused`` is the API server's HTTP status, reason and message where it refused; ``ports`` are health-check node
    ports by service, ``listeners`` what each node said at a port that concerns the step, by node and family.
    """

    words: str
    ports: Mapping[str, int | None] = field(default_factory=dict)
    refused: tuple[int, str, str] | None = None
    wanted: int | None = None
    others: frozenset[int] = frozenset()
    bounds: tuple[int, int] | None = None
    listeners: Mapping[str, Counter[str]] = field(default_factory=dict)
    trouble: str = ""

    def as_json(self) -> dict[str, Any]:
        """As the ledger keeps it."""
        return {
            "words": self.words,
            "ports": dict(self.ports),
            "refused": list(self.refused) if self.refused else None,
            "wanted": self.wanted,
            "bounds": list(self.bounds) if self.bounds else None,
            "listeners": {name: dict(said) for name, said in self.listeners.items()},
            "trouble": self.trouble,
        }


@dataclass
class Seen(Course):
    """Everything that was seen.

    Args:
        answers: to each question, by its key.
        served: what the same client got at the nodePort of the node that was asked, by the question's key.
        reached: whether a client reaches a node at all, by client, place and family: its reference listener answered.
        obstacles: why a question could not be asked.
        services: namespace and name of each situation's Service.
        nodes: the name of the node at each place.
        stable: the answers of the long window, by node; changes is how often pods of another service came or went.
    """

    answers: dict[str, tuple[Answer, ...]] = field(default_factory=dict)
    served: dict[str, tuple[Observation, ...]] = field(default_factory=dict)
    reached: dict[tuple[str, Place, Family], bool] = field(default_factory=dict)
    obstacles: dict[str, str] = field(default_factory=dict)
    services: dict[Situation, tuple[str, str]] = field(default_factory=dict)
    nodes: dict[Place, str] = field(default_factory=dict)
    stable: dict[Node, tuple[Answer, ...]] = field(default_factory=dict)
    changes: int = 0
    rounds: list[Round] = field(default_factory=list)
    leaving: dict[Family, Leaving] = field(default_factory=dict)
    cordoned: dict[Node, tuple[Answer, ...]] = field(default_factory=dict)
    life: dict[str, Fact] = field(default_factory=dict)

    def unreached(self, client: str, place: Place, family: Family) -> bool:
        """Whether a client does not reach a node at all: its reference listener is silent to it, too."""
        return not self.reached.get((client, place, family), True)
