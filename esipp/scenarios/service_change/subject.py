"""``ServiceChange``: an event as data, the stream that sees it, and the claim. No I/O."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import groupby

from esipp.base.client_places import BEHIND_ROUTER
from esipp.checks import event
from esipp.checks.check import LONG, WITHOUT_NODE_PORTS, Check, Level, Profile, Subject
from esipp.checks.disruption import Disruption
from esipp.checks.known_differences import KnownDifference
from esipp.checks.model import (
    ANYTHING,
    OUTSIDE,
    Balancer,
    Client,
    Family,
    Protocol,
    Role,
    ServiceType,
    TrafficPolicy,
    Vantage,
)
from esipp.checks.stream import StreamKind
from esipp.checks.timing import FIELD_LIMIT
from esipp.checks.versions import Need

INSIDE = Client("pod-on-bare-node", Vantage.POD, Role.BARE_NODE)
"""The client that dials ClusterIPs."""

ON_NODE = Client("host-on-bare-node", Vantage.NODE, Role.BARE_NODE)
"""The host process that dials VIPs and ClusterIPs."""

ROUTED = Client(BEHIND_ROUTER, Vantage.OUTSIDE)
"""The client in another subnet, to which the way has a smaller MTU than the nodes' network."""

BESIDE = Client("pod-on-endpoint-node", Vantage.POD, Role.ENDPOINT_NODE)
"""The client that dials ClusterIPs with internalTrafficPolicy Local."""

SECOND_INSIDE = Client("second-pod-on-bare-node", Vantage.POD, Role.BARE_NODE)
"""The client next to ``INSIDE`` that has the same source ports at the same time."""


