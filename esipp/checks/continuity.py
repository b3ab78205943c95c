"""``Continuity``: the event, the way of the requests, the stream, and the claim. No I/O."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from esipp.checks import event
from esipp.checks.check import Check, Profile, Subject
from esipp.checks.disruption import Disruption
from esipp.checks.model import ANYTHING, Balancer, Family, Protocol, Role, TrafficPolicy
from esipp.checks.profile import Limit
from esipp.checks.stream import Reuse, StreamKind

NODEPORT = "nodeport"


class Phase(StrEnum):
    """The names of events during steady traffic, in ids and in ledgers."""

    QUIET = "quiet"
    ROLLING_UPDATE = "rolling-update"
    DELETED = "deleted"
    FLAPS = "readiness-flaps"
    POLICY_CHANGES = "policy-flips"
    CORDON = "cordon"
    DRAIN = "drain"
    EXCLUDE = "exclude"
    IDLE_EXCLUDE = "idle-exclude"
    KUBE_PROXY = "kube-proxy"
    PROXY_UPGRADED = "proxy-upgraded"
    PROXY_MODE = "proxy-mode"
    NETWORK_AGENT_UPGRADED = "network-agent-upgraded"
    SPEAKER = "speaker"
    SPEAKER_MOVES = "speaker-moves"
    NETWORK_AGENT = "network-agent"
    API_SERVER = "api-server"
    API_SERVERS_IN_TURN = "api-servers-in-turn"
    KUBELET = "kubelet"
    IDLE_KUBELET = "idle-kubelet"
    JOINED = "joined"
    CUT_OFF = "cut-off"
    IDLE_LEFT = "idle-left"
    CONNTRACK_FULL = "conntrack-full"
    CONNTRACK_DELETED = "conntrack-deleted"


@dataclass(frozen=True, kw_only=True)
class Event(event.Event):
    """Something that happens during steady traffic, as data; scenarios/continuity/actions.py makes it happen.

    Args:
        disruption: how it affects other users of the cluster; None if it does not.
        graceful: pods are deleted, and serve for longer than a load balancer needs to leave the node.
        last_pod_goes: the endpoint node has no pod for a while: its nodePort of a Local Service must not answer then,
            and the cluster's own load balancer may change its nodes.
        by_health_checks: a node answers 503, or drops, while a load balancer still sends requests to it. The load
            balancer may lose requests for as long as its health checks need.
        changes_policy: the policy of the Local Services becomes Cluster, and Local again.
        closes_checks: the health checks of all nodes close, one after the other: for a while, a load balancer may know
            no node of a Local Service that is healthy.
        disturbs_balancer: it disturbs the cluster's own load balancer itself, or may make it change its nodes.
        one_owner: one node at a time must have each VIP afterwards, as after what disturbs the load balancer.
        frees_vip: what any node may announce a VIP after, or may not, as text; empty if it does not concern VIPs.
        frees_for: seconds after that in which the VIP may move, if no bound of the load balancer is known and the
            client's neighbour table shows the move; else ``MOVES_WITHIN``.
        lasts: seconds for which it stays in effect, where nothing tells when it has shown its effect.
        node: the role of the node that it happens to; the node that announces the VIP for ``speaker``, every
            control plane node for ``api-server`` and ``api-servers-in-turn``, and all nodes for what replaces the
            agents of all nodes.
        moves: the endpoint node's pod is deleted and replaced meanwhile.
        refuses: that node takes no new connections for a while, without a word.
        cuts: what is open through that node breaks.
        forgets: that node forgets what is open through it; whether that lives on is informational.
        joins: another node joins, and is taken away in the end; whatever comes to it is dialled there, too.
        rewrites: all nodes, one after the other, remove their rules for Services and write others. Whoever opens a
            connection meanwhile may lose it, but no way may be lost for longer than a service proxy may need to follow.
        restarts_data_plane: the same by agents that are also the data plane, and that take as long as they need to
            start. Their health checks are closed until then, which nothing limits.
    """

    name: Phase
    disruption: Disruption | None = None
    graceful: bool = False
    last_pod_goes: bool = False
    by_health_checks: bool = False
    changes_policy: bool = False
    closes_checks: bool = False
    disturbs_balancer: bool = False
    one_owner: bool = False
    frees_vip: str = ""
    frees_for: float = 0.0
    lasts: float = 0.0
    node: Role = Role.ENDPOINT_NODE
    moves: bool = False
    refuses: bool = False
    cuts: bool = False
    forgets: bool = False
    joins: bool = False
    rewrites: bool = False
    restarts_data_plane: bool = False

    @property
    def phase(self) -> Phase:
        """Return its name."""
        return self.name

    @property
    def is_quiet(self) -> bool:
        """Return whether nothing happens."""
        return self.name is Phase.QUIET

    @property
    def disruptions(self) -> tuple[Disruption, ...]:
        """Return how it affects other users of the cluster; empty if it does not."""
        return (self.disruption,) if self.disruption else ()

    @property
    def leaves_endpoints(self) -> bool:
        """Return whether all endpoints and what nodes know of open flows stay as they are."""
        changes = self.graceful, self.last_pod_goes, self.by_health_checks, self.moves
        return not any((*changes, self.refuses, self.cuts, self.forgets))

    @property
    def loses(self) -> str:
        """Return what happens to a node through which connections break, as text."""
        return "taken away" if self.joins else "cut off"

    @property
    def may_lose_new(self) -> bool:
        """Return whether a connection that is opened meanwhile may be lost at a node."""
        return self.rewrites or self.restarts_data_plane

    @property
    def takes_endpoints(self) -> bool:
        """Return whether a node takes no new connections to its own endpoints, which stay endpoints all the while."""
        return self.refuses and self.node is Role.ENDPOINT_NODE


class What(StrEnum):
    """A claim about one way in one phase.

    Each way has one check of losses in each phase. ``no-loss`` allows none, ``gap`` limits the longest one. Beside
    ``no-loss``, ``no-delay`` limits the time in which answers are late, as they are if their first SYN was dropped.
    ``losses`` is for the cluster's own load balancer, and applies its bound if a profile or the user gives one.
    ``fail-over`` limits the time until another node has the VIP of a node that is gone, if a profile does.
    ``one-node`` is about who answers on the client's link that it has the VIP. ``joined-node`` is about a nodePort, and
    what health checks say, of a node that joins. All other claims but ``stream`` are about new TCP connections and
    those that last; ``stream`` is about any other stream, as a whole.
    """

    NO_LOSS = "no-loss"
    NO_DELAY = "no-delay"
    GAP = "gap"
    LOSSES = "losses"
    FAIL_OVER = "fail-over"
    SOURCE = "source"
    PROMPT = "source-prompt"
    PLACE = "place"
    LASTING = "lasting"
    TERMINATING = "terminating-serves"
    ONE_NODE = "one-node"
    JOINED_NODE = "joined-node"
    STREAM = "stream"


ONE_NODE_WITHIN = 60.0
"""Seconds after an event within which one node at a time must have a VIP again. MetalLB's speakers that lost each other
all claim it until they have found each other, which they try once a minute."""

MOVED = "moved"
"""Evidence: connections broke after the load balancer had moved its VIP to another node."""

CLAIMED_TWICE = "claimed-twice"
"""Evidence: requests were lost while several nodes answered for the VIP, right after a node came or went."""

STARTING = "starting"
"""Evidence: requests were lost while the load balancer used a node that said 200 before it served nodePorts."""

NOT_YET = "not yet"
"""Evidence: requests were lost after the load balancer had begun to use a healthy node, and before that node served."""

UNTRANSLATED = "untranslated"
"""Evidence: nodes reset connections while they translated no packet of this family."""

UNTRANSLATED_PORT = "untranslated port"
"""Evidence: a client that keeps its port is silent from such a moment on, while others are answered."""

STALE = "stale"
"""Evidence: a client that keeps its port is silent after its pod has gone, while others are answered."""

SERVED_UNREADY = "unready"
"""Evidence: a pod goes on to answer although it has been unready for long."""

ONE_PORT = "one port"
"""Evidence: a connection from a port that connections on other ways have too hangs or is reset; others are answered."""

ALL_OF_A_SIZE = "all of a size"
"""Evidence: no datagram of a size is answered, while new TCP connections on the same way are."""

UNREWRITTEN = "the client"
"""Evidence: the pod sees the client's own address under Cluster."""

