"""What happens to Services and pods, stage by stage. Each event is crossed with each stream: see checks.py.

A new event is an entry here, and, for a new kind of change, its ``Do`` and how run.py does it.
"""

from esipp.checks.check import Level
from esipp.checks.disruption import MIN_SYNC_SECONDS, Disruption
from esipp.checks.model import Balancer, Family, Protocol, Role, ServiceType, TrafficPolicy
from esipp.checks.stream import Reuse, StreamKind
from esipp.checks.timing import FIELD_LIMIT
from esipp.checks.versions import AFFINITY_TIMEOUT, SLICES, TERMINATING, Need
from esipp.scenarios.service_change.subject import (
    AFFINITY_SECONDS,
    MINUTE,
    USUAL,
    At,
    Change,
    Claim,
    Do,
    Event,
    Health,
    Pods,
    closing,
)
from suites.changes.streams import (
    EXPIRED,
    HEALTH_CHECKS,
    IDLE,
    KEEPING,
    LARGE,
    MORE_NODES,
    OF_TWO_PODS,
    ONE_FLOW,
    SCTP_NEW,
    SCTP_PORT,
    SILENCES,
    TCP_FAST,
    TCP_NEW,
    TCP_ONE_PORT,
    TCP_PORT,
    TCP_RARE,
    UDP_IDLE,
    UDP_NEW,
    UDP_ONE_PORT,
    UDP_ONE_WAY,
    UDP_SOCKET,
    all_but,
)
from suites.known_differences.cilium import TAKEN_FOR_ONE
from suites.known_differences.kube_proxy import (
    KEPT_AFTER_FAILURE,
    KEPT_AT_TARGET_PORT,
    KEPT_AT_VIP,
    KEPT_OF_DELETED,
    KEPT_OF_NODE_PORT,
    KEPT_OF_PORT,
    KEPT_WITHOUT_ENDPOINTS,
)
from suites.references import *

NODE_PORTS = (At.ENDPOINT_NODE, At.BARE_NODE, At.OTHER_NODE, At.CONTROL_PLANE)
TCP, UDP = Protocol.TCP, Protocol.UDP
RETRIES = 30.0
"""Seconds after which kube-proxy tries again to write its rules, at the latest."""
TOLERATED = 2 * RETRIES
"""Seconds for which kube-proxy may fail to write its rules until it says that it is not healthy."""
CONTROLLERS = 5.0
"""Seconds in which controllers of load balancers notice a Node object that has changed: they watch it."""
CORDONED = 45.0
"""Seconds in which also those act that look at nodes now and then: cloud controllers, and health checks after them."""
SPEAKERS = 12.0
"""Seconds in which MetalLB's speakers give up another one that is silent: usually 5 to 8."""
SLOWLY = FIELD_LIMIT + MIN_SYNC_SECONDS
"""Seconds in which a slow kube-proxy must follow a change."""
PROXY_STOPPED, PROXY_SLOW = Disruption.PROXY_STOPPED, Disruption.PROXY_SLOW
NETWORK_STOPPED = Disruption.NETWORK_STOPPED
NODE_RESTARTED, NODE_READDRESSED = Disruption.NODE_RESTARTED, Disruption.NODE_READDRESSED
DEAD_WATCH = 45.0
"""Seconds in which client-go notices that a connection is dead: 30 s without a word, and 15 s for the answer to a ping
(``HTTP2_READ_IDLE_TIMEOUT_SECONDS``, ``HTTP2_PING_TIMEOUT_SECONDS``). A node whose address comes and goes has such
connections: its kube-proxy followed 34 s after the return of its address (kind-iptables, 2026-11-29)."""
AT_OTHER_NODE = frozenset({At.OTHER_NODE})
TO_OTHER_NODE = frozenset({At.BARE_NODE, At.CLUSTER_IP, At.OTHER_NODE})
"""What leads to a pod on the other node."""
AT_BARE_NODE = frozenset({At.BARE_NODE, At.CLUSTER_IP})
"""What the kube-proxy of the bare node serves: its nodePorts, and the ClusterIPs of its pods."""

NO_NODE_PORT = closing(NODE_PORTS, TCP, UDP)
NO_VIP = closing((At.VIP,), TCP)
LATER = (At.CLUSTER_IP_LATER, At.VIP_LATER)
NO_ADDRESS_ELSEWHERE = closing((At.NEW_ADDRESS_ELSEWHERE,), TCP, UDP)
NO_OTHER_ADDRESS = closing((At.NEW_ADDRESS,), TCP, UDP)
AT_VIP = frozenset({At.VIP})
OF_PODS = (At.CLUSTER_IP, At.OWN_CLUSTER_IP, At.POD_IP)
"""Entries that pods dial."""
ON_ALL_NODES = (*USUAL, *MORE_NODES)
AT_ENDPOINT_NODE = (At.ENDPOINT_NODE, At.OWN_CLUSTER_IP)
"""What answers if the external and the internal policy are Local."""

SEEN_ELSEWHERE = (tuple(KEEPING), "other events show what flows under way meet when an endpoint is replaced")
CLUSTER_INSIDE = "internalTrafficPolicy is Cluster: other nodes' clients show it"

GUARDED = {
    Claim.SERVED: "the client's address is rewritten before the NetworkPolicy is applied, so that a client that it "
    "admits is shut out",
    Claim.GONE: "a node lets a client in that the NetworkPolicy does not admit, or rewrites its address to one that is "
    "admitted",
}
"""What a check of a NetworkPolicy detects, by its claim."""

UNDONE_AT_VIP = "a NetworkPolicy shuts out a client that it admits, although the pod sees the client's own address"

OF_OWN_SLICES = {
    Claim.SERVED: "a node does not serve endpoints of a Service without a selector, or does not find by their nodeName "
    "that they are its own",
    Claim.GONE: "a node serves, under Local, an endpoint whose nodeName is not its own name",
}
"""What a check of EndpointSlices that esipp writes detects, by its claim."""

MIXED_UP = (
    "a node takes flows of two of its pods for one if they have the same source port: it drops or resets one of them, "
    "or sends its answers to the other pod"
)
"""What a stream detects whose source ports another pod of the node has, too."""


def two_outages(what: Disruption, *, away: frozenset[At] = frozenset()) -> tuple[Change, ...]:
    """The stages of a LoadBalancer Service that changes while somebody who serves its VIP is away, as ``IN_BOTH`` says.

    ``away`` are entries that may lose requests meanwhile.
    """
    return (
        Change(Do.CREATE, Pods.FIRST),
        Change(Do.SELECT, Pods.SECOND, disruption=what, stuck=AT_VIP, away=away, lasts=3.0),
        Change(Do.STAY, Pods.SECOND, lasts=CONTROLLERS),
        Change(Do.TO_CLUSTER_IP, Pods.SECOND, disruption=what, closed=NO_VIP, stuck=AT_VIP, away=away, lasts=3.0),
        Change(Do.STAY, Pods.SECOND, closed=NO_VIP),
    )


IN_BOTH = (
    "(in the first, a Service's only endpoint is replaced; in the second, the Service becomes a ClusterIP Service)"
)

