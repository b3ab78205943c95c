"""Where a data plane legitimately differs, or differs for a known reason: data, beside the checks.

Every difference names the facts under which it holds. Preflight finds facts on the cluster; nothing is assumed.
"""

from dataclasses import replace

from esipp.checks.check import Nature
from esipp.checks.ingress import AT_SERVICE, OF_SERVICE, PROXY
from esipp.checks.model import NO_ANSWER, OF_NODES, AddressClass, EntryKind, Path, Role, TrafficPolicy, Vantage
from esipp.checks.path import Override, Proof
from suites.known_differences.cilium import CILIUMS
from suites.known_differences.proxies import EVIDENCE, HIDES, REASON, REFERENCES
from suites.known_differences.where import (
    BARE,
    CLIENT,
    HAIRPIN,
    NODE,
    Difference,
    from_outside_under_cluster,
    local,
    own_balancer,
    short_circuit,
    towards_another_node,
)
from suites.references import *

NOTHING = frozenset[AddressClass]()
NOT_REWRITTEN = Override(
    (),
    CLIENT,
    "the data plane does not rewrite the source under Cluster, as some eBPF ones; the API does not demand it",
    (API_ETP, CILIUM_NO_REWRITE),
)
BY_PROXY = Override(
    ((OF_SERVICE, PROXY),), NOTHING, REASON, REFERENCES, proof=Proof.BALANCER, evidence=EVIDENCE, hides=HIDES
)

