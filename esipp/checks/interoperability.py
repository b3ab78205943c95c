"""``Interoperability``: claims about scenarios, and kinds of Services. No I/O."""

from dataclasses import dataclass
from enum import StrEnum

from esipp.checks.check import Check, Profile
from esipp.checks.health import ScenarioClaim
from esipp.checks.model import Client, Role, Service, ServiceType, TrafficPolicy

NOT_REWRITTEN = "the client's own address, of every service"
"""Evidence: a node does not rewrite the source on the way to its own pod."""


class Kind(StrEnum):
    """The kinds of Services that exist in large numbers."""

    BALANCER_LOCAL = "loadbalancer-local"
    NODE_PORT_LOCAL = "nodeport-local"
    NODE_PORT_CLUSTER = "nodeport-cluster"
    NODE_PORT_UNSET = "nodeport-unset"

    @property
    def shape(self) -> Service:
        """Return the Service with the fields that judges of its answers need."""
        kind = ServiceType.LOAD_BALANCER if self is Kind.BALANCER_LOCAL else ServiceType.NODE_PORT
        policy = TrafficPolicy.CLUSTER if self is Kind.NODE_PORT_CLUSTER else TrafficPolicy.LOCAL
        return Service(kind, None if self is Kind.NODE_PORT_UNSET else policy)

    @property
    def is_local(self) -> bool:
        """Return whether a node without local endpoints must not answer."""
        return self in (Kind.BALANCER_LOCAL, Kind.NODE_PORT_LOCAL)


@dataclass(frozen=True)
class Interoperability(ScenarioClaim):
    """A claim about isolation (``neighbours``), scale (``many``) or DNS (``names``).

    Args:
        kind: the kind of Service, for scale.
        client: the pod that resolves the name, for DNS.
    """

    kind: Kind | None = None
    client: Client | None = None

    @property
    def profile(self) -> Profile:
        """Return the type of the Services; names resolve to ClusterIPs."""
        if self.kind is not None:
            return Profile(self.kind.shape.type)
        return Profile.CLUSTER_IP if self.scenario == "names" else Profile.LOAD_BALANCER


InteroperabilityCheck = Check[Interoperability]

MANY_SERVICES = 200
"""The number of Services that exist at once."""

DIALLED = (Role.ENDPOINT_NODE, Role.BARE_NODE)
"""The nodes on which clients dial the nodePorts of many Services."""