PROXIES = frozenset({Balancer.PROXY.value})
"""Load balancers that show pods their own address."""

CHECKED = frozenset({Balancer.ECMP.value, Balancer.PROXY.value})
"""Load balancers with a known health check period and failure threshold."""


@dataclass(frozen=True, order=True)
class Way:
    """How requests reach the pods: through the VIP of a load balancer, or through a nodePort.

    The nodePort is on the endpoint node under Local, and on a node without local endpoints under Cluster.
    ``by`` is a value of ``Balancer``, or ``nodeport``.
    """

    by: str
    policy: TrafficPolicy

    @property
    def slug(self) -> str:
        """Return the way as a part of check ids and object names."""
        return f"{self.by}.{self.policy.value.lower()}"

    @property
    def local(self) -> bool:
        """Return whether the Service has the policy Local."""
        return self.policy is TrafficPolicy.LOCAL

    @property
    def balancer(self) -> Balancer | None:
        """Return the load balancer of the VIP; None for a nodePort."""
        return None if self.by == NODEPORT else Balancer(self.by)


def keeps_its_pod(event: Event, way: Way, stream: StreamKind) -> bool:
    """Return whether all datagrams of a stream must reach one pod while an event happens.

    They come from one socket to a nodePort under Cluster, and nothing happens to an endpoint. A load balancer before
    the nodes may choose another one for reasons of its own.
    """
    is_flow = stream.protocol is Protocol.UDP and stream.reuse is Reuse.ONE_SOCKET and not stream.size
    return is_flow and way.by == NODEPORT and not way.local and event.leaves_endpoints


