"""Types of paths: clients, entries, Services, and the addresses that backends see. No I/O.

Names follow docs/glossary.md and the Kubernetes API. path.py has the checks of paths.
"""

from dataclasses import dataclass
from enum import Enum, StrEnum
from functools import cached_property

ANYTHING = "anything"
"""The word in ``Subject.balanced`` of every check that uses the cluster's own load balancer."""


class AddressClass(StrEnum):
    """The class of the source address that a backend sees, or the way in which a client gets no answer.

    ``hairpin`` is an address of the backend's own node, if the backend reached itself through a Service.
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
"""Classes of node addresses. Only the agents know all of them, because Node objects do not list all."""


class Outcome(StrEnum):
    """The outcome of a probe, as the prober reports it (images/echoserver/README.md)."""

    ANSWERED = "answered"
    REFUSED = "refused"
    TIMEOUT = "timeout"
    UNREACHABLE = "unreachable"
    RESET = "reset"
    INVALID = "invalid"
    MISDIRECTED = "misdirected"
    ERROR = "error"
    UNRESOLVED = "unresolved"


class Family(StrEnum):
    """``spec.ipFamilies`` of the Service API."""

    IPV4 = "IPv4"
    IPV6 = "IPv6"

    @property
    def other(self) -> "Family":
        """Return the other one."""
        return Family.IPV6 if self is Family.IPV4 else Family.IPV4


class Protocol(StrEnum):
    """``spec.ports[].protocol`` of the Service API."""

    TCP = "TCP"
    UDP = "UDP"
    SCTP = "SCTP"


class Vantage(StrEnum):
    """Where a client runs."""

    OUTSIDE = "outside"
    POD = "pod"
    NODE = "node"


class Role(StrEnum):
    """The role of a node in the testbed.

    ``endpoint-node`` has a ready local backend. ``bare-node`` has no local endpoints, and clients dial it.
    ``other-node`` has none either, and in-cluster clients run on it, so that a client dials its own node only where a
    check intends that. ``control-plane`` is a control plane node without another role; not every cluster shows one.
    """

    ENDPOINT_NODE = "endpoint-node"
    BARE_NODE = "bare-node"
    OTHER_NODE = "other-node"
    CONTROL_PLANE = "control-plane"


@dataclass(frozen=True, order=True)
class Client:
    """A client. ``role`` is the role of its node, None for a client outside the cluster."""

    name: str
    vantage: Vantage
    role: Role | None = None


class EntryKind(StrEnum):
    """The kind of the dialled address."""

    POD_IP = "pod-ip"
    CLUSTER_IP = "clusterip"
    NODE_PORT = "node-port"
    SECOND_ADDRESS = "second-address"
    VIP = "vip"
    EXTERNAL_IP = "external-ip"
    NODE_LISTENER = "node-listener"


@dataclass(frozen=True)
class Entry:
    """The dialled address. ``role`` is the node of a nodePort, an externalIP or a listener."""

    kind: EntryKind
    role: Role | None = None

    @property
    def slug(self) -> str:
        """Return the entry as a part of check ids."""
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
    """The pods behind a Service. All run on the endpoint node, except the one on a control plane node."""

    POD = "pod"
    HOST_NETWORK = "host-network"
    NOT_READY = "not-ready"
    PAIR = "pair"
    CONTROL_PLANE = "control-plane"


class Balancer(StrEnum):
    """The load balancer that a Service requests in ``spec.loadBalancerClass``.

    ``default`` is the cluster's own. All others are the reference load balancer in one of its modes. A forwarder keeps
    the client's address. A proxy shows its own address, and may send the client's in an X-Forwarded-For or PROXY
    protocol header.
    """

    DEFAULT = "default"
    FORWARD = "reference-forward"
    ECMP = "reference-ecmp"
    PROXY = "reference-proxy"
    PROXY_FORWARDED_FOR = "reference-proxy-xff"
    PROXY_V1 = "reference-proxy-v1"
    PROXY_V2 = "reference-proxy-v2"

    @property
    def its_class(self) -> str:
        """Return ``spec.loadBalancerClass``; empty for the cluster's own."""
        return "" if self is Balancer.DEFAULT else f"esipp.dev/{self.value}"


class OldForm(StrEnum):
    """The value of the alpha and beta annotations for the policy before 1.7, which have no effect today."""

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
        """Return the port's name in check ids and in the Service."""
        return str(self.value[0])


class Claim(StrEnum):
    """A header with a client's address: a proxy reports it there, or a client forges it."""

    NOTHING = "nothing"
    FORWARDED_FOR = "x-forwarded-for"
    PROXY_V1 = "proxy-v1"
    PROXY_V2 = "proxy-v2"


