"""Known differences of path checks: allowed behaviour of data planes, and known defects. Data only.

Every difference names the facts under which it holds. Preflight finds these facts on the cluster.
"""

from dataclasses import replace

from esipp.checks.ingress import AT_SERVICE, OF_SERVICE, PROXY
from esipp.checks.known_differences import Connections, KnownDifference, Nature, Proof
from esipp.checks.model import NO_ANSWER, OF_NODES, AddressClass, EntryKind, Path, Role, TrafficPolicy, Vantage
from suites.known_differences.balancers import ANNOUNCED_WITHOUT_ENDPOINT, EVIDENCE, HIDES, REASON, REFERENCES
from suites.known_differences.cilium import CILIUMS
from suites.known_differences.where import (
    BARE,
    CLIENT,
    HAIRPIN,
    NODE,
    OnPaths,
    from_outside_under_cluster,
    inside,
    local,
    own_balancer,
    short_circuit,
    towards_another_node,
)
from suites.references import *

NOTHING = frozenset[AddressClass]()
NOT_REWRITTEN = KnownDifference(
    (),
    Connections(CLIENT),
    "the data plane, like some eBPF ones, does not rewrite the source under Cluster; the API does not require it",
    (API_ETP, CILIUM_NO_REWRITE),
)
BY_PROXY = KnownDifference(
    ((OF_SERVICE, PROXY),),
    Connections(proof=Proof.BALANCER),
    REASON,
    REFERENCES,
    evidence=EVIDENCE,
    hides=HIDES,
)
TURNED_BACK = KnownDifference(
    ((AT_SERVICE, "hostname"),),
    Connections(turned_back=True),
    "the load balancer keeps the client's address and sends a connection to the node that it comes from, which drops "
    "the answer to itself; kube-proxy does not know the addresses behind a hostname, so clients in the cluster reach "
    "the load balancer",
    (NLB_LOOPBACK, HAIRPIN_AT_BALANCER),
    by_chance=True,
    nature=Nature.DEFECT,
    evidence="Packets show that lost connections came back to the client's own node, and none that did not; if they "
    "show none of this path, they show it of this client at another VIP. No answer came by way of that node, and no "
    "more connections were lost than go to one node by chance.",
    hides="Of 200 connections, about 20 more than go to that node may get lost for another reason.",
)

