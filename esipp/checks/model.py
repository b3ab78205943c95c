"""The words of the suite as types: who dials which Service at what entry. Frozen, typed, without any I/O.

Names follow docs/glossary.md and the Kubernetes API. What a check requires of a path is in path.py, what is observed
there in observation.py.
"""

from dataclasses import dataclass
from enum import Enum, StrEnum
from functools import cached_property

from esipp.checks.check import ANYTHING


class AddressClass(StrEnum):
    """Whose address a backend sees as the source, or how the client was not answered.

    ``hairpin`` is an address of the backend's own node, seen by a backend that reached itself through a service.
    """

    CLIENT = "client"
    NODE = "node"
    POD = "pod"
    LOAD_BALANCER = "load_balancer"
    HAIRPIN = "hairpin"
    OTHER = "other"
    DROPPED = "dropped"
    REFUSED = "refused"


NO_ANSWER = frozenset({AddressClass.DROPPED, AddressClass.REFUSED})
OF_NODES = frozenset({AddressClass.NODE, AddressClass.HAIRPIN})
"""Which addresses these are, only our agents can tell: Node objects do not know all."""


class Family(StrEnum):
    """``spec.ipFamilies`` of the Service API."""

    IPV4 = "IPv4"
    IPV6 = "IPv6"


class Protocol(StrEnum):
    """``spec.ports[].protocol`` of the Service API."""

    TCP = "TCP"
    UDP = "UDP"
    SCTP = "SCTP"


class Vantage(StrEnum):
    """Where a client stands."""

    OUTSIDE = "outside"
    POD = "pod"
    NODE = "node"


class Role(StrEnum):
    """What a node is to the testbed.

    ``endpoint-node`` has a ready local backend; ``bare-node`` has none and is dialled; ``other-node`` has none either
    and is where in-cluster clients stand, so that a client dials its own node only where a check means it to.
    ``control-plane`` is a control plane's node that plays none of these; not every cluster shows one.
    """

    ENDPOINT_NODE = "endpoint-node"
    BARE_NODE = "bare-node"
    OTHER_NODE = "other-node"
    CONTROL_PLANE = "control-plane"


@dataclass(frozen=True, order=True)
class Client:
    """Who dials. ``role`` is the node it stands on, None for a client outside the cluster."""

    name: str
    vantage: Vantage
    role: Role | None = None


class EntryKind(StrEnum):
    """What kind of address is dialled."""

    POD_IP = "pod-ip"
    CLUSTER_IP = "clusterip"
    NODE_PORT = "node-port"
    SECOND_ADDRESS = "second-address"
    VIP = "vip"
    EXTERNAL_IP = "external-ip"
    NODE_LISTENER = "node-listener"


@dataclass(frozen=True)
class Entry:
    """What is dialled; ``role`` names the node whose address it is: a nodePort's, an externalIP's, a listener's."""

    kind: EntryKind
    role: Role | None = None

    @property
    def slug(self) -> str:
        """The entry as it stands in a row's id."""
        if self.role is None:
            return self.kind.value
        plain = self.kind in (EntryKind.NODE_PORT, EntryKind.NODE_LISTENER)
        return self.role.value if plain else f"{self.kind.value}-of-{self.role.value}"


class ServiceType(StrEnum):
    """``spec.type`` of the Service API."""

    CLUSTER_IP = "ClusterIP"
    NODE_PORT = "NodePort"
    LOAD_BALANCER = "LoadBalancer"


class TrafficPolicy(StrEnum):
    """``spec.externalTrafficPolicy`` and ``spec.internalTrafficPolicy`` of the Service API."""

    CLUSTER = "Cluster"
    LOCAL = "Local"


class Backends(StrEnum):
    """Which pods are behind a service; all stand on the endpoint node, but for the one on a control-plane node."""

    POD = "pod"
    HOST_NETWORK = "host-network"
    NOT_READY = "not-ready"
    PAIR = "pair"
    CONTROL_PLANE = "control-plane"


class Balancer(StrEnum):
    """Which load balancer a service asks for, by ``spec.loadBalancerClass``.

    ``default`` is the cluster's own; all others are the reference load balancer in one of its modes. What the pod
    must see differs: a forwarder leaves the client's address, a proxy shows its own and may tell the client's in an
    X-Forwarded-For or PROXY protocol header.
    """

    DEFAULT = "default"
    FORWARD = "reference-forward"
    ECMP = "reference-ecmp"
    PROXY = "reference-proxy"
    PROXY_FORWARDED_FOR = "reference-proxy-xff"
    PROXY_V1 = "reference-proxy-v1"
    PROXY_V2 = "reference-proxy-v2"


class OldForm(StrEnum):
    """What the annotations say that were the policy before 1.7, alpha and beta alike; today nobody reads them."""

    ONLY_LOCAL = "OnlyLocal"
    GLOBAL = "Global"


class Port(Enum):
    """A port of a service: name, ``port``, and how ``targetPort`` names the backend's port."""

    MAIN = ("main", 80, "number")
    NAMED = ("named", 81, "name")
    SAME = ("same", 0, "number")
    HTTP = ("http", 8000, "number")

    @property
    def label(self) -> str:
        """The port as it stands in a row's id, and in the Service."""
        return str(self.value[0])


class Claim(StrEnum):
    """What a client claims about itself in a header that nobody should believe."""

    NOTHING = "nothing"
    FORWARDED_FOR = "x-forwarded-for"
    PROXY_V1 = "proxy-v1"
    PROXY_V2 = "proxy-v2"


