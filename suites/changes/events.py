"""What happens to Services and pods, stage by stage. Each event is crossed with each stream: see checks.py.

A new event is an entry here, its usual seconds in scenarios/service_change/scenario.py, and, for a new kind of change,
its ``Do`` and how run.py does it.
"""

from dataclasses import replace

from esipp.checks.disruption import MIN_SYNC_SECONDS, Disruption
from esipp.checks.model import Balancer, Family, Protocol, Role, ServiceType, TrafficPolicy
from esipp.checks.stream import Reuse, StreamKind
from esipp.checks.timing import FIELD_LIMIT
from esipp.scenarios.service_change.subject import (
    AFFINITY_SECONDS,
    MINUTE,
    At,
    Change,
    Do,
    Event,
    Health,
    Pods,
    closing,
)
from suites import streams

NODE_PORTS = (At.ENDPOINT_NODE, At.BARE_NODE, At.OTHER_NODE, At.CONTROL_PLANE)
TCP, UDP = Protocol.TCP, Protocol.UDP
SYNC_PERIOD = 30.0
"""Seconds after which kube-proxy tries again to write its rules, at the latest."""
TOLERATED = 2 * SYNC_PERIOD
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
AT_BARE_NODE = frozenset({At.BARE_NODE, At.CLUSTER_IP})
"""What the kube-proxy of the bare node serves: its nodePorts, and the ClusterIPs of its pods."""
SILENCES = (("idle", "a minute", float(MINUTE)), ("idle-3-min", "3 min", 180.0), ("idle-16-min", "16 min", 960.0))
"""Events in which a connection is idle, and for how many seconds. A service proxy once forgot connections of pods after
131 s; IPVS does after 15 min by default."""

EXPIRED = 150.0
"""Seconds after which Linux has forgotten a UDP flow without packets: 120, or 30 if it has seen only a few."""

NO_NODE_PORT = closing(NODE_PORTS, TCP, UDP)
NO_VIP = closing((At.VIP,), TCP)
LATER = (At.CLUSTER_IP_LATER, At.VIP_LATER)
NO_OTHER_ADDRESS = closing((At.NEW_ADDRESS,), TCP, UDP)
AT_VIP = frozenset({At.VIP})
OF_PODS = (At.CLUSTER_IP, At.OWN_CLUSTER_IP, At.POD_IP)
"""Entries that pods dial."""


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

NAMELESS = "endpoint-without-node"
"""The event about which nothing is promised."""