EVENTS = (
    Event(
        "scaled-to-zero",
        "While a Service loses all its endpoints and gets another one",
        (
            Change(Do.CREATE, Pods.FIRST),
            Change(Do.SELECT, Pods.NONE, lasts=8.0),  # nodes limit their ICMP errors: to some clients, one in 2 s
            Change(Do.SELECT, Pods.SECOND),
        ),
        seconds=43,
        sees=(TCP_FAST, UDP_ONE_WAY),
        stale=KEPT_WITHOUT_ENDPOINTS,
    ),
    Event(
        "replaced",
        "While a Service's only endpoint is replaced by another one",
        (
            Change(Do.CREATE, Pods.FIRST),
            Change(Do.SELECT, Pods.SECOND),
            Change(Do.SELECT, Pods.FIRST),
        ),
        seconds=43,
        dialled=(*USUAL, At.CLUSTER_IP_FROM_NODE, At.SMALL_MTU, At.OUT),
        sees=(TCP_PORT, UDP_ONE_WAY, SCTP_NEW, SCTP_PORT),
    ),
    Event(
        "moved",
        "While a Service's only endpoint is replaced by one on another node",
        (
            Change(Do.CREATE, Pods.FIRST),
            Change(Do.SELECT, Pods.ELSEWHERE),
        ),
        seconds=15,
        dialled=(*USUAL, At.CLUSTER_IP_FROM_NODE),
        sees=(TCP_PORT,),
    ),
    Event(
        "moved-local",
        "While the only endpoint of a Service with externalTrafficPolicy Local is replaced by one on another node",
        (
            Change(Do.CREATE, Pods.FIRST, closed=closing((At.BARE_NODE,), TCP, UDP)),
            Change(Do.SELECT, Pods.ELSEWHERE, closed=closing((At.ENDPOINT_NODE,), TCP, UDP)),
        ),
        external=TrafficPolicy.LOCAL,
        seconds=15,
        references=(API_ETP,),
        dialled=(At.ENDPOINT_NODE, At.BARE_NODE),
        unseen=(
            (
                (At.CLUSTER_IP,),
                "the external policy is not about ClusterIPs, and another event moves the endpoint of one",
            ),
            ((At.OWN_CLUSTER_IP,), CLUSTER_INSIDE),
        ),
    ),
    Event(
        "internal-policy",
        "While internalTrafficPolicy of a Service becomes Local, and Cluster again",
        (
            Change(Do.CREATE, Pods.FIRST),
            Change(Do.INTERNAL_LOCAL, Pods.FIRST, closed=closing((At.CLUSTER_IP,), TCP, UDP)),
            Change(Do.INTERNAL_CLUSTER, Pods.FIRST),
        ),
        kind=ServiceType.CLUSTER_IP,
        seconds=15,
        references=(API_ITP, KEP_2086),
        dialled=(At.CLUSTER_IP, At.OWN_CLUSTER_IP),
        unseen=((ONE_FLOW, "flows that have a pod may keep it when a policy changes"),),
        since=Need("1.22", KEP_2086),
        fails_if={
            Claim.GONE: "a node still sends clients to endpoints of other nodes after internalTrafficPolicy became "
            "Local",
        },
    ),
    Event(
        "families",
        "While a dual-stack Service becomes SingleStack, and dual-stack again with its ClusterIPs",
        (
            Change(Do.CREATE, Pods.FIRST),
            Change(
                Do.ONE_FAMILY,
                Pods.FIRST,
                closed=closing((*NODE_PORTS, At.CLUSTER_IP), TCP, UDP, family=Family.IPV4),
            ),
            Change(Do.BOTH_FAMILIES, Pods.FIRST),
        ),
        first=Family.IPV6,
        seconds=17,
        references=(API_FAMILIES, DUAL_STACK),
        dialled=ON_ALL_NODES,
        unseen=((tuple(KEEPING), "other events show what flows under way meet when a nodePort is freed"),),
        level=Level.EXTENDED,
    ),
    Event(
        "replaced-local",
        "While the only endpoint of a Service with Local policies is replaced by another one on its node",
        (
            Change(Do.CREATE, Pods.FIRST),
            Change(Do.SELECT, Pods.SECOND),
        ),
        external=TrafficPolicy.LOCAL,
        internal=TrafficPolicy.LOCAL,
        seconds=13,
        dialled=AT_ENDPOINT_NODE,
    ),
    Event(
        "endpoint-slices",
        "While the only endpoint of a Service with Local policies and without a selector is replaced by another one on "
        "its node, and by one on another node, as the nodeName in its EndpointSlices says",
        (
            Change(Do.CREATE, Pods.FIRST, closed=closing((At.BARE_NODE, At.CLUSTER_IP), TCP, UDP)),
            Change(Do.SELECT, Pods.SECOND, closed=closing((At.BARE_NODE, At.CLUSTER_IP), TCP, UDP)),
            Change(Do.SELECT, Pods.ELSEWHERE, closed=closing((At.ENDPOINT_NODE, At.OWN_CLUSTER_IP), TCP, UDP)),
        ),
        external=TrafficPolicy.LOCAL,
        internal=TrafficPolicy.LOCAL,
        own_slices=True,
        seconds=17,
        references=(OWN_SLICES, API_SLICE_NODE, API_ETP, API_ITP),
        dialled=(*USUAL, At.OWN_CLUSTER_IP),
        unseen=(SEEN_ELSEWHERE,),
        level=Level.EXTENDED,
        since=Need("1.22", KEP_2086),
        fails_if=OF_OWN_SLICES,
    ),
    Event(
        "endpoint-without-node",
        "While the only endpoint of a Service with Local policies and without a selector has no nodeName for some "
        "seconds",
        (
            Change(Do.CREATE, Pods.FIRST),
            Change(
                Do.UNNAME, Pods.FIRST, closed=closing((At.ENDPOINT_NODE, At.OWN_CLUSTER_IP), TCP, UDP), lasts=4.0
            ),
            Change(Do.NAME, Pods.FIRST),
        ),
        external=TrafficPolicy.LOCAL,
        internal=TrafficPolicy.LOCAL,
        own_slices=True,
        seconds=14,
        references=(OWN_SLICES, API_SLICE_NODE, LOCAL_ENDPOINTS),
        dialled=AT_ENDPOINT_NODE,
        unseen=(SEEN_ELSEWHERE,),
        level=Level.EXTENDED,
        recorded=(Claim.GONE,),  # not said where an endpoint without nodeName is local; kube-proxy: nowhere
        since=Need("1.22", KEP_2086),
        fails_if=OF_OWN_SLICES,
    ),
    Event(  # not a pod with a former pod's address: docs/new-event.md says why
        "address-reused",
        "While the address of a Service's only endpoint, which another one replaces, becomes the endpoint of another "
        "Service",
        (
            Change(Do.CREATE, Pods.FIRST),
            Change(Do.SELECT, Pods.SECOND, lasts=3.0),
            Change(Do.REUSE, Pods.SECOND, other=Pods.FIRST, lasts=5.0),
        ),
        external=TrafficPolicy.LOCAL,
        own_slices=True,
        seconds=20,
        references=(OWN_SLICES,),
        dialled=(At.ENDPOINT_NODE, At.CLUSTER_IP, At.ANOTHER_SERVICE, At.ANOTHER_CLUSTER_IP),
        sees=(TCP_PORT,),
        level=Level.EXTENDED,
        since=SLICES,
    ),
    Event(
        "namesake",
        "While another Service, whose name is the beginning of this one's, gets the same endpoint and loses it",
        (
            Change(Do.CREATE, Pods.FIRST),
            Change(Do.NAMESAKE, Pods.FIRST, lasts=3.0),  # nodes must know the other Service before it loses the pod
            Change(Do.NAMESAKE_LEAVES, Pods.FIRST, lasts=5.0),
        ),
        seconds=18,
        unseen=((tuple(KEEPING), "its endpoint stays: new flows show whether nodes know it"),),
        known=(TAKEN_FOR_ONE,),
    ),
    Event(
        "one-source-port",
        "While nothing changes, and while a Service with two pods of a node as clients gets four more endpoints and "
        "loses them",
        (
            Change(Do.CREATE, Pods.FIRST),
            Change(Do.STAY, Pods.FIRST, lasts=3.0),
            Change(Do.SELECT, Pods.ALL),
            Change(Do.SELECT, Pods.FIRST),
        ),
        seconds=20,
        references=(CILIUM_ONE_PORT_OF_TWO_PODS,),
        dialled=OF_TWO_PODS,
        fails_if=dict.fromkeys(Claim, MIXED_UP),
    ),
    Event(
        "deleted",
        "While a Service is deleted and created again with its nodePorts and ClusterIPs, for another pod",
        (
            Change(Do.CREATE, Pods.FIRST),
            Change(Do.DELETE),
            Change(Do.CREATE_AGAIN, Pods.SECOND),
        ),
        seconds=43,
        dialled=ON_ALL_NODES,
        sees=(UDP_ONE_WAY,),
        stale=KEPT_OF_DELETED,
    ),
    Event(
        "freed",
        "While a Service is deleted, and no other gets its nodePorts and ClusterIPs for minutes",
        (
            Change(Do.CREATE, Pods.FIRST),
            Change(Do.STAY, Pods.FIRST),
            Change(Do.DELETE, lasts=EXPIRED + 4.0),
        ),
        long=True,
        seconds=165,
        dialled=ON_ALL_NODES,
        sees=(TCP_PORT, UDP_IDLE),
        unseen=(
            ((UDP_SOCKET,), "its datagrams keep its tracking entry alive: another event shows what they meet"),
        ),
    ),
    Event(
        "finalizer",
        "While a finalizer delays the deletion of a Service, which is then created again with its nodePorts and "
        "ClusterIPs, for another pod",
        (
            Change(Do.CREATE, Pods.FIRST),
            Change(Do.HOLD, Pods.FIRST),
            Change(Do.RELEASE),
            Change(Do.CREATE_AGAIN, Pods.SECOND),
        ),
        seconds=30,
        references=(API_FINALIZERS, PORT_NOT_RELEASED),
        unseen=(
            (all_but(TCP_NEW, TCP_FAST), "another event shows it at a Service that is deleted without a finalizer"),
        ),
        level=Level.EXTENDED,
    ),
    Event(
        "taken-over",
        "While a Service is deleted and another Service, for another pod, gets its nodePorts and ClusterIPs",
        (
            Change(Do.CREATE, Pods.FIRST),
            Change(Do.TAKE_OVER, Pods.SECOND),
        ),
        seconds=38,
        dialled=ON_ALL_NODES,
        sees=(UDP_ONE_WAY, SCTP_NEW, SCTP_PORT),
    ),
    Event(
        "killed",
        "While a Service's only pod is killed without grace and replaced",
        (
            Change(Do.CREATE, Pods.KILLED),
            Change(Do.KILL),
            Change(Do.START, Pods.KILLED),
        ),
        seconds=15,
    ),
    Event(
        "terminating",
        "While the only pod of a Service with Cluster policies terminates and still serves",
        (
            Change(Do.CREATE, Pods.LEAVING),
            Change(Do.TERMINATE, Pods.LEAVING, lasts=6.0),
        ),
        external=TrafficPolicy.CLUSTER,
        internal=TrafficPolicy.CLUSTER,
        seconds=13,
        references=(KEP_1669,),
        since=TERMINATING,
    ),
    Event(
        "terminating-local",
        "While the only pod of a Service with Local policies terminates and still serves",
        (
            Change(Do.CREATE, Pods.LEAVING_LOCAL),
            Change(Do.TERMINATE, Pods.LEAVING_LOCAL, lasts=6.0),
        ),
        external=TrafficPolicy.LOCAL,
        internal=TrafficPolicy.LOCAL,
        seconds=13,
        references=(KEP_1669,),
        dialled=AT_ENDPOINT_NODE,
        since=TERMINATING,
    ),
    Event(
        "scaled-up-and-down",
        "While a Service goes from one endpoint to five and back",
        (
            Change(Do.CREATE, Pods.FIRST),
            Change(Do.SELECT, Pods.ALL),
            Change(Do.SELECT, Pods.FIRST),
        ),
        seconds=15,
    ),
    Event(
        "scaled-to-fifty",
        "While a Service goes from one endpoint to fifty and back",
        (
            Change(Do.CREATE, Pods.FIRST),
            Change(Do.SELECT, Pods.FIFTY, lasts=45.0),
            Change(Do.SELECT, Pods.FIRST),
        ),
        long=True,
        seconds=65,
        sees=(TCP_FAST,),
        unseen=((all_but(TCP_FAST), "a quick stream meets fifty pods in time"),),
    ),
    *(
        Event(
            name,
            f"While nothing changes and a connection is idle for {words}",
            (
                Change(Do.CREATE, Pods.ALL),
                Change(Do.STAY, Pods.ALL, lasts=seconds + 4.0),
            ),
            seconds=seconds + 16.0,
            long=name != "idle",
            sees=(idle,),
            unseen=((all_but(TCP_NEW, *IDLE), "nothing changes"),),
        )
        for idle, (name, words, seconds) in zip(IDLE, SILENCES, strict=True)
    ),
    Event(
        "affinity",
        "While a Service with five endpoints gets sessionAffinity ClientIP, has its endpoints replaced, and loses the "
        "affinity",
        (
            Change(Do.CREATE, Pods.ALL),
            Change(Do.AFFINITY_ON, Pods.ALL, sticky=True),
            Change(Do.SELECT, Pods.SECOND, sticky=True),
            Change(Do.AFFINITY_OFF, Pods.ALL),
        ),
        seconds=20,
        references=(API_AFFINITY,),
        unseen=(((UDP_SOCKET,), "one socket keeps its pod even without affinity"),),
    ),
    Event(
        "affinity-local",
        "While a LoadBalancer Service with externalTrafficPolicy Local and five endpoints gets sessionAffinity "
        "ClientIP, has its endpoints replaced, and loses the affinity",
        (
            Change(Do.CREATE, Pods.ALL),
            Change(Do.AFFINITY_ON, Pods.ALL, sticky=True),
            Change(Do.SELECT, Pods.SECOND, sticky=True),
            Change(Do.AFFINITY_OFF, Pods.ALL),
        ),
        kind=ServiceType.LOAD_BALANCER,
        external=TrafficPolicy.LOCAL,
        seconds=20,
        references=(API_AFFINITY,),
        dialled=(At.ENDPOINT_NODE, At.VIP),
    ),
    Event(
        "affinity-outlived",
        f"While a Service gets five endpoints and sessionAffinity ClientIP with a timeout of {AFFINITY_SECONDS} s",
        (
            Change(Do.CREATE, Pods.FIRST),
            Change(Do.AFFINITY_BRIEF, Pods.ALL, brief=True, lasts=24.0),
        ),
        seconds=36,
        references=(API_AFFINITY_TIMEOUT,),
        sees=(TCP_RARE,),
        unseen=((all_but(TCP_RARE), "its probes come too often for the affinity to time out"),),
        level=Level.EXTENDED,
        since=AFFINITY_TIMEOUT,
    ),
    Event(
        "affinity-held",
        f"While a Service gets five endpoints and sessionAffinity ClientIP with a timeout of {MINUTE} s",
        (
            Change(Do.CREATE, Pods.FIRST),
            Change(Do.AFFINITY_MINUTE, Pods.ALL, sticky=True, lasts=36.0),
        ),
        seconds=45,
        references=(API_AFFINITY_TIMEOUT,),
        sees=(TCP_RARE,),
        unseen=((all_but(TCP_RARE), "its probes come too often for the affinity to time out"),),
        level=Level.EXTENDED,
        since=AFFINITY_TIMEOUT,
    ),
    Event(
        "retyped",
        "While a NodePort Service becomes a ClusterIP Service, then a LoadBalancer Service with the same nodePorts, "
        "and then a ClusterIP Service again",
        (
            Change(Do.CREATE, Pods.FIRST),
            Change(Do.TO_CLUSTER_IP, Pods.FIRST, closed=NO_NODE_PORT),
            Change(Do.TO_LOAD_BALANCER, Pods.FIRST),
            Change(Do.TO_CLUSTER_IP, Pods.FIRST, closed=NO_NODE_PORT),
        ),
        seconds=45,
        references=(API_NODE_PORT,),
        dialled=ON_ALL_NODES,
        stale=KEPT_OF_NODE_PORT,
    ),
    Event(
        "retyped-otherwise",
        "While a LoadBalancer Service becomes a NodePort Service, then a ClusterIP Service, then a NodePort Service "
        "with the same nodePorts, and then a LoadBalancer Service again",
        (
            Change(Do.CREATE, Pods.FIRST),
            Change(Do.TO_NODE_PORT, Pods.FIRST),
            Change(Do.TO_CLUSTER_IP, Pods.FIRST, closed=NO_NODE_PORT),
            Change(Do.TO_NODE_PORT, Pods.FIRST),
            Change(Do.TO_LOAD_BALANCER, Pods.FIRST),
        ),
        kind=ServiceType.LOAD_BALANCER,
        unserved=True,
        seconds=60,
        references=(API_NODE_PORT,),
        dialled=ON_ALL_NODES,
        stale=KEPT_OF_NODE_PORT,
    ),
    Event(
        "one-node-port",
        "While the UDP port of a Service gets the same nodePort as its TCP port",
        (
            Change(Do.CREATE, Pods.FIRST, closed=closing((At.SHARED_PORT,), UDP)),
            Change(Do.SHARE_PORT, Pods.FIRST, closed=closing(NODE_PORTS, UDP)),
        ),
        apart=True,
        seconds=38,
        references=(API_NODE_PORT,),
        dialled=(At.ENDPOINT_NODE, At.BARE_NODE, At.SHARED_PORT),
        stale=KEPT_OF_NODE_PORT,
    ),
    Event(
        "port-changed",
        "While the ports of a Service change from 80 to 90 and keep their nodePorts",
        (
            Change(Do.CREATE, Pods.FIRST, closed=closing(LATER, TCP, UDP)),
            Change(Do.OTHER_PORT, Pods.FIRST, closed=closing((At.CLUSTER_IP,), TCP, UDP)),
        ),
        seconds=41,
        references=(API_PORTS,),
        dialled=(*USUAL, At.CLUSTER_IP_LATER),
        stale=KEPT_OF_PORT,
    ),
    Event(
        "port-removed",
        "While a Service loses its UDP port and keeps its TCP port",
        (
            Change(Do.CREATE, Pods.FIRST),
            Change(Do.WITHOUT_UDP, Pods.FIRST, closed=closing((*NODE_PORTS, At.CLUSTER_IP), UDP)),
        ),
        seconds=40,
        references=(API_PORTS,),
        stale=KEPT_OF_PORT,
    ),
    Event(
        "target-port",
        "While targetPort of a Service becomes another port of its only pod, and the first one again",
        (
            Change(Do.CREATE, Pods.TWO_SERVERS),
            Change(Do.OTHER_TARGET, Pods.TWO_SERVERS),
            Change(Do.FIRST_TARGET, Pods.TWO_SERVERS),
        ),
        seconds=15,
        references=(API_TARGET_PORT,),
        stale_in=(Claim.SERVED, Claim.GONE),
        stale=KEPT_AT_TARGET_PORT,
    ),
    Event(
        "vip-port-changed",
        "While the port of a LoadBalancer Service changes from 80 to 90",
        (
            Change(Do.CREATE, Pods.FIRST, closed=closing(LATER, TCP)),
            Change(Do.OTHER_PORT, Pods.FIRST, closed=NO_VIP),
        ),
        kind=ServiceType.LOAD_BALANCER,
        seconds=12,
        references=(API_PORTS,),
        dialled=(At.VIP, At.VIP_LATER),
        level=Level.EXTENDED,
    ),
    Event(
        "external-ip",
        "While a LoadBalancer Service with an externalIP has its only endpoint replaced, loses the externalIP, and "
        "gets it again",
        (
            Change(Do.CREATE, Pods.FIRST),
            Change(Do.SELECT, Pods.SECOND),
            Change(Do.NO_EXTERNAL_IP, Pods.SECOND, closed=closing((At.EXTERNAL_IP,), TCP)),
            Change(Do.EXTERNAL_IP_AGAIN, Pods.SECOND),
        ),
        kind=ServiceType.LOAD_BALANCER,
        external_ip=True,
        seconds=17,
        references=(API_EXTERNAL_IPS,),
        dialled=(At.VIP, At.EXTERNAL_IP),
        level=Level.EXTENDED,
    ),
    Event(
        "freed-vip",
        "While a LoadBalancer Service is deleted, and no other gets its VIP for minutes",
        (
            Change(Do.CREATE, Pods.FIRST),
            Change(Do.DELETE, lasts=EXPIRED),
        ),
        kind=ServiceType.LOAD_BALANCER,
        long=True,
        seconds=160,
        dialled=(At.VIP,),
        sees=(UDP_IDLE,),
    ),
    Event(
        "vip",
        "While a LoadBalancer Service loses all its endpoints, gets another one, and is deleted",
        (
            Change(Do.CREATE, Pods.FIRST),
            Change(Do.SELECT, Pods.NONE),
            Change(Do.SELECT, Pods.SECOND),
            Change(Do.DELETE),
        ),
        kind=ServiceType.LOAD_BALANCER,
        seconds=15,
        dialled=(At.VIP,),
    ),
    Event(
        "vip-without-node-ports",
        "While the only endpoint of a LoadBalancer Service with the policy Local and without nodePorts is replaced",
        (
            Change(Do.CREATE, Pods.FIRST),
            Change(Do.SELECT, Pods.SECOND),
        ),
        kind=ServiceType.LOAD_BALANCER,
        external=TrafficPolicy.LOCAL,
        node_ports=False,
        seconds=10,
        references=(API_ALLOCATE, KEP_1864),
        dialled=(At.VIP,),
        level=Level.EXTENDED,
        since=Need("1.22", KEP_1864),
    ),
    Event(
        "vip-udp",
        "While a LoadBalancer Service for UDP loses all its endpoints, gets another one, and is deleted",
        (
            Change(Do.CREATE, Pods.FIRST),
            # A pod's count of datagrams is read at the end. A flow that falls silent, as no node announces the VIP, may
            # come back after 3 s (kind-nftables under load, 2026-11-28): only the whole time shows that it is gone.
            Change(Do.SELECT, Pods.NONE, lasts=FIELD_LIMIT + 1.0),
            Change(Do.SELECT, Pods.SECOND),
            Change(Do.DELETE),
        ),
        kind=ServiceType.LOAD_BALANCER,
        seconds=45,
        dialled=(At.VIP,),
        carries=UDP,
        stale=KEPT_AT_VIP,
    ),
    Event(
        "vip-retyped",
        "While a LoadBalancer Service becomes a ClusterIP Service",
        (
            Change(Do.CREATE, Pods.FIRST),
            Change(Do.TO_CLUSTER_IP, Pods.FIRST, closed=NO_VIP),
        ),
        kind=ServiceType.LOAD_BALANCER,
        seconds=15,
        references=(API_TYPE,),
        dialled=(At.VIP,),
        level=Level.EXTENDED,
    ),
    Event(
        "source-ranges",
        "While loadBalancerSourceRanges of a Service admit only other clients, then consist of a hundred ranges that "
        "include the client and the nodes, and then admit every client",
        (
            Change(Do.CREATE, Pods.FIRST),
            Change(
                Do.ADMIT_OTHERS, Pods.FIRST, closed=NO_VIP,
                stuck=frozenset({At.VIP_FROM_NODE}),  # whether nodes filter their own traffic is left to them
            ),
            Change(Do.ADMIT_CLIENT, Pods.FIRST),
            Change(Do.ADMIT_ALL, Pods.FIRST),
        ),
        kind=ServiceType.LOAD_BALANCER,
        seconds=15,
        references=(API_RANGES,),
        dialled=(At.VIP, At.VIP_FROM_NODE),
        level=Level.EXTENDED,
    ),
    *(
        Event(
            name,
            f"While a Service with {policy.value} policies gets trafficDistribution PreferClose, has its only endpoint "
            "replaced, and loses that preference",
            (
                Change(Do.CREATE, Pods.FIRST),
                Change(Do.PREFER_CLOSE, Pods.FIRST),
                Change(Do.SELECT, Pods.SECOND),
                Change(Do.PREFER_NONE, Pods.SECOND),
            ),
            external=policy,
            internal=policy,
            seconds=15,
            references=(API_DISTRIBUTION, KEP_4444),
            dialled=dialled,
            unseen=(SEEN_ELSEWHERE,),
            level=Level.EXTENDED,
            since=Need("1.31", KEP_4444),
        )
        for name, policy, dialled in (
            ("distribution", TrafficPolicy.CLUSTER, USUAL),
            ("distribution-local", TrafficPolicy.LOCAL, AT_ENDPOINT_NODE),
        )
    ),
    Event(
        "network-policy",
        "While NetworkPolicies for the pod of a Local Service are created one after the other, for other clients, for "
        "the client outside and for client pods",
        (
            Change(Do.CREATE, Pods.GUARDED),
            Change(Do.POLICY_FOR_OTHERS, Pods.GUARDED, closed=closing((At.ENDPOINT_NODE, *OF_PODS), TCP, UDP)),
            Change(Do.POLICY_FOR_CLIENT, Pods.GUARDED, closed=closing(OF_PODS, TCP, UDP)),
            Change(Do.POLICY_FOR_PODS, Pods.GUARDED),
        ),
        external=TrafficPolicy.LOCAL,
        seconds=75,
        references=(NETWORK_POLICIES, API_ETP),
        dialled=(At.ENDPOINT_NODE, At.CLUSTER_IP, At.OWN_CLUSTER_IP),
        level=Level.EXTENDED,
        since=Need("1.8", NETWORK_POLICIES),
        fails_if=GUARDED,
    ),
    Event(
        "network-policy-vip",
        "While NetworkPolicies for the pod of a LoadBalancer Service with the policy Local are created one after the "
        "other, for other clients and for the client outside",
        (
            Change(Do.CREATE, Pods.GUARDED_VIP),
            Change(Do.POLICY_FOR_OTHERS, Pods.GUARDED_VIP, closed=closing((At.VIP, *OF_PODS), TCP)),
            Change(Do.POLICY_FOR_CLIENT, Pods.GUARDED_VIP, closed=closing(OF_PODS, TCP)),
        ),
        kind=ServiceType.LOAD_BALANCER,
        external=TrafficPolicy.LOCAL,
        seconds=75,
        references=(NETWORK_POLICIES, API_ETP),
        dialled=(At.VIP,),
        level=Level.EXTENDED,
        since=Need("1.8", NETWORK_POLICIES),
        fails_if={**GUARDED, Claim.SERVED: UNDONE_AT_VIP},
    ),
    Event(
        "unwanted-node",
        "While the node of a Service's only endpoint is cordoned, and then gets the cluster autoscaler's taint "
        "ToBeDeletedByClusterAutoscaler",
        (
            Change(Do.CREATE, Pods.FIRST),
            Change(Do.STAY, Pods.FIRST, disruption=Disruption.CORDON, lasts=CONTROLLERS),
            Change(Do.STAY, Pods.FIRST),
            Change(
                Do.STAY, Pods.FIRST, disruption=Disruption.TAINT, sick=frozenset({Health.PROXY}), lasts=CONTROLLERS
            ),
            Change(Do.STAY, Pods.FIRST),
        ),
        kind=ServiceType.LOAD_BALANCER,
        external=TrafficPolicy.LOCAL,
        seconds=22,
        references=(NODES_PAGE, KEP_3458, KEP_3836),
        dialled=(At.ENDPOINT_NODE, At.VIP),
        sees=HEALTH_CHECKS,
        status_since=Need("1.30", KEP_3836),  # whose kube-proxy does so by default (KubeProxyDrainingTerminatingNodes)
    ),
    Event(
        "cordoned",
        f"While the node of a Service's only endpoint is cordoned for {CORDONED:.0f} s, and afterwards",
        (
            Change(Do.CREATE, Pods.FIRST),
            Change(Do.STAY, Pods.FIRST, disruption=Disruption.CORDON, lasts=CORDONED),
            Change(Do.STAY, Pods.FIRST, lasts=CONTROLLERS),
        ),
        kind=ServiceType.LOAD_BALANCER,
        external=TrafficPolicy.LOCAL,
        seconds=57,
        references=(NODES_PAGE, KEP_3458),
        dialled=(At.ENDPOINT_NODE, At.VIP),
        sees=HEALTH_CHECKS,
    ),
    Event(
        "proxy-stopped",
        "During and after an outage of kube-proxy on a node without local endpoints, in which a Service's only "
        "endpoint is replaced",
        (
            Change(Do.CREATE, Pods.FIRST),
            Change(
                Do.SELECT, Pods.SECOND, disruption=PROXY_STOPPED, node=Role.BARE_NODE, stuck=AT_BARE_NODE, lasts=3.0
            ),
            Change(Do.STAY, Pods.SECOND),
        ),
        seconds=76,
        references=(E2E_RESTARTS, STALE_AFTER_RESTART),
        dialled=ON_ALL_NODES,
        sees=(SCTP_NEW, SCTP_PORT),
    ),
    Event(
        "proxy-stopped-deleted",
        "During and after an outage of kube-proxy on a node without local endpoints, in which a Service is deleted",
        (
            Change(Do.CREATE, Pods.FIRST),
            Change(Do.DELETE, disruption=PROXY_STOPPED, node=Role.BARE_NODE, stuck=AT_BARE_NODE, lasts=3.0),
            Change(Do.STAY_GONE),
        ),
        seconds=90,
        references=(E2E_RESTARTS,),
        dialled=ON_ALL_NODES,
        stale=KEPT_OF_DELETED,
    ),
    Event(
        "proxy-slow",
        f"While kube-proxy of all nodes has a minSyncPeriod of {MIN_SYNC_SECONDS} s and a Service's only endpoint is "
        "replaced three times, and afterwards",
        (
            Change(Do.CREATE, Pods.FIRST),
            Change(Do.SELECT, Pods.SECOND, disruption=PROXY_SLOW, within=SLOWLY),
            Change(Do.SELECT, Pods.FIRST, disruption=PROXY_SLOW, within=SLOWLY),
            Change(Do.SELECT, Pods.ELSEWHERE, disruption=PROXY_SLOW, within=SLOWLY),
            Change(Do.STAY, Pods.ELSEWHERE),
        ),
        seconds=47,
        references=(SYNC_PERIOD, E2E_LAG),
    ),
    Event(  # some add-ons serve Services in place of kube-proxy
        "network-agent-stopped",
        "During and after two outages of the network add-on's agent on a node without local endpoints (in the first, "
        "a Service's only endpoint is replaced; in the second, the Service is deleted)",
        (
            Change(Do.CREATE, Pods.FIRST),
            Change(
                Do.SELECT, Pods.SECOND, disruption=NETWORK_STOPPED, node=Role.BARE_NODE, stuck=AT_BARE_NODE, lasts=3.0
            ),
            Change(Do.STAY, Pods.SECOND),
            Change(Do.DELETE, disruption=NETWORK_STOPPED, node=Role.BARE_NODE, stuck=AT_BARE_NODE, lasts=3.0),
            Change(Do.STAY_GONE),
        ),
        seconds=96,
        references=(E2E_RESTARTS,),
        dialled=ON_ALL_NODES,
        stale=KEPT_OF_DELETED,
    ),
    Event(
        "proxy-sick",
        "During and after a time in which kube-proxy on the endpoint node cannot write its rules and a Local Service's "
        "only endpoint is replaced",
        (
            Change(Do.CREATE, Pods.FIRST),
            Change(
                Do.SELECT, Pods.SECOND, disruption=Disruption.PROXY_SICK, stuck=frozenset({At.ENDPOINT_NODE}),
                sick=frozenset(Health), within=FIELD_LIMIT + TOLERATED,
            ),
            Change(Do.STAY, Pods.SECOND, within=FIELD_LIMIT + RETRIES),
        ),
        kind=ServiceType.LOAD_BALANCER,
        external=TrafficPolicy.LOCAL,
        unserved=True,
        seconds=132,
        references=(KEP_3836, PROXY_HEALTHY),
        dialled=(At.ENDPOINT_NODE,),
        sees=HEALTH_CHECKS,
        stale=KEPT_AFTER_FAILURE,
        stale_in=(Claim.SERVED, Claim.GONE),
        status_since=Need("1.27", PROXY_HEALTHY),
    ),
    Event(
        "controller-stopped",
        f"During and after two outages of a load balancer's controller {IN_BOTH}",
        two_outages(Disruption.CONTROLLER_STOPPED),
        kind=ServiceType.LOAD_BALANCER,
        seconds=43,
        references=(CLOUD_CONTROLLERS, LEFT_AFTER_RETYPING),
        dialled=(At.VIP,),
    ),
    Event(
        "balancer-cut-off",
        f"During and after two times in which an ECMP forwarder cannot reach the API server {IN_BOTH}",
        two_outages(Disruption.BALANCER_CUT_OFF),
        kind=ServiceType.LOAD_BALANCER,
        balancer=Balancer.ECMP,
        seconds=25,
        references=(CLOUD_CONTROLLERS, LEFT_AFTER_RETYPING),
        dialled=(At.VIP,),
    ),
    Event(
        "announcer-stopped",
        "During and after two outages of the load balancer's speaker on the only node that may announce the VIP of a "
        f"Local Service {IN_BOTH}",
        two_outages(Disruption.SPEAKER_STOPPED, away=AT_VIP),
        kind=ServiceType.LOAD_BALANCER,
        external=TrafficPolicy.LOCAL,
        seconds=43,
        references=(METALLB_LAYER_2, API_ETP),
        dialled=(At.VIP,),
    ),
    Event(
        "speaker-stopped",
        "During and after an outage of the load balancer's speaker on a node without local endpoints, in which the "
        "only endpoint of a Local Service, on another node, is replaced",
        (
            Change(Do.CREATE, Pods.FIRST),
            Change(  # a lost VIP is not waited for: a kubelet soon ends a speaker that does not answer its probes
                Do.SELECT, Pods.SECOND, disruption=Disruption.SPEAKER_STOPPED, node=Role.BARE_NODE, stuck=AT_VIP,
                lasts=SPEAKERS,
            ),
            Change(Do.STAY, Pods.SECOND, lasts=CONTROLLERS),
        ),
        kind=ServiceType.LOAD_BALANCER,
        external=TrafficPolicy.LOCAL,
        seconds=27,
        references=(METALLB_LAYER_2, API_ETP),
        dialled=(At.ENDPOINT_NODE, At.VIP),
    ),
    Event(
        "node-deleted",
        "During and after a time in which a node without local endpoints has no Node object and a Service's only "
        "endpoint is replaced",
        (
            Change(Do.CREATE, Pods.FIRST),
            Change(
                Do.SELECT, Pods.SECOND, disruption=Disruption.NODE_DELETED, node=Role.BARE_NODE, stuck=AT_BARE_NODE,
                lasts=CONTROLLERS,
            ),
            Change(Do.STAY, Pods.SECOND),
        ),
        seconds=16,
        references=(NODES_PAGE,),
        dialled=ON_ALL_NODES,
    ),
    Event(
        "node-deleted-vip",
        "While a node without local endpoints loses its Node object and registers again, for a Local Service with its "
        "only endpoint on another node",
        (
            Change(Do.CREATE, Pods.FIRST),
            Change(
                Do.STAY, Pods.FIRST, disruption=Disruption.NODE_DELETED, node=Role.BARE_NODE, lasts=CONTROLLERS
            ),
            Change(Do.STAY, Pods.FIRST, lasts=CONTROLLERS),
        ),
        kind=ServiceType.LOAD_BALANCER,
        external=TrafficPolicy.LOCAL,
        seconds=20,
        references=(NODES_PAGE, KEP_3458),
        dialled=(At.ENDPOINT_NODE, At.VIP),
    ),
    Event(
        "node-left",
        "During and after a time in which a node without local endpoints is off its network and has no Node object, "
        "and a Service's only endpoint is replaced",
        (
            Change(Do.CREATE, Pods.FIRST),
            Change(
                Do.SELECT, Pods.SECOND, disruption=Disruption.NODE_LEFT, node=Role.OTHER_NODE,
                stuck=frozenset({At.OTHER_NODE}), lasts=CONTROLLERS,
            ),
            Change(Do.STAY, Pods.SECOND),
        ),
        seconds=16,
        references=(NODES_PAGE, E2E_RESTARTS),
        dialled=(*USUAL, At.OTHER_NODE),
    ),
    Event(
        "node-restarted",
        "During and after a time in which a node without local endpoints is switched off, and a Service's only "
        "endpoint is replaced",
        (
            Change(Do.CREATE, Pods.FIRST),
            Change(
                Do.SELECT, Pods.SECOND, disruption=NODE_RESTARTED, node=Role.OTHER_NODE, stuck=AT_OTHER_NODE,
                away=AT_OTHER_NODE, lasts=CONTROLLERS,
            ),
            Change(Do.STAY, Pods.SECOND),
        ),
        seconds=40,
        references=(NODES_PAGE, E2E_RESTARTS),
        dialled=(*USUAL, At.OTHER_NODE),
    ),
    Event(
        "node-restarted-endpoint",
        "After the node of a Service's only endpoint was switched off and has started its pod again",
        (
            Change(Do.CREATE, Pods.ON_OTHER_NODE),
            Change(
                Do.STAY, Pods.ON_OTHER_NODE, disruption=NODE_RESTARTED, node=Role.OTHER_NODE, stuck=TO_OTHER_NODE,
                away=TO_OTHER_NODE, lasts=CONTROLLERS,
            ),
            Change(Do.STAY, Pods.ON_OTHER_NODE),
        ),
        seconds=40,
        references=(NODES_PAGE, E2E_RESTARTS),
        dialled=(At.BARE_NODE, At.CLUSTER_IP, At.OTHER_NODE),
    ),
    Event(
        "node-restarted-local",
        "Before the node of a Local Service's only endpoint is switched off, and after it has started its pod again",
        (
            Change(Do.CREATE, Pods.ON_OTHER_NODE),
            Change(
                Do.STAY, Pods.ON_OTHER_NODE, disruption=NODE_RESTARTED, node=Role.OTHER_NODE, stuck=AT_OTHER_NODE,
                away=AT_OTHER_NODE, lasts=CONTROLLERS,
            ),
            Change(Do.STAY, Pods.ON_OTHER_NODE),
        ),
        kind=ServiceType.LOAD_BALANCER,
        external=TrafficPolicy.LOCAL,
        unserved=True,
        seconds=40,
        references=(NODES_PAGE, API_HEALTH_PORT),
        dialled=(At.OTHER_NODE,),
        sees=HEALTH_CHECKS,
    ),
    Event(
        "node-restarted-vip",
        "While a node without local endpoints is switched off and boots, for a Local Service with its only endpoint on "
        "another node",
        (
            Change(Do.CREATE, Pods.FIRST),
            Change(Do.STAY, Pods.FIRST, disruption=NODE_RESTARTED, node=Role.OTHER_NODE, lasts=CONTROLLERS),
            Change(Do.STAY, Pods.FIRST, lasts=CONTROLLERS),
        ),
        kind=ServiceType.LOAD_BALANCER,
        external=TrafficPolicy.LOCAL,
        seconds=43,
        references=(NODES_PAGE, KEP_3458),
        dialled=(At.ENDPOINT_NODE, At.VIP),
    ),
    Event(
        "node-readdressed",
        "During and after a time in which a node without local endpoints has other InternalIPs, and a Service's only "
        "endpoint is replaced",
        (
            Change(Do.CREATE, Pods.FIRST),
            Change(
                Do.SELECT, Pods.SECOND, disruption=NODE_READDRESSED, node=Role.OTHER_NODE, stuck=AT_OTHER_NODE,
                away=AT_OTHER_NODE, lasts=CONTROLLERS,
            ),
            Change(Do.STAY, Pods.SECOND, within=FIELD_LIMIT + DEAD_WATCH),
        ),
        seconds=70,
        references=(API_NODE_ADDRESSES,),
        dialled=(*USUAL, At.OTHER_NODE),
    ),
    Event(
        "node-readdressed-endpoint",
        "While the node of a Service's only endpoint has other InternalIPs, and afterwards",
        (
            Change(Do.CREATE, Pods.ON_OTHER_NODE, closed=NO_ADDRESS_ELSEWHERE),
            Change(
                Do.STAY, Pods.ON_OTHER_NODE, disruption=NODE_READDRESSED, node=Role.OTHER_NODE, stuck=AT_OTHER_NODE,
                away=TO_OTHER_NODE, lasts=CONTROLLERS,
            ),
            Change(Do.STAY, Pods.ON_OTHER_NODE, closed=NO_ADDRESS_ELSEWHERE),
        ),
        seconds=36,
        references=(API_NODE_ADDRESSES, NETWORK_MODEL),
        dialled=(At.BARE_NODE, At.CLUSTER_IP, At.OTHER_NODE, At.NEW_ADDRESS_ELSEWHERE),
        fails_if={
            Claim.SERVED: "nodes go on sending packets for a node's pods to an address that the node has lost, or the "
            "node serves nodePorts only at addresses that it had when its service proxy started",
        },
    ),
    Event(
        "node-readdressed-ecmp",
        "While the node of a Local Service's only endpoint has other InternalIPs, and afterwards",
        (
            Change(Do.CREATE, Pods.ON_OTHER_NODE),
            Change(
                Do.STAY, Pods.ON_OTHER_NODE, disruption=NODE_READDRESSED, node=Role.OTHER_NODE, away=AT_VIP,
                lasts=CONTROLLERS,
            ),
            Change(Do.STAY, Pods.ON_OTHER_NODE),
        ),
        kind=ServiceType.LOAD_BALANCER,
        balancer=Balancer.ECMP,
        external=TrafficPolicy.LOCAL,
        seconds=36,
        references=(API_NODE_ADDRESSES,),
        dialled=(At.VIP,),
        fails_if={Claim.SERVED: "a load balancer goes on using an address that a node has lost"},
    ),
    Event(
        "api-slow",
        "While every answer of the API server takes seconds and a LoadBalancer Service's only endpoint is replaced",
        (
            Change(Do.CREATE, Pods.FIRST),
            Change(Do.SELECT, Pods.SECOND, disruption=Disruption.API_SLOW, lasts=CONTROLLERS),
            Change(Do.STAY, Pods.SECOND),
        ),
        kind=ServiceType.LOAD_BALANCER,
        seconds=17,
        references=(PROGRAMMING_LATENCY,),
        dialled=(*USUAL, At.VIP),
    ),
    Event(
        "address-added",
        "While the endpoint node has a second address for some seconds and a Service's only endpoint is replaced, and "
        "afterwards",
        (
            Change(Do.CREATE, Pods.FIRST, closed=NO_OTHER_ADDRESS),
            Change(Do.SELECT, Pods.SECOND, disruption=Disruption.ADDRESS_ADDED, lasts=CONTROLLERS),
            Change(Do.STAY, Pods.SECOND, closed=NO_OTHER_ADDRESS),
        ),
        seconds=24,
        references=(NODEPORT_ADDRESSES, KEP_3866),
        dialled=(*USUAL, At.NEW_ADDRESS),
    ),
    Event(
        "address-added-local",
        "While the endpoint node of a Local Service has a second address for some seconds and the Service has no "
        "endpoint, and afterwards",
        (
            Change(Do.CREATE, Pods.FIRST),
            Change(
                Do.SELECT, Pods.NONE, disruption=Disruption.ADDRESS_ADDED, sick=frozenset({Health.SERVICE}),
                lasts=CONTROLLERS,
            ),
            Change(Do.SELECT, Pods.SECOND),
        ),
        kind=ServiceType.LOAD_BALANCER,
        external=TrafficPolicy.LOCAL,
        unserved=True,
        seconds=48,
        references=(API_HEALTH_PORT, HEALTH_SERVERS_LEAK),
        dialled=(At.ENDPOINT_NODE,),
        sees=HEALTH_CHECKS,
        stale=KEPT_WITHOUT_ENDPOINTS,
    ),
)  # fmt: skip

