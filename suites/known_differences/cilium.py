"""Known differences of Cilium where it replaces kube-proxy. Data only.

Findings among them are undocumented: their project should know. They expire when runs no longer see them
(esipp/checks/expiry.py).
"""

from dataclasses import replace

from esipp.checks.continuity import ALL_OF_A_SIZE, NOT_YET, ONE_PORT, UNREWRITTEN
from esipp.checks.health import EACH_TARGET, TWICE
from esipp.checks.interoperability import NOT_REWRITTEN
from esipp.checks.known_differences import Connections, KnownDifference, Nature, Proof
from esipp.checks.model import NO_ANSWER, AddressClass, EntryKind, Family, Path, Protocol, Role, TrafficPolicy, Vantage
from esipp.checks.versions import PROXIES
from esipp.scenarios.service_change.subject import (
    AFFINE,
    LARGE_LOST,
    NAMESAKE_LOST,
    OWN_NODE_GONE,
    STALE,
)
from suites.known_differences.where import (
    BARE,
    CLIENT,
    HAIRPIN,
    NODE,
    OnPaths,
    hairpin,
    inside,
    local,
    short_circuit,
)
from suites.references import *
from suites.references import CILIUM_HEALTH_SERVER

REPLACES_KUBE_PROXY = ("service-proxy", "cilium")
BESIDE_KUBE_PROXY = (("service-proxy", "kube-proxy"), ("network-add-on", "cilium"))
"""Cilium still serves ClusterIPs for pods."""
NO_REWRITE = KnownDifference(
    (REPLACES_KUBE_PROXY,),
    Connections(CLIENT),
    "Cilium does not rewrite the source on the way to a backend of the same node",
    (CILIUM_NO_REWRITE,),
    evidence="The client gets an answer, and the backend saw the client's own address.",
    hides="Nothing that the API promises: the client got its answer, and the source is its own address.",
)
OF_MANY_SERVICES = replace(NO_REWRITE, covers=NOT_REWRITTEN)
DURING_CHANGES = replace(
    NO_REWRITE, covers=UNREWRITTEN, evidence="All other sources under Cluster are the client's own address."
)
AFTER_POLICY_CHANGES = replace(
    NO_REWRITE,
    covers="kept",
    evidence="Every answer under Cluster without a rewritten source shows the client's own address.",
)
SNAT = (REPLACES_KUBE_PROXY, ("cilium.load-balancer-mode", "snat"))
DSR = (REPLACES_KUBE_PROXY, ("cilium.load-balancer-mode", "dsr"))
SOURCE_KEPT = "in DSR mode, the dialled node forwards packets with their source, and the backend's node answers"
DSR_EVIDENCE = "The client gets an answer, its own address is the source, and Cilium's ConfigMap says DSR."
DSR_HIDES = "Nothing that the API promises: the client got its answer, and the source is its own address."
HYBRID = (REPLACES_KUBE_PROXY, ("cilium.load-balancer-mode", "hybrid"))
"""DSR for TCP, SNAT for UDP."""


def in_hybrid(known: KnownDifference) -> KnownDifference:
    """Return a difference of DSR for TCP, or one of SNAT for UDP, as it is in hybrid mode."""
    return replace(
        known,
        when=HYBRID,
        reason=known.reason.replace("in DSR mode,", "in hybrid mode, as with DSR, for TCP"),
        evidence=known.evidence.replace("says DSR", "says hybrid").replace("in DSR mode", "in hybrid mode"),
    )