EVENTS = (
    Event(
        "scaled-to-zero",
        "While a Service loses all its endpoints and gets another one",
        (
            Change(Do.CREATE, Pods.FIRST),
            Change(Do.SELECT, Pods.NONE, lasts=8.0),  # nodes limit their ICMP errors: to some clients, one in 2 s
            Change(Do.SELECT, Pods.SECOND),
        ),
    ),
    Event(
        "replaced",
        "While a Service's only endpoint is replaced by another one",
        (
            Change(Do.CREATE, Pods.FIRST),
            Change(Do.SELECT, Pods.SECOND),
            Change(Do.SELECT, Pods.FIRST),
        ),
    ),
    Event(
        "moved",
        "While a Service's only endpoint is replaced by one on another node",
        (
            Change(Do.CREATE, Pods.FIRST),
            Change(Do.SELECT, Pods.ELSEWHERE),
        ),
    ),
    Event(
        "moved-local",
        "While the only endpoint of a Service with externalTrafficPolicy Local is replaced by one on another node",
        (
            Change(Do.CREATE, Pods.FIRST, closed=closing((At.BARE_NODE,), TCP, UDP)),
            Change(Do.SELECT, Pods.ELSEWHERE, closed=closing((At.ENDPOINT_NODE,), TCP, UDP)),
        ),
        external=TrafficPolicy.LOCAL,
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
    ),
    Event(
        NAMELESS,
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
    ),
    Event(
        "namesake",
        "While another Service, whose name is the beginning of this one's, gets the same endpoint and loses it",
        (
            Change(Do.CREATE, Pods.FIRST),
            Change(Do.NAMESAKE, Pods.FIRST, lasts=3.0),  # nodes must know the other Service before it loses the pod
            Change(Do.NAMESAKE_LEAVES, Pods.FIRST, lasts=5.0),
        ),
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
    ),
    Event(
        "deleted",
        "While a Service is deleted and created again with its nodePorts and ClusterIPs, for another pod",
        (
            Change(Do.CREATE, Pods.FIRST),
            Change(Do.DELETE),
            Change(Do.CREATE_AGAIN, Pods.SECOND),
        ),
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
    ),
    Event(
        "taken-over",
        "While a Service is deleted and another Service, for another pod, gets its nodePorts and ClusterIPs",
        (
            Change(Do.CREATE, Pods.FIRST),
            Change(Do.TAKE_OVER, Pods.SECOND),
        ),
    ),
    Event(
        "killed",
        "While a Service's only pod is killed without grace and replaced",
        (
            Change(Do.CREATE, Pods.KILLED),
            Change(Do.KILL),
            Change(Do.START, Pods.KILLED),
        ),
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
    ),
    Event(
        "scaled-up-and-down",
        "While a Service goes from one endpoint to five and back",
        (
            Change(Do.CREATE, Pods.FIRST),
            Change(Do.SELECT, Pods.ALL),
            Change(Do.SELECT, Pods.FIRST),
        ),
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
    ),
    *(
        Event(
            name,
            f"While nothing changes and a connection is idle for {words}",
            (
                Change(Do.CREATE, Pods.ALL),
                Change(Do.STAY, Pods.ALL, lasts=seconds + 4.0),
            ),
            long=name != "idle",
        )
        for name, words, seconds in SILENCES
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
    ),
    Event(
        "affinity-outlived",
        f"While a Service gets five endpoints and sessionAffinity ClientIP with a timeout of {AFFINITY_SECONDS} s",
        (
            Change(Do.CREATE, Pods.FIRST),
            Change(Do.AFFINITY_BRIEF, Pods.ALL, brief=True, lasts=24.0),
        ),
    ),
    Event(
        "affinity-held",
        f"While a Service gets five endpoints and sessionAffinity ClientIP with a timeout of {MINUTE} s",
        (
            Change(Do.CREATE, Pods.FIRST),
            Change(Do.AFFINITY_MINUTE, Pods.ALL, sticky=True, lasts=36.0),
        ),
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
    ),
    Event(
        "one-node-port",
        "While the UDP port of a Service gets the same nodePort as its TCP port",
        (
            Change(Do.CREATE, Pods.FIRST, closed=closing((At.SHARED_PORT,), UDP)),
            Change(Do.SHARE_PORT, Pods.FIRST, closed=closing(NODE_PORTS, UDP)),
        ),
        apart=True,
    ),
    Event(
        "port-changed",
        "While the ports of a Service change from 80 to 90 and keep their nodePorts",
        (
            Change(Do.CREATE, Pods.FIRST, closed=closing(LATER, TCP, UDP)),
            Change(Do.OTHER_PORT, Pods.FIRST, closed=closing((At.CLUSTER_IP,), TCP, UDP)),
        ),
    ),
    Event(
        "port-removed",
        "While a Service loses its UDP port and keeps its TCP port",
        (
            Change(Do.CREATE, Pods.FIRST),
            Change(Do.WITHOUT_UDP, Pods.FIRST, closed=closing((*NODE_PORTS, At.CLUSTER_IP), UDP)),
        ),
    ),
    Event(
        "target-port",
        "While targetPort of a Service becomes another port of its only pod, and the first one again",
        (
            Change(Do.CREATE, Pods.TWO_SERVERS),
            Change(Do.OTHER_TARGET, Pods.TWO_SERVERS),
            Change(Do.FIRST_TARGET, Pods.TWO_SERVERS),
        ),
    ),
    Event(
        "vip-port-changed",
        "While the port of a LoadBalancer Service changes from 80 to 90",
        (
            Change(Do.CREATE, Pods.FIRST, closed=closing(LATER, TCP)),
            Change(Do.OTHER_PORT, Pods.FIRST, closed=NO_VIP),
        ),
        kind=ServiceType.LOAD_BALANCER,
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
    ),
    Event(
        "vip-retyped",
        "While a LoadBalancer Service becomes a ClusterIP Service",
        (
            Change(Do.CREATE, Pods.FIRST),
            Change(Do.TO_CLUSTER_IP, Pods.FIRST, closed=NO_VIP),
        ),
        kind=ServiceType.LOAD_BALANCER,
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
        )
        for name, policy in (("distribution", TrafficPolicy.CLUSTER), ("distribution-local", TrafficPolicy.LOCAL))
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
    ),
    Event(
        "proxy-stopped-deleted",
        "During and after an outage of kube-proxy on a node without local endpoints, in which a Service is deleted",
        (
            Change(Do.CREATE, Pods.FIRST),
            Change(Do.DELETE, disruption=PROXY_STOPPED, node=Role.BARE_NODE, stuck=AT_BARE_NODE, lasts=3.0),
            Change(Do.STAY_GONE),
        ),
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
            Change(Do.STAY, Pods.SECOND, within=FIELD_LIMIT + SYNC_PERIOD),
        ),
        kind=ServiceType.LOAD_BALANCER,
        external=TrafficPolicy.LOCAL,
        unserved=True,
    ),
    Event(
        "controller-stopped",
        f"During and after two outages of a load balancer's controller {IN_BOTH}",
        two_outages(Disruption.CONTROLLER_STOPPED),
        kind=ServiceType.LOAD_BALANCER,
    ),
    Event(
        "balancer-cut-off",
        f"During and after two times in which an ECMP forwarder cannot reach the API server {IN_BOTH}",
        two_outages(Disruption.BALANCER_CUT_OFF),
        kind=ServiceType.LOAD_BALANCER,
        balancer=Balancer.ECMP,
    ),
    Event(
        "announcer-stopped",
        "During and after two outages of the load balancer's speaker on the only node that may announce the VIP of a "
        f"Local Service {IN_BOTH}",
        two_outages(Disruption.SPEAKER_STOPPED, away=AT_VIP),
        kind=ServiceType.LOAD_BALANCER,
        external=TrafficPolicy.LOCAL,
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
    ),
)  # fmt: skip

