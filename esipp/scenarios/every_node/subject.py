"""What the checks of every node are about. No I/O."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from esipp.checks.check import Check, Profile, Subject
from esipp.checks.model import (
    ANYTHING,
    OUTSIDE,
    Client,
    Entry,
    EntryKind,
    Family,
    Path,
    Protocol,
    Role,
    TrafficPolicy,
    Vantage,
)


class Entrance(StrEnum):
    """What is asked at every node, or of every endpoint.

    ``OTHER_ADDRESS`` is a nodePort at a further address of a node, ``EXTERNAL_IP`` one at its ExternalIP, ``LOOPBACK``
    one at 127.0.0.1. ``SERVICE_PORT`` is the port of a VIP, at the node's own address. ``PROXY`` is kube-proxy's own
    health check. Both health checks are also asked for from the client's link-local address.
    """

    NODE_PORT = "nodeport"
    OTHER_ADDRESS = "other-address"
    EXTERNAL_IP = "external-ip"
    LOOPBACK = "loopback"
    SERVICE_PORT = "service-port"
    CLUSTER_IP = "clusterip"
    VIP = "vip"
    HEALTH = "health"
    PROXY = "proxy-health"
    LINK_LOCAL_HEALTH = "link-local-health"
    LINK_LOCAL_PROXY = "link-local-proxy-health"
    ADDRESSES = "addresses"


BALANCED = (Entrance.VIP, Entrance.SERVICE_PORT)
"""What Services of the cluster's own load balancer show."""

FROM_LINK_LOCAL = {Entrance.LINK_LOCAL_HEALTH: Entrance.HEALTH, Entrance.LINK_LOCAL_PROXY: Entrance.PROXY}
"""Health checks that a client asks for from its link-local address, and the same from its global one."""

HEALTH_CHECKS = frozenset({Entrance.HEALTH, Entrance.PROXY, *FROM_LINK_LOCAL})
"""What is answered by HTTP, and not by endpoints."""

AT_NODES = frozenset({Entrance.NODE_PORT, Entrance.OTHER_ADDRESS, Entrance.SERVICE_PORT, *HEALTH_CHECKS})
"""What a client outside asks where it reaches InternalIPs of nodes. For ExternalIPs there is a feature of their own."""

INSIDE = frozenset({Entrance.CLUSTER_IP, Entrance.LOOPBACK})
"""What the agents of all nodes ask, as host processes."""

HOST = Client("host-on-endpoint-node", Vantage.NODE, Role.ENDPOINT_NODE)


class Requires(StrEnum):
    """What must hold at every node, or for every endpoint.

    ``FIRST``: the first answers, before the judged window. ``RESENT``: SYNs that were sent again. ``COPIES``: answers
    that came more than once. ``PORTS``: source ports, where the client's address is kept. ``IN_TIME``: health checks,
    before a load balancer gives up. ``AS_GLOBALLY``: as from the client's global address. ``ONE_NODE``: who answers on
    the client's link that it has a VIP.
    """

    ANSWERS = "answers"
    SOURCE = "source"
    OWN_ENDPOINT = "own-endpoint"
    SILENT = "silent"
    UNSERVED = "unserved"
    EVERY_ENDPOINT = "every-endpoint"
    EVEN = "even"
    SHARES = "shares"
    EVERY_ADDRESS = "every-address"
    FIRST = "first"
    RESENT = "resent"
    COPIES = "copies"
    PORTS = "ports"
    STATUS = "status"
    IN_TIME = "in-time"
    FAMILY = "family"
    AS_GLOBALLY = "as-globally"
    ONE_NODE = "one-node"


@dataclass(frozen=True)
class EveryNode(Subject):
    """A requirement on every sampled node, or on every endpoint of a Service.

    Args:
        entrance: what is asked.
        requires: what must hold.
        family: the IP family.
        protocol: the protocol, None for health checks and addresses.
        policy: the policy that applies at this entrance: the internal one at a ClusterIP, else the external one.
        client: the client outside that dials, if one does.
    """

    entrance: Entrance
    requires: Requires
    family: Family
    protocol: Protocol | None = None
    policy: TrafficPolicy | None = None
    client: Client = OUTSIDE

    @property
    def paths(self) -> tuple[Path, ...]:
        """Return the way of its client to a node without a Service, the control of what is asked at nodes."""
        listener = Entry(EntryKind.NODE_LISTENER, Role.ENDPOINT_NODE)
        if self.entrance is Entrance.ADDRESSES:
            return ()
        client = HOST if self.entrance in INSIDE else self.client
        return (Path(client, listener, self.protocol or Protocol.TCP, self.family),)

    @property
    def dials_nodes(self) -> bool:
        """Return whether a client outside dials InternalIPs of nodes."""
        return self.entrance in AT_NODES

    @property
    def part(self) -> str:
        """Return the only part."""
        return "every node"

    @property
    def traits(self) -> Mapping[str, str]:
        """Return the entrance, the policy and the protocol."""
        parts = {"entrance": self.entrance.value, "protocol": self.protocol.value if self.protocol else ""}
        return {**parts, "policy": self.policy.value if self.policy else ""}

    @property
    def on_host_network(self) -> bool:
        """Return whether agents are needed; the Node objects alone show addresses."""
        return self.entrance is not Entrance.ADDRESSES

    @property
    def through_pods(self) -> bool:
        """Return whether connections lead to pods."""
        return self.protocol is not None

    @property
    def balanced(self) -> frozenset[str]:
        """Return what the load balancer must carry for a VIP."""
        if self.entrance not in BALANCED or self.protocol is None or self.policy is None:
            return frozenset()
        words = (ANYTHING, self.protocol.value, self.family.value, self.policy.value, Vantage.OUTSIDE.value)
        return frozenset(word.lower() for word in words)

    @property
    def profile(self) -> Profile:
        """Return the kind of Service."""
        kinds = {Entrance.CLUSTER_IP: Profile.CLUSTER_IP, **dict.fromkeys(BALANCED, Profile.LOAD_BALANCER)}
        return kinds.get(self.entrance, Profile.NODE_PORT)


EveryNodeCheck = Check[EveryNode]

FURTHER = (Entrance.OTHER_ADDRESS, Entrance.EXTERNAL_IP)
"""nodePorts at addresses of a node beside its InternalIP, which clients need not reach."""

KUBE_PROXY = "service-proxy.kube-proxy"
"""Feature: the service proxy is kube-proxy, so that its own health check may be asked."""


def other_addresses(family: Family) -> str:
    """Return the feature: a client outside reaches some node at a further address of this family."""
    return f"nodes.other-addresses.{family.value.lower()}"


def external_ips(family: Family) -> str:
    """Return the feature: a client outside reaches some node at its ExternalIP of this family."""
    return f"nodes.external-ips.{family.value.lower()}"


def several_announced(family: Family) -> str:
    """Return the feature: the load balancer announces several addresses of this family for a Service."""
    return f"load-balancer.several-addresses.{family.value.lower()}"


QUESTIONS = 10
"""Questions who has a VIP."""

UNEVEN_OVER_UDP = "shares differ over UDP, and every endpoint has one"
"""Evidence: only shares of datagrams differ, of host processes that dial ClusterIPs; each endpoint got some."""

FELL_BACK = "endpoints of other nodes answered"
"""Evidence: nodes without an endpoint do not keep silent, but hand over to endpoints of other nodes."""
