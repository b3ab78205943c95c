"""Disruptions and the proof that one took place. No I/O."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Disruption(StrEnum):
    """A disruption of the cluster, allowed only with ``--allow-disruptive``."""

    CORDON = "cordon"
    """A node accepts no new pods."""
    DRAIN = "drain"
    """A node is cordoned, and the pods of this suite that a selector matches are evicted from it (policy/v1)."""
    EXCLUDE = "exclude"
    """A node has the label that excludes it from external load balancers."""
    KUBE_PROXY = "kube-proxy"
    """A node's kube-proxy pod is deleted; the DaemonSet creates another one."""
    SPEAKER = "speaker"
    """The load balancer's speaker is restarted in the same way, on one node or on all nodes in turn."""
    API_SERVER = "api-server"
    """Every API server process is stopped (SIGSTOP). Connections of clients hang: the kernel still completes TCP
    handshakes, but no answer comes. Components with leader election lose it after about 10 s and restart. Nodes do not
    renew their Leases meanwhile. Kubelets kill the stopped process after about 80 s, because its liveness probe
    fails."""
    API_SERVERS_IN_TURN = "api-servers-in-turn"
    """Each API server process is ended (SIGTERM), and its kubelet starts it again, before the next one is. The others
    answer meanwhile. Requests and watches of clients that were at the ended one break, and so does every ``kubectl
    exec``."""
    KUBELET = "kubelet"
    """A node's kubelet is stopped. Its pods keep running. After the controller's grace period (40 to 50 s) the node is
    not ready."""
    TAINT = "taint"
    """A node has the taint by which the cluster autoscaler says that it will delete the node."""
    CUT_OFF = "cut-off"
    """A node's network carries nothing, neither in nor out. Its pods and processes run on."""
    CONNTRACK_FULL = "conntrack-full"
    """A node drops every packet of a new flow, as the kernel does while its connection tracking table is full; flows
    that it knows live on. The table itself is not filled: nodes of one machine share its limit."""
    CONNTRACK_DELETED = "conntrack-deleted"
    """The connection tracking entries of this suite's Services are deleted on a node, once."""
    PROXY_STOPPED = "proxy-stopped"
    """A node's kube-proxy is stopped (SIGSTOP): it follows no change. Then it is killed, and its kubelet starts it
    anew: it has to find out what has changed meanwhile."""
    NETWORK_STOPPED = "network-agent-stopped"
    """The network add-on's agent on a node is stopped in the same way. Some serve Services in place of kube-proxy."""
    SPEAKER_STOPPED = "speaker-stopped"
    """The load balancer's speaker on a node is stopped in the same way. Its kubelet kills it itself after about 30 s,
    by a liveness probe."""
    PROXY_SICK = "proxy-sick"
    """A node's kube-proxy cannot start the programs that write its rules. It learns of every change, and follows
    none."""
    NETWORK_AGENT = "network-agent"
    """The network add-on's agent on a node is restarted: its pod is deleted; the DaemonSet creates another one."""
    CONTROLLER_STOPPED = "controller-stopped"
    """The controller of the cluster's own load balancer is stopped (SIGSTOP): it follows no Service. Then it is
    killed, and its kubelet starts it anew. The kubelet does that itself after about 30 s, by a liveness probe."""
    BALANCER_CUT_OFF = "balancer-cut-off"
    """The reference load balancer, a container beside the nodes, reaches no API server: their nodes drop what the two
    send each other. It follows no Service and no node, and serves on with what it knows."""
    NODE_DELETED = "node-deleted"
    """A Node object is deleted while the node works on. Then the node registers again, with what it had before. Its
    pods are endpoints meanwhile; after 40 s the control plane would begin to delete them."""
    NODE_LEFT = "node-left"
    """A node is gone for the cluster and for the network: its kubelet is stopped, its network carries nothing, and its
    Node object is deleted. Then it joins, as another Node object with what it had before, and its kubelet starts. Its
    pods run on all the while; after 40 s the control plane would begin to delete them."""
    NODE_RESTARTED = "node-restarted"
    """All processes of a node end at once, as where a machine loses its power; then it boots. The kernel's state of its
    network is gone. Its kubelet starts its pods again: those with a network of their own get other addresses."""
    NODE_READDRESSED = "node-readdressed"
    """A node loses the addresses that its Node object names, and has others of the same network. Its kubelet is
    restarted with these, and its Node object names them. Its pods run on. Then it is all as before."""
    NODE_JOINED = "node-joined"
    """Another node joins the cluster: a container made as that of a node of kind is, by kubeadm. In the end its Node
    object is deleted, and the container is removed."""
    API_SLOW = "api-slow"
    """Every API server works for half a second and is stopped for two (SIGSTOP, SIGCONT), in turn: answers and watch
    events take seconds."""

    PROXY_MODE = "proxy-mode"
    """kube-proxy of all nodes, one after the other, gets another mode: its ConfigMap is edited, and its pods are
    replaced. In the end it gets back the mode that it had."""
    PROXY_SLOW = "proxy-slow"
    """kube-proxy of all nodes gets another minSyncPeriod in the same way, ``MIN_SYNC_SECONDS``: it writes its rules no
    sooner than that after the last time."""
    PROXY_UPGRADED = "proxy-upgraded"
    """kube-proxy of all nodes, one after the other, gets another image: its DaemonSet is edited, which replaces its
    pods. In the end it gets back the image that it had."""
    NETWORK_AGENT_UPGRADED = "network-agent-upgraded"
    """Cilium's agent of all nodes gets another image in the same way, and in the end the one that it had. Its DaemonSet
    replaces two pods at a time by default."""
    ADDRESS_ADDED = "address-added"
    """A node's main interface has another address of each family, in the network of the first one. The Node object does
    not name it."""