EVERY, VARIES = 0.4, 0.15
OFTEN = f"every {1000 * EVERY * (1 - VARIES):.0f} to {1000 * EVERY:.0f} ms"


def _often(kind: StreamKind, sent: str, timeout: float = 0.0) -> StreamKind:
    """The kind, less often than in continuity: streams of many events run at the same time."""
    return replace(kind, sent=sent, every=EVERY, varies=VARIES, timeout=timeout or kind.timeout)


TCP_NEW = _often(streams.TCP_NEW, f"a new TCP connection {OFTEN}")
TCP_PORT = _often(streams.TCP_PORT, f"a new TCP connection {OFTEN}, from eight source ports in turn", 2.0)
"""A source port is used again only when its last connection has ended, also if that got no answer."""
UDP_NEW = _often(streams.UDP_NEW, f"a datagram {OFTEN}, each from a new socket", 1.0)
UDP_SOCKET = _often(streams.UDP_SOCKET, f"a datagram {OFTEN}, all from one socket", 1.0)
UDP_ONE_WAY = _often(
    streams.UDP_ONE_WAY, f"a datagram {OFTEN}, all from one socket, which pods count but do not answer"
)
TCP_ONE_PORT = replace(
    streams.ONE_PORT,
    sent=f"a request {OFTEN}, all on one TCP connection from a certain source port",
    every=EVERY,
    varies=VARIES,
    timeout=2.0,  # a client that waits for longer sends nothing meanwhile, as if its machine had stalled
    count=0,
)
UDP_ONE_PORT = replace(
    UDP_SOCKET,
    name="udp-one-port",
    ports=1,
    sent=f"a datagram {OFTEN}, all from one socket with a certain source port",
)
SCTP_NEW, SCTP_PORT = (replace(each, timeout=1.0) for each in (streams.SCTP_NEW, streams.SCTP_PORT))

TCP_RARE = replace(streams.TCP_NEW, name="tcp-rare", sent="a new TCP connection every 3 s", every=3.0)

UDP_IDLE = replace(
    streams.UDP_SOCKET, name="udp-idle", sent=f"two datagrams from one socket, {EXPIRED:.0f} s apart", every=EXPIRED,
    count=2,
)  # fmt: skip

HEALTH_CHECKS = tuple(
    StreamKind(
        name=health.value, sent=f"a request every 500 ms for {asked}", protocol=TCP, reuse=Reuse.NEW, every=0.5,
        timeout=1.0,
    )
    for health, asked in (
        (Health.PROXY, "/healthz at port 10256 of the node"),
        (Health.SERVICE, "the health check of the Service at the node"),
    )
)  # fmt: skip

LARGE = streams.BULK_STEADY
TCP_FAST = replace(TCP_NEW, name="tcp-fast", sent="a new TCP connection every 50 ms", every=0.05)
"""It meets fifty pods in time. And a node sends each client one ICMP error a second: of 88 slow connections, no error
reached one in 34 s, while 600 datagrams of other streams had no Service at that node (kind-iptables, 2026-11-28)."""