class At(StrEnum):
    """What is dialled: the nodePort of one node, the ClusterIP, or the VIP. Only ClusterIPs are dialled by pods.

    ``shared-node-port`` is the number of the TCP port's nodePort, over UDP too. ``vip-from-bare-node`` and
    ``clusterip-from-bare-node`` are the VIP and the ClusterIP, dialled by a host process.
    ``bare-node-over-small-mtu`` is the bare node's nodePort, dialled by a client whose answers pass a route with a
    smaller MTU than the nodes'. ``out-of-its-node-port`` is no Service: a pod dials the control listener of another
    node, from the source port that is the Service's nodePort.
    ``clusterip-at-later-port`` and ``vip-at-later-port`` are these addresses at the port that a Service gets later.
    ``external-ip`` is the externalIP of a LoadBalancer Service: an address of the bare node.
    ``new-address-of-endpoint-node`` and ``new-address-of-other-node`` are nodePorts of these nodes, at an address that
    a disruption gives them.
    ``pod-ip`` is no Service either: a pod dials the serving one, as a control of NetworkPolicies.
    ``endpoint-node-from-pod`` and ``endpoint-node-from-second-pod`` are the endpoint node's nodePort, dialled by two
    pods of another node; ``clusterip-from-second-pod`` is the ClusterIP, dialled by the second one.
    ``another-service`` and ``clusterip-of-another-service`` are the endpoint node's nodePort and the ClusterIP of the
    Service that gets the address of a former endpoint.
    """

    ENDPOINT_NODE = "endpoint-node"
    BARE_NODE = "bare-node"
    OTHER_NODE = "other-node"
    CONTROL_PLANE = "control-plane"
    CLUSTER_IP = "clusterip"
    OWN_CLUSTER_IP = "clusterip-on-endpoint-node"
    CLUSTER_IP_FROM_NODE = "clusterip-from-bare-node"
    CLUSTER_IP_LATER = "clusterip-at-later-port"
    SHARED_PORT = "shared-node-port"
    VIP = "vip"
    VIP_FROM_NODE = "vip-from-bare-node"
    VIP_LATER = "vip-at-later-port"
    EXTERNAL_IP = "external-ip"
    SMALL_MTU = "bare-node-over-small-mtu"
    OUT = "out-of-its-node-port"
    NEW_ADDRESS = "new-address-of-endpoint-node"
    NEW_ADDRESS_ELSEWHERE = "new-address-of-other-node"
    FROM_POD = "endpoint-node-from-pod"
    FROM_SECOND_POD = "endpoint-node-from-second-pod"
    CLUSTER_IP_FROM_SECOND_POD = "clusterip-from-second-pod"
    ANOTHER_SERVICE = "another-service"
    ANOTHER_CLUSTER_IP = "clusterip-of-another-service"
    POD_IP = "pod-ip"

    @property
    def is_vip(self) -> bool:
        """Return whether a VIP is dialled."""
        return self in (At.VIP, At.VIP_FROM_NODE, At.VIP_LATER)

    @property
    def is_cluster_ip(self) -> bool:
        """Return whether a ClusterIP is dialled."""
        return self in (
            At.CLUSTER_IP,
            At.OWN_CLUSTER_IP,
            At.CLUSTER_IP_FROM_NODE,
            At.CLUSTER_IP_FROM_SECOND_POD,
            At.CLUSTER_IP_LATER,
            At.ANOTHER_CLUSTER_IP,
        )

    @property
    def is_later(self) -> bool:
        """Return whether the port is dialled that a Service gets later."""
        return self in (At.CLUSTER_IP_LATER, At.VIP_LATER)

    @property
    def is_new(self) -> bool:
        """Return whether an address is dialled that a disruption gives a node."""
        return self in (At.NEW_ADDRESS, At.NEW_ADDRESS_ELSEWHERE)

    @property
    def is_another(self) -> bool:
        """Return whether the event's other Service is dialled."""
        return self in (At.ANOTHER_SERVICE, At.ANOTHER_CLUSTER_IP)

    @property
    def ports_of(self) -> "At":
        """Return the entry whose source ports streams to this one have, too: itself for most."""
        others = {
            At.FROM_SECOND_POD: At.FROM_POD,
            At.CLUSTER_IP_FROM_SECOND_POD: At.CLUSTER_IP,
            At.ANOTHER_SERVICE: At.ENDPOINT_NODE,
            At.ANOTHER_CLUSTER_IP: At.CLUSTER_IP,
        }
        return others.get(self, self)

    @property
    def role(self) -> Role | None:
        """Return the node whose nodePort or address is dialled; None for any other address."""
        if self in (At.SHARED_PORT, At.NEW_ADDRESS, At.FROM_POD, At.FROM_SECOND_POD, At.ANOTHER_SERVICE):
            return Role.ENDPOINT_NODE
        if self in (At.SMALL_MTU, At.EXTERNAL_IP):
            return Role.BARE_NODE
        if self is At.NEW_ADDRESS_ELSEWHERE:
            return Role.OTHER_NODE
        return None if self.is_vip or self.is_cluster_ip or self in (At.OUT, At.POD_IP) else Role(self.value)

    @property
    def client(self) -> Client:
        """Return the client that dials there."""
        others = {
            At.CLUSTER_IP: INSIDE,
            At.CLUSTER_IP_LATER: INSIDE,
            At.OUT: INSIDE,
            At.POD_IP: INSIDE,
            At.FROM_POD: INSIDE,
            At.FROM_SECOND_POD: SECOND_INSIDE,
            At.CLUSTER_IP_FROM_SECOND_POD: SECOND_INSIDE,
            At.ANOTHER_CLUSTER_IP: INSIDE,
            At.OWN_CLUSTER_IP: BESIDE,
            At.CLUSTER_IP_FROM_NODE: ON_NODE,
            At.VIP_FROM_NODE: ON_NODE,
            At.SMALL_MTU: ROUTED,
        }
        return others.get(self, OUTSIDE)


