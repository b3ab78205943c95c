"""The upstream specs to run, with their assertions and the corresponding checks of this suite; maintained by hand.

The table covers sig-network's end-to-end tests for source addresses, traffic policies, health checks, node ports,
session affinity, source ranges and load balancers, from test/e2e/network of Kubernetes 1.36. ``text`` is the spec's own
name; the descriptions are this suite's.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

SERVICES = "Services"
BALANCERS = "LoadBalancers"
LOCAL = "LoadBalancers ExternalTrafficPolicy: Local"
NO_SNAT = "NoSNAT"
CONNTRACK = "Conntrack"


@dataclass(frozen=True)
class Spec:
    """One spec of upstream.

    Args: suite: its ginkgo container, without the SIG. text: its own name, without labels in brackets. asserts: its
    assertion in one sentence. ours: parts of ids of the checks with at least this assertion; empty if there are none.
    differs: the difference between both sides' assertions. once: it runs only on the healthy cluster, as it tests that
    a Service answers after changes of its fields or pods, which no break affects. lasting: it always takes ten minutes
    or more.
    """

    suite: str
    text: str
    asserts: str
    ours: tuple[str, ...] = ()
    differs: str = ""
    once: bool = False
    lasting: bool = False

    @property
    def name(self) -> str:
        """The suite and the text."""
        return f"{self.suite} {self.text}"

    @property
    def focus(self) -> str:
        """A regular expression which this spec's whole name alone matches."""
        return rf"\] {re.escape(self.suite)} (\[[^\]]*\] )*{re.escape(self.text)}( \[|$)"