IDLE = {
    replace(
        streams.TCP_LASTING,
        name=f"tcp-{name}",
        sent=f"two requests on one TCP connection, {words} apart",
        every=seconds,
        count=2,
    ): name
    for name, words, seconds in SILENCES
}
"""Streams that are silent for long, and their events."""

STREAMS = (
    TCP_NEW, TCP_PORT, TCP_ONE_PORT, LARGE, TCP_FAST, UDP_NEW, UDP_SOCKET, UDP_ONE_PORT, UDP_ONE_WAY, SCTP_NEW,
    SCTP_PORT, TCP_RARE, *IDLE, UDP_IDLE, *HEALTH_CHECKS,
)  # fmt: skip
"""What clients send, through all stages of an event. Many events happen at once, so the pace is slow."""

KEEPING = {
    **dict.fromkeys((TCP_PORT, TCP_ONE_PORT, *IDLE), TCP_NEW),
    **dict.fromkeys((UDP_SOCKET, UDP_ONE_PORT, UDP_ONE_WAY), UDP_NEW),
    SCTP_PORT: SCTP_NEW,
}
"""Streams that keep their port through all stages, and the same kind from new ports."""

COMPARED = {**KEEPING, LARGE: TCP_NEW}
"""Streams, and those of the same client that show which of two things fails."""

ENTRIES = {
    At.ENDPOINT_NODE: "the nodePort of the endpoint node",
    At.BARE_NODE: "the nodePort of a node without local endpoints",
    At.OTHER_NODE: "the nodePort of a third node",
    At.CONTROL_PLANE: "the nodePort of a control plane node",
    At.SHARED_PORT: "the nodePort of the Service's TCP port",
    At.CLUSTER_IP: "the ClusterIP",
    At.OWN_CLUSTER_IP: "the ClusterIP from the endpoint's node",
    At.CLUSTER_IP_FROM_NODE: "the ClusterIP, from a host process",
    At.CLUSTER_IP_LATER: "port 90 of the ClusterIP",
    At.VIP: "the VIP",
    At.VIP_LATER: "port 90 of the VIP",
    At.EXTERNAL_IP: "the externalIP, an address of a node without local endpoints",
    At.VIP_FROM_NODE: "the VIP from a node",
    At.SMALL_MTU: "the nodePort of a node without local endpoints, from behind a route with an MTU of 1,300",
    At.OUT: "another node, from a pod",
    At.NEW_ADDRESS: "the nodePort of the endpoint node, at an address that it has for a while",
    At.FROM_POD: "the nodePort of the endpoint node, from a pod of another node",
    At.FROM_SECOND_POD: "the nodePort of the endpoint node, from a second pod with the source ports of the first",
    At.CLUSTER_IP_FROM_SECOND_POD: "the ClusterIP, from a second pod with the source ports of the first",
    At.ANOTHER_SERVICE: "the nodePort of that other Service",
    At.ANOTHER_CLUSTER_IP: "the ClusterIP of that other Service",
}
"""What is dialled."""

MORE_NODES = (At.OTHER_NODE, At.CONTROL_PLANE)
"""Entries that are dialled only where a change frees an address or a port: every node must then stop serving it."""

OF_TWO_PODS = (At.CLUSTER_IP, At.CLUSTER_IP_FROM_SECOND_POD, At.FROM_POD, At.FROM_SECOND_POD)
"""Entries that two pods of one node dial, with the same source ports at the same time."""