class Pods(StrEnum):
    """Which pods a Service selects, by a label of its own each. All run on the endpoint node, but the one elsewhere,
    on the bare node, and the one on the other node.
    """

    NONE = "none"
    FIRST = "first"
    SECOND = "second"
    ALL = "all"
    FIFTY = "fifty"
    ELSEWHERE = "elsewhere"
    ON_OTHER_NODE = "on-other-node"
    KILLED = "killed"
    LEAVING = "leaving"
    LEAVING_LOCAL = "leaving-local"
    TWO_SERVERS = "two-servers"
    GUARDED = "guarded"
    GUARDED_VIP = "guarded-vip"

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the pods."""
        numbers = {
            Pods.NONE: (),
            Pods.FIRST: (1,),
            Pods.SECOND: (2,),
            Pods.ALL: range(1, 6),
            Pods.FIFTY: range(1, 51),
        }
        return tuple(f"changes-{each}" for each in numbers.get(self, (self.value,)))


class Do(StrEnum):
    """How a stage of an event begins; scenarios/service_change/run.py does it."""

    CREATE = "is created"
    SELECT = "selects other pods"
    KILL = "loses its pod, which is killed without grace"
    START = "gets a pod in place of the killed one"
    TERMINATE = "has only a pod that is terminating and still serves"
    STAY = "stays as it is"
    DELETE = "is deleted"
    STAY_GONE = "stays deleted"
    HOLD = "is deleted, but kept by a finalizer"
    RELEASE = "is gone, as its finalizer is removed"
    CREATE_AGAIN = "is created again, with its nodePorts and ClusterIPs"
    TAKE_OVER = "is deleted, and another Service gets its nodePorts and ClusterIPs"
    TO_CLUSTER_IP = "becomes a ClusterIP Service"
    TO_NODE_PORT = "becomes a NodePort Service with the same nodePorts"
    TO_LOAD_BALANCER = "becomes a LoadBalancer with the same nodePorts"
    REUSE = "stays as it is, while another Service gets the address of its former endpoint"
    UNNAME = "has an endpoint without nodeName"
    NAME = "has an endpoint with nodeName again"
    NAMESAKE = "stays as it is, while another Service selects its pods, too"
    NAMESAKE_LEAVES = "stays as it is, while the other Service, whose name is the beginning of its name, loses the pods"
    ONE_FAMILY = "keeps its first address family alone"
    BOTH_FAMILIES = "gets its second address family again, with its ClusterIPs"
    SHARE_PORT = "gets the nodePort of its TCP port for UDP as well"
    OTHER_PORT = "has its ports at another number"
    WITHOUT_UDP = "loses its UDP port"
    NO_EXTERNAL_IP = "loses its externalIP"
    EXTERNAL_IP_AGAIN = "gets its externalIP again"
    OTHER_TARGET = "has another port of its pods as target"
    FIRST_TARGET = "has the first port of its pods as target again"
    INTERNAL_LOCAL = "gets internalTrafficPolicy Local"
    INTERNAL_CLUSTER = "gets internalTrafficPolicy Cluster"
    AFFINITY_ON = "gets the affinity ClientIP"
    AFFINITY_BRIEF = "gets the affinity ClientIP with a timeout of 2 s"
    AFFINITY_MINUTE = "gets the affinity ClientIP with a timeout of a minute"
    AFFINITY_OFF = "loses its affinity, and selects all pods"
    ADMIT_OTHERS = "admits only the addresses of other clients"
    ADMIT_CLIENT = "admits a hundred ranges, and last the addresses of the nodes and of the client"
    ADMIT_ALL = "has its first source ranges again (usually none)"
    PREFER_CLOSE = "prefers close endpoints"
    PREFER_NONE = "no longer prefers close endpoints"
    POLICY_FOR_OTHERS = "has a pod with a NetworkPolicy that admits only the addresses of other clients"
    POLICY_FOR_CLIENT = "has a NetworkPolicy that also admits a hundred ranges, the last of them the client outside"
    POLICY_FOR_PODS = "has a NetworkPolicy that also admits client pods, by their labels"


class Health(StrEnum):
    """The health checks of a node that a stream may ask; the values are names of streams."""

    PROXY = "proxy-healthz"
    SERVICE = "service-health"


DURING = {
    Disruption.CORDON: "its node is cordoned",
    Disruption.TAINT: "its node has the taint of the cluster autoscaler",
    Disruption.PROXY_STOPPED: "kube-proxy of a node is stopped",
    Disruption.PROXY_SICK: "kube-proxy of a node cannot write its rules",
    Disruption.PROXY_SLOW: "kube-proxy of all nodes waits between two syncs",
    Disruption.NETWORK_STOPPED: "the network add-on's agent of a node is stopped",
    Disruption.SPEAKER_STOPPED: "the load balancer's speaker of a node is stopped",
    Disruption.CONTROLLER_STOPPED: "the controller of its load balancer is stopped",
    Disruption.BALANCER_CUT_OFF: "its load balancer is cut off from the API server",
    Disruption.NODE_DELETED: "a Node object is deleted",
    Disruption.NODE_LEFT: "a node is off its network and has no Node object",
    Disruption.NODE_RESTARTED: "a node is switched off",
    Disruption.NODE_READDRESSED: "a node has other addresses",
    Disruption.API_SLOW: "the API server takes seconds for an answer",
    Disruption.ADDRESS_ADDED: "a node has another address",
}


SILENCING = frozenset({Disruption.NODE_LEFT, Disruption.NODE_RESTARTED, Disruption.NODE_READDRESSED})
"""Disruptions by which a node answers nothing, at the addresses that it had at first."""


@dataclass(frozen=True)
class Change:
    """How a stage begins, and which pods serve in it: nobody else may answer.

    Args:
        do: how it begins.
        pods: those that serve.
        other: those that serve the event's other Service.
        closed: entries and protocols at which no pod serves (``bare-node udp``), in one family or in both.
        sticky: whether each client keeps its pod.
        brief: whether it does so for ``AFFINITY_SECONDS`` only.
        lasts: seconds for which the stage lasts at least.
        disruption: what is in effect until the stage ends, or the last one of those that follow and have the same; the
            change itself comes after it.
        node: the role of the node that it is about; a disruption that is ``PLACED`` has its own.
        stuck: entries that cannot follow, so that nothing is required of them.
        away: entries that may lose requests. Those of them that are stuck may be silent, health checks too.
        sick: the health checks that say 503 in this stage; all others say 200.
        within: seconds in which every stream must follow.
    """

    do: Do
    pods: Pods = Pods.NONE
    closed: frozenset[str] = frozenset()
    sticky: bool = False
    brief: bool = False
    lasts: float = 0.0
    disruption: Disruption | None = None
    node: Role = Role.ENDPOINT_NODE
    stuck: frozenset[At] = frozenset()
    away: frozenset[At] = frozenset()
    sick: frozenset[Health] = frozenset()
    within: float = FIELD_LIMIT
    other: Pods = Pods.NONE

    @property
    def words(self) -> str:
        """Return how it begins, as text."""
        return f"{self.do.value} while {DURING[self.disruption]}" if self.disruption else self.do.value

    @property
    def is_there(self) -> bool:
        """Return whether a Service has the addresses."""
        return self.do not in (Do.DELETE, Do.STAY_GONE, Do.RELEASE)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the names of the pods that serve."""
        named = {Do.START: again, Do.OTHER_TARGET: second_of}.get(self.do)
        return tuple(map(named, self.pods.names)) if named else self.pods.names


