"""What a load balancer itself says of the nodes, whoever made it: one form for all of them. Pure.

A view is what was answered at one time. One that can't be had is no failure of anything: ``Unavailable`` says why.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from esipp.base.errors import EsippError
from esipp.judging.topology import IPAddress, Node, parse_address

Json = dict[str, Any]


class State(StrEnum):
    """What a load balancer takes a node for; ``unknown`` where it says neither, or does not check."""

    HEALTHY = "healthy"
    UNHEALTHY = "unhealthy"
    UNKNOWN = "unknown"


_WORST = (State.UNHEALTHY, State.UNKNOWN, State.HEALTHY)


class Why(StrEnum):
    """Why a view can't be had."""

    NO_TOOL = "no tool"
    LOGIN = "not logged in"
    RIGHTS = "no permission"
    UNSUPPORTED = "unsupported"
    THROTTLED = "throttled"
    TIMEOUT = "no answer in time"
    NOT_FOUND = "not found"
    GARBLED = "not understood"
    FAILED = "failed"


LASTING = frozenset({Why.NO_TOOL, Why.LOGIN, Why.RIGHTS, Why.UNSUPPORTED})
"""What asking again does not change: somebody must do something first."""


class Unavailable(EsippError):  # noqa: N818 - no error: a view that is not there
    """A view can't be had, and why, as one sentence and a hint."""

    def __init__(self, why: Why, sentence: str, hint: str = "") -> None:
        super().__init__(sentence, hint)
        self.why = why

    @property
    def lasting(self) -> bool:
        """Whether asking again is of no use."""
        return self.why in LASTING


@dataclass(frozen=True)
class Member:
    """One target of the load balancer.

    Args:
        target: the provider's own name of it: an instance, an address.
        node: the Node it is; None where it is none of the cluster's, or could not be told.
        word: the provider's own word for its state.
        reason: what the provider says beside it.
        at: of when that is, in seconds since the epoch, where the provider says so; a metric is older than its answer.
    """

    target: str
    node: str | None
    state: State
    word: str
    reason: str = ""
    at: float | None = None

    def as_json(self) -> Json:
        """The member as the ledger keeps it."""
        told: Json = {"target": self.target, "node": self.node, "state": self.state.value, "word": self.word}
        return told | ({"reason": self.reason} if self.reason else {}) | ({"at": self.at} if self.at else {})


@dataclass(frozen=True)
class Share:
    """So many nodes of so many are healthy, as the Azure portal shows it."""

    healthy: int
    of: int

    @property
    def percent(self) -> float:
        """0 where there are no nodes."""
        return 100.0 * self.healthy / self.of if self.of else 0.0

    def __str__(self) -> str:
        return f"{self.healthy} of {self.of} ({self.percent:.0f} %)"


