"""Types of the health check suite: questions to nodes, their answers, and checks. No I/O.

Semantics: kube-proxy's pkg/proxy/healthcheck/service_health.go (answers and the endpoints that count), and the API's
pkg/registry/core/service (allocation of the port).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, NamedTuple

from esipp.checks.check import Check, Subject
from esipp.checks.model import ANYTHING, Client, Family, Outcome, Role


class Situation(StrEnum):
    """The pods behind a LoadBalancer Service with externalTrafficPolicy Local."""

    ONE_POD = "one-pod"
    SEVERAL_PODS = "several-pods"
    NO_PODS = "no-pods"
    UNREADY_POD = "unready-pod"
    PUBLISHED_POD = "published-unready-pod"
    SEVERAL_PORTS = "several-ports"
    HOST_NETWORK_POD = "host-network-pod"


class Place(StrEnum):
    """The probed node, by its role or its label; or the VIP."""

    ENDPOINT_NODE = Role.ENDPOINT_NODE.value
    BARE_NODE = Role.BARE_NODE.value
    OTHER_NODE = Role.OTHER_NODE.value
    CONTROL_PLANE = "control-plane"
    EXCLUDED = "excluded-node"
    VIP = "vip"


LOCAL_PODS: Mapping[Situation, Mapping[Place, int]] = {
    Situation.ONE_POD: {Place.ENDPOINT_NODE: 1},
    Situation.SEVERAL_PODS: {Place.ENDPOINT_NODE: 2, Place.OTHER_NODE: 1},
    Situation.NO_PODS: {},
    Situation.UNREADY_POD: {},
    Situation.PUBLISHED_POD: {Place.ENDPOINT_NODE: 1},
    Situation.SEVERAL_PORTS: {Place.ENDPOINT_NODE: 1},
    Situation.HOST_NETWORK_POD: {Place.ENDPOINT_NODE: 1},
}
"""The number of ready local endpoints by place; zero for a place without entry."""


TARGETS: Mapping[Situation, int] = {Situation.SEVERAL_PORTS: 3}
"""The number of target ports of a pod; one for a situation without entry."""


class About(StrEnum):
    """The part of an answer that a check is about."""

    STATUS = "status"
    DOCUMENT = "document"
    COUNT = "count"
    PROXY = "proxy"
    WEIGHT = "weight"
    TRUTH = "truth"
    TIME = "time"


@dataclass(frozen=True)
class Question:
    """One probe of one health check. Equal questions are sent once for all checks that read the answers."""

    situation: Situation
    place: Place
    client: Client
    family: Family
    second_address: bool = False
    method: str = "GET"
    url: str = "/healthz"

    @cached_property
    def key(self) -> str:
        """Return the stable text form, the stem of check ids: ``one-pod.ipv4.outside-1-to-endpoint-node``."""
        where = f"second-address-of-{self.place.value}" if self.second_address else self.place.value
        plain = (self.method, self.url) == ("GET", "/healthz")
        way = "" if plain else f".{self.method.lower()}-{URLS[self.url]}"
        return f"{self.situation.value}.{self.family.value.lower()}.{self.client.name}-to-{where}{way}"

    @property
    def local_pods(self) -> int:
        """Return the number of ready local endpoints."""
        return LOCAL_PODS[self.situation].get(self.place, 0)

    @property
    def targets(self) -> int:
        """Return the number of target ports of each pod."""
        return TARGETS.get(self.situation, 1)

    @property
    def control(self) -> "Question":
        """Return the positive control: the same client must get an answer from this nodePort."""
        return Question(Situation.ONE_POD, Place.ENDPOINT_NODE, self.client, self.family)


class Asked(NamedTuple):
    """The parts of a question's key, as text."""

    situation: str
    family: str
    client: str
    place: str
    otherwise: str