KEPT_IN_DSR = KnownDifference(
    DSR,
    Connections(CLIENT),
    SOURCE_KEPT,
    (CILIUM_DSR,),
    evidence=DSR_EVIDENCE,
    hides=DSR_HIDES,
)
ONE_CONNECTION_FOR_TWO = KnownDifference(
    (REPLACES_KUBE_PROXY,),
    Connections(frozenset({AddressClass.LOAD_BALANCER}), hangs=True),
    "Cilium keeps the source port even if a connection to the same pod through another Service has it, as with a "
    "proxy; the pod cannot distinguish both, and the first one hangs; with kube-proxy, conntrack chooses another port",
    (CILIUM_SEVERAL_VIPS, CILIUM_COLLISIONS, CILIUM_KNOWN_COLLISIONS),
    by_chance=True,
    nature=Nature.DEFECT,
    evidence="Packets show the source port of the proxy's connection, and a connection of another Service to that pod "
    "had the same port at that time. Without such packets nothing is excused.",
    hides="A connection may hang for another reason and share its port by chance.",
    still=CILIUM_COLLISIONS_STILL,
)
ONE_PORT_FOR_TWO = replace(
    ONE_CONNECTION_FOR_TWO,
    covers=ONE_PORT,
    # A capture beside the client (kind-cilium 1.18.6, 2026-11-30): it reset packets from the address of one Service
    # that had the sequence numbers of its connection to another one.
    reason="Cilium keeps the source port even if a connection to the same pod through another Service has it, and "
    "takes both for one: one of them hangs, or is answered with the other Service's address, and the client resets "
    "what it does not know; with kube-proxy, conntrack chooses another port",
    references=(CILIUM_SEVERAL_VIPS, CILIUM_COLLISIONS, CILIUM_KNOWN_COLLISIONS),
    evidence="Only connections that were reset or got no answer are excused, and connections on other ways had the "
    "same address and port at that time. New TCP connections on the same way, from other ports, were answered.",
    hides="A node may drop or reset what comes from this one port for another reason.",
)
HEALTHY_BEFORE_IT_SERVES = KnownDifference(
    (REPLACES_KUBE_PROXY,),
    NOT_YET,
    "a finding: Cilium says 200 at its health checks before its node serves: at port 10256 when its agent runs, and at "
    "a healthCheckNodePort when the agent knows the endpoint, not only once it has written the maps of its data plane. "
    "A load balancer uses the node again, and the node loses requests",
    (CILIUM_HEALTHZ, CILIUM_HEALTH_SERVER, KEP_3836),
    by_chance=True,
    nature=Nature.FINDING,
    evidence="The load balancer uses nodes that it finds healthy, and reports when it began to use this one again. All "
    "requests were lost after that (they began 0.5 s before it at the earliest), and before this node had answered its "
    "first one and opened its healthCheckNodePort, at most 5 s later. Those that were reset while the load balancer "
    "changed its routes do not count.",
    hides="Requests lost at another node in these seconds.",
    still=CILIUM_COUNTS_STILL,
)
LARGE_IN_DSR = KnownDifference(
    DSR,
    ALL_OF_A_SIZE,
    "in DSR mode, the dialled node adds the Service's address and port to each UDP packet for another node: a packet "
    "as large as the MTU does not fit any more, and of fragments only the first one has them",
    (CILIUM_DSR_MTU, CILIUM_DSR_FRAGMENTS, CILIUM_DSR),
    nature=Nature.DEFECT,
    evidence="The Service is a Cluster one. No datagram of this size was answered, new TCP connections on the same way "
    "were, and Cilium's ConfigMap says DSR.",
    hides="Another cause for which a node passes no datagram of this size on to another node.",
    still=CILIUM_DSR_SIZE_STILL,
)
SAME_PORT = KnownDifference(
    SNAT,
    Connections(CLIENT | NODE, collides=True),
    "a finding: Cilium's SNAT keeps a client's port although a process of that node has, or just had, a connection "
    "from this port to the same pod; Cilium confuses the two and loses an answer (the ports of both show it)",
    (CILIUM_SEVERAL_VIPS,),
    by_chance=True,
    nature=Nature.FINDING,
    evidence="Each lost connection had the port, protocol, family, address and pod of another one that was open, or "
    "that Cilium still tracked (10 s TCP, 60 s UDP). By chance, at most one port in ten had such a twin.",
    hides="A connection lost for another reason on such a port: at most one in ten of these.",
    still=CILIUM_SNAT_STILL,
)


def _kept_in_dsr(seen: str) -> tuple[KnownDifference, KnownDifference]:
    """Return the known differences for a judge of TCP that reports ``seen``."""
    known = replace(KEPT_IN_DSR, covers=seen)
    return known, in_hybrid(known)


POLICY_CHANGES_IN_DSR = (*_kept_in_dsr("kept"), *_kept_in_dsr("unrewritten"))
"""For a node without local endpoints when the policy becomes Cluster; see esipp/scenarios/policy_change."""

