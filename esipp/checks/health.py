"""Words of the health check suite: what is asked where, what was answered. Frozen, typed, without any I/O.

Semantics: upstream.md §2.1 (kube-proxy's service health server), §2.2 (which endpoints count), §2.9 (the API's rules).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any

from esipp.checks.check import ANYTHING, Check, Difference
from esipp.checks.model import Client, Family, Role
from esipp.checks.observation import Outcome
from esipp.checks.trials import ScenarioCheck


class Situation(StrEnum):
    """Which pods are behind a LoadBalancer Service with externalTrafficPolicy Local."""

    ONE_POD = "one-pod"
    SEVERAL_PODS = "several-pods"
    NO_PODS = "no-pods"
    UNREADY_POD = "unready-pod"
    PUBLISHED_POD = "published-unready-pod"
    SEVERAL_PORTS = "several-ports"
    HOST_NETWORK_POD = "host-network-pod"


class Place(StrEnum):
    """Which node is asked: one that plays a role, or any that is marked so; or the VIP."""

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
"""The true count of ready local endpoints by place; none where a place is not named."""


TARGETS: Mapping[Situation, int] = {Situation.SEVERAL_PORTS: 3}
"""How many different ports of a pod the service leads to; one where a situation is not named."""


class About(StrEnum):
    """Which part of an answer a check is about."""

    STATUS = "status"
    DOCUMENT = "document"
    COUNT = "count"
    PROXY = "proxy"
    WEIGHT = "weight"
    TRUTH = "truth"


@dataclass(frozen=True)
class Question:
    """One way to ask one health check: equal questions are asked once, for all checks that read the answers."""

    situation: Situation
    place: Place
    client: Client
    family: Family
    second_address: bool = False
    method: str = "GET"
    url: str = "/healthz"

    @cached_property
    def key(self) -> str:
        """Stable text form, the stem of check ids: ``one-pod.ipv4.outside-1-to-endpoint-node``."""
        where = f"second-address-of-{self.place.value}" if self.second_address else self.place.value
        plain = (self.method, self.url) == ("GET", "/healthz")
        way = "" if plain else f".{self.method.lower()}-{URLS[self.url]}"
        return f"{self.situation.value}.{self.family.value.lower()}.{self.client.name}-to-{where}{way}"

    @property
    def local_pods(self) -> int:
        """The true count of ready local endpoints."""
        return LOCAL_PODS[self.situation].get(self.place, 0)

    @property
    def targets(self) -> int:
        """How many different ports of each pod the service leads to."""
        return TARGETS.get(self.situation, 1)

    @property
    def control(self) -> "Question":
        """Where the same client must be answered at the nodePort, so that silence elsewhere proves something."""
        return Question(Situation.ONE_POD, Place.ENDPOINT_NODE, self.client, self.family)


URLS = {"/healthz": "healthz", "/": "root", "/any/path?with=query": "any-path"}
"""The paths that are asked, and how ids name them."""


@dataclass(frozen=True)
class Answer:
    """What came of asking, ``count`` times the same."""

    outcome: Outcome
    status: int | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str = ""
    count: int = 1
    detail: str = ""

    @classmethod
    def read(cls, result: Mapping[str, Any]) -> "Answer":
        """A result line of the prober (images/echoserver/README.md, ``get``)."""
        response = result.get("response") or {}
        return cls(
            Outcome(str(result["outcome"])),
            response.get("status"),
            response.get("headers") or {},
            str(response.get("body") or ""),
            int(result.get("count") or 1),
            str(result.get("detail") or ""),
        )

    @property
    def words(self) -> str:
        """The status, or how there was none: these are different answers, and different verdicts."""
        if self.outcome is Outcome.ANSWERED:
            return str(self.status)
        return "timed out" if self.outcome is Outcome.TIMEOUT else self.outcome.value

    def as_json(self) -> dict[str, Any]:
        """The answer as the ledger keeps it."""
        return {
            "outcome": self.outcome.value,
            "status": self.status,
            "headers": dict(self.headers),
            "body": self.body,
            "count": self.count,
            "detail": self.detail,
        }


@dataclass(frozen=True, kw_only=True)
class HealthAnswerCheck(Check):
    """A check that is judged from the answers to one question, all given in one window."""

    question: Question
    about: About
    differences: tuple[Difference, ...] = ()

    @property
    def through_pods(self) -> bool:
        """Nodes answer; only the truth of what they say is held against what pods do."""
        return self.about is About.TRUTH

    @property
    def balanced(self) -> frozenset[str]:
        """Where the health check is asked for at the VIP."""
        asked = self.question
        words = (ANYTHING, "tcp", "local", asked.family.value, asked.client.vantage.value)
        return frozenset(word.lower() for word in words) if asked.place is Place.VIP else frozenset()

    @property
    def expected(self) -> str:
        """What every answer must be."""
        pods = self.question.local_pods
        return {
            About.STATUS: "200" if pods else "503",
            About.DOCUMENT: "JSON that names the service",
            About.COUNT: f"localEndpoints {pods}",
            About.PROXY: "serviceProxyHealthy true",
            About.WEIGHT: f"weight {pods}",
            About.TRUTH: "serves" if pods else "does not serve",
        }[self.about]

    @property
    def asked(self) -> str:
        """Who asks whom, how."""
        what = f"{self.question.method} {self.question.url}"
        said = f"{self.question.client.name} sends {what} to the health-check node port of the {self.question.place}"
        return said + (", and dials the service's nodePort there meanwhile" if self.about is About.TRUTH else "")

    @property
    def fails_if(self) -> str:
        """The broken data plane that trips it."""
        pods = self.question.local_pods
        return {
            About.STATUS: "the health check always says 503, or is stuck from before the pod came"
            if pods
            else "the health check always says 200, or is stuck from before the pod left",
            About.DOCUMENT: "another service's health check listens at this port, or the body is not a document",
            About.COUNT: "endpoints are counted wrongly: those of other nodes, unready ones, or one a port or family",
            About.PROXY: "the service proxy says that it is behind with programming its rules",
            About.WEIGHT: "the weight header is missing or counts something else",
            About.TRUTH: "the node's answer and its data path contradict each other",
        }[self.about]

    def as_json(self) -> dict[str, Any]:
        """The check as one JSON object."""
        return super().as_json() | {"expect": self.expected}


@dataclass(frozen=True, kw_only=True)
class HealthScenarioCheck(ScenarioCheck):
    """A check about what a trial saw: stable, terminating, lifecycle, placement, cordoned.

    Args:
        place, family: of those that are about one node's health check.
    """

    place: Place | None = None
    family: Family | None = None

    @property
    def through_pods(self) -> bool:
        """Nodes answer, not pods."""
        return False


NOT_TOLD = "a document without serviceProxyHealthy"
TWICE = "pods counted once for each family"
"""What was seen where every count is twice the truth; whether the services have two families, the facts tell."""
EACH_TARGET = "pods counted once for each port that the service leads to, and each family"