SPECS = (
    # -------------------------------------------------------------------------------------------------- source address
    Spec(
        SERVICES,
        "should preserve source pod IP for traffic thru service cluster IP",
        "A pod on the endpoint's node and one on another see their own address arrive by a ClusterIP.",
        ("clusterip.tcp.ipv4.pod-on-",),
        "It checks one answer per client. We require every answer of several to be right, also over UDP, SCTP and "
        "IPv6.",
    ),
    Spec(
        NO_SNAT,
        "Should be able to send traffic between Pods without SNAT",
        "Every ordered pair of up to three pods sees the other's own address by its pod IP.",
        ("pod-ip.tcp.ipv4.pod-on-",),
        "It covers every pair of nodes; we cover the endpoint node and one other.",
    ),
    Spec(
        LOCAL,
        "should work for type=LoadBalancer",
        "The source of traffic to a VIP under Local is not in the first node's /16 (IPv6: /64). A health check node "
        "port exists, and closes when the Service is no longer a LoadBalancer.",
        ("loadbalancer.local.tcp.ipv4.outside-1-to-vip", "healthcheck.lifecycle.freed-by-type"),
        "It does not compare with the client's address: it accepts any address outside the nodes' network, and "
        "rejects any client inside it. We compare with the client's actual address.",
    ),
    Spec(
        LOCAL,
        "should work from pods",
        "A pod that dials a VIP under Local keeps its own address as source.",
        ("loadbalancer.local.tcp.ipv4.pod-on-",),
        "It repeats with one pod over IPv4 until the answer is right, for up to ten minutes.",
    ),
    Spec(
        SERVICES,
        "should support externalTrafficPolicy=Local for type=NodePort",
        "A process on one node that dials the endpoint node's nodePort under Local arrives with its node's address.",
        ("nodeport.local.tcp.ipv4.host-on-other-node-to-endpoint-node",),
        "Its client is a node of the cluster, none outside; ours are both.",
    ),
    Spec(
        SERVICES,
        "should allow pods to hairpin back to themselves through services",
        "A pod reaches itself through its service's ClusterIP.",
        ("clusterip.tcp.ipv4.backend-to-clusterip",),
        "It checks no source address; we expect the node's.",
    ),
    # ------------------------------------------------------------------------------------- delivery, external policies
    Spec(
        SERVICES,
        "should implement NodePort and HealthCheckNodePort correctly when ExternalTrafficPolicy changes",
        "Under Local the endpoint's node answers its nodePort and 200, two others do not and 503, the client's own "
        "address arrives; under Cluster all three answer and no health check does; back under Local it is as before.",
        ("nodeport.local.tcp.ipv4.", "healthcheck.one-pod.ipv4.", "flip.nodeport.ipv4.", "flip.loadbalancer.ipv4."),
        "It asks each from one node of the cluster, with 30 s for every round; we ask from outside as well, and hold "
        "the health check's document against the pods.",
    ),
    Spec(
        LOCAL,
        "should only target nodes with endpoints",
        "One pod after another on each of three nodes: the VIP answers, the health check node port says 200 there, "
        "and twice not 200 on the others.",
        ("healthcheck.placement.status.ipv4.", "loadbalancer.local.tcp.ipv4.outside-1-to-vip"),
        "Refusal and silence count as not 200; we require the 503.",
    ),
    Spec(
        LOCAL,
        "should target all nodes with endpoints",
        "Connections to a VIP under Local reach both of two pods on two nodes.",
        ("nodes.nodeport.local.tcp.ipv4.own-endpoint", "nodes.vip.local.tcp.ipv4.shares"),
        "Ours asks every node with an endpoint at its nodePort. Which nodes a VIP leads to is recorded: in L2 mode one "
        "node gets all traffic by design.",
    ),
    Spec(
        SERVICES,
        "should be possible to connect to a service via ExternalIP when the external IP is not assigned to a node",
        "A pod reaches a service by an externalIP that no node has.",
        ("external-ips.unset.tcp.ipv4.pod-on-",),
        "It checks no source address and no policy.",
        once=True,
    ),
    Spec(
        SERVICES,
        "should be able to create a functioning NodePort service",
        "Pods reach a NodePort service by name, by ClusterIP and by the nodePorts of two nodes.",
        ("nodeport.unset.tcp.ipv4.pod-on-", "interop.names.clusterip."),
        "It checks no source address.",
        once=True,
    ),
    Spec(
        SERVICES,
        "should be able to update service type to NodePort listening on same port number but different protocols",
        "One nodePort number serves TCP and UDP.",
        ("changes.one-node-port.shared-node-port.udp-new",),
        "Ours changes the nodePort while clients ask.",
        once=True,
    ),
    Spec(
        SERVICES,
        "should serve endpoints on same port and different protocol for internal traffic on Type LoadBalancer",
        "A LoadBalancer service whose port serves TCP and UDP answers a pod by both on its ClusterIP.",
        ("changes.replaced.clusterip.tcp-new", "changes.replaced.clusterip.udp-new"),
        "Ours is a NodePort Service with one port, one nodePort and one ClusterIP for both protocols.",
        once=True,
    ),
    # --------------------------------------------------------------------------------------------------- health checks
    Spec(
        SERVICES,
        "should fail health check node port if there are only terminating endpoints",
        "With only a terminating pod the health check node port says 503, and the nodePort still serves.",
        ("healthcheck.terminating.status.ipv4.", "healthcheck.terminating.serves.ipv4."),
        "We also check source address and count.",
    ),
    # --------------------------------------------------------------------------------- internal policy, terminating
    Spec(
        SERVICES,
        "should respect internalTrafficPolicy=Local Pod to Pod",
        "A pod on the endpoint's node reaches the service's ClusterIP five times, one on another node does not.",
        ("clusterip.itp-local.tcp.ipv4.pod-on-",),
        "It checks no source address, and accepts any error on the other node.",
    ),
    Spec(
        SERVICES,
        "should respect internalTrafficPolicy=Local Pod (hostNetwork: true) to Pod",
        "A process on the endpoint's node reaches the service's ClusterIP five times, one on another node does not.",
        ("clusterip.itp-local.tcp.ipv4.host-on-",),
        "It checks no source address, and accepts any error on the other node.",
    ),
    Spec(
        SERVICES,
        "should respect internalTrafficPolicy=Local Pod and Node, to Pod (hostNetwork: true)",
        "Under internalTrafficPolicy Local an endpoint in its node's network is reached from that node only.",
        ("clusterip.itp-local.host-network.tcp.ipv4.pod-on-",),
        "Ours asks from pods on both nodes, also over UDP and IPv6.",
    ),
    Spec(
        SERVICES,
        "should fallback to terminating endpoints when there are no ready endpoints with internalTrafficPolicy=Cluster",
        "When only terminating pods are left, pods on both nodes still reach the ClusterIP.",
        ("changes.terminating.clusterip.tcp-new",),
        "Ours asks from a node without endpoints.",
    ),
    Spec(
        SERVICES,
        "should fallback to local terminating endpoints when there are no ready endpoints with "
        "internalTrafficPolicy=Local",
        "When only a terminating pod is left, its node's pods reach the ClusterIP under internalTrafficPolicy Local.",
        ("changes.terminating-local.clusterip-on-endpoint-node.tcp-new",),
    ),
    Spec(
        SERVICES,
        "should fallback to terminating endpoints when there are no ready endpoints with "
        "externallTrafficPolicy=Cluster",
        "When only terminating pods are left, pods on both nodes still reach a nodePort.",
        (
            "changes.terminating.endpoint-node.tcp-new",
            "changes.terminating.bare-node.tcp-new",
        ),
        "Ours asks from outside.",
    ),
    Spec(
        SERVICES,
        "should fallback to local terminating endpoints when there are no ready endpoints with "
        "externalTrafficPolicy=Local",
        "When only a terminating pod is left, its node's nodePort under Local answers, another node's does not.",
        ("healthcheck.terminating.serves.ipv4.", "continuity.rolling-update.nodeport.local.ipv4.terminating-serves"),
        "Its clients are pods, ours are outside.",
    ),
    Spec(
        SERVICES,
        "should be rejected when no endpoints exist",
        "A pod that dials a service without any endpoint is refused.",
        ("changes.scaled-to-zero.clusterip.tcp-fast",),
        "Ours loses its endpoints first, and gets another one.",
        once=True,
    ),
    # ----------------------------------------------------------------------------------------------- session affinity
    Spec(
        SERVICES,
        "should have session affinity work for service with type clusterIP",
        "With ClientIP affinity a pod reaches the same one of three pods by ClusterIP, 15 times.",
        ("changes.affinity.clusterip.tcp-new",),
        "Ours switches the affinity on while the pod asks.",
    ),
    Spec(
        SERVICES,
        "should have session affinity work for NodePort service",
        "With ClientIP affinity a pod reaches the same one of three pods by nodePort, 15 times.",
        ("nodeport.local.pair.affinity.tcp.ipv4.",),
        "Ours are several clients outside under Local, each of which keeps its backend and is seen as itself.",
    ),
    Spec(
        SERVICES,
        "should be able to switch session affinity for service with type clusterIP",
        "Affinity switched off and on is followed, by ClusterIP.",
        ("changes.affinity.clusterip.tcp-new",),
        "Ours replaces the endpoints meanwhile, too.",
        once=True,
    ),
    Spec(
        SERVICES,
        "should be able to switch session affinity for NodePort service",
        "Affinity switched off and on is followed, by nodePort.",
        (
            "changes.affinity.endpoint-node.tcp-new",
            "changes.affinity.bare-node.tcp-new",
        ),
        "Ours replaces the endpoints meanwhile, too.",
        once=True,
    ),
    Spec(
        BALANCERS,
        "should have session affinity work for LoadBalancer service with Local traffic policy",
        "With ClientIP affinity the client reaches the same pod by VIP 15 times, under Local.",
        ("loadbalancer.local.pair.affinity.tcp.ipv4.",),
        "Ours are several clients, each of which keeps its backend and is seen as itself.",
    ),
    Spec(
        BALANCERS,
        "should have session affinity work for LoadBalancer service with Cluster traffic policy",
        "With ClientIP affinity the client reaches the same pod by VIP 15 times, under Cluster.",
        ("nodeport.cluster.pair.affinity.tcp.ipv4.",),
        "Ours asks at one node's nodePort: behind a load balancer that spreads, each node chooses for itself.",
    ),
    Spec(
        BALANCERS,
        "should be able to switch session affinity for LoadBalancer service with Local traffic policy",
        "Affinity switched off and on is followed, by VIP, under Local.",
        ("changes.affinity-local.vip.tcp-new",),
        "Ours replaces the endpoints meanwhile, too.",
        lasting=True,
    ),
    Spec(
        BALANCERS,
        "should be able to switch session affinity for LoadBalancer service with Cluster traffic policy",
        "Affinity switched off and on is followed, by VIP, under Cluster.",
        ("changes.affinity.bare-node.tcp-new",),
        "Ours asks at nodePorts and the ClusterIP, and replaces the endpoints meanwhile, too.",
        once=True,
    ),
    # ------------------------------------------------------------------------------------------------- load balancers
    Spec(
        BALANCERS,
        "should only allow access from service loadbalancer source ranges",
        "A pod within loadBalancerSourceRanges reaches the VIP, another does not; so with all, none and no ranges.",
        ("loadbalancer.local.source-ranges.tcp.ipv4.",),
        "Its clients are pods, ours are outside; it changes the ranges, we do not.",
        lasting=True,
    ),
    Spec(
        BALANCERS,
        "should be able to create LoadBalancer Service without NodePort and change it",
        "A LoadBalancer service without nodePorts answers; asked for then, they are allocated.",
        ("api.allocate.",),
        "Ours is about the API's fields.",
        once=True,
    ),
    Spec(
        BALANCERS,
        "should handle load balancer cleanup finalizer for service",
        "The finalizer of cloud controllers comes and goes with the type.",
        (),
        "It is the cloud provider library's own; load balancers that do not use that library have none.",
        lasting=True,
    ),
    Spec(
        BALANCERS,
        "should be able to change the type and ports of a TCP service",
        "ClusterIP, NodePort, LoadBalancer, other ports, no pod, one pod, ClusterIP: each is followed.",
        ("api.change.", "changes.port-changed.", "changes.vip-port-changed."),
        "Ours changes the type in every order, and dials after each change; clients send while the port changes.",
        once=True,
    ),
    Spec(
        BALANCERS,
        "should be able to change the type and ports of a UDP service",
        "The same changes by UDP.",
        ("api.change.", "changes.port-changed.clusterip-at-later-port.udp-new"),
        "Ours changes the type in every order, and dials after each change; clients send while the port changes.",
        once=True,
    ),
    Spec(
        BALANCERS,
        "should be able to preserve UDP traffic when server pod cycles for a LoadBalancer service on different nodes",
        "One UDP socket outside reaches the second pod, on another node, after the first is gone.",
        ("changes.moved.endpoint-node.udp-socket", "changes.moved.bare-node.udp-socket"),
        "Ours asks at the nodePorts of both nodes: one gets the endpoint, the other loses it.",
        once=True,
    ),
    Spec(
        BALANCERS,
        "should be able to preserve UDP traffic when server pod cycles for a LoadBalancer service on the same nodes",
        "One UDP socket outside reaches the second pod, on the same node, after the first is gone.",
        ("changes.vip-udp.vip.udp-socket",),
        "Ours has no endpoint in between.",
        once=True,
    ),
    Spec(
        CONNTRACK,
        "should be able to preserve UDP traffic when server pod cycles for a ClusterIP service with "
        "InternalTrafficPolicy set to Local",
        "One UDP socket reaches the second pod of its node by ClusterIP after the first is gone.",
        ("changes.replaced-local.clusterip-on-endpoint-node.udp-socket",),
        once=True,
    ),
    Spec(
        BALANCERS,
        "should not have connectivity disruption during rolling update with externalTrafficPolicy=Cluster",
        "Five rolling updates under some 100 requests a second by VIP: each lets at least 95 % through.",
        ("continuity.rolling-update.default.cluster.",),
        "It counts; we also look at the source of every answer and at the longest gap.",
        lasting=True,
    ),
    Spec(
        BALANCERS,
        "should not have connectivity disruption during rolling update with externalTrafficPolicy=Local",
        "Five rolling updates under some 100 requests a second by VIP under Local: each lets at least 95 % through.",
        ("continuity.rolling-update.default.local.",),
        "It counts; we also look at the source of every answer and at the longest gap.",
        lasting=True,
    ),
)

BY_NAME: Mapping[str, Spec] = {spec.name: spec for spec in SPECS}


def spec_of(full_name: str) -> Spec | None:
    """Return the spec of a name as upstream's report has it, with the SIG and all labels in brackets."""
    bare = re.sub(r"\s*\[[^\]]*\]", "", full_name).strip()
    return BY_NAME.get(bare)
