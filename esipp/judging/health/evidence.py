"""What was seen of health checks: the evidence that the judge reads. Frozen or filled once, without any I/O."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from esipp.checks.health import Answer, Place, Situation
from esipp.checks.model import Family
from esipp.checks.observation import Observation
from esipp.judging.controls import Counts, Vantage
from esipp.judging.course import Course
from esipp.judging.endpoint_change.samples import Stream

Node = tuple[Place, Family]

WATCHER = "outside-1"
"""The client that asks and dials in all trials."""


@dataclass(frozen=True)
class Followed:
    """How one node's health check followed a round.

    ``seconds`` from the change until the answers were right three times in a row, None if they never were within the
    budget; ``last`` is the last wrong answer, ``after`` counts the answers that came when it had settled. ``gap`` is
    our own longest time between two questions until then.
    """

    seconds: float | None
    last: str = ""
    after: Mapping[str, int] = field(default_factory=dict)
    gap: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """As the ledger keeps it."""
        return {"seconds": self.seconds, "last": self.last, "after": dict(self.after), "gap": self.gap}


@dataclass(frozen=True)
class Round:
    """One round of the placement trial: what was done, what is true now, how every node's answer followed.

    ``status`` is how the status followed, ``count`` how localEndpoints did, both from ``began`` on.
    """

    number: int
    done: str
    truth: Mapping[Place, int]
    status: Mapping[Node, Followed]
    count: Mapping[Node, Followed]
    began: float = 0.0

    def as_json(self) -> dict[str, Any]:
        """As the ledger keeps it."""

        def told(followed: Mapping[Node, Followed]) -> dict[str, Any]:
            return {f"{place.value} {family.value}": each.as_json() for (place, family), each in followed.items()}

        return {
            "number": self.number,
            "began": round(self.began, 3),
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
    ``seconds`` after ``began`` all nodes said what they must, and stayed so; None where they never did. ``gap`` is our
    own longest time between two looks until then.
    """

    words: str
    ports: Mapping[str, int | None] = field(default_factory=dict)
    refused: tuple[int, str, str] | None = None
    wanted: int | None = None
    others: frozenset[int] = frozenset()
    bounds: tuple[int, int] | None = None
    listeners: Mapping[str, Counter[str]] = field(default_factory=dict)
    trouble: str = ""
    began: float = 0.0
    seconds: float | None = None
    gap: float = 0.0

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
            "seconds": self.seconds,
            "gap": self.gap,
        }


@dataclass
class Seen(Course):
    """Everything that was seen.

    Args:
        answers: to each question, by its key.
        served: what the same client got at the nodePort of the node that was asked, by the question's key.
        reached: whether a client reaches a node at all, by client, place and family: its reference listener answered.
        ways: how many of a client's requests to that listener were lost while the questions were asked.
        controls: the reference listeners, asked by the client outside while the trials went on.
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
    ways: dict[tuple[str, Place, Family], Counts] = field(default_factory=dict)
    controls: dict[Node, Stream] = field(default_factory=dict)

    def vantage(self, family: Family) -> Vantage:
        """What the client's own way to the nodes was worth while the trials went on."""
        return Vantage({place.value: stream for (place, of), stream in self.controls.items() if of is family})

    def way(self, client: str, family: Family) -> Counts:
        """What a client's own way to all nodes lost while the questions were asked."""
        own = [counts for (name, _, of), counts in self.ways.items() if (name, of) == (client, family)]
        return Counts(sum(each.lost for each in own), sum(each.requests for each in own))

    def unreached(self, client: str, place: Place, family: Family) -> bool:
        """Whether a client does not reach a node at all: its reference listener is silent to it, too."""
        return not self.reached.get((client, place, family), True)