@dataclass(frozen=True)
class Continuity(Subject):
    """A claim about one way during one event; ``stream`` is the stream that ``What.STREAM`` is about."""

    event: Event
    way: Way
    family: Family
    what: What
    stream: StreamKind | None = None

    @property
    def phase(self) -> Phase:
        """Return the name of the event."""
        return self.event.phase

    @property
    def part(self) -> str:
        """Return the event."""
        return self.phase.value

    @property
    def traits(self) -> Mapping[str, str]:
        """Return the event and the claim."""
        return {"phase": self.phase.value, "what": self.claim}

    @property
    def claim(self) -> str:
        """Return the last part of the check's id: the claim, or the name of the stream."""
        return self.stream.name if self.stream else self.what.value

    @property
    def protocol(self) -> Protocol:
        """Return the protocol of the Service's port."""
        return self.stream.protocol if self.stream else Protocol.TCP

    @property
    def keeps_its_pod(self) -> bool:
        """Return whether all datagrams of the stream must reach one pod in this phase."""
        return self.stream is not None and keeps_its_pod(self.event, self.way, self.stream)

    @property
    def balanced(self) -> frozenset[str]:
        """Return the policy of the way and the family of the VIP."""
        own = self.way.balancer is Balancer.DEFAULT
        return frozenset({ANYTHING, self.way.policy.value.lower(), self.family.value.lower()}) if own else frozenset()

    @property
    def own_service(self) -> str:
        """Return the Service of the way, if the check dials its VIP."""
        return f"continuity-{self.way.by}-{self.way.policy.value.lower()}" if self.balanced else ""

    @property
    def source_at_vips(self) -> frozenset[str]:
        """Return the family of the VIP, for checks of the source."""
        own = self.balanced and self.what in (What.SOURCE, What.PROMPT)
        return frozenset({self.family.value.lower()}) if own else frozenset()

    @property
    def profile(self) -> Profile:
        """Return the type of the way's Service."""
        return Profile.NODE_PORT if self.way.balancer is None else Profile.LOAD_BALANCER

    def limited_by(self, limit: Limit) -> bool:
        """Return whether the limit is one of its way's policy and family; limits of protocols and clients are not."""
        policy = not limit.policies or self.way.policy.value in limit.policies
        own = self.way.balancer is Balancer.DEFAULT and limit.fits(self.family)
        return own and policy and not limit.what and not limit.protocols and not limit.clients


ContinuityCheck = Check[Continuity]
"""A check that requests succeed while something changes."""
