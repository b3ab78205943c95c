"""Events and streams of continuity. Each event is crossed with each way into the cluster and with each stream;
``claims`` in checks.py says what is required there.

A new event is an entry here, its name in ``Phase``, and its steps in ``_steps`` of scenarios/continuity/actions.py.
"""

from esipp.checks.continuity import NODEPORT, Event, Phase, Way
from esipp.checks.disruption import Disruption
from esipp.checks.model import Balancer, Protocol, Role
from esipp.checks.stream import StreamKind
from suites.references import *
from suites.streams import (
    BULK,
    DATAGRAMS,
    ONE_PORT,
    SCTP_NEW,
    SCTP_PORT,
    STORM,
    UDP_NEW,
    UDP_ONE_WAY,
    UDP_SOCKET,
)

SERVES_ON = "The pods of the run still serve for longer than (N+1) x health check period after their deletion."
"""What requirements add for events that delete pods with grace."""

METALLB_REJOINS = 60.0
"""Seconds between two attempts of MetalLB's speakers to find those that they lost (``METALLB_JOINS``). Until they have,
both sides claim the VIPs: for 13 s once (2026-11-27)."""

EVENTS = (
    Event(phase=Phase.QUIET, meanwhile="While nothing changes"),
    Event(
        phase=Phase.ROLLING_UPDATE,
        meanwhile="During a rolling update of one pod at a time",
        references=(E2E_LOAD_BALANCERS, KEP_1669),
        graceful=True,
        last_pod_goes=True,
    ),
    Event(
        phase=Phase.DELETED,
        meanwhile="During the graceful deletion of a pod",
        references=(KEP_1669,),
        graceful=True,
        last_pod_goes=True,
    ),
    Event(
        phase=Phase.FLAPS,
        meanwhile="While the readiness probe of one pod fails and succeeds again, three times",
        references=(DESIGN_BLACKHOLE,),
        last_pod_goes=True,
        by_health_checks=True,
    ),
    Event(
        phase=Phase.POLICY_CHANGES,
        meanwhile="While the policy of the Local Services changes to Cluster and back",
        references=(API_ETP,),
        by_health_checks=True,
        frees_vip="the policy was changed",
    ),
    Event(
        phase=Phase.CORDON,
        meanwhile="While the endpoint node is cordoned",
        references=(NODES_PAGE,),
        disruption=Disruption.CORDON,
        lasts=3.0,
    ),
    Event(
        phase=Phase.DRAIN,
        meanwhile="During a drain of the endpoint node",
        references=(NODES_PAGE, KEP_1669),
        disruption=Disruption.DRAIN,
        graceful=True,
        last_pod_goes=True,
    ),
    Event(
        phase=Phase.EXCLUDE,
        meanwhile="While the endpoint node has the label that excludes it from external load balancers",
        references=(EXCLUDE_LABEL, KEP_3836),
        disruption=Disruption.EXCLUDE,
        disturbs_balancer=True,
        frees_vip="the endpoint node was excluded or admitted again",
        lasts=5.0,
    ),
    Event(
        phase=Phase.IDLE_EXCLUDE,
        meanwhile="While a node without endpoints has the label that excludes it from external load balancers, and "
        "when it joins them again",
        references=(EXCLUDE_LABEL, KEP_3836),
        disruption=Disruption.EXCLUDE,
        node=Role.BARE_NODE,
        disturbs_balancer=True,
        frees_vip="a node without endpoints was excluded or joined again",
        lasts=5.0,
    ),
    Event(
        phase=Phase.KUBE_PROXY,
        meanwhile="During a restart of kube-proxy on the endpoint node",
        references=(E2E_RESTARTS,),
        disruption=Disruption.KUBE_PROXY,
        lasts=2.0,
    ),
    Event(
        phase=Phase.PROXY_UPGRADED,
        meanwhile="While kube-proxy is replaced by one of another version on all nodes, one after the other, and back",
        references=(E2E_RESTARTS, VERSION_SKEW),
        disruption=Disruption.PROXY_UPGRADED,
        closes_checks=True,  # of both endpoint nodes at once, for 0.7 s, in one of two runs (kind-iptables, 2026-11-28)
        lasts=3.0,
    ),
    Event(
        phase=Phase.PROXY_MODE,
        meanwhile="While kube-proxy changes its mode on all nodes, one after the other, from iptables to nftables or "
        "the other way round, and back",
        references=(KEP_3866, VIRTUAL_IPS),
        disruption=Disruption.PROXY_MODE,
        rewrites=True,
    ),
    Event(
        phase=Phase.NETWORK_AGENT_UPGRADED,
        meanwhile="While Cilium's agent is replaced by one of another version on all nodes, as its DaemonSet replaces "
        "pods, and back",
        references=(CILIUM_UPGRADE,),
        disruption=Disruption.NETWORK_AGENT_UPGRADED,
        closes_checks=True,
        restarts_data_plane=True,
        lasts=3.0,
    ),
    Event(
        phase=Phase.SPEAKER,
        meanwhile="During a restart of the speaker of the cluster's own load balancer",
        references=(E2E_RESTARTS,),
        disruption=Disruption.SPEAKER,
        disturbs_balancer=True,
        frees_vip="the speaker was restarted",
        lasts=2.0,
    ),
    Event(
        phase=Phase.SPEAKER_MOVES,
        meanwhile="During a restart of the speaker that announces the VIP, while the endpoint node's pod is replaced",
        references=(E2E_RESTARTS, KEP_1669),
        disruption=Disruption.SPEAKER,
        graceful=True,
        last_pod_goes=True,
        disturbs_balancer=True,
        frees_vip="the speaker was restarted",
        moves=True,
    ),
    Event(
        phase=Phase.NETWORK_AGENT,
        meanwhile="During a restart of the network add-on's agent on the endpoint node, while that node's pod is "
        "replaced",
        references=(E2E_RESTARTS, KEP_1669),
        disruption=Disruption.NETWORK_AGENT,
        graceful=True,
        last_pod_goes=True,
        moves=True,
    ),
    Event(
        phase=Phase.API_SERVER,
        meanwhile="During an outage of the API server for 30 s",
        references=(E2E_RESTARTS,),
        disruption=Disruption.API_SERVER,
        lasts=30.0,
    ),
    Event(
        phase=Phase.API_SERVERS_IN_TURN,
        meanwhile="While the API servers of all control plane nodes are restarted, one after the other",
        references=(E2E_RESTARTS, HA_TOPOLOGY),
        disruption=Disruption.API_SERVERS_IN_TURN,
        lasts=3.0,
    ),
    Event(
        phase=Phase.KUBELET,
        meanwhile="While the kubelet of the endpoint node is stopped, until its pods are no longer endpoints",
        references=(NODES_PAGE, DESIGN_BLACKHOLE),
        disruption=Disruption.KUBELET,
        last_pod_goes=True,
        by_health_checks=True,
        disturbs_balancer=True,
    ),
    Event(
        phase=Phase.IDLE_KUBELET,
        meanwhile="While the kubelet of a node without endpoints is stopped, until that node is not ready",
        references=(NODES_PAGE, KEP_3458),
        disruption=Disruption.KUBELET,
        node=Role.BARE_NODE,
        lasts=5.0,
    ),
    Event(
        phase=Phase.CONNTRACK_FULL,
        meanwhile="While a node without endpoints accepts no new flows, as with a full connection tracking table",
        references=(CONNTRACK_SYSCTL, DESIGN_BOUND),
        disruption=Disruption.CONNTRACK_FULL,
        node=Role.BARE_NODE,
        refuses=True,
    ),
    Event(
        phase=Phase.CONNTRACK_DELETED,
        meanwhile="While the connection tracking entries of the Services are deleted on the endpoint node",
        references=(CONNTRACK_SYSCTL,),
        disruption=Disruption.CONNTRACK_DELETED,
        lasts=3.0,
        forgets=True,
    ),
    Event(
        phase=Phase.JOINED,
        meanwhile="While another node without endpoints joins the cluster, and when it is taken away again",
        references=(NODES_PAGE, KEP_3458, KEP_3836),
        disruption=Disruption.NODE_JOINED,
        node=Role.BARE_NODE,
        disturbs_balancer=True,
        frees_vip="a node joined or was taken away",
        frees_for=METALLB_REJOINS,
        cuts=True,
        joins=True,
    ),
    Event(
        phase=Phase.CUT_OFF,
        meanwhile="While the endpoint node is cut off from its network for 20 s, and when it is back",
        references=(NODES_PAGE, DESIGN_BOUND),
        disruption=Disruption.CUT_OFF,
        last_pod_goes=True,
        by_health_checks=True,
        disturbs_balancer=True,
        frees_vip="the endpoint node was cut off or came back",
        frees_for=METALLB_REJOINS,
        lasts=20.0,
        refuses=True,
        cuts=True,
    ),
    Event(
        phase=Phase.IDLE_LEFT,
        meanwhile="While a node without endpoints is gone from its network and has no Node object for 20 s, and when "
        "it joins the cluster again",
        references=(NODES_PAGE, KEP_3458, DESIGN_BOUND),
        disruption=Disruption.NODE_LEFT,
        node=Role.BARE_NODE,
        disturbs_balancer=True,
        frees_vip="a node without endpoints left or joined",
        frees_for=METALLB_REJOINS,
        lasts=20.0,
        refuses=True,
        cuts=True,
    ),
)
"""In this order. Disruptions, which need ``--allow-disruptive``, are the last. The last of these take a node away:
for a minute after its return, MetalLB moves VIPs, and breaks what is open."""