AFFINITY_SECONDS = 2
"""The timeout of a brief affinity."""

MINUTE = 60
"""The timeout of one that lasts."""


NAMED = "-service"
"""The end of the names of Services."""


def service_of(event: str) -> str:
    """Return the name of an event's Service. No such name begins another one: see the event ``namesake``."""
    return f"changes-{event}{NAMED}"


def again(pod: str) -> str:
    """Return the name of the pod that is created in place of a killed one."""
    return f"{pod}-again"


def second_of(pod: str) -> str:
    """Return what the second server of a pod calls itself."""
    return f"{pod}-second"


def closing(entries: Iterable[At], *protocols: Protocol, family: Family | None = None) -> frozenset[str]:
    """Return ``Change.closed`` for these entries and protocols, in this family or in both."""
    return frozenset(_place(at, protocol.value.lower(), family) for at in entries for protocol in protocols)


def is_closed(closed: frozenset[str], at: At, protocol: str, family: Family) -> bool:
    """Return whether an entry is in ``Change.closed``."""
    return not closed.isdisjoint((_place(at, protocol), _place(at, protocol, family)))


def _place(at: At, protocol: str, family: Family | None = None) -> str:
    return " ".join((at.value, protocol, *((family.value,) if family else ())))


class Claim(StrEnum):
    """A claim about a stream over all stages of an event."""

    SERVED = "served"
    GONE = "gone"
    REFUSED = "refused"
    SPREAD = "every-pod"
    STICKY = "same-pod"
    OUTLIVED = "another-pod"
    NO_LOSS = "no-loss"
    STATUS = "status"
    LIVES = "lives"
    FORGOTTEN = "forgotten"


USUAL = (At.ENDPOINT_NODE, At.BARE_NODE, At.CLUSTER_IP)
"""What is dialled in most events."""