OF_FEW = {
    **dict.fromkeys(HEALTH_CHECKS, "kube-proxy stays healthy in this event; other suites ask its health check"),
    TCP_RARE: "only rare connections come after the affinity's timeout",
    UDP_IDLE: "the address must be free for longer than the silence",
    **dict.fromkeys(IDLE, "another event is as long as the silence of this stream"),
}
"""Streams that only the events see that name them (``Event.sees``), and why others do not."""

OTHERS_OF_FEW = {
    TCP_FAST: "a slower stream meets the few pods of this event in time",
    TCP_PORT: "other events show what a used port meets",
}
"""The same, if an event has no reason of its own.

A SYN that meets no rule, as while an address has no Service, marks its port in connection tracking for two minutes:
from there no Service is reached, whatever rules come. ``freed`` sees ``tcp-port`` although its address has no Service:
there none come.
"""

MARKED_WITHOUT_ADDRESS = (
    "a datagram that comes while the node has not the address marks its flow in connection tracking, and each later "
    "one keeps that mark alive: nothing says who has to forget it"
)
"""Seen once the endpoint had been replaced meanwhile: no answer for 34 s at the node's own address (2026-11-29)."""


def why_not(event: Event, at: At, stream: StreamKind) -> str:
    """Return why a stream is not sent to an entry during an event; empty if it is."""
    if at not in event.dialled:
        return _why_not_there(event, at)
    if event.of_two_pods:
        own = stream in (TCP_NEW, TCP_PORT, TCP_ONE_PORT, UDP_NEW, UDP_ONE_PORT)
        return "" if own else "source ports of this stream are not those of another pod"
    if stream in (TCP_ONE_PORT, UDP_ONE_PORT):
        return "one event has two pods of a node as clients, with the same source ports"
    if (stream is LARGE) is not (at is At.SMALL_MTU):
        return "only a large answer meets a smaller MTU" if at is At.SMALL_MTU else "elsewhere packets of any size fit"
    if at is At.CLUSTER_IP_FROM_NODE and stream is TCP_PORT:
        return "the node itself listens at some of these ports"
    if at.is_new and stream.reuse is not Reuse.NEW:
        return "no flow is older than the address"
    if at is At.OTHER_NODE and stream is UDP_SOCKET and NODE_READDRESSED in event.disruptions:
        return MARKED_WITHOUT_ADDRESS
    if at is At.OUT and stream not in (UDP_NEW, UDP_SOCKET):
        return "nodes treat the answers to other streams alike"
    if stream in HEALTH_CHECKS and PROXY_SLOW in event.disruptions:
        return "kube-proxy of each node is replaced in this event, and does not answer meanwhile"
    if stream in OF_FEW and stream not in event.sees:
        return OF_FEW[stream]
    if stream in HEALTH_CHECKS:
        return "a node's health check is dialled at the node" if at is At.VIP else ""
    if unseen := event.why_unseen(stream):
        return unseen
    if event.guarded and stream in KEEPING:
        return "whether a NetworkPolicy ends flows that are under way is left to the network add-on"
    if stream in OTHERS_OF_FEW and (stream not in event.sees or (stream is TCP_PORT and at in MORE_NODES)):
        return OTHERS_OF_FEW[stream]
    if event.announced:
        if stream.protocol is Protocol.SCTP:
            return "few load balancers carry SCTP; nodePorts show what happens to its connection tracking entries"
        if (stream.protocol is UDP) is not (event.carries is UDP):
            return "many load balancers carry only one protocol, so each protocol has an event of its own"
        return ""
    if at is At.SHARED_PORT and stream.protocol is not UDP:
        return "TCP has this nodePort before and after"
    if stream.protocol is Protocol.SCTP:
        if stream not in event.sees:
            return "other events show what happens to SCTP's connection tracking entries"
        if at is At.CLUSTER_IP_FROM_NODE:
            return "nodePorts show how a node treats SCTP"
        if at is At.CLUSTER_IP:
            return "SCTP needs raw sockets, which client pods do not have"
        if at in MORE_NODES:
            return "all nodes run the same service proxy: two of them show how it treats SCTP"
    if stream.reuse is Reuse.ONE_WAY:
        if event.ends_pods:
            return "a pod that ends loses its count"
        if stream not in event.sees or at in MORE_NODES:
            return "the stream udp-socket uses the same connection tracking entries"
    return ""


