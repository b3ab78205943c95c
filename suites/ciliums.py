"""What Cilium does otherwise than kube-proxy, where it is in its place: data, as suites/differences.py."""

from dataclasses import replace

from esipp import rows
from esipp.cell import Override
from esipp.interoperability.model import NOT_REWRITTEN
from esipp.model import NO_ANSWER, AddressClass, EntryKind, Family, Path, Role, TrafficPolicy, Vantage
from esipp.rows import Nature
from esipp.versions import PROXIES
from suites.paths import BARE, CLIENT, HAIRPIN, NODE, Difference, hairpin, inside, local, short_circuit

HERE = ("service-proxy", "cilium")
NO_REWRITE = Override(
    (HERE,),
    CLIENT,
    "Cilium does not rewrite the source on the way to a backend of the same node",
    "cilium/cilium#33574",
)
OF_MANY_SERVICES = rows.Difference((HERE,), NOT_REWRITTEN, NO_REWRITE.reason, NO_REWRITE.reference)
DSR = (HERE, ("cilium.load-balancer-mode", "dsr"))
SOURCE_KEPT = "in DSR mode the node that is dialled hands packets on with their source, and the backend's node answers"
DSR_REFERENCE = "Cilium documentation, Kubernetes without kube-proxy: Direct Server Return (DSR)"
ONE_CONNECTION_FOR_TWO = Override(
    (HERE,),
    frozenset({AddressClass.LOAD_BALANCER}),
    "Cilium keeps the source port, also where it is that of a connection to the same pod by another service, as a "
    "proxy's may be: to the pod both are one, and the first hangs; kube-proxy has conntrack choose another port",
    "cilium/cilium#11810 and #18632, told among the known issues by #42632",
    hangs=True,
    by_chance=True,
    nature=Nature.DEFECT,
)
SAME_PORT = Override(
    (HERE, ("cilium.load-balancer-mode", "snat")),
    CLIENT | NODE,
    "a finding: Cilium's SNAT keeps a client's port though a process of that node has, or just had, a connection from "
    "it to the same pod; the two are taken for one, and an answer is lost (told by the ports of both)",
    "as cilium/cilium#11810, of two services; of this no issue is known",
    collides=True,
    by_chance=True,
    nature=Nature.FINDING,
)
FLIPS_IN_DSR = tuple(rows.Difference(DSR, seen, SOURCE_KEPT, DSR_REFERENCE) for seen in ("kept", "unrewritten"))
"""Of a bare node whose service becomes Cluster, in the words of `esipp/flips/judging.py`."""

AT_BARE_NODES_IN_DSR = rows.Difference(DSR, NOT_REWRITTEN, SOURCE_KEPT, DSR_REFERENCE)
NOT_TURNED_BACK = Override(
    DSR,
    NO_ANSWER,
    "in DSR mode the answer of a backend on the client's own node is not turned back: it comes from the pod's address "
    "and not from that of the other node, which was dialled",
    "cilium/cilium#41962, fixed in 1.19 by #41963",
    before="cilium.version 1.19",
    forwarded=True,
    nature=Nature.DEFECT,
)
AT_THE_CLIENT = Override(
    (HERE,),
    CLIENT,
    "Cilium chooses the backend on the client's own node, of host processes at their sockets whichever node's address "
    "they dial, and rewrites nothing then; what clients inside meet at nodePorts the API leaves open",
    "cilium/cilium#11746; Cilium documentation, Kubernetes without kube-proxy: socket load balancing",
)


def _dialled_from_the_backends_node(path: Path) -> bool:
    """A client beside the backend whose packets go to another node first: a pod's nodePort, a process's externalIP."""
    pod = path.client.vantage is Vantage.POD and path.entry.kind is EntryKind.NODE_PORT
    host = path.client.vantage is Vantage.NODE and path.entry.kind is EntryKind.EXTERNAL_IP
    beside = path.client.role is Role.ENDPOINT_NODE and path.entry.role in BARE
    return beside and (pod or host) and not local(path)


