"""Words of the inter-operation trials. Frozen, typed, without any I/O."""

from dataclasses import dataclass
from enum import StrEnum

from esipp.checks.check import Profile
from esipp.checks.health import Place
from esipp.checks.model import Client, Family, Role, Service, ServiceType, TrafficPolicy
from esipp.checks.trials import ScenarioCheck


@dataclass(frozen=True, kw_only=True)
class InteroperabilityCheck(ScenarioCheck):
    """A check about what a trial saw: neighbours, many, names.

    Args:
        place, family: of those that are about one node.
        kind: of trial ``many``, the kind of service.
        client: of trial ``names``, who asks.
    """

    place: Place | None = None
    family: Family | None = None
    kind: "Kind | None" = None
    client: Client | None = None

    @property
    def profile(self) -> Profile:
        """The type of the Services of its kind; names are resolved to ClusterIPs."""
        if self.kind is not None:
            return Profile(self.kind.shape.type)
        return Profile.CLUSTER_IP if self.trial == "names" else Profile.LOAD_BALANCER


NOT_REWRITTEN = "the client's own address, of every service"
"""What was seen where a node rewrites nothing on the way to its own pod."""


class Kind(StrEnum):
    """The kinds of service of which many are there at once."""

    BALANCER_LOCAL = "loadbalancer-local"
    NODE_PORT_LOCAL = "nodeport-local"
    NODE_PORT_CLUSTER = "nodeport-cluster"
    NODE_PORT_UNSET = "nodeport-unset"

    @property
    def shape(self) -> Service:
        """The service, as far as whoever reads an answer of it must know."""
        kind = ServiceType.LOAD_BALANCER if self is Kind.BALANCER_LOCAL else ServiceType.NODE_PORT
        policy = TrafficPolicy.CLUSTER if self is Kind.NODE_PORT_CLUSTER else TrafficPolicy.LOCAL
        return Service(kind, None if self is Kind.NODE_PORT_UNSET else policy)

    @property
    def is_local(self) -> bool:
        """Whether a node without an endpoint must be silent."""
        return self in (Kind.BALANCER_LOCAL, Kind.NODE_PORT_LOCAL)


MANY_SERVICES = 200
"""How many services there are at once."""

DIALLED = (Role.ENDPOINT_NODE, Role.BARE_NODE)
"""Whose nodePorts are dialled of many services."""