@dataclass(frozen=True)
class Event(event.Event):
    """Something that happens to a Service and its pods.

    Args:
        changes: its stages, in order; the first is the creation.
        kind: the type of the Service.
        balancer: the load balancer of a LoadBalancer Service.
        external, internal: its traffic policies; None if unset.
        first: the first family of a Service that has both; None for the order of the cluster.
        apart: whether each protocol has a port number of its own. Otherwise the API server gives all of them one
            nodePort.
        unserved: whether the load balancer of its class is nobody: it gets nodePorts, and no VIP.
        node_ports: whether a LoadBalancer Service has nodePorts, too.
        own_slices: whether the Service has no selector, and esipp writes its EndpointSlices.
        external_ip: whether it has an externalIP, too: an address of the bare node.
        long: whether it takes so long that only ``--long`` asks it.
        carries: the protocol of a VIP: many load balancers carry one a Service.
        dialled: the entries that clients dial.
        sees: those of the streams of few events that see this one.
        unseen: streams that do not see it, and entries that are not dialled, each group with the reason.
        level: the level of what the API requires of a stream: extended, if the API names the effect and leaves it to
            what implements it. Who filters, what follows a timeout, and how soon a load balancer follows are examples.
        recorded: claims that are recorded alone, because nothing promises them.
        since: the Kubernetes version that it needs, if suites require another one; ``status_since`` of its health
            checks.
        fails_if: what its checks detect, by their claim, if not what others with this claim do.
        stale: the known defect of kube-proxy by which UDP flows from before a change go on to previous pods.
        stale_in: the claims in which that shows.
        known: known differences of all its checks.
    """

    changes: tuple[Change, ...]
    kind: ServiceType = ServiceType.NODE_PORT
    balancer: Balancer = Balancer.DEFAULT
    external: TrafficPolicy | None = None
    internal: TrafficPolicy | None = None
    first: Family | None = None
    apart: bool = False
    unserved: bool = False
    node_ports: bool = True
    own_slices: bool = False
    external_ip: bool = False
    long: bool = False
    carries: Protocol = Protocol.TCP
    dialled: tuple[At, ...] = USUAL
    sees: tuple[StreamKind, ...] = ()
    unseen: tuple[tuple[tuple[At | StreamKind, ...], str], ...] = ()
    level: Level = Level.CORE
    recorded: tuple[Claim, ...] = ()
    since: Need | None = None
    status_since: Need | None = None
    fails_if: Mapping[Claim, str] = field(default_factory=dict, hash=False)
    stale: KnownDifference | None = None
    stale_in: tuple[Claim, ...] = (Claim.GONE,)
    known: tuple[KnownDifference, ...] = ()

    @property
    def service(self) -> str:
        """Return the name of the Service."""
        return service_of(self.name)

    @property
    def another(self) -> str:
        """Return the name of the other Service, which gets the address of a former endpoint; empty if there is none."""
        return service_of(f"{self.name}-again") if self.reuses < len(self.changes) else ""

    @property
    def reuses(self) -> int:
        """Return the number of the stage with which that Service has an endpoint; that of all stages if none does."""
        numbers = (number for number, change in enumerate(self.changes) if change.other is not Pods.NONE)
        return next(numbers, len(self.changes))

    @property
    def announced(self) -> bool:
        """Return whether a load balancer serves it."""
        return self.kind is ServiceType.LOAD_BALANCER and not self.unserved

    @property
    def guarded(self) -> bool:
        """Return whether a NetworkPolicy selects its pod."""
        return any(change.do is Do.POLICY_FOR_OTHERS for change in self.changes)

    @property
    def has_class(self) -> bool:
        """Return whether the Service gets a loadBalancerClass that no controller serves."""
        return self.unserved or any(change.do is Do.TO_LOAD_BALANCER for change in self.changes)

    @property
    def of_two_pods(self) -> bool:
        """Return whether two pods of one node are its clients, with the same source ports."""
        return At.FROM_SECOND_POD in self.dialled

    @property
    def ends_pods(self) -> bool:
        """Return whether pods end meanwhile, and lose what they count."""
        return any(change.do in (Do.KILL, Do.TERMINATE) for change in self.changes)

    @property
    def needs(self) -> frozenset[str]:
        """Return the features that its checks need; what a disruption or a load balancer needs is added elsewhere."""
        found = {
            LONG: self.long,
            "nodes.three": any(change.node is Role.OTHER_NODE for change in self.changes),
            "network-policies": self.guarded,
            "rights.endpoint-slices": self.own_slices,
            "external-ips": self.external_ip,
            WITHOUT_NODE_PORTS: not self.node_ports,
            "families.dual": self.first is not None,
            "service-proxy.kube-proxy": not {Disruption.PROXY_STOPPED, Disruption.PROXY_SICK}.isdisjoint(
                self.disruptions
            ),
        }
        return frozenset(name for name, needed in found.items() if needed)

    def why_unseen(self, what: At | StreamKind) -> str:
        """Return why an entry is not dialled, or a stream does not see it; empty if the event gives no reason."""
        return next((why for those, why in self.unseen if what in those), "")

    @property
    def keeps_tcp(self) -> bool:
        """Return whether it needs a TCP port, whatever is asked: a Service without ports is not allowed."""
        return any(change.do is Do.WITHOUT_UDP for change in self.changes)

    @property
    def left(self) -> frozenset[Role]:
        """Return the nodes that answer nothing for a while, at the addresses that they had at first."""
        return frozenset(change.node for change in self.changes if change.disruption in SILENCING)

    @property
    def disruptions(self) -> tuple[Disruption, ...]:
        """Return what it disrupts."""
        return tuple(dict.fromkeys(change.disruption for change in self.changes if change.disruption))

    @property
    def disrupts(self) -> tuple[tuple[str, str], ...]:
        """Return each disruption with the role of its node, in order; stages in a row with the same one share it."""
        found = ((change.disruption, change.node) for change in self.changes)
        return tuple((what.value, node.value) for (what, node), _ in groupby(found) if what)