@dataclass(frozen=True)
class Service:
    """A Service the testbed has to create; equal shapes are one object, shared by all checks that need it.

    Args:
        type: ``spec.type``.
        policy: ``spec.externalTrafficPolicy``, None where it is left unset.
        internal: ``spec.internalTrafficPolicy``, None where it is left unset.
        backends: the pods its selector finds.
        families: ``spec.ipFamilies`` of a single-stack service; None takes every family the cluster has.
        balancer: the load balancer, for type LoadBalancer.
        several_ports: whether it has all ports of ``Port``; else it has the main one only.
        publish_not_ready: ``spec.publishNotReadyAddresses``.
        affinity: ``spec.sessionAffinity: ClientIP``.
        external_ips: whether ``spec.externalIPs`` are the InternalIPs of the endpoint node and of the bare node.
        ranges: clients whose addresses are the only ``spec.loadBalancerSourceRanges``.
        old_form: what the annotations say that were the policy once.
    """

    type: ServiceType
    policy: TrafficPolicy | None = None
    internal: TrafficPolicy | None = None
    backends: Backends = Backends.POD
    families: Family | None = None
    balancer: Balancer = Balancer.DEFAULT
    several_ports: bool = False
    publish_not_ready: bool = False
    affinity: bool = False
    external_ips: bool = False
    ranges: tuple[str, ...] = ()
    old_form: OldForm | None = None

    @property
    def is_external(self) -> bool:
        """Whether traffic from outside the cluster is meant to reach it, so that it has an external policy."""
        return self.type is not ServiceType.CLUSTER_IP or self.external_ips

    @property
    def slug(self) -> str:
        """The service as it stands in a row's id: ``nodeport.local``, ``clusterip.itp-local``."""
        parts = ["external-ips" if self.external_ips else self.type.value.lower()]
        if self.balancer is not Balancer.DEFAULT:
            parts.append(self.balancer.value)
        if self.is_external:
            parts.append(self.policy.value.lower() if self.policy else "unset")
        if self.internal:
            parts.append(f"itp-{self.internal.value.lower()}")
        if self.backends is not Backends.POD:
            parts.append(self.backends.value)
        if self.families:
            parts.append(f"only-{self.families.value.lower()}")
        if self.old_form:
            parts.append(f"annotated-{self.old_form.value.lower()}")
        told = {
            "several-ports": self.several_ports,
            "publish-not-ready": self.publish_not_ready,
            "affinity": self.affinity,
            "source-ranges": bool(self.ranges),
        }
        return ".".join([*parts, *(name for name, given in told.items() if given)])


@dataclass(frozen=True)
class Path:
    """One way to dial: who, which service, at what entry. The unit of observation; several checks may share one.

    ``service`` is None where no Service is between: a pod's own address, or the reference listener on a node.
    ``claim`` is what the client says of itself in a header; ``one_socket`` sends all datagrams from one source port.
    """

    client: Client
    entry: Entry
    protocol: Protocol
    family: Family
    service: Service | None = None
    port: Port = Port.MAIN
    claim: Claim = Claim.NOTHING
    one_socket: bool = False

    @cached_property
    def key(self) -> str:
        """Stable text form, the stem of check ids: ``nodeport.local.tcp.ipv4.outside-1-to-endpoint-node``."""
        what = self.service.slug if self.service else self.entry.kind.value
        extra = f".port-{self.port.label}" if self.port is not Port.MAIN else ""
        extra += f".claims-{self.claim.value}" if self.claim is not Claim.NOTHING else ""
        extra += ".one-socket" if self.one_socket else ""
        way = f"{self.client.name}-to-{self.entry.slug}"
        return f"{what}.{self.protocol.value.lower()}.{self.family.value.lower()}.{way}{extra}"

    @property
    def on_host_network(self) -> bool:
        """Whether one of its ends stands on a node's own network, or is an address that only an agent can tell."""
        ends = self.entry.kind in (EntryKind.NODE_LISTENER, EntryKind.SECOND_ADDRESS)
        served = self.service is not None and self.service.backends is Backends.HOST_NETWORK
        return self.client.vantage is Vantage.NODE or ends or served

    @property
    def balanced(self) -> frozenset[str]:
        """What the cluster's own load balancer must carry on this way, in small words (checks.py); else none."""
        of = self.service
        if of is None or of.type is not ServiceType.LOAD_BALANCER or of.balancer is not Balancer.DEFAULT:
            return frozenset()
        policy = of.policy.value if of.policy else "unset"
        words = (ANYTHING, self.protocol.value, self.family.value, policy, self.client.vantage.value)
        return frozenset(word.lower() for word in words if self.entry.kind is EntryKind.VIP)

    @property
    def object_name(self) -> str:
        """The Service object in the cluster; a load balancer is asked for one protocol only, as many carry no mix."""
        assert self.service is not None
        apart = f"-{self.protocol.value.lower()}" if self.service.type is ServiceType.LOAD_BALANCER else ""
        return self.service.slug.replace(".", "-") + apart


POD_BACKEND, PAIR_BACKEND, HOST_BACKEND, UNREADY_BACKEND = "backend", "backend-2", "backend-host", "backend-not-ready"
CONTROL_BACKEND = "backend-control-plane"
BACKENDS = {
    Backends.POD: frozenset({POD_BACKEND}),
    Backends.PAIR: frozenset({POD_BACKEND, PAIR_BACKEND}),
    Backends.HOST_NETWORK: frozenset({HOST_BACKEND}),
    Backends.NOT_READY: frozenset({UNREADY_BACKEND}),
    Backends.CONTROL_PLANE: frozenset({CONTROL_BACKEND}),
}


def backends_of(service: Service | None) -> frozenset[str]:
    """The pods that may answer for a service; without a service it is the one whose own address is dialled."""
    return BACKENDS[service.backends if service else Backends.POD]


OUTSIDE = Client("outside-1", Vantage.OUTSIDE)
"""The first client outside the cluster."""