DIFFERENCES = (
    *(
        OnPaths(
            lambda path, family=family: path.family.value.lower() == family and towards_another_node(path),
            CLIENT,
            KnownDifference(
                ((f"pod-to-node.{family}", "masqueraded"),),
                Connections(NODE, proof=Proof.OWN_NODE),
                "the network add-on masquerades pod traffic to node addresses before any Service rule applies",
                (MASQUERADE_AGENT, KINDNET, FLANNEL_MASQUERADING),
                evidence="The source is an address of the client pod's own node, and control listeners on other nodes "
                "saw masqueraded pods in this run.",
                hides="The client's node may masquerade only traffic to Services.",
            ),
        )
        for family in ("ipv4", "ipv6")
    ),
    *(
        OnPaths(
            lambda path: path.entry.kind is EntryKind.SECOND_ADDRESS,
            accepted,
            KnownDifference(
                (("node-port-addresses", "primary"),),
                Connections(NO_ANSWER),
                "the service proxy serves nodePorts on the node's primary addresses only",
                (NODEPORT_ADDRESSES, KEP_3866, CILIUM_NODEPORT_ADDRESSES),
                evidence="A node's second address does not answer, and the configuration of the service proxy says so.",
                hides="Packets to a second address may get lost for another reason.",
            ),
        )
        for accepted in (CLIENT, NODE)
    ),
    *(
        OnPaths(
            lambda path, family=family: (
                path.family.value.lower() == family
                and local(path)
                and path.entry.role in BARE
                and path.client.vantage is Vantage.POD
            ),
            NO_ANSWER,
            KnownDifference(
                (("detect-local", "ClusterCIDR"), (f"pod-to-node.{family}", "unchanged")),
                Connections(NO_ANSWER, forwarded=True),
                "a node without local endpoints treats every pod as its own and forwards its packets without "
                "masquerading; the backend's answer bypasses that node, so the client cannot use it",
                (POD_AT_BARE_NODE,),
                nature=Nature.DEFECT,
                evidence="The client gets no answer, and packets show that its request reached a backend.",
                hides="A node without local endpoints may forward a pod's packets for another reason.",
            ),
        )
        for family in ("ipv4", "ipv6")
    ),
    OnPaths(
        lambda path: short_circuit(path) and path.client.vantage is Vantage.POD,
        CLIENT,
        KnownDifference(
            (("detect-local", "none"),),
            Connections(NO_ANSWER),
            "kube-proxy cannot detect traffic from local pods, so it has no short circuit for them",
            (CLUSTER_CIDR, LOCAL_DETECTOR),
            evidence="A pod on a node without local endpoints gets no answer, and kube-proxy's configuration names no "
            "way to detect local traffic.",
            hides="Such pods may not reach the VIP for another reason.",
        ),
    ),
    OnPaths(
        short_circuit,
        CLIENT,
        KnownDifference(
            (("proxy-mode", "nftables"),),
            Connections(NO_ANSWER),
            "nftables mode has no short circuit on nodes without local endpoints",
            (NFTABLES_SHORT_CIRCUIT, NFTABLES_FIX, NFTABLES_FIX_1_33),
            before="kube-proxy-version 1.33.6",
            nature=Nature.DEFECT,
            evidence="A client on a node without local endpoints gets no answer.",
            hides="Such a client may not reach the VIP for another reason.",
        ),
    ),
    OnPaths(
        lambda path: short_circuit(path) and path.client.vantage is Vantage.NODE,
        CLIENT,
        KnownDifference(
            (("proxy-mode", "ipvs"),),
            Connections(NO_ANSWER),
            "in IPVS mode, a host process on a node without local endpoints does not reach the VIP of a Local Service",
            (IPVS_SHORT_CIRCUIT,),
            nature=Nature.DEFECT,
            evidence="A host process on a node without local endpoints gets no answer.",
            hides="Such a client may not reach the VIP for another reason.",
        ),
    ),
    OnPaths(
        lambda path: (
            path.entry.kind is EntryKind.CLUSTER_IP
            and path.service is not None
            and path.service.internal is TrafficPolicy.LOCAL
        ),
        NO_ANSWER,
        KnownDifference(
            (("proxy-mode", "ipvs"),),
            Connections(CLIENT | NODE),
            "in IPVS mode, internalTrafficPolicy Local falls back to endpoints of other nodes",
            (IPVS_PROXIER,),
            nature=Nature.DEFECT,
            evidence="An endpoint of another node answers and sees the client's or a node's address.",
            hides="Any other way in which internalTrafficPolicy Local fails.",
        ),
    ),
    *CILIUMS,
    ANNOUNCED_WITHOUT_ENDPOINT,
    OnPaths(
        lambda path: from_outside_under_cluster(path) and path.entry.role is Role.ENDPOINT_NODE,
        NODE,
        replace(
            NOT_REWRITTEN,
            evidence="Clients get an answer from the endpoint node, and the backend saw their own address.",
            hides="Nothing that the API promises: the client got its answer, and the source is its own address.",
        ),
    ),
    *(
        OnPaths(
            lambda path: from_outside_under_cluster(path) and path.entry.role is not Role.ENDPOINT_NODE,
            NODE,
            replace(
                NOT_REWRITTEN,
                when=when,
                evidence="Clients get an answer, the backend saw their own address, and the nodes run no kube-proxy.",
                hides="An answer may bypass the dialled node on a route that works here.",
            ),
        )
        for when in ((("service-proxy", "none"),), (("kube-proxy", "absent"),))
    ),
    *(
        OnPaths(
            lambda path, under_cluster=under_cluster: own_balancer(path) and (not local(path)) is under_cluster,
            accepted,
            BY_PROXY.accepting(also),
        )
        for accepted, under_cluster, also in (
            (CLIENT, False, NOTHING),
            (CLIENT, True, CLIENT | NODE),  # host processes: the proxy may send to any node, also to their own
            (HAIRPIN, False, NOTHING),
            (NODE, True, NODE),
            (CLIENT | NODE, True, NODE),
            (HAIRPIN, True, OF_NODES),
        )
    ),
    OnPaths(
        lambda path: own_balancer(path) and local(path) and path.client.vantage is Vantage.POD,
        CLIENT,
        KnownDifference(
            ((AT_SERVICE, "hostname"),),
            Connections(NODE, proof=Proof.OWN_NODE),
            "kube-proxy does not know the addresses behind a load balancer's hostname: traffic of pods leaves the "
            "cluster, and the network add-on may masquerade it with their node's address",
            REFERENCES,
            evidence="The source is an address of the client pod's own node, and this Service's status has a hostname.",
            hides="The client's node may masquerade traffic that it should not.",
        ),
    ),
    *(
        OnPaths(
            lambda path: own_balancer(path) and inside(path) and not local(path),
            accepted,
            KnownDifference(
                ((AT_SERVICE, "hostname"),),
                Connections(also),
                "kube-proxy does not know the addresses behind a load balancer's hostname, so traffic leaves the "
                "cluster, and the node that the load balancer chooses rewrites its source, as for clients outside",
                (API_ETP, *REFERENCES),
                evidence="The source is a node's address, and this Service's status has a hostname.",
                hides="A node may rewrite such a client's address for another reason.",
            ),
        )
        for accepted, also in ((CLIENT, NODE), (HAIRPIN, OF_NODES))
    ),
    *(
        OnPaths(
            lambda path, under_cluster=under_cluster: (
                own_balancer(path) and inside(path) and (not local(path)) is under_cluster
            ),
            accepted,
            TURNED_BACK.accepting(also),
        )
        for accepted, under_cluster, also in (
            (CLIENT, False, CLIENT),
            (HAIRPIN, False, HAIRPIN),
            (CLIENT, True, CLIENT | NODE),
            (NODE, True, NODE),
            (CLIENT | NODE, True, CLIENT | NODE),
            (HAIRPIN, True, OF_NODES),
        )
    ),
    OnPaths(
        lambda path: own_balancer(path) and path.service is not None and bool(path.service.ranges),
        NO_ANSWER,
        replace(
            BY_PROXY,
            reason="the load balancer is a proxy without source ranges, and nodes see its address, not the client's",
            references=(API_RANGES,),
            hides="A load balancer with source ranges may admit a client outside them.",
        ),
    ),
    OnPaths(
        lambda path: own_balancer(path) and path.service is not None and bool(path.service.ranges),
        NO_ANSWER,
        KnownDifference(
            ((AT_SERVICE, "hostname"),),
            Connections(CLIENT),
            "kube-proxy does not know the addresses behind a load balancer's hostname, so it cannot apply source "
            "ranges; this load balancer does not apply them",
            (API_RANGES,),
            by_chance=True,
            evidence="The client gets an answer, the backend saw its address, and the Service's status has a hostname.",
            hides="A load balancer with source ranges may admit a client outside them.",
        ),
    ),
)


def known_on(path: Path, accept: frozenset[AddressClass]) -> tuple[KnownDifference, ...]:
    """Return the known differences of a check of this path that accepts these classes."""
    return tuple(each.known for each in DIFFERENCES if each.instead_of == accept and each.on(path))