MIN_SYNC_SECONDS = 10
"""The minSyncPeriod of a slow kube-proxy. By default it is a second, in earlier versions none."""

FEATURES = {
    Disruption.KUBE_PROXY: ("kube-proxy.pods",),
    Disruption.SPEAKER: ("load-balancer.speaker",),
    Disruption.API_SERVER: ("control-plane.reachable",),
    Disruption.API_SERVERS_IN_TURN: ("control-plane.reachable", "control-plane.several"),
    Disruption.KUBELET: ("nodes.shell",),
    Disruption.CUT_OFF: ("nodes.shell",),
    Disruption.CONNTRACK_FULL: ("nodes.shell",),
    # Others than kube-proxy track the connections of Services in tables of their own.
    Disruption.CONNTRACK_DELETED: ("nodes.shell", "service-proxy.kube-proxy"),
    Disruption.PROXY_STOPPED: ("nodes.shell",),
    Disruption.PROXY_SICK: ("nodes.shell",),
    Disruption.NETWORK_STOPPED: ("nodes.shell", "network-add-on.stoppable"),
    Disruption.SPEAKER_STOPPED: ("nodes.shell", "load-balancer.speaker"),
    Disruption.NETWORK_AGENT: ("network-add-on.agents",),
    Disruption.CONTROLLER_STOPPED: ("load-balancer.controller",),
    Disruption.NODE_DELETED: ("nodes.shell", "rights.node-deletion"),
    Disruption.NODE_LEFT: ("nodes.shell", "rights.node-deletion"),
    Disruption.NODE_RESTARTED: ("nodes.shell",),
    Disruption.NODE_READDRESSED: ("nodes.shell",),
    Disruption.NODE_JOINED: ("nodes.shell", "control-plane.reachable", "rights.node-deletion"),
    Disruption.API_SLOW: ("control-plane.reachable",),
    Disruption.PROXY_MODE: ("kube-proxy.pods", "kube-proxy.other-mode", "rights.kube-proxy"),
    Disruption.PROXY_SLOW: ("kube-proxy.pods", "kube-proxy.other-period", "rights.kube-proxy"),
    Disruption.PROXY_UPGRADED: ("kube-proxy.pods", "kube-proxy.other-image", "rights.kube-proxy"),
    Disruption.NETWORK_AGENT_UPGRADED: ("network-agent.other-image", "rights.network-agent"),
    Disruption.BALANCER_CUT_OFF: ("control-plane.reachable",),
    Disruption.ADDRESS_ADDED: ("nodes.shell",),
}

ROLLOUTS = (
    Disruption.PROXY_MODE,
    Disruption.PROXY_SLOW,
    Disruption.PROXY_UPGRADED,
    Disruption.NETWORK_AGENT_UPGRADED,
)
"""Disruptions that replace the agents of all nodes, by their DaemonSet."""

CLUSTER_WIDE = frozenset(
    {
        *(Disruption.API_SERVER, Disruption.API_SERVERS_IN_TURN, Disruption.API_SLOW, Disruption.NODE_JOINED),
        *ROLLOUTS,
    }
)
"""Disruptions of the whole cluster; all others are of a node."""


def features_of(what: Disruption) -> tuple[str, ...]:
    """Return the features that its checks need in addition to ``disruptive``."""
    return FEATURES.get(what, ())


LONGEST = {
    Disruption.API_SERVER: 75.0,
    Disruption.KUBELET: 240.0,
    Disruption.CUT_OFF: 120.0,
    Disruption.CONNTRACK_FULL: 120.0,
    Disruption.PROXY_STOPPED: 120.0,
    Disruption.PROXY_SICK: 180.0,
    Disruption.NETWORK_STOPPED: 120.0,
    Disruption.SPEAKER_STOPPED: 60.0,
    Disruption.CONTROLLER_STOPPED: 60.0,
    Disruption.BALANCER_CUT_OFF: 60.0,
    Disruption.NODE_DELETED: 39.0,
    Disruption.NODE_LEFT: 39.0,
    Disruption.NODE_RESTARTED: 120.0,
    Disruption.NODE_READDRESSED: 120.0,
    Disruption.NODE_JOINED: 290.0,
    Disruption.API_SLOW: 120.0,
    Disruption.ADDRESS_ADDED: 120.0,
}
"""Seconds after which a node rolls back the disruption itself: before the kubelet kills a stopped API server, before
pods are evicted from a node that is not ready (300 s), and before those of a node without a Node object are deleted."""

ALL_NODES = "all"

PLACED = CLUSTER_WIDE | {Disruption.CONTROLLER_STOPPED, Disruption.BALANCER_CUT_OFF}
"""Disruptions of what runs on nodes of its own: on all control plane nodes, on all nodes, where its pod is, or on a
node that joins."""


@dataclass(frozen=True)
class Proof:
    """The proof that a disruption took place and is over. All times are ``time.monotonic()`` of this process.

    Args:
        disruption: its kind.
        node: the node, or ``all``.
        words: the evidence that it took place, lasted, and was rolled back.
        began: before its first action.
        happened: after it was proven; ``meanwhile`` runs after that.
        ending: when its rollback began.
        undone: after the rollback was proven.
        started: when the containers of restarted pods started, as far as the API server tells, to the second.
    """

    disruption: Disruption
    node: str
    words: str
    began: float
    happened: float
    ending: float
    undone: float
    started: tuple[float, ...] = ()

    def as_json(self) -> dict[str, Any]:
        """The proof as one JSON object."""
        times = {name: round(getattr(self, name), 6) for name in ("began", "happened", "ending", "undone")}
        return {"disruption": self.disruption.value, "node": self.node, "words": self.words, **times}