def _why_not_there(event: Event, at: At) -> str:
    if unseen := event.why_unseen(at):
        return unseen
    if at is At.SHARED_PORT:
        return "only one event has the same nodePort for TCP and UDP"
    if at is At.EXTERNAL_IP:
        return "only one event has a Service with an externalIP"
    if at.is_later and not any(each.is_later for each in event.dialled):
        return "the Service keeps its port"
    if at is At.OUT:
        return "another event has a Service whose nodePort exists for long enough"
    if at.is_new:
        return "no such node gets another address in this event"
    if at is At.SMALL_MTU:
        return "what a path with a smaller MTU needs of a node does not depend on the event"
    if at.is_another:
        return "one event has another Service, which gets the address of a former endpoint"
    if at in OF_TWO_PODS and at is not At.CLUSTER_IP:
        return "one event has two pods of a node as clients"
    if at is At.VIP_FROM_NODE:
        return "only source ranges tell nodes from others"
    if at is At.CLUSTER_IP_FROM_NODE:
        return "two events show whether a node treats its own processes as it treats pods"
    if event.announced:
        return "NodePort Services show the same at nodePorts and ClusterIPs"
    if event.kind is ServiceType.CLUSTER_IP:
        return "this Service has a ClusterIP alone: the internal policy is about nothing else"
    if event.of_two_pods:
        return "clients elsewhere do not share an address behind a node's"
    if at in (At.VIP, At.VIP_LATER):
        return "NodePort Services have none"
    if at in MORE_NODES:
        return "nothing is freed, and the bare node stands for all nodes without endpoints"
    if event.external is TrafficPolicy.LOCAL:
        return "under Local only the endpoint's node may answer, as other suites require"
    return CLUSTER_INSIDE if at is At.OWN_CLUSTER_IP else "the ClusterIP and its ports stay"