AT_BARE_NODES_IN_DSR = _kept_in_dsr(NOT_REWRITTEN)
NOT_TURNED_BACK = KnownDifference(
    DSR,
    Connections(NO_ANSWER, forwarded=True),
    "in DSR mode, Cilium does not translate the answer of a backend on the client's own node back: it comes from the "
    "pod's address and not from the address of the dialled node",
    (CILIUM_DSR_REMOTE, CILIUM_DSR_REMOTE_FIX),
    before="cilium.version 1.19",
    nature=Nature.DEFECT,
    evidence="A client on the backend's node dials another node in DSR mode and gets no answer, or one from another "
    "address.",
    hides="Such a client may get no answer for another reason.",
)
AT_THE_CLIENT = KnownDifference(
    (REPLACES_KUBE_PROXY,),
    Connections(CLIENT),
    "Cilium selects the backend on the client's own node, for host processes at the socket and for any node's address, "
    "and then rewrites nothing; the API leaves open how nodePorts behave for clients inside",
    (CILIUM_AT_THE_CLIENT, CILIUM_SOCKETS),
    evidence="A client inside the cluster gets an answer, and the backend saw the client's own address.",
    hides="A node without local endpoints may serve clients inside the cluster in another way, with their own address.",
)
AT_ITS_SOCKETS = replace(AT_THE_CLIENT, when=(REPLACES_KUBE_PROXY, ("cilium.sockets-of-hosts", "balanced")))
AT_PODS_SOCKETS = replace(AT_THE_CLIENT, when=(REPLACES_KUBE_PROXY, ("cilium.socket-balancing", "hosts and pods")))


def _dialled_from_the_backends_node(path: Path) -> bool:
    """Return whether a client on the backend's node dials another one: a pod a nodePort, a process an externalIP."""
    pod = path.client.vantage is Vantage.POD and path.entry.kind is EntryKind.NODE_PORT
    host = path.client.vantage is Vantage.NODE and path.entry.kind is EntryKind.EXTERNAL_IP
    same_node = path.client.role is Role.ENDPOINT_NODE and path.entry.role in BARE
    return same_node and (pod or host) and not local(path)


