"""``ServiceChange``: an event as data, the stream that sees it, and the claim. No I/O."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from esipp.checks.check import Check, Profile, Subject
from esipp.checks.model import OUTSIDE, Client, Family, Role, ServiceType, Vantage
from esipp.checks.stream import StreamKind

INSIDE = Client("pod-on-bare-node", Vantage.POD, Role.BARE_NODE)
"""The client that dials ClusterIPs."""


class At(StrEnum):
    """What is dialled: the nodePort of one node, or the ClusterIP. Clients of nodePorts are outside."""

    ENDPOINT_NODE = "endpoint-node"
    BARE_NODE = "bare-node"
    OTHER_NODE = "other-node"
    CONTROL_PLANE = "control-plane"
    CLUSTER_IP = "clusterip"

    @property
    def role(self) -> Role | None:
        """Return the node whose nodePort is dialled; None for the ClusterIP."""
        return None if self is At.CLUSTER_IP else Role(self.value)

    @property
    def client(self) -> Client:
        """Return the client that dials there."""
        return INSIDE if self is At.CLUSTER_IP else OUTSIDE


class Pods(StrEnum):
    """Which pods a Service selects, by a label of its own each. All run on the endpoint node."""

    NONE = "none"
    FIRST = "first"
    SECOND = "second"

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the pods."""
        return {Pods.FIRST: ("changes-1",), Pods.SECOND: ("changes-2",)}.get(self, ())


class Do(StrEnum):
    """How a stage of an event begins; scenarios/service_change/run.py does it."""

    CREATE = "is created"
    SELECT = "selects other pods"
    DELETE = "is deleted"
    CREATE_AGAIN = "is created again, with its nodePorts and ClusterIPs"
    TAKE_OVER = "is deleted, and another Service gets its nodePorts and ClusterIPs"


@dataclass(frozen=True)
class Change:
    """How a stage begins, and which pods serve in it: nobody else may answer."""

    do: Do
    pods: Pods = Pods.NONE

    @property
    def is_there(self) -> bool:
        """Return whether a Service has the addresses."""
        return self.do is not Do.DELETE


class Claim(StrEnum):
    """A claim about a stream over all stages of an event."""

    SERVED = "served"
    GONE = "gone"
    REFUSED = "refused"


@dataclass(frozen=True)
class Event:
    """Something that happens to a Service and its pods.

    Args:
        name: its name in ids and ledgers.
        meanwhile: when requirements hold, as text: ``While a Service loses all its endpoints``.
        changes: its stages, in order; the first is the creation.
        kind: the type of the Service.
    """

    name: str
    meanwhile: str
    changes: tuple[Change, ...]
    kind: ServiceType = ServiceType.NODE_PORT

    @property
    def service(self) -> str:
        """Return the name of the Service."""
        return f"changes-{self.name}"


@dataclass(frozen=True)
class ServiceChange(Subject):
    """A claim about one stream during one event.

    ``fresh`` is the same without a past: only flows of a stream that reuses a port may follow an older connection
    tracking entry.
    """

    event: Event
    at: At
    stream: StreamKind
    family: Family
    claim: Claim
    fresh: StreamKind | None = None

    @property
    def part(self) -> str:
        """Return the event."""
        return self.event.name

    @property
    def streams(self) -> tuple[StreamKind, ...]:
        """Return the streams that decide it."""
        return (self.stream, self.fresh) if self.fresh else (self.stream,)

    @property
    def traits(self) -> Mapping[str, str]:
        """Return the event, the claim and the protocol."""
        return {"event": self.event.name, "claim": self.claim.value, "protocol": self.stream.protocol.value}

    @property
    def profile(self) -> Profile:
        """Return the type of the Service, as it is dialled."""
        return Profile.CLUSTER_IP if self.at is At.CLUSTER_IP else Profile.NODE_PORT


ServiceChangeCheck = Check[ServiceChange]

STALE = "an endpoint of before answers a flow of before, and no other"
"""Evidence: only flows from before a change reach the pods of before; new ones of the same client, at the same address,
do not."""
