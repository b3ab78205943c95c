"""What Cilium does otherwise than kube-proxy, where it is in its place: data, as suites/known_differences/paths.py."""

from dataclasses import replace

from esipp.checks import check as checks
from esipp.checks.check import Nature
from esipp.checks.interoperability import NOT_REWRITTEN
from esipp.checks.model import NO_ANSWER, AddressClass, EntryKind, Family, Path, Role, TrafficPolicy, Vantage
from esipp.checks.path import Override, Proof
from esipp.checks.versions import PROXIES
from suites.known_differences.where import (
    BARE,
    CLIENT,
    HAIRPIN,
    NODE,
    Difference,
    hairpin,
    inside,
    local,
    short_circuit,
)
from suites.references import *

HERE = ("service-proxy", "cilium")
NO_REWRITE = Override(
    (HERE,),
    CLIENT,
    "Cilium does not rewrite the source on the way to a backend of the same node",
    (CILIUM_NO_REWRITE,),
    evidence="The client is answered, and the backend saw the client's own address.",
    hides="Nothing that the API promises: the answer came back, and the source is the true one.",
)
OF_MANY_SERVICES = checks.Difference(
    (HERE,),
    NOT_REWRITTEN,
    NO_REWRITE.reason,
    NO_REWRITE.references,
    evidence=NO_REWRITE.evidence,
    hides=NO_REWRITE.hides,
)
DSR = (HERE, ("cilium.load-balancer-mode", "dsr"))
SOURCE_KEPT = "in DSR mode the node that is dialled hands packets on with their source, and the backend's node answers"
DSR_EVIDENCE = "The client is answered with its own address as the source, and Cilium's ConfigMap says DSR."
DSR_HIDES = "Nothing that the API promises: the answer came back, and the source is the true one."
KEPT_IN_DSR = Override(DSR, CLIENT, SOURCE_KEPT, (CILIUM_DSR,), evidence=DSR_EVIDENCE, hides=DSR_HIDES)
ONE_CONNECTION_FOR_TWO = Override(
    (HERE,),
    frozenset({AddressClass.LOAD_BALANCER}),
    "Cilium keeps the source port, also where it is that of a connection to the same pod by another service, as a "
    "proxy's may be: to the pod both are one, and the first hangs; kube-proxy has conntrack choose another port",
    (CILIUM_SEVERAL_VIPS, CILIUM_COLLISIONS, CILIUM_KNOWN_COLLISIONS),
    hangs=True,
    by_chance=True,
    nature=Nature.DEFECT,
    evidence="Packets show by which port the proxy's connection came, and another Service's connection to that pod had "
    "the same at that time. Without such packets nothing is excused.",
    hides="A connection may hang for another reason, and share its port by chance.",
)
SAME_PORT = Override(
    (HERE, ("cilium.load-balancer-mode", "snat")),
    CLIENT | NODE,
    "a finding: Cilium's SNAT keeps a client's port though a process of that node has, or just had, a connection from "
    "it to the same pod; the two are taken for one, and an answer is lost (told by the ports of both)",
    (CILIUM_SEVERAL_VIPS,),
    collides=True,
    by_chance=True,
    nature=Nature.FINDING,
    evidence="Of each lost connection the port, protocol, family, address and pod were those of another one that was "
    "open, or whose state Cilium still had (10 s TCP, 60 s UDP). At most one port in ten had such a one by chance.",
    hides="A connection that is lost for another reason at such a port: at most one in ten of these.",
)
FLIPS_IN_DSR = tuple(
    checks.Difference(DSR, seen, SOURCE_KEPT, (CILIUM_DSR,), evidence=DSR_EVIDENCE, hides=DSR_HIDES)
    for seen in ("kept", "unrewritten")
)
"""Of a bare node whose service becomes Cluster, in the words of `esipp/flips/judging.py`."""

AT_BARE_NODES_IN_DSR = checks.Difference(
    DSR, NOT_REWRITTEN, SOURCE_KEPT, (CILIUM_DSR,), evidence=DSR_EVIDENCE, hides=DSR_HIDES
)
NOT_TURNED_BACK = Override(
    DSR,
    NO_ANSWER,
    "in DSR mode the answer of a backend on the client's own node is not turned back: it comes from the pod's address "
    "and not from that of the other node, which was dialled",
    (CILIUM_DSR_REMOTE, CILIUM_DSR_REMOTE_FIX),
    before="cilium.version 1.19",
    forwarded=True,
    nature=Nature.DEFECT,
    evidence="A client beside the backend dials another node in DSR mode and has no answer, or one from another "
    "address.",
    hides="Such a client may have no answer for another reason.",
)
AT_THE_CLIENT = Override(
    (HERE,),
    CLIENT,
    "Cilium chooses the backend on the client's own node, of host processes at their sockets whichever node's address "
    "they dial, and rewrites nothing then; what clients inside meet at nodePorts the API leaves open",
    (CILIUM_AT_THE_CLIENT, CILIUM_SOCKETS),
    evidence="A client inside the cluster is answered, and the backend saw the client's own address.",
    hides="A bare node may answer clients inside the cluster in another way, with their own address.",
)
AT_ITS_SOCKETS = replace(AT_THE_CLIENT, when=(HERE, ("cilium.sockets-of-hosts", "balanced")))


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
        KEPT_IN_DSR,
    ),
    Difference(
        lambda path: not inside(path) and path.entry.role in BARE and not local(path),
        NODE,
        KEPT_IN_DSR,
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
        AT_ITS_SOCKETS,
    ),
    Difference(
        lambda path: path.client.vantage is Vantage.NODE and path.entry.kind is EntryKind.NODE_PORT and local(path),
        NO_ANSWER,
        AT_ITS_SOCKETS,
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
            (CILIUM_EXTERNAL_IPS,),
            evidence="A host process that dials another node's externalIP is answered, and the backend saw a node's "
            "address.",
            hides="Any node's address: which one rewrote is not judged.",
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
            (CILIUM_LOOPBACK_IPV6, CILIUM_LOOPBACK_IPV6_FIX),
            before="cilium.version 1.19",
            forwarded=True,
            nature=Nature.DEFECT,
            evidence="A pod that reaches for its own IPv6 service has no answer, or one from another address.",
            hides="Such a pod may have no answer for another reason.",
        ),
    ),
    Difference(
        hairpin,
        HAIRPIN,
        Override(
            (HERE,),
            frozenset({AddressClass.OTHER}),
            "a pod that reaches itself by a service sees Cilium's own loopback address",
            (CILIUM_LOOPBACK, CILIUM_LOOPBACK_IPV6_FIX),
            proof=Proof.FACT,
            names="cilium.loopback",
            evidence="The source is the very loopback address that Cilium's ConfigMap, or its default, names.",
            hides="Nothing else: no other address is accepted.",
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
            (CILIUM_POLICIES_DIFFER,),
            nature=Nature.DEFECT,
            evidence="A client inside the cluster has no answer at an externalIP of a Local service.",
            hides="Such a client may have no answer for another reason.",
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
            (CILIUM_SCOPES, API_ITP),
            nature=Nature.FINDING,
            evidence="A client on a node without an endpoint has no answer at a VIP of a Service whose policies are "
            "both Local.",
            hides="Such a client may have no answer for another reason.",
        ),
    ),
)