OF_DSR = (
    *(
        OnPaths(_dialled_from_the_backends_node, accepted, NOT_TURNED_BACK)
        for accepted in (CLIENT, NODE, CLIENT | NODE)
    ),
    OnPaths(
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
    OnPaths(
        lambda path: not inside(path) and path.entry.role in BARE and not local(path),
        NODE,
        KEPT_IN_DSR,
    ),
)
OF_SNAT = (
    *(
        OnPaths(
            lambda path, each=each: (
                path.service is not None and (each != CLIENT or path.client.vantage is Vantage.NODE)
            ),
            each,
            SAME_PORT.accepting(each),
        )
        for each in (CLIENT, NODE, CLIENT | NODE)
    ),
    OnPaths(
        lambda path: path.client.vantage is Vantage.NODE and path.entry.kind is EntryKind.EXTERNAL_IP,
        CLIENT,
        KnownDifference(
            SNAT,
            Connections(NODE),
            "Cilium sends a host process that dials another node's externalIP to that node, which rewrites the source "
            "as for clients outside",
            (CILIUM_EXTERNAL_IPS,),
            evidence="A host process that dials another node's externalIP gets an answer, and the backend saw a node's "
            "address.",
            hides="Which node rewrote the source: any node's address is accepted.",
        ),
    ),
)
OF_HYBRID = tuple(
    OnPaths(
        lambda path, each=each, protocol=protocol: path.protocol is protocol and each.on(path),
        each.instead_of,
        in_hybrid(each.known),
    )
    for protocol, those in ((Protocol.TCP, OF_DSR), (Protocol.UDP, OF_SNAT))
    for each in those
)

OF_LOOPBACK = (
    OnPaths(
        lambda path: hairpin(path) and path.family is Family.IPV6,
        HAIRPIN,
        KnownDifference(
            (),
            Connections(NO_ANSWER, forwarded=True),
            "Cilium before 1.19 has no loopback for IPv6 Services: a pod receives its own packet from its own address, "
            "which TCP never answers, and UDP answers bypass the Service",
            (CILIUM_LOOPBACK_IPV6, CILIUM_LOOPBACK_IPV6_FIX),
            before="cilium.version 1.19",
            nature=Nature.DEFECT,
            evidence="A pod that dials its own IPv6 Service gets no answer, or one from another address.",
            hides="Such a pod may get no answer for another reason.",
        ),
    ),
    OnPaths(
        hairpin,
        HAIRPIN,
        KnownDifference(
            (),
            Connections(frozenset({AddressClass.OTHER}), proof=Proof.FACT, names="cilium.loopback"),
            "a pod that reaches itself through a Service sees Cilium's loopback address",
            (CILIUM_LOOPBACK, CILIUM_LOOPBACK_IPV6_FIX),
            evidence="The source is exactly the loopback address from Cilium's ConfigMap, or its default.",
            hides="Nothing else: no other address is accepted.",
        ),
    ),
)

CILIUMS = (
    *OF_DSR,
    *OF_HYBRID,
    OnPaths(
        lambda path: path.service is not None and path.service.balancer in PROXIES,
        frozenset({AddressClass.LOAD_BALANCER}),
        ONE_CONNECTION_FOR_TWO,
    ),
    *OF_SNAT,
    OnPaths(lambda path: path.entry.role is Role.ENDPOINT_NODE, NODE, NO_REWRITE),
    # where several nodes announce a VIP, those without a backend do rewrite
    OnPaths(lambda path: path.entry.kind is EntryKind.VIP, NODE, NO_REWRITE.accepting(CLIENT | NODE)),
    *(
        OnPaths(
            lambda path, vantage=vantage, accepted=accepted: (
                path.client.vantage is vantage
                and path.entry.kind is EntryKind.NODE_PORT
                and (accepted == NODE or local(path))
            ),
            accepted,
            known,
        )
        for vantage, known in ((Vantage.NODE, AT_ITS_SOCKETS), (Vantage.POD, AT_PODS_SOCKETS))
        for accepted in (NODE, NO_ANSWER)
    ),
    OnPaths(
        lambda path: (
            path.client.vantage is Vantage.POD
            and (path.entry.kind is EntryKind.EXTERNAL_IP or path.entry.role is path.client.role)
        ),
        NODE,
        AT_THE_CLIENT,
    ),
    *(OnPaths(each.on, each.instead_of, replace(each.known, when=(REPLACES_KUBE_PROXY,))) for each in OF_LOOPBACK),
    *(
        OnPaths(
            lambda path, each=each: path.entry.kind is EntryKind.CLUSTER_IP and each.on(path),
            each.instead_of,
            replace(each.known, when=BESIDE_KUBE_PROXY),
        )
        for each in OF_LOOPBACK
    ),
    OnPaths(
        lambda path: (
            short_circuit(path)
            and path.client.vantage is Vantage.POD
            and path.entry.kind in (EntryKind.VIP, EntryKind.EXTERNAL_IP)
        ),
        CLIENT,
        KnownDifference(
            BESIDE_KUBE_PROXY,
            Connections(NO_ANSWER),
            "Cilium serves VIPs and externalIPs for pods also beside kube-proxy, and uses only local endpoints of "
            "Local Services, so a pod on a node without any gets no answer",
            (CILIUM_VIPS_BESIDE,),
            since="cilium.version 1.19",
            nature=Nature.DEFECT,
            evidence="A pod on a node without local endpoints gets no answer from the VIP or externalIP of a Local "
            "Service.",
            hides="Such a pod may get no answer for another reason.",
            still=CILIUM_VIPS_BESIDE,
        ),
    ),
    OnPaths(
        lambda path: local(path) and path.entry.kind is EntryKind.EXTERNAL_IP and inside(path),
        CLIENT,
        KnownDifference(
            (REPLACES_KUBE_PROXY,),
            Connections(NO_ANSWER),
            "Cilium ignores a Service's externalIPs for clients inside the cluster if externalTrafficPolicy and "
            "internalTrafficPolicy differ; their packets go to the node with that address, as from any client",
            (CILIUM_POLICIES_DIFFER,),
            nature=Nature.DEFECT,
            evidence="A client inside the cluster gets no answer from an externalIP of a Local Service.",
            hides="Such a client may get no answer for another reason.",
            still=CILIUM_EXTERNAL_IPS_STILL,
        ),
    ),
    OnPaths(
        lambda path: (
            short_circuit(path)
            and path.entry.kind is EntryKind.VIP
            and path.service is not None
            and path.service.internal is TrafficPolicy.LOCAL
        ),
        CLIENT,
        KnownDifference(
            (REPLACES_KUBE_PROXY,),
            Connections(NO_ANSWER),
            "a finding: if both policies are Local, Cilium uses one set of endpoints for clients inside and outside, "
            "so a pod on a node without any does not reach the VIP; internalTrafficPolicy concerns ClusterIPs only",
            (CILIUM_SCOPES, API_ITP),
            nature=Nature.FINDING,
            evidence="A client on a node without local endpoints gets no answer from the VIP of a Service with both "
            "policies Local.",
            hides="Such a client may get no answer for another reason.",
            still=CILIUM_SCOPES_STILL,
        ),
    ),
)


COUNTED_TWICE = KnownDifference(
    when=(("service-proxy", "cilium"), ("families.services", "IPv4, IPv6")),
    covers=TWICE,
    reason="a finding: Cilium counts a dual-stack pod once for each address family, so localEndpoints and weight are "
    "doubled; kube-proxy, which defines the document, counts a pod once. The status codes are still correct, and so "
    "are the weights of nodes relative to each other while all nodes run Cilium",
    nature=Nature.FINDING,
    evidence="The health check's document counts exactly two endpoints for one ready pod of a dual-stack Service.",
    hides="A wrong count that is twice the correct one by chance.",
    references=(CILIUM_HEALTH_SERVER,),
    since="cilium.version 1.18",
    still=CILIUM_COUNTS_STILL,
)
"""Before 1.18, another health server counted the pods of one family: the one that was written last."""

COUNTED_BY_TARGET = replace(
    COUNTED_TWICE,
    covers=EACH_TARGET,
    evidence="The health check's document counts one endpoint for each target port and family of the pods.",
    hides="A wrong count that equals this product by chance.",
    reason="a finding: Cilium counts a pod once for each target port and address family, so one pod with three target "
    "ports counts as six endpoints, also in the weight; kube-proxy counts a pod once",
)
FLOWS_KEPT = KnownDifference(
    when=(REPLACES_KUBE_PROXY,),
    covers=STALE,
    reason="Cilium keeps a flow at a pod that its Service no longer selects, as long as another Service has the pod: a "
    "client that keeps its source port does not move",
    references=(CILIUM_STALE_BACKEND,),
    nature=Nature.DEFECT,
    evidence="Only flows from ports that were in use before the change reach the previous pods. Flows from new ports "
    "of the same client do not.",
    hides="Cilium may keep such flows for another reason.",
    still=CILIUM_FLOWS_STILL,
)
CLIENTS_KEPT = KnownDifference(
    when=(REPLACES_KUBE_PROXY,),
    covers=AFFINE,
    reason="a finding: with sessionAffinity, Cilium keeps a client at a pod that its Service no longer selects; new "
    "connections go there, too",
    references=(CILIUM_STALE_BACKEND,),
    by_chance=True,
    nature=Nature.FINDING,
    evidence="All requests of the client reach the one pod that it had by its affinity before the change.",
    hides="Cilium may keep such a client there for another reason.",
    still=CILIUM_FLOWS_STILL,
)

FORGOTTEN_NODE = KnownDifference(
    when=(REPLACES_KUBE_PROXY,),
    covers=OWN_NODE_GONE,
    reason="when a Node object is deleted, Cilium's agents forget the way to the pods of that node; the API promises "
    "such pods nothing, and Kubernetes deletes them in the end",
    references=(NODES_PAGE, CILIUM_NODE_CLEANUP),
    evidence="The client's own node is the one whose object was deleted, and requests are lost only until 5 s after "
    "the object was back. Clients elsewhere lose none.",
    hides="The client's node may lose requests for another reason during that time.",
)
TAKEN_FOR_ONE = KnownDifference(
    when=(REPLACES_KUBE_PROXY,),
    covers=NAMESAKE_LOST,
    reason="when a Service loses an endpoint, Cilium takes it away from all Services of the namespace whose names "
    "begin with that Service's name",
    references=(CILIUM_NAMESAKES, CILIUM_NAMESAKES_FIX),
    before="cilium.version 1.19",
    nature=Nature.DEFECT,
    evidence="The endpoint answered until it left the EndpointSlices of the other Service. From then on it did not "
    "answer, although the EndpointSlices of this Service still had it.",
    hides="Cilium may lose the endpoint at that time for another reason.",
)
LARGE_DROPPED = KnownDifference(
    when=(REPLACES_KUBE_PROXY,),
    covers=LARGE_LOST,
    reason="Cilium does not pass on to a pod behind a Service the ICMP message that its answer is too large for the "
    "way: the pod never learns of the smaller MTU, and its large answers are lost",
    references=(CILIUM_SMALL_MTU, CILIUM_SMALL_MTU_FIX),
    nature=Nature.DEFECT,
    evidence="No large answer arrives in the whole event. The same client gets small answers from the same address.",
    hides="Large answers may be lost for another reason on the way to this client.",
    still=CILIUM_SMALL_MTU_FIX,
)
