"""The evidence of health checks, as their judge reads it. No I/O."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from esipp.checks.disruption import Proof
from esipp.checks.health import Answer, Place, Situation
from esipp.checks.model import Family
from esipp.checks.timing import Bound
from esipp.judging.controls import Counts, Vantage
from esipp.judging.frame import Interruptions
from esipp.judging.observation import Observation
from esipp.judging.timeline import Stream

Node = tuple[Place, Family]

WATCHER = "outside-1"
"""The client that probes in all scenarios."""


@dataclass(frozen=True)
class Followed:
    """How one node's health check followed a round.

    ``seconds`` is the time from the change until three right answers in a row, None if there were none within the time
    limit; ``last`` is the last wrong answer, ``after`` counts the answers after that. ``gap`` is our own longest time
    between two probes until then.
    """

    seconds: float | None
    last: str = ""
    after: Mapping[str, int] = field(default_factory=dict)
    gap: float = 0.0


@dataclass(frozen=True)
class Round:
    """One round of the placement scenario: the change, the true pod counts, and how every node's answer followed.

    ``status`` is how the status followed, ``count`` how localEndpoints did, both from ``began`` on. ``trouble`` is why
    the true counts are in doubt: our own pods did not stay as they were, or the EndpointSlices did not change.
    """

    number: int
    done: str
    truth: Mapping[Place, int]
    status: Mapping[Node, Followed]
    count: Mapping[Node, Followed]
    began: float = 0.0
    trouble: str = ""


@dataclass(frozen=True)
class FollowTimes:
    """How long the nodes' health checks took to follow all rounds, in seconds; None without a time.

    ``answers`` counts the nodes of all rounds, ``never`` those that did not follow in time.
    """

    answers: int = 0
    never: int = 0
    p50: float | None = None
    p95: float | None = None
    most: float | None = None


def follow_times(rounds: Sequence[Round]) -> FollowTimes:
    """The times of all nodes and rounds."""
    followed = [each for played in rounds for each in played.status.values()]
    took = sorted(each.seconds for each in followed if each.seconds is not None)
    if not took:
        return FollowTimes(len(followed), len(followed))
    middle, late = (took[min(len(took) - 1, int(share * len(took)))] for share in (0.5, 0.95))
    return FollowTimes(len(followed), len(followed) - len(took), middle, late, took[-1])


@dataclass(frozen=True)
class Leaving:
    """The window in which a node's only pod was terminating and still served.

    ``answers`` are those of the node's health check from the first 503 on, ``dialled`` counts the results at its
    nodePort meanwhile. ``foreign`` counts the answers for which the terminating pod saw another address than the
    client's own, ``disbelieved`` says why the client's address proves nothing.
    """

    answers: tuple[Answer, ...]
    dialled: Mapping[str, int]
    foreign: int
    trouble: str = ""
    disbelieved: str = ""


@dataclass(frozen=True)
class Fact:
    """The result of one step of the port lifecycle scenario.

    ``refused`` is the API server's HTTP status, reason and message if it refused; ``ports`` are health-check node
    ports by Service, ``listeners`` the answers of each node at the step's port, by node and family. ``seconds`` after
    ``began`` all nodes gave the expected answer for good; None if they never did. ``gap`` is our own longest time
    between two looks until then.
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


@dataclass
class HealthEvidence(Interruptions):
    """The whole evidence of the suite.

    Args:
        answers: the answers to each question, by its key.
        served: the same client's results at the nodePort of the probed node, by the question's key.
        reached: whether a client reaches a node's control listener, by client, place and family.
        ways: a client's lost requests to that listener while the questions were asked.
        listened: how long each of these requests took, in seconds.
        gives_up: after how long without an answer the load balancer gives up a health check; None in older ledgers.
        controls: the control listeners, probed by the client outside during the scenarios.
        obstacles: why a question could not be asked.
        services: namespace and name of each situation's Service.
        nodes: the name of the node at each place.
        stable: the answers of the long window, by node; ``changes`` counts the changes of another Service's pods.
        cordoned: the answers of cordoned nodes; ``proofs`` that they were cordoned.
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
    proofs: list[Proof] = field(default_factory=list)
    life: dict[str, Fact] = field(default_factory=dict)
    ways: dict[tuple[str, Place, Family], Counts] = field(default_factory=dict)
    listened: dict[tuple[str, Place, Family], tuple[float, ...]] = field(default_factory=dict)
    gives_up: Bound | None = None
    controls: dict[Node, Stream] = field(default_factory=dict)

    def vantage(self, family: Family) -> Vantage:
        """The controls of the client during the scenarios: how well it reached the nodes without a Service."""
        return Vantage({place.value: stream for (place, of), stream in self.controls.items() if of is family})

    def way(self, client: str, family: Family) -> Counts:
        """The losses of a client at the control listeners of all nodes while the questions were asked."""
        own = [counts for (name, _, of), counts in self.ways.items() if (name, of) == (client, family)]
        return Counts(sum(each.lost for each in own), sum(each.requests for each in own))

    def unreached(self, client: str, place: Place, family: Family) -> bool:
        """Whether a client does not reach a node at all: its control listener is silent as well."""
        return not self.reached.get((client, place, family), True)