@dataclass(frozen=True)
class ServiceChange(Subject):
    """A claim about one stream during one event.

    ``compared`` is the stream of the same client, to the same address, that shows which of two things fails: new flows
    where a stream reuses a port, small answers where a stream gets large ones.
    """

    event: Event
    at: At
    stream: StreamKind
    family: Family
    claim: Claim
    compared: StreamKind | None = None

    @property
    def part(self) -> str:
        """Return the event."""
        return self.event.name

    @property
    def begins(self) -> int:
        """Return the number of the first stage that the stream sees."""
        return self.event.reuses if self.at.is_another else 0

    @property
    def streams(self) -> tuple[StreamKind, ...]:
        """Return the streams that decide it."""
        return (self.stream, self.compared) if self.compared else (self.stream,)

    @property
    def sent(self) -> tuple[tuple[At, StreamKind], ...]:
        """Return all streams that it needs, with where they go: also the control of a NetworkPolicy."""
        control = ((At.POD_IP, self.stream),) if self.event.guarded else ()
        return (*((self.at, stream) for stream in self.streams), *control)

    @property
    def traits(self) -> Mapping[str, str]:
        """Return the event, the claim and the protocol."""
        return {"event": self.event.name, "claim": self.claim.value, "protocol": self.stream.protocol.value}

    @property
    def profile(self) -> Profile:
        """Return the type of the Service, as it is dialled."""
        if self.at.is_vip:
            return Profile.LOAD_BALANCER
        return Profile.CLUSTER_IP if self.at.is_cluster_ip else Profile.NODE_PORT

    @property
    def balanced(self) -> frozenset[str]:
        """Return what the cluster's own load balancer must carry, if its VIP is dialled."""
        vantage = self.at.client.vantage.value
        words = (ANYTHING, self.stream.protocol.value, self.family.value, "unset", vantage)
        return frozenset(word.lower() for word in words if self.of_own_balancer)

    @property
    def own_service(self) -> str:
        """Return the Service, if its VIP of the cluster's own load balancer is dialled."""
        return self.event.service if self.of_own_balancer else ""

    @property
    def of_own_balancer(self) -> bool:
        """Return whether a VIP of the cluster's own load balancer is dialled."""
        return self.at.is_vip and self.event.balancer is Balancer.DEFAULT


ServiceChangeCheck = Check[ServiceChange]

NAMESAKE_LOST = "no endpoint answers once another Service, whose name is the beginning of this one's, has lost them"
"""Evidence: endpoints answered until the EndpointSlices of the other Service lost them, and nobody answers now.
Those of this Service still have them."""

STALE = "a previous endpoint answers a flow from before the change, and no other"
"""Evidence: only flows from before a change reach the previous pods; new flows of the same client, to the same
address, do not."""

NEVER_LED = "a flow from before the change is never answered, and new flows are"
"""Evidence: no request from a port that was in use before the change had ever been answered until then; new flows of
the same client, to the same address, are answered."""

LARGE_LOST = "no large answer arrives, and small ones of the same Service do"
"""Evidence: the same client gets small answers from the same address, and not one large one."""

OWN_NODE_GONE = "requests are lost only while the client's own node has no Node object"
"""Evidence: each lost request began between the deletion of that object and 5 s after it was back. Clients elsewhere
lost none of theirs meanwhile."""

AFFINE = "the endpoint that the affinity named before the change answers, and no other"
"""Evidence: all requests of a client reach the one pod that it had by its affinity, and that the Service has no longer.
"""