USUAL = (At.ENDPOINT_NODE, At.BARE_NODE, At.CLUSTER_IP)
DIALLED = {
    "replaced": (*USUAL, At.CLUSTER_IP_FROM_NODE, At.SMALL_MTU, At.OUT),
    "moved": (*USUAL, At.CLUSTER_IP_FROM_NODE),
    "one-source-port": OF_TWO_PODS,
    "deleted": (*USUAL, *MORE_NODES),
    **dict.fromkeys(("taken-over", "freed"), (*USUAL, *MORE_NODES)),
    **dict.fromkeys(
        ("terminating-local", "replaced-local", "distribution-local", NAMELESS), (At.ENDPOINT_NODE, At.OWN_CLUSTER_IP)
    ),
    "endpoint-slices": (*USUAL, At.OWN_CLUSTER_IP),
    "address-reused": (At.ENDPOINT_NODE, At.CLUSTER_IP, At.ANOTHER_SERVICE, At.ANOTHER_CLUSTER_IP),
    **dict.fromkeys(("retyped", "retyped-otherwise"), (*USUAL, *MORE_NODES)),
    "one-node-port": (At.ENDPOINT_NODE, At.BARE_NODE, At.SHARED_PORT),
    "port-changed": (*USUAL, At.CLUSTER_IP_LATER),
    "vip-port-changed": (At.VIP, At.VIP_LATER),
    "external-ip": (At.VIP, At.EXTERNAL_IP),
    "proxy-stopped": (*USUAL, *MORE_NODES),
    "proxy-stopped-deleted": (*USUAL, *MORE_NODES),
    "network-agent-stopped": (*USUAL, *MORE_NODES),
    "proxy-sick": (At.ENDPOINT_NODE,),
    "node-deleted": (*USUAL, *MORE_NODES),
    "node-left": (*USUAL, At.OTHER_NODE),
    "api-slow": (*USUAL, At.VIP),
    "address-added": (*USUAL, At.NEW_ADDRESS),
    "address-added-local": (At.ENDPOINT_NODE,),
    "source-ranges": (At.VIP, At.VIP_FROM_NODE),
    "network-policy": (At.ENDPOINT_NODE, At.CLUSTER_IP, At.OWN_CLUSTER_IP),
    "network-policy-vip": (At.VIP,),
    **dict.fromkeys(
        ("unwanted-node", "cordoned", "node-deleted-vip", "affinity-local", "speaker-stopped"),
        (At.ENDPOINT_NODE, At.VIP),
    ),
    "families": (*USUAL, *MORE_NODES),
    "moved-local": (At.ENDPOINT_NODE, At.BARE_NODE),
    "internal-policy": (At.CLUSTER_IP, At.OWN_CLUSTER_IP),
    **dict.fromkeys(
        (
            "vip",
            "vip-without-node-ports",
            "vip-udp",
            "vip-retyped",
            "controller-stopped",
            "balancer-cut-off",
            "announcer-stopped",
            "freed-vip",
        ),
        (At.VIP,),
    ),
}
"""What is dialled in an event, if not the usual entries."""

TRACKED = ("scaled-to-zero", "replaced", "deleted", "taken-over")
"""The events of the datagrams that pods do not answer."""

OF_ONE_PORT = ("replaced", "moved", "one-source-port", "address-reused", "freed")
"""The events that connections from used ports see. A SYN that meets no rule, as while an address has no Service, marks
its port in connection tracking for two minutes: from there no Service is reached, whatever rules come. In ``freed``
none comes."""

OF_PORTS = ("port-changed", "vip-port-changed")

OF_FREED = ("freed", "freed-vip")

OF_DISTRIBUTION = ("distribution", "distribution-local")

OF_RARE = ("affinity-outlived", "affinity-held")

OF_SCTP = ("replaced", "taken-over", "proxy-stopped")

OF_HEALTH = ("proxy-sick", "unwanted-node", "cordoned", "address-added-local")