@dataclass(frozen=True)
class View:
    """What the load balancer of one Service said at one time.

    Args:
        provider: whose.
        balancer: the provider's own name of the load balancer.
        asked: when the question began, ``answered`` when the answer was there: seconds of our monotonic clock.
        members: its targets; a node may be several of them.
        notes: what a reader must know beside it, in sentences.
    """

    provider: str
    balancer: str
    asked: float
    answered: float
    members: tuple[Member, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def states(self) -> dict[str, State]:
        """The state of each node that is a target: the worst of those it has, as each port may have its own."""
        found: dict[str, State] = {}
        for each in self.members:
            if each.node is not None:
                found[each.node] = min(found.get(each.node, State.HEALTHY), each.state, key=_WORST.index)
        return found

    @property
    def healthy(self) -> frozenset[str]:
        """The nodes that it takes for healthy."""
        return frozenset(node for node, state in self.states.items() if state is State.HEALTHY)

    @property
    def strangers(self) -> tuple[str, ...]:
        """Targets that are no node of the cluster, as far as we can tell."""
        return tuple(each.target for each in self.members if each.node is None)

    def share(self, nodes: Iterable[str]) -> Share:
        """How many of these nodes are healthy. A node that is no target is not: under Local some leave it out."""
        wanted = set(nodes)
        return Share(len(wanted & self.healthy), len(wanted))

    def as_json(self) -> Json:
        """The view as the ledger keeps it."""
        return {
            "provider": self.provider,
            "balancer": self.balancer,
            "asked": round(self.asked, 4),
            "answered": round(self.answered, 4),
            "members": [each.as_json() for each in self.members],
            "notes": list(self.notes),
        }


@dataclass(frozen=True)
class Asked:
    """The Service whose load balancer is asked: what it is found by.

    ``addresses`` and ``hostnames`` are those of ``status.loadBalancer.ingress``; ``ports`` and ``node_ports`` of
    ``spec.ports``.
    """

    name: str
    addresses: tuple[str, ...] = ()
    hostnames: tuple[str, ...] = ()
    ports: frozenset[int] = frozenset()
    node_ports: frozenset[int] = frozenset()

    @classmethod
    def of(cls, service: Mapping[str, Any]) -> "Asked":
        """From the API's JSON."""
        metadata, spec = service["metadata"], service.get("spec") or {}
        there = ((service.get("status") or {}).get("loadBalancer") or {}).get("ingress") or []
        ports = spec.get("ports") or []
        return cls(
            f"{metadata.get('namespace', '')}/{metadata['name']}",
            tuple(each["ip"] for each in there if each.get("ip")),
            tuple(each["hostname"].rstrip(".").lower() for each in there if each.get("hostname")),
            frozenset(each["port"] for each in ports),
            frozenset(each["nodePort"] for each in ports if each.get("nodePort")),
        )

    def has(self, address: str | None) -> bool:
        """Whether this is one of its addresses; GCE writes an IPv6 one as a network, ``…/96``."""
        found = as_address(address)
        return found is not None and found in {as_address(each) for each in self.addresses}

    def need_address(self) -> None:
        """Make sure that there is something to find it by.

        Raises:
            Unavailable: its status has neither address nor hostname.
        """
        if not self.addresses and not self.hostnames:
            raise Unavailable(Why.NOT_FOUND, f"The Service {self.name} has no load balancer yet.", "wait for its VIP.")


def as_address(text: str | None) -> IPAddress | None:
    """An address, or None where the text is none."""
    try:
        return parse_address((text or "").partition("/")[0])
    except ValueError:
        return None


class Places:
    """Which Node a target is: by the nodes' providerID, addresses and names, and by pods, where these are targets."""

    def __init__(self, nodes: Iterable[Node], pods: Callable[[], Mapping[str, str]] = dict) -> None:
        """``pods`` tells the nodes of pods by the pods' addresses, now."""
        self.nodes = tuple(nodes)
        self._pods = pods
        self._stands: Mapping[str, str] | None = None

    def anew(self) -> None:
        """Forget where pods were: they are asked for at most once a view."""
        self._stands = None

    def find(self, *hints: str | None) -> str | None:
        """The Node of the first hint that fits one.

        A hint is an address, the end of a providerID (``i-0abc…``, ``project/zone/name``), or a Node's name.
        """
        return next((node for hint in hints if hint and (node := self._one(hint))), None)

    def _one(self, hint: str) -> str | None:
        address = as_address(hint)
        if address is not None:
            own = (node.name for node in self.nodes if address in {*node.addresses, *map(parse_address, _own(node))})
            return next(own, None) or self._of_pod(address)
        end = hint.casefold().strip("/")
        for node in self.nodes:
            known = node.provider_id.partition("://")[2].strip("/").casefold()
            if node.name.casefold() == end or known == end or known.endswith("/" + end):
                return node.name
        return None

    def _of_pod(self, address: IPAddress) -> str | None:
        if self._stands is None:
            self._stands = self._pods()
        return next((node for pod, node in self._stands.items() if as_address(pod) == address), None)


def _own(node: Node) -> Iterable[str]:
    return node.internal.values()


class HealthView(Protocol):
    """Who can be asked what a load balancer thinks of the nodes."""

    @property
    def provider(self) -> str:
        """Its name: ``gce``, ``azure``, ``aws``, ``openstack``, ``reference``."""

    @property
    def interval(self) -> float:
        """Seconds between two questions, at least: what the provider tolerates, and more often tells nothing new."""

    @property
    def lag(self) -> float:
        """Seconds by which what is told may be older than the answer, at most, as far as is known."""

    def ask(self, service: Asked) -> View:
        """What the load balancer of a Service says now.

        Raises:
            Unavailable: it can't be had, and why.
        """