DIFFERENCES = (
    *(
        Difference(
            lambda path, family=family: path.family.value.lower() == family and towards_another_node(path),
            CLIENT,
            Override(
                ((f"pod-to-node.{family}", "masqueraded"),),
                NODE,
                "the network add-on masquerades pod traffic to node addresses before any Service rule sees it",
                (MASQUERADE_AGENT, KINDNET),
                proof=Proof.OWN_NODE,
                evidence="The source is an address of the client pod's own node, and reference listeners on other "
                "nodes saw pods masqueraded in this run.",
                hides="The client's node may masquerade only what goes to Services.",
            ),
        )
        for family in ("ipv4", "ipv6")
    ),
    *(
        Difference(
            lambda path: path.entry.kind is EntryKind.SECOND_ADDRESS,
            accepted,
            Override(
                (("node-port-addresses", "primary"),),
                NO_ANSWER,
                "nodePorts are served at the node's primary addresses only",
                (NODEPORT_ADDRESSES, KEP_3866, CILIUM_NODEPORT_ADDRESSES),
                evidence="Nothing answers at a node's second address, and the service proxy's configuration says so.",
                hides="Packets to a second address may be lost for another reason.",
            ),
        )
        for accepted in (CLIENT, NODE, CLIENT | NODE)
    ),
    *(
        Difference(
            lambda path, family=family: (
                path.family.value.lower() == family
                and local(path)
                and path.entry.role in BARE
                and path.client.vantage is Vantage.POD
            ),
            NO_ANSWER,
            Override(
                (("detect-local", "ClusterCIDR"), (f"pod-to-node.{family}", "unchanged")),
                NO_ANSWER,
                "the bare node takes any pod for its own and hands its packets on unmasqueraded; the backend's answer "
                "by-passes that node, so the client cannot use it",
                (POD_AT_BARE_NODE,),
                forwarded=True,
                nature=Nature.DEFECT,
                evidence="The client has no answer, and packets show that its request reached a backend.",
                hides="A bare node may forward a pod's packets for another reason.",
            ),
        )
        for family in ("ipv4", "ipv6")
    ),
    Difference(
        lambda path: short_circuit(path) and path.client.vantage is Vantage.POD,
        CLIENT,
        Override(
            (("detect-local", "none"),),
            NO_ANSWER,
            "kube-proxy does not know which traffic is from local pods, so it has no short circuit for them",
            (CLUSTER_CIDR, LOCAL_DETECTOR),
            evidence="A pod on a node without an endpoint has no answer, and kube-proxy's own configuration names no "
            "way to detect local traffic.",
            hides="The VIP may be unreachable for such pods for another reason.",
        ),
    ),
    Difference(
        short_circuit,
        CLIENT,
        Override(
            (("proxy-mode", "nftables"),),
            NO_ANSWER,
            "nftables mode had no short circuit from nodes without endpoints",
            (NFTABLES_SHORT_CIRCUIT, NFTABLES_FIX, NFTABLES_FIX_1_33),
            before="kube-proxy-version 1.33.6",
            nature=Nature.DEFECT,
            evidence="A client on a node without an endpoint has no answer.",
            hides="The VIP may be unreachable from there for another reason.",
        ),
    ),
    Difference(
        lambda path: short_circuit(path) and path.client.vantage is Vantage.NODE,
        CLIENT,
        Override(
            (("proxy-mode", "ipvs"),),
            NO_ANSWER,
            "in IPVS mode a host process without a local endpoint does not reach a Local service's VIP",
            (IPVS_SHORT_CIRCUIT,),
            nature=Nature.DEFECT,
            evidence="A host process on a node without an endpoint has no answer.",
            hides="The VIP may be unreachable from there for another reason.",
        ),
    ),
    Difference(
        lambda path: (
            path.entry.kind is EntryKind.CLUSTER_IP
            and path.service is not None
            and path.service.internal is TrafficPolicy.LOCAL
        ),
        NO_ANSWER,
        Override(
            (("proxy-mode", "ipvs"),),
            CLIENT | NODE,
            "in IPVS mode internalTrafficPolicy Local falls back to the cluster's endpoints",
            (IPVS_PROXIER,),
            nature=Nature.DEFECT,
            evidence="An endpoint of another node answers, with the client's or a node's address as the source.",
            hides="Any other leak of internalTrafficPolicy Local.",
        ),
    ),
    *CILIUMS,
    Difference(
        lambda path: from_outside_under_cluster(path) and path.entry.role is Role.ENDPOINT_NODE,
        NODE,
        replace(
            NOT_REWRITTEN,
            evidence="Clients are answered at the endpoint's own node, and the backend saw their own address.",
            hides="Nothing that the API promises: the answer came back, and the source is the true one.",
        ),
    ),
    *(
        Difference(
            lambda path: from_outside_under_cluster(path) and path.entry.role is not Role.ENDPOINT_NODE,
            NODE,
            replace(
                NOT_REWRITTEN,
                when=when,
                evidence="Clients are answered, the backend saw their own address, and no kube-proxy is on the nodes.",
                hides="An answer may by-pass the node that was dialled, by a route that works here.",
            ),
        )
        for when in ((("service-proxy", "none"),), (("kube-proxy", "absent"),))
    ),
    *(
        Difference(
            lambda path, under_cluster=under_cluster: own_balancer(path) and (not local(path)) is under_cluster,
            accepted,
            replace(BY_PROXY, accept=also),
        )
        for accepted, under_cluster, also in (
            (CLIENT, False, NOTHING),
            (CLIENT, True, CLIENT | NODE),  # host processes: by any node that the proxy sends to, their own among them
            (HAIRPIN, False, NOTHING),
            (NODE, True, NODE),
            (CLIENT | NODE, True, NODE),
            (HAIRPIN, True, OF_NODES),
        )
    ),
    Difference(
        lambda path: own_balancer(path) and local(path) and path.client.vantage is Vantage.POD,
        CLIENT,
        Override(
            ((AT_SERVICE, "hostname"),),
            NODE,
            "kube-proxy knows no address of a load balancer that is announced by a hostname: what pods send there "
            "leaves the cluster, and the network add-on may masquerade it as their node's",
            REFERENCES,
            proof=Proof.OWN_NODE,
            evidence="The source is an address of the client pod's own node, and this Service announces a hostname.",
            hides="The client's node may masquerade what it should leave alone.",
        ),
    ),
    Difference(
        lambda path: own_balancer(path) and path.service is not None and bool(path.service.ranges),
        NO_ANSWER,
        replace(
            BY_PROXY,
            reason="the load balancer is a proxy and takes no source ranges; nodes, which see its own address, cannot "
            "in its place",
            references=(API_RANGES,),
            hides="A load balancer that takes ranges may let a client in that they leave out.",
        ),
    ),
    Difference(
        lambda path: own_balancer(path) and path.service is not None and bool(path.service.ranges),
        NO_ANSWER,
        Override(
            ((AT_SERVICE, "hostname"),),
            CLIENT,
            "kube-proxy knows no address of a load balancer that is announced by a hostname, so it cannot apply the "
            "ranges; this load balancer takes none",
            (API_RANGES,),
            by_chance=True,
            evidence="The client is answered, the backend saw its own address, and this Service announces a hostname.",
            hides="A load balancer that takes ranges may let a client in that they leave out.",
        ),
    ),
)


def differences(path: Path, accept: frozenset[AddressClass]) -> tuple[Override, ...]:
    """The overrides of a check on this path that accepts these classes."""
    return tuple(each.override for each in DIFFERENCES if each.instead_of == accept and each.on(path))
