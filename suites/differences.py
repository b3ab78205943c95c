"""Where a data plane legitimately differs, or differs for a known reason: data, beside the rows.

Every difference names the facts under which it holds; facts are found on the cluster (`esipp/facts.py`), never assumed.
"""

from collections.abc import Callable
from dataclasses import dataclass

from esipp.cell import Override
from esipp.model import (
    NO_ANSWER,
    OF_NODES,
    AddressClass,
    Backends,
    Balancer,
    EntryKind,
    Family,
    Path,
    Role,
    TrafficPolicy,
    Vantage,
)
from esipp.rows import Nature
from suites.cast import BACKEND
from suites.proxied import INGRESSES, REASON, REFERENCE

CLIENT = frozenset({AddressClass.CLIENT})
NODE = frozenset({AddressClass.NODE})
HAIRPIN = frozenset({AddressClass.HAIRPIN})
BEHIND_A_PROXY = frozenset({AddressClass.LOAD_BALANCER, AddressClass.OTHER})
BARE = (Role.BARE_NODE, Role.OTHER_NODE)
"""The roles of nodes without an endpoint."""


@dataclass(frozen=True)
class Difference:
    """On which paths, where a row accepts what, which override holds."""

    on: Callable[[Path], bool]
    instead_of: frozenset[AddressClass]
    override: Override


def _local(path: Path) -> bool:
    return path.service is not None and path.service.policy is TrafficPolicy.LOCAL


def _inside(path: Path) -> bool:
    return path.client.vantage is not Vantage.OUTSIDE


def _hairpin(path: Path) -> bool:
    return path.client == BACKEND


def _own_balancer(path: Path) -> bool:
    return path.entry.kind is EntryKind.VIP and path.service is not None and path.service.balancer is Balancer.DEFAULT


def _from_outside_under_cluster(path: Path) -> bool:
    """Clients outside at a service with Cluster; what annotations of old must not do is another matter."""
    service = path.service
    cluster = service is not None and service.policy is TrafficPolicy.CLUSTER and not service.old_form
    return cluster and path.client.vantage is Vantage.OUTSIDE


def _towards_another_node(path: Path) -> bool:
    """Whether a pod's packets leave its node for an address of another: one that is dialled, or a backend's."""
    a_node = path.entry.kind in (EntryKind.NODE_PORT, EntryKind.SECOND_ADDRESS)
    host_network = path.service is not None and path.service.backends is Backends.HOST_NETWORK
    elsewhere = a_node and path.entry.role is not path.client.role
    elsewhere |= host_network and path.client.role is not Role.ENDPOINT_NODE
    return path.client.vantage is Vantage.POD and elsewhere


def _short_circuit(path: Path) -> bool:
    """A client on a node without endpoints that dials an address which its own node takes for the service's."""
    ways = path.entry.kind in (EntryKind.VIP, EntryKind.EXTERNAL_IP) or path.entry.role is path.client.role
    return _local(path) and path.client.role in BARE and ways


DIFFERENCES = (
    *(
        Difference(
            lambda path, family=family: path.family.value.lower() == family and _towards_another_node(path),
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
                and _local(path)
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
        lambda path: _short_circuit(path) and path.client.vantage is Vantage.POD,
        CLIENT,
        Override(
            (("detect-local", "none"),),
            NO_ANSWER,
            "kube-proxy does not know which traffic is from local pods, so it has no short circuit for them",
            "kube-proxy: --cluster-cidr, the no-op detector of pkg/proxy/util/localdetector.go",
        ),
    ),
    Difference(
        _short_circuit,
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
        lambda path: _short_circuit(path) and path.client.vantage is Vantage.NODE,
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
    Difference(
        lambda path: path.entry.role is Role.ENDPOINT_NODE or path.entry.kind is EntryKind.VIP,
        NODE,
        Override(
            (("service-proxy", "cilium"),),
            CLIENT,
            "Cilium does not rewrite the source on the way to a backend of the same node",
            "cilium/cilium#33574",
        ),
    ),
    Difference(
        lambda path: _hairpin(path) and path.family is Family.IPV6,
        HAIRPIN,
        Override(
            (("service-proxy", "cilium"),),
            NO_ANSWER,
            "Cilium before 1.19 has no loopback for IPv6 services: a pod is handed its own packet from its own address, "
            "which TCP never answers and UDP answers by-passing the service",
            "cilium/cilium#26733, fixed by #39594",
            before="cilium.version 1.19",
            forwarded=True,
            nature=Nature.DEFECT,
        ),
    ),
    Difference(
        lambda path: _hairpin(path) and path.family is Family.IPV4,
        HAIRPIN,
        Override(
            (("service-proxy", "cilium"),),
            frozenset({AddressClass.OTHER}),
            "a pod that reaches itself by a service sees Cilium's own loopback address",
            "cilium/cilium#26100",
        ),
    ),
    Difference(
        lambda path: _local(path) and path.entry.kind is EntryKind.EXTERNAL_IP and _inside(path),
        CLIENT,
        Override(
            (("service-proxy", "cilium"),),
            NO_ANSWER,
            "Cilium does not know a service's externalIPs for clients inside the cluster where externalTrafficPolicy "
            "and internalTrafficPolicy differ: they reach the node that has the address, as anybody does",
            "cilium/cilium#42245",
            nature=Nature.DEFECT,
        ),
    ),
    Difference(
        lambda path: (
            _short_circuit(path)
            and path.entry.kind is EntryKind.VIP
            and path.service is not None
            and path.service.internal is TrafficPolicy.LOCAL
        ),
        CLIENT,
        Override(
            (("service-proxy", "cilium"),),
            NO_ANSWER,
            "a finding: where both policies are Local, Cilium has one set of endpoints for clients in- and outside, so "
            "a pod on a node without any does not reach the VIP; internalTrafficPolicy is about the ClusterIP only",
            "cilium/cilium v1.18.6, pkg/loadbalancer/reflectors: twoScopes; API: service.spec.internalTrafficPolicy",
            nature=Nature.DEFECT,
        ),
    ),
    Difference(
        _from_outside_under_cluster,
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
            _own_balancer,
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
            lambda path: _own_balancer(path) and path.service is not None and bool(path.service.ranges),
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
