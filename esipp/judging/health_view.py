"""Health views: the nodes' health as a load balancer itself reports it, in one form for all providers. Pure.

A view is one report. If no report is available, nothing has failed: ``Unavailable`` says why.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol

from esipp.base.errors import EsippError
from esipp.judging.topology import IPAddress, Node, parse_address


class State(StrEnum):
    """A node's health as a load balancer reports it; ``unknown`` if it reports neither, or does not check."""

    HEALTHY = "healthy"
    UNHEALTHY = "unhealthy"
    UNKNOWN = "unknown"


_WORST = (State.UNHEALTHY, State.UNKNOWN, State.HEALTHY)


class Why(StrEnum):
    """Why no view is available."""

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
"""Reasons that another request does not change: the user must act first."""


class Unavailable(EsippError):  # noqa: N818 - no error: a view that is not there
    """No view is available: the reason as one sentence, and a hint."""

    def __init__(self, why: Why, sentence: str, hint: str = "") -> None:
        super().__init__(sentence, hint)
        self.why = why

    @property
    def lasting(self) -> bool:
        """Whether another request cannot help."""
        return self.why in LASTING


@dataclass(frozen=True)
class Member:
    """One target of the load balancer.

    Args:
        target: the provider's own name for it: an instance, an address.
        node: its Node; None if it is not one of the cluster's, or unknown.
        word: the provider's own term for its state.
        reason: the provider's reason for that state.
        at: the time of that state in seconds since the epoch, if the provider gives one; a metric is older than its
            answer.
    """

    target: str
    node: str | None
    state: State
    word: str
    reason: str = ""
    at: float | None = None


@dataclass(frozen=True)
class Share:
    """The share of healthy nodes, as the Azure portal shows it."""

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
    """One report of the load balancer of one Service.

    Args:
        provider: the provider's name.
        balancer: the provider's own name for the load balancer.
        asked: when the request began, ``answered`` when the answer was complete: seconds of our monotonic clock.
        members: its targets; a node may be several of them.
        notes: what a reader must know about the report, in sentences.
    """

    provider: str
    balancer: str
    asked: float
    answered: float
    members: tuple[Member, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def states(self) -> dict[str, State]:
        """The state of each node that is a target: the worst of its ports."""
        found: dict[str, State] = {}
        for each in self.members:
            if each.node is not None:
                found[each.node] = min(found.get(each.node, State.HEALTHY), each.state, key=_WORST.index)
        return found

    @property
    def healthy(self) -> frozenset[str]:
        """The nodes that it reports as healthy."""
        return frozenset(node for node, state in self.states.items() if state is State.HEALTHY)

    @property
    def strangers(self) -> tuple[str, ...]:
        """Targets that match no node of the cluster."""
        return tuple(each.target for each in self.members if each.node is None)

    def share(self, nodes: Iterable[str]) -> Share:
        """The share of these nodes that is healthy. A node that is no target counts as unhealthy."""
        wanted = set(nodes)
        return Share(len(wanted & self.healthy), len(wanted))


@dataclass(frozen=True)
class Asked:
    """The Service whose load balancer is asked, with everything that identifies the load balancer.

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
        """Make sure that the Service has an address or hostname to find the load balancer by.

        Raises:
            Unavailable: its status has neither address nor hostname.
        """
        if not self.addresses and not self.hostnames:
            raise Unavailable(Why.NOT_FOUND, f"The Service {self.name} has no load balancer yet.", "wait for its VIP.")


def as_address(text: str | None) -> IPAddress | None:
    """The address in a text, or None if the text is no address."""
    try:
        return parse_address((text or "").partition("/")[0])
    except ValueError:
        return None


class Places:
    """Finds the Node of a target by providerID, address or name, and by pod where pods are targets."""

    def __init__(self, nodes: Iterable[Node], pods: Callable[[], Mapping[str, str]] = dict) -> None:
        """``pods`` returns the current node of each pod, by the pod's address."""
        self.nodes = tuple(nodes)
        self._pods = pods
        self._stands: Mapping[str, str] | None = None

    def anew(self) -> None:
        """Forget the nodes of pods: they are read at most once for each view."""
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
    """A source of health views."""

    @property
    def provider(self) -> str:
        """Its name: ``gce``, ``azure``, ``aws``, ``openstack``, ``reference``."""

    @property
    def interval(self) -> float:
        """The shortest time between two requests in seconds, which the provider tolerates."""

    @property
    def lag(self) -> float:
        """The known maximum age of a reported state when it is answered, in seconds."""

    def ask(self, service: Asked) -> View:
        """The current health view of a Service's load balancer.

        Raises:
            Unavailable: no view is available, and why.
        """
