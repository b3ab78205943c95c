"""Where a data plane legitimately differs, or differs for a known reason: data, beside the rows.

Every difference names the facts under which it holds; facts are found on the cluster (`esipp/facts.py`), never assumed.
"""

from esipp.cell import Override
from esipp.model import NO_ANSWER, OF_NODES, AddressClass, EntryKind, Path, TrafficPolicy, Vantage
from esipp.rows import Nature
from suites.ciliums import CILIUMS
from suites.paths import (
    BARE,
    BEHIND_A_PROXY,
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
from suites.proxied import INGRESSES, REASON, REFERENCE

DIFFERENCES = (
    *(
        Difference(
            lambda path, family=family: path.family.value.lower() == family and towards_another_node(path),
            CLIENT,
            Override(
                ((f"pod-to-node.{family}", "masqueraded"),),
                NODE,
                "the network add-on masquerades pod traffic to node addresses before any Service rule sees it",
                "ip-masq-agent and kindnet: destinations outside the pod CIDRs are masqueraded",
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
                "kube-proxy --nodeport-addresses, 'primary' by default in nftables mode; KEP-3866; Cilium's "
                "--nodeport-addresses, by default one address of each family and device",
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
                "kubernetes/kubernetes#74383",
                forwarded=True,
                nature=Nature.DEFECT,
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
            "kube-proxy: --cluster-cidr, the no-op detector of pkg/proxy/util/localdetector.go",
        ),
    ),
    Difference(
        short_circuit,
        CLIENT,
        Override(
            (("proxy-mode", "nftables"),),
            NO_ANSWER,
            "nftables mode had no short circuit from nodes without endpoints",
            "kubernetes/kubernetes#131765, fixed by #132456 and, in 1.33.6, by #133969",
            before="1.33.6",
            nature=Nature.DEFECT,
        ),
    ),
    Difference(
        lambda path: short_circuit(path) and path.client.vantage is Vantage.NODE,
        CLIENT,
        Override(
            (("proxy-mode", "ipvs"),),
            NO_ANSWER,
            "in IPVS mode a host process without a local endpoint does not reach a Local service's VIP",
            "kubernetes/kubernetes#93456",
            nature=Nature.DEFECT,
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
            "kube-proxy: pkg/proxy/ipvs/proxier.go, internal policy without local endpoints",
            nature=Nature.DEFECT,
        ),
    ),
    *CILIUMS,
    Difference(
        from_outside_under_cluster,
        NODE,
        Override(
            (),
            CLIENT,
            "the data plane does not rewrite the source under Cluster, as some eBPF ones; the API does not demand it",
            "API: service.spec.externalTrafficPolicy; cilium/cilium#33574",
        ),
    ),
    *(
        Difference(
            own_balancer,
            accepted,
            Override(
                (("load-balancer.ingress", ingress),),
                (OF_NODES if accepted == HAIRPIN else CLIENT | NODE) | BEHIND_A_PROXY,
                REASON.format(ingress),
                REFERENCE,
            ),
        )
        for accepted in (CLIENT, NODE, CLIENT | NODE, HAIRPIN)
        for ingress in INGRESSES
    ),
    *(
        Difference(
            lambda path: own_balancer(path) and path.service is not None and bool(path.service.ranges),
            NO_ANSWER,
            Override(
                (("load-balancer.ingress", ingress),),
                CLIENT | NODE | BEHIND_A_PROXY,
                f"the load balancer is a proxy (ingress {ingress}) and takes no source ranges; nodes, which see its "
                "own address, cannot in its place",
                "API: service.spec.loadBalancerSourceRanges, ignored if the provider does not support it",
            ),
        )
        for ingress in INGRESSES
    ),
)


def differences(path: Path, accept: frozenset[AddressClass]) -> tuple[Override, ...]:
    """The overrides of a row on this path that accepts these classes."""
    return tuple(each.override for each in DIFFERENCES if each.instead_of == accept and each.on(path))