STREAMS = (UDP_SOCKET, UDP_NEW, UDP_ONE_WAY, SCTP_PORT, SCTP_NEW, *BULK, *DATAGRAMS, ONE_PORT, STORM)
"""All streams but the two of TCP, which have claims of their own."""

SIZES = (
    "A large packet goes where the small ones of `tcp-lasting` and `udp-socket` go; what it meets on its way does not "
    "depend on the event."
)
AT_VIPS = (
    "The VIP leads to the rules of a node that its nodePort shows; which node it leads to is what `tcp-new` shows. "
    "Many load balancers carry one protocol a Service, or no SCTP."
)
BY_HASH = "This forwarder hashes each packet anew and knows no socket; the node behind it shows at its nodePort."
PORTS = "Which source port a connection has does not depend on the event; those that last show that they live on."
OWN_PORTS = "This proxy chooses the source ports of its own connections."
LOAD = "A storm at two ways is enough load for a cluster that others use; it meets the same rules at each."
TCP_ONLY = "This proxy carries TCP alone."


def why_empty(event: Event, way: Way, stream: StreamKind) -> str:
    """Return why there is no check; empty if there is one."""
    if stream.count and event.phase is not Phase.QUIET:
        return SIZES if stream.size else PORTS
    if stream == ONE_PORT and way.by == Balancer.PROXY.value:
        return OWN_PORTS
    if stream == STORM and way.by != NODEPORT:
        return LOAD
    if stream.protocol is Protocol.TCP or way.by == NODEPORT:
        return ""
    return {Balancer.ECMP.value: BY_HASH, Balancer.PROXY.value: TCP_ONLY}.get(way.by, AT_VIPS)