@dataclass(frozen=True)
class Service:
    """A Service of the testbed. Equal shapes are one object, which all checks that need it share.

    Args:
        type: ``spec.type``.
        policy: ``spec.externalTrafficPolicy``, None if unset.
        internal: ``spec.internalTrafficPolicy``, None if unset.
        backends: the pods that its selector matches.
        families: ``spec.ipFamilies`` of a single-stack service; None for all families of the cluster.
        first: the first one in ``spec.ipFamilies`` of a dual-stack service; None for the cluster's order.
        balancer: the load balancer, for type LoadBalancer.
        several_ports: whether it has all ports of ``Port`` or only the main one.
        publish_not_ready: ``spec.publishNotReadyAddresses``.
        affinity: ``spec.sessionAffinity: ClientIP``.
        external_ips: whether ``spec.externalIPs`` are the InternalIPs of the endpoint node and of the bare node.
        ranges: the clients in ``spec.loadBalancerSourceRanges``, by their addresses.
        old_form: the value of the pre-1.7 annotations for the policy.
        reports: the header in which the cluster's own load balancer is asked to report clients.
        prefers_close: ``spec.trafficDistribution: PreferClose``.
    """

    type: ServiceType
    policy: TrafficPolicy | None = None
    internal: TrafficPolicy | None = None
    backends: Backends = Backends.POD
    families: Family | None = None
    first: Family | None = None
    balancer: Balancer = Balancer.DEFAULT
    several_ports: bool = False
    publish_not_ready: bool = False
    affinity: bool = False
    external_ips: bool = False
    ranges: tuple[str, ...] = ()
    old_form: OldForm | None = None
    reports: Claim = Claim.NOTHING
    prefers_close: bool = False

    @property
    def is_external(self) -> bool:
        """Return whether it accepts traffic from outside the cluster, and so has an external policy."""
        return self.type is not ServiceType.CLUSTER_IP or self.external_ips

    @property
    def slug(self) -> str:
        """Return the Service as a part of check ids: ``nodeport.local``, ``clusterip.itp-local``."""
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
        if self.first:
            parts.append(f"first-{self.first.value.lower()}")
        if self.old_form:
            parts.append(f"annotated-{self.old_form.value.lower()}")
        if self.reports is not Claim.NOTHING:
            parts.append(f"reports-{self.reports.value}")
        traits = {
            "several-ports": self.several_ports,
            "publish-not-ready": self.publish_not_ready,
            "affinity": self.affinity,
            "source-ranges": bool(self.ranges),
            "prefer-close": self.prefers_close,
        }
        return ".".join([*parts, *(name for name, given in traits.items() if given)])


@dataclass(frozen=True)
class Path:
    """A client, a Service and an entry: the unit of observation, which several checks may share.

    ``service`` is None without a Service: for a pod's own address, or the control listener on a node. ``claim`` is the
    header with a forged address. ``one_socket`` sends all datagrams from one source port.
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
        """Return the stable text form, the stem of ids: ``nodeport.local.tcp.ipv4.outside-1-to-endpoint-node``."""
        what = self.service.slug if self.service else self.entry.kind.value
        extra = f".port-{self.port.label}" if self.port is not Port.MAIN else ""
        extra += f".claims-{self.claim.value}" if self.claim is not Claim.NOTHING else ""
        extra += ".one-socket" if self.one_socket else ""
        way = f"{self.client.name}-to-{self.entry.slug}"
        return f"{what}.{self.protocol.value.lower()}.{self.family.value.lower()}.{way}{extra}"

    @property
    def on_host_network(self) -> bool:
        """Return whether one end is on the host network, or is an address that only an agent knows."""
        ends = self.entry.kind in (EntryKind.NODE_LISTENER, EntryKind.SECOND_ADDRESS)
        served = self.service is not None and self.service.backends is Backends.HOST_NETWORK
        return self.client.vantage is Vantage.NODE or ends or served

    @property
    def balanced(self) -> frozenset[str]:
        """Return what the cluster's own load balancer must carry, in lower case (see ``Subject.balanced``)."""
        of = self.service
        if of is None or of.type is not ServiceType.LOAD_BALANCER or of.balancer is not Balancer.DEFAULT:
            return frozenset()
        policy = of.policy.value if of.policy else "unset"
        families = tuple(Family) if of.first else (self.family,)  # one that carries one family may refuse both
        words = (ANYTHING, self.protocol.value, *families, policy, self.client.vantage.value)
        return frozenset(word.lower() for word in words if self.entry.kind is EntryKind.VIP)

    @property
    def object_name(self) -> str:
        """Return the name of the Service. Load balancers get one protocol each, because many do not support several."""
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
    """Return the pods that may answer for a Service; without a Service, the pod with the dialled address."""
    return BACKENDS[service.backends if service else Backends.POD]


OUTSIDE = Client("outside-1", Vantage.OUTSIDE)
"""The first client outside the cluster."""