def parts_of(key: str) -> Asked:
    """The parts of ``Question.key``."""
    situation, _, rest = key.partition(".")
    family, _, rest = rest.partition(".")
    way, _, otherwise = rest.partition(".")
    client, _, place = way.partition("-to-")
    return Asked(situation, family, client, place, otherwise)


URLS = {"/healthz": "healthz", "/": "root", "/any/path?with=query": "any-path"}
"""The probed URL paths, and their names in ids."""


@dataclass(frozen=True)
class Answer:
    """An answer; ``count`` probes gave the same one.

    ``took`` are the seconds from the start of each of them to its end, with or without an answer; empty in ledgers of
    versions that did not measure it.
    """

    outcome: Outcome
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str = ""
    count: int = 1
    detail: str = ""
    took: tuple[float, ...] = ()

    @classmethod
    def read(cls, result: Mapping[str, Any]) -> "Answer":
        """Return the answer in a result line of the prober (images/echoserver/README.md, ``get``)."""
        response = result.get("response") or {}
        return cls(
            Outcome(str(result["outcome"])),
            response.get("status"),
            response.get("headers") or {},
            str(response.get("body") or ""),
            int(result.get("count") or 1),
            str(result.get("detail") or ""),
            tuple(round(ended - started, 3) for started, ended in _spans(result)),
        )

    @property
    def words(self) -> str:
        """Return the status, or why there is none; different texts lead to different verdicts."""
        if self.outcome is Outcome.ANSWERED:
            return str(self.status)
        return "timed out" if self.outcome is Outcome.TIMEOUT else self.outcome.value


def _spans(result: Mapping[str, Any]) -> Iterable[tuple[float, float]]:
    """Start and end of each probe of a result line; empty if it has none."""
    if result.get("brief"):
        return result.get("moments") or ()
    return [(result["started"], result["ended"])] if "ended" in result else ()


@dataclass(frozen=True)
class HealthAnswer(Subject):
    """A part of the answers to one question.

    For ``truth``, also whether the nodePort serves. For ``time``, those of the health checks of all Services that the
    same client asked the same node for.
    """

    question: Question
    about: About

    @property
    def traits(self) -> Mapping[str, str]:
        """Return the part of the answer, and the pods."""
        return {"about": self.about.value, "situation": self.question.situation.value}

    @property
    def through_pods(self) -> bool:
        """Return whether the check also connects to pods; only checks of ``truth`` do, others probe nodes."""
        return self.about is About.TRUTH

    @property
    def balanced(self) -> frozenset[str]:
        """Return what the load balancer must carry, for a health check at the VIP."""
        asked = self.question
        words = (ANYTHING, "tcp", "local", asked.family.value, asked.client.vantage.value)
        return frozenset(word.lower() for word in words) if asked.place is Place.VIP else frozenset()


@dataclass(frozen=True)
class ScenarioClaim(Subject):
    """A claim about one scenario of several.

    Args:
        scenario: its name.
        claim: the claim; the judge has one function for each.
        place, family: the node and family, for checks of one node.
    """

    scenario: str
    claim: str
    place: Place | None = None
    family: Family | None = None

    @property
    def part(self) -> str:
        """Return the scenario."""
        return self.scenario

    @property
    def traits(self) -> Mapping[str, str]:
        """Return the scenario and the claim."""
        return {"scenario": self.scenario, "claim": self.claim}


@dataclass(frozen=True)
class HealthScenario(ScenarioClaim):
    """A claim about stable, terminating, lifecycle, placement or cordoned."""

    @property
    def through_pods(self) -> bool:
        """Return False: the check probes nodes, not pods."""
        return False


HealthAnswerCheck = Check[HealthAnswer]
HealthScenarioCheck = Check[HealthScenario]

NO_HEALTHY_FIELD = "a document without serviceProxyHealthy"
TWICE = "pods counted once for each family"
"""Evidence: every count is twice the correct one. Facts say whether the Services have two families."""
EACH_TARGET = "pods counted once for each port that the service leads to, and each family"