def why_not(event: Event, at: At, stream: StreamKind) -> str:
    """Return why a stream is not sent to an entry during an event; empty if it is."""
    if at not in DIALLED.get(event.name, USUAL):
        return _why_not_there(event, at)
    if event.name == "one-source-port":
        own = stream in (TCP_NEW, TCP_PORT, TCP_ONE_PORT, UDP_NEW, UDP_ONE_PORT)
        return "" if own else "source ports of this stream are not those of another pod"
    if stream in (TCP_ONE_PORT, UDP_ONE_PORT):
        return "one event has two pods of a node as clients, with the same source ports"
    if (stream is LARGE) is not (at is At.SMALL_MTU):
        return "only a large answer meets a smaller MTU" if at is At.SMALL_MTU else "elsewhere packets of any size fit"
    if at is At.CLUSTER_IP_FROM_NODE and stream is TCP_PORT:
        return "the node itself listens at some of these ports"
    if at is At.NEW_ADDRESS and stream.reuse is not Reuse.NEW:
        return "no flow is older than the address"
    if at is At.OUT and stream not in (UDP_NEW, UDP_SOCKET):
        return "nodes treat the answers to other streams alike"
    if stream in HEALTH_CHECKS:
        if PROXY_SLOW in event.disruptions:
            return "kube-proxy of each node is replaced in this event, and does not answer meanwhile"
        if event.name not in OF_HEALTH:
            return "kube-proxy stays healthy in this event; other suites ask its health check"
        return "a node's health check is dialled at the node" if at is At.VIP else ""
    if (stream is TCP_RARE) is not (event.name in OF_RARE):
        return (
            "only rare connections come after the affinity's timeout"
            if stream is TCP_RARE
            else "its probes come too often for the affinity to time out"
        )
    if event.name == "freed" and stream is UDP_SOCKET:
        return "its datagrams keep its connection tracking entry alive: another event shows what they meet"
    if stream is UDP_IDLE and event.name not in OF_FREED:
        return "the address must be free for longer than the silence"
    if stream in IDLE:
        return "" if event.name == IDLE[stream] else "another event is as long as the silence of this stream"
    if event.name in IDLE.values() and stream is not TCP_NEW:
        return "nothing changes"
    if event.name == "scaled-to-fifty" and stream is not TCP_FAST:
        return "a quick stream meets fifty pods in time"
    if stream is TCP_FAST and event.name not in ("scaled-to-fifty", "scaled-to-zero"):
        return "a slower stream meets the few pods of this event in time"
    if event.name == "finalizer" and stream is not TCP_NEW:
        return "another event shows it at a Service that is deleted without a finalizer"
    if event.name == "families" and stream in KEEPING:
        return "other events show what flows under way meet when a nodePort is freed"
    if event.name == "namesake" and stream in KEEPING:
        return "its endpoint stays: new flows show whether nodes know it"
    if event.name in (*OF_DISTRIBUTION, "endpoint-slices", NAMELESS) and stream in KEEPING:
        return "other events show what flows under way meet when an endpoint is replaced"
    if event.guarded and stream in KEEPING:
        return "whether a NetworkPolicy ends flows that are under way is left to the network add-on"
    if stream is TCP_PORT and (event.name not in OF_ONE_PORT or at in MORE_NODES):
        return "other events show what a used port meets"
    if event.name == "internal-policy" and stream in KEEPING:
        return "flows that have a pod may keep it when a policy changes"
    if event.announced:
        if stream.protocol is Protocol.SCTP:
            return "few load balancers carry SCTP; nodePorts show what happens to its connection tracking entries"
        if (stream.protocol is UDP) is not (event.name == "vip-udp"):
            return "many load balancers carry only one protocol, so each protocol has an event of its own"
        return ""
    if at is At.SHARED_PORT and stream.protocol is not UDP:
        return "TCP has this nodePort before and after"
    if stream.protocol is Protocol.SCTP:
        if event.name not in OF_SCTP:
            return "other events show what happens to SCTP's connection tracking entries"
        if at is At.CLUSTER_IP_FROM_NODE:
            return "nodePorts show how a node treats SCTP"
        if at is At.CLUSTER_IP:
            return "SCTP needs raw sockets, which client pods do not have"
        if at in MORE_NODES:
            return "all nodes run the same service proxy: two of them show how it treats SCTP"
    if stream.reuse is Reuse.ONE_WAY:
        if event.name in ("killed", "terminating", "terminating-local"):
            return "a pod that ends loses its count"
        if event.name not in TRACKED or at in MORE_NODES:
            return "the stream udp-socket uses the same connection tracking entries"
    if stream is UDP_SOCKET and event.name == "affinity":
        return "one socket keeps its pod even without affinity"
    return ""


def _why_not_there(event: Event, at: At) -> str:
    if at is At.SHARED_PORT:
        return "only one event has the same nodePort for TCP and UDP"
    if at is At.EXTERNAL_IP:
        return "only one event has a Service with an externalIP"
    if at.is_later and event.name not in OF_PORTS:
        return "the Service keeps its port"
    if at is At.OUT:
        return "another event has a Service whose nodePort exists for long enough"
    if at is At.NEW_ADDRESS:
        return "no node gets another address in this event"
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
    if event.name == "one-source-port":
        return "clients elsewhere do not share an address behind a node's"
    if event.name == "moved-local" and at is At.CLUSTER_IP:
        return "the external policy is not about ClusterIPs, and another event moves the endpoint of one"
    if at in (At.VIP, At.VIP_LATER):
        return "NodePort Services have none"
    if at in MORE_NODES:
        return "nothing is freed, and the bare node stands for all nodes without endpoints"
    if event.name in (
        "terminating-local", "replaced-local", "proxy-sick", "address-added-local", "network-policy",
        "distribution-local", NAMELESS, "address-reused",
    ):  # fmt: skip
        return "under Local only the endpoint's node may answer, as other suites require"
    return (
        "internalTrafficPolicy is Cluster: other nodes' clients show it"
        if at is At.OWN_CLUSTER_IP
        else "the ClusterIP and its ports stay"
    )