CILIUMS = (
    *(
        Difference(_dialled_from_the_backends_node, accepted, NOT_TURNED_BACK)
        for accepted in (CLIENT, NODE, CLIENT | NODE)
    ),
    Difference(
        lambda path: (
            path.client.vantage is Vantage.POD
            and path.entry.kind is EntryKind.NODE_PORT
            and path.entry.role in BARE
            and path.entry.role is not path.client.role
            and not local(path)
        ),
        NODE,
        Override(DSR, CLIENT, SOURCE_KEPT, DSR_REFERENCE),
    ),
    Difference(
        lambda path: not inside(path) and path.entry.role in BARE and not local(path),
        NODE,
        Override(DSR, CLIENT, SOURCE_KEPT, DSR_REFERENCE),
    ),
    Difference(
        lambda path: path.service is not None and path.service.balancer in PROXIES,
        ONE_CONNECTION_FOR_TWO.accept,
        ONE_CONNECTION_FOR_TWO,
    ),
    *(
        Difference(
            lambda path, each=each: (
                path.service is not None and (each != CLIENT or path.client.vantage is Vantage.NODE)
            ),
            each,
            replace(SAME_PORT, accept=each),
        )
        for each in (CLIENT, NODE, CLIENT | NODE)
    ),
    Difference(lambda path: path.entry.role is Role.ENDPOINT_NODE, NODE, NO_REWRITE),
    # of a VIP that several nodes announce, those without a backend do rewrite
    Difference(lambda path: path.entry.kind is EntryKind.VIP, NODE, replace(NO_REWRITE, accept=CLIENT | NODE)),
    Difference(
        lambda path: path.client.vantage is Vantage.NODE and path.entry.kind is EntryKind.NODE_PORT,
        NODE,
        AT_THE_CLIENT,
    ),
    Difference(
        lambda path: path.client.vantage is Vantage.NODE and path.entry.kind is EntryKind.NODE_PORT and local(path),
        NO_ANSWER,
        AT_THE_CLIENT,
    ),
    Difference(
        lambda path: (
            path.client.vantage is Vantage.POD
            and (path.entry.kind is EntryKind.EXTERNAL_IP or path.entry.role is path.client.role)
        ),
        NODE,
        AT_THE_CLIENT,
    ),
    Difference(
        lambda path: path.client.vantage is Vantage.NODE and path.entry.kind is EntryKind.EXTERNAL_IP,
        CLIENT,
        Override(
            (HERE, ("cilium.load-balancer-mode", "snat")),
            NODE,
            "Cilium leaves a host process that dials another node's externalIP to that node, which rewrites it as it "
            "does clients outside",
            "cilium/cilium#12220, against CVE-2020-8554",
        ),
    ),
    Difference(
        lambda path: hairpin(path) and path.family is Family.IPV6,
        HAIRPIN,
        Override(
            (HERE,),
            NO_ANSWER,
            "Cilium before 1.19 has no loopback for IPv6 services: a pod is handed its own packet from its own "
            "address, which TCP never answers and UDP answers by-passing the service",
            "cilium/cilium#26733, fixed by #39594",
            before="cilium.version 1.19",
            forwarded=True,
            nature=Nature.DEFECT,
        ),
    ),
    Difference(
        lambda path: hairpin(path) and path.family is Family.IPV4,
        HAIRPIN,
        Override(
            (HERE,),
            frozenset({AddressClass.OTHER}),
            "a pod that reaches itself by a service sees Cilium's own loopback address",
            "cilium/cilium#26100",
        ),
    ),
    Difference(
        lambda path: local(path) and path.entry.kind is EntryKind.EXTERNAL_IP and inside(path),
        CLIENT,
        Override(
            (HERE,),
            NO_ANSWER,
            "Cilium does not know a service's externalIPs for clients inside the cluster where externalTrafficPolicy "
            "and internalTrafficPolicy differ: they reach the node that has the address, as anybody does",
            "cilium/cilium#42245",
            nature=Nature.DEFECT,
        ),
    ),
    Difference(
        lambda path: (
            short_circuit(path)
            and path.entry.kind is EntryKind.VIP
            and path.service is not None
            and path.service.internal is TrafficPolicy.LOCAL
        ),
        CLIENT,
        Override(
            (HERE,),
            NO_ANSWER,
            "a finding: where both policies are Local, Cilium has one set of endpoints for clients in- and outside, so "
            "a pod on a node without any does not reach the VIP; internalTrafficPolicy is about the ClusterIP only",
            "cilium/cilium v1.18.6, pkg/loadbalancer/reflectors: twoScopes; API: service.spec.internalTrafficPolicy",
            nature=Nature.FINDING,
        ),
    ),
)
