"""Checks of every sampled node and of every endpoint. Data only.

The source IP suite dials nodes by their role. These checks dial all of them, with endpoints on every node, and compare
what the endpoints get. An id names no node: the verdict does.
"""

from collections.abc import Iterator
from dataclasses import replace

from esipp.checks.check import LINK_LOCAL, ONE_NODE, Level, on_link
from esipp.checks.known_differences import KnownDifference, Nature
from esipp.checks.model import OUTSIDE, Balancer, Family, Protocol, TrafficPolicy
from esipp.scenarios.every_node.subject import (
    BALANCED,
    FELL_BACK,
    FROM_LINK_LOCAL,
    INSIDE,
    KUBE_PROXY,
    QUESTIONS,
    UNEVEN_OVER_UDP,
    Entrance,
    EveryNode,
    EveryNodeCheck,
    Requires,
    external_ips,
    other_addresses,
    several_announced,
)
from suites.clients import OUTSIDE_ROUTED
from suites.needs import needs
from suites.references import *
from suites.requirement import IN_TIME, Requirement

SUITE = "nodes"
CLUSTER, LOCAL = TrafficPolicy.CLUSTER, TrafficPolicy.LOCAL
ASKED = (
    "20 connections to each target, new ones each time, from source ports of the whole range from 1,024 up; 100 where "
    "repeated SYNs count, and 200 in all where shares of endpoints are compared; two more, which wait for 10 s, where "
    "a node must be silent"
)

FALLS_BACK = KnownDifference(
    (("proxy-mode", "ipvs"),),
    FELL_BACK,
    "in IPVS mode, internalTrafficPolicy Local falls back to endpoints of other nodes",
    (IPVS_PROXIER,),
    nature=Nature.DEFECT,
    evidence="On every node without an endpoint, an endpoint of another node answers host processes.",
    hides="Any other way in which internalTrafficPolicy Local fails there.",
)

BY_SOCKET = KnownDifference(
    (("service-proxy", "cilium"), ("cilium.sockets-of-hosts", "balanced")),
    UNEVEN_OVER_UDP,
    "Cilium chooses the endpoint of a UDP socket by the socket's number, and not by chance: sockets that are made in a "
    "regular order do not get all endpoints equally",
    (CILIUM_UDP_SLOT,),
    by_chance=True,
    evidence="Only datagrams of host processes to ClusterIPs have unequal shares, and every endpoint got some.",
    hides="Cilium may prefer an endpoint for datagrams for another reason.",
)

CLIENT = (OUTSIDE,)
CLIENTS = {Entrance.EXTERNAL_IP: (OUTSIDE, OUTSIDE_ROUTED)}
"""The clients that dial, if there are others than the usual one."""

WITHOUT_SCTP = (Entrance.LOOPBACK, Entrance.SERVICE_PORT)
"""What TCP and UDP show."""

SHOWN_BY = {
    Requires.RESENT: (Protocol.TCP,),
    Requires.COPIES: (Protocol.UDP, Protocol.SCTP),
    Requires.ONE_NODE: (Protocol.TCP,),
}
"""The protocols that show it, if not all do: only TCP sends a first packet again, and a doubled segment is dropped. Who
has a VIP does not depend on the protocol."""

ASKED_LINK = (
    f"{QUESTIONS} questions of a client outside to its link: who has the VIP; control: who has the nodes' addresses"
)

NAMES = {OUTSIDE: "a client outside", OUTSIDE_ROUTED: "a client outside behind a router"}

OF_PROTOCOLS: dict[tuple[Entrance, TrafficPolicy, Requires], Requirement] = {
    (Entrance.NODE_PORT, CLUSTER, Requires.ANSWERS): Requirement(
        "Every sampled node answers a client outside at the nodePort of a Service with Cluster.",
        "an answer at every node; the source is the client or a node",
        "a node drops the traffic of its nodePorts, or hands it to a pod of another Service",
        (API_ETP, TUTORIAL_NODE_PORT),
    ),
    (Entrance.NODE_PORT, CLUSTER, Requires.EVERY_ENDPOINT): Requirement(
        "Under Cluster, every ready endpoint gets connections from the nodePorts.",
        "connections at every endpoint",
        "an endpoint gets no connection",
        (API_ETP,),
    ),
    (Entrance.NODE_PORT, CLUSTER, Requires.EVEN): Requirement(
        "Under Cluster, nodePorts distribute connections evenly over all endpoints.",
        "equal shares, within what chance allows",
        "an endpoint gets more or fewer connections than others",
        (API_ETP,),
        Level.EXTENDED,
    ),
    (Entrance.NODE_PORT, LOCAL, Requires.SOURCE): Requirement(
        "Every sampled node with a local endpoint preserves the address of a client outside under Local.",
        "the client's own address at every node with an endpoint",
        "a node rewrites the client's address, or drops its traffic",
        (API_ETP, TUTORIAL_NODE_PORT, DESIGN_SOURCE_IP),
    ),
    (Entrance.NODE_PORT, LOCAL, Requires.OWN_ENDPOINT): Requirement(
        "Under Local, every node sends traffic from outside only to its own endpoints, not to those of other nodes.",
        "answers only from endpoints of the dialled node",
        "a node sends traffic to an endpoint of another node although it has one of its own",
        (API_ETP,),
    ),
    (Entrance.NODE_PORT, LOCAL, Requires.EVEN): Requirement(
        "Under Local, a node with several endpoints distributes connections evenly over them.",
        "equal shares, within what chance allows",
        "an endpoint gets more or fewer connections than others of its node",
        (API_ETP,),
        Level.EXTENDED,
    ),
    (Entrance.NODE_PORT, LOCAL, Requires.SILENT): Requirement(
        "No sampled node without a local endpoint answers a client outside under Local.",
        "no answer at any node without an endpoint",
        "a node without an endpoint forwards traffic to another node",
        (API_ETP, TUTORIAL_NODE_PORT, DESIGN_BLACKHOLE),
    ),
    (Entrance.NODE_PORT, LOCAL, Requires.FIRST): Requirement(
        "Under Local, every node with an endpoint shows the client's address from the first connection on.",
        "the client's own address at every node, as in later connections",
        "the first connections of a client take another way than later ones, and a node rewrites their source",
        (API_ETP, TUTORIAL_NODE_PORT),
        Level.EXTENDED,
    ),
    (Entrance.NODE_PORT, LOCAL, Requires.PORTS): Requirement(
        "Under Local, no node translates the source port of clients whose address it preserves.",
        "the client's own source port at every node",
        "NAT of a node translates the source ports of connections whose address it keeps",
        (TUTORIAL_NODE_PORT, PROXIER),
        Level.EXTENDED,
    ),
    (Entrance.NODE_PORT, LOCAL, Requires.COPIES): Requirement(
        "Under Local, every node sends each packet to one endpoint and only once.",
        "one answer to each request at every node",
        "a node doubles packets on their way to its endpoints",
        (VIRTUAL_IPS,),
        Level.EXTENDED,
    ),
    (Entrance.NODE_PORT, CLUSTER, Requires.RESENT): Requirement(
        "Every sampled node accepts new connections at its nodePorts at the first SYN, as it does without a Service.",
        "as few repeated SYNs at every node as without a Service",
        "a node drops some of the SYNs to its nodePorts, so that these connections take a second longer",
        (VIRTUAL_IPS, RETRANSMISSION),
        Level.EXTENDED,
    ),
    (Entrance.OTHER_ADDRESS, CLUSTER, Requires.ANSWERS): Requirement(
        "Every additional address of a node answers at nodePorts like its first address.",
        "an answer at every address; the source is the client or a node",
        "a node does not serve nodePorts at one of its addresses",
        (API_NODE_PORT, PROXIER),
        Level.EXTENDED,
    ),
    (Entrance.OTHER_ADDRESS, LOCAL, Requires.SOURCE): Requirement(
        "Every additional address of a node with a local endpoint preserves the client's address under Local.",
        "the client's own address at every address",
        "a node rewrites the client's address, or drops its traffic, at one of its addresses",
        (API_ETP, PROXIER),
        Level.EXTENDED,
    ),
    (Entrance.EXTERNAL_IP, CLUSTER, Requires.ANSWERS): Requirement(
        "The ExternalIP of every node answers {client} at nodePorts like its InternalIP.",
        "an answer at every ExternalIP, from the client or a node",
        "a node does not serve nodePorts at its ExternalIP, where clients outside of its network dial",
        (NODE_ADDRESSES, API_NODE_PORT, PROXIER),
        Level.EXTENDED,
    ),
    (Entrance.EXTERNAL_IP, LOCAL, Requires.SOURCE): Requirement(
        "The ExternalIP of every node with a local endpoint preserves the address of {client} under Local.",
        "the client's own address at every ExternalIP",
        "a node rewrites the client's address, or drops its traffic, at its ExternalIP",
        (NODE_ADDRESSES, API_ETP, PROXIER),
        Level.EXTENDED,
    ),
    (Entrance.EXTERNAL_IP, LOCAL, Requires.SILENT): Requirement(
        "Under Local, no node without a local endpoint answers {client} at its ExternalIP.",
        "no answer at the ExternalIP of every node without an endpoint",
        "a node without an endpoint forwards traffic that came to its ExternalIP",
        (NODE_ADDRESSES, API_ETP, PROXIER),
        Level.EXTENDED,
    ),
    (Entrance.LOOPBACK, CLUSTER, Requires.ANSWERS): Requirement(
        "Every sampled node answers its own processes at a nodePort of 127.0.0.1 under Cluster.",
        "an answer at every node",
        "a node drops what its processes send to nodePorts of its loopback address",
        (LOCALHOST_NODE_PORTS,),
        Level.EXTENDED,
    ),
    (Entrance.LOOPBACK, LOCAL, Requires.ANSWERS): Requirement(
        "Every sampled node with a local endpoint answers its own processes at a nodePort of 127.0.0.1 under Local.",
        "an answer at every node with an endpoint",
        "a node drops what its processes send to nodePorts of its loopback address: pods drop a martian source",
        (LOCALHOST_NODE_PORTS, MARTIAN_UNDER_LOCAL),
        Level.EXTENDED,
    ),
    (Entrance.SERVICE_PORT, LOCAL, Requires.UNSERVED): Requirement(
        "No sampled node serves the port of a LoadBalancer Service at its own address, unless that address is an "
        "announced VIP.",
        "no answer of the Service's endpoints at addresses of nodes",
        "nodes forward the port of a load balancer at all of their addresses, announced or not",
        (API_STATUS, NODES_NOT_ANNOUNCED),
        Level.EXTENDED,
    ),
    (Entrance.CLUSTER_IP, CLUSTER, Requires.ANSWERS): Requirement(
        "Every sampled node reaches a ClusterIP, at the first and the last port that a Service may have.",
        "an answer to the host processes of every node",
        "the service proxy of a node does not serve ClusterIPs",
        (TUTORIAL_CLUSTER_IP,),
    ),
    (Entrance.CLUSTER_IP, CLUSTER, Requires.EVERY_ENDPOINT): Requirement(
        "Every ready endpoint gets connections through the ClusterIP.",
        "connections at every endpoint",
        "an endpoint gets no connection",
        (API_ITP,),
    ),
    (Entrance.CLUSTER_IP, CLUSTER, Requires.EVEN): Requirement(
        "The ClusterIP distributes connections evenly over all endpoints.",
        "equal shares, within what chance allows",
        "an endpoint gets more or fewer connections than others",
        (API_ITP,),
        Level.EXTENDED,
    ),
    (Entrance.CLUSTER_IP, LOCAL, Requires.OWN_ENDPOINT): Requirement(
        "With internalTrafficPolicy Local, every node serves its own clients from its own endpoints.",
        "answers only from endpoints of the client's own node, if it has any",
        "a node sends its clients to another node although it has an endpoint",
        (API_ITP, KEP_2086),
    ),
    (Entrance.CLUSTER_IP, LOCAL, Requires.EVEN): Requirement(
        "With internalTrafficPolicy Local, a node with several endpoints distributes its clients' connections evenly.",
        "equal shares, within what chance allows",
        "an endpoint gets more or fewer connections than others of its node",
        (API_ITP, KEP_2086),
        Level.EXTENDED,
    ),
    (Entrance.CLUSTER_IP, LOCAL, Requires.SILENT): Requirement(
        "With internalTrafficPolicy Local, no sampled node without an endpoint serves its clients.",
        "no answer to a client on any node without an endpoint",
        "a node without an endpoint sends its clients to another node",
        (API_ITP, KEP_2086),
    ),
    (Entrance.VIP, CLUSTER, Requires.EVERY_ENDPOINT): Requirement(
        "Under Cluster, every ready endpoint gets connections from the VIP.",
        "connections at every endpoint",
        "an endpoint gets no connection",
        (API_ETP,),
    ),
    (Entrance.VIP, CLUSTER, Requires.EVEN): Requirement(
        "Under Cluster, the VIP distributes connections evenly over all endpoints.",
        "equal shares, within what chance allows",
        "an endpoint gets more or fewer connections than others",
        (API_ETP,),
        Level.EXTENDED,
    ),
    (Entrance.VIP, LOCAL, Requires.SHARES): Requirement(
        "Records how the VIP distributes connections over nodes under Local: load balancers may choose nodes freely.",
        "nothing required: the result is recorded",
        "",
        (DESIGN_BALANCE,),
        Level.RECORD,
    ),
    (Entrance.VIP, CLUSTER, Requires.EVERY_ADDRESS): Requirement(
        "Under Cluster, every announced address of a Service answers like the first one.",
        "an answer at every announced address, with a source as at the first",
        "an announced address does not answer, or shows another kind of source",
        (API_STATUS, API_ETP),
    ),
    (Entrance.VIP, LOCAL, Requires.EVERY_ADDRESS): Requirement(
        "Under Local, every announced address of a Service answers and preserves the source like the first one.",
        "an answer at every announced address, with a source as at the first",
        "an announced address does not answer, or rewrites the source",
        (API_STATUS, API_ETP),
    ),
    **{
        (Entrance.VIP, policy, Requires.ONE_NODE): Requirement(
            f"One node at a time answers on the link (ARP, NDP) that it has the VIP of a {policy.value} Service.",
            "the same node, or one at a time, in every answer",
            "two nodes answer for one VIP: clients reach one or the other, and connections break as that changes",
            (METALLB_LAYER_2, KUBE_VIP_TWICE),
            Level.EXTENDED,
        )
        for policy in (CLUSTER, LOCAL)
    },
}

OF_FAMILIES: dict[tuple[Entrance, Requires], Requirement] = {
    (Entrance.HEALTH, Requires.STATUS): Requirement(
        "The health-check node port of every sampled node says 200 with a local endpoint, and 503 without one.",
        "200 at every node with an endpoint, 503 at all others",
        "a node's health check says the opposite of the truth, or does not answer",
        (DESIGN_HEALTH, API_HEALTH_PORT),
    ),
    (Entrance.HEALTH, Requires.IN_TIME): Requirement(
        "The health-check node port of every sampled node answers before a load balancer gives up.",
        f"{IN_TIME} at every node",
        "single answers of a node's health check hang: load balancers leave the node although it serves",
        (DESIGN_TIMES, DESIGN_BOUND),
        Level.EXTENDED,
    ),
    (Entrance.PROXY, Requires.STATUS): Requirement(
        "kube-proxy's own health check (port 10256) says 200 at every sampled node.",
        "200 at every node",
        "kube-proxy of a node is not healthy, or its health check is closed there",
        (KEP_3836, PROXY_HEALTH_PORT),
        Level.EXTENDED,
    ),
    (Entrance.PROXY, Requires.IN_TIME): Requirement(
        "kube-proxy's own health check (port 10256) answers before a load balancer gives up, at every sampled node.",
        f"{IN_TIME} at every node",
        "single answers of kube-proxy's own health check hang: load balancers leave the node although it serves",
        (KEP_3836, DESIGN_BOUND),
        Level.EXTENDED,
    ),
    (Entrance.LINK_LOCAL_HEALTH, Requires.AS_GLOBALLY): Requirement(
        "The health-check node port of every sampled node answers the link-local address of a client on the nodes' "
        "link as it answers its global address. Health checks of Azure come from such an address.",
        "the same answer at every node",
        "a node drops health checks from link-local addresses, or does not answer there",
        (API_HEALTH_PORT, AZURE_PROBES, LINK_LOCAL_PROBES),
        Level.EXTENDED,
    ),
    (Entrance.LINK_LOCAL_PROXY, Requires.AS_GLOBALLY): Requirement(
        "kube-proxy's own health check (port 10256) answers the link-local address of a client on the nodes' link as "
        "it answers its global address. Health checks of Azure come from such an address.",
        "the same answer at every node",
        "a node drops health checks from link-local addresses, or does not answer there",
        (KEP_3836, AZURE_PROBES, LINK_LOCAL_PROBES),
        Level.EXTENDED,
    ),
    (Entrance.ADDRESSES, Requires.FAMILY): Requirement(
        "Every node that can run pods has an InternalIP of each IP family that Services and other nodes have.",
        "an InternalIP at every node",
        "a node lacks the family: no Service of this family can be reached at it",
        (DUAL_STACK_NODES,),
        Level.EXTENDED,
    ),
}


def of_protocols(protocol: Protocol, family: Family) -> Iterator[EveryNodeCheck]:
    """Yield the checks of connections."""
    for (entrance, policy, requires), said, client in (
        (key, said, client) for key, said in OF_PROTOCOLS.items() for client in CLIENTS.get(key[0], CLIENT)
    ):
        if protocol is Protocol.SCTP and entrance in WITHOUT_SCTP:
            continue
        if protocol not in SHOWN_BY.get(requires, tuple(Protocol)):
            continue
        if entrance is Entrance.LOOPBACK and family is Family.IPV6:
            continue  # kube-proxy never serves ::1, and says so
        subject = EveryNode(entrance, requires, family, protocol, policy, client)
        core = said.level is Level.CORE
        # KEP-614: the network add-on may lack SCTP
        level = Level.EXTENDED if core and protocol is Protocol.SCTP else said.level
        others = {"sctp"} if protocol is Protocol.SCTP else set()
        if entrance is Entrance.OTHER_ADDRESS:
            others |= {other_addresses(family), "node-ports.all-addresses"}
        if entrance is Entrance.EXTERNAL_IP:
            others |= {external_ips(family), "node-ports.all-addresses"}
        if entrance is Entrance.LOOPBACK:
            others.add("node-ports.localhost")
        if requires is Requires.EVERY_ADDRESS:
            others.add(several_announced(family))
        if requires is Requires.ONE_NODE:
            others |= {ONE_NODE, on_link(family.value)}
        balancer = Balancer.DEFAULT if entrance in BALANCED else None
        itp = entrance is Entrance.CLUSTER_IP and policy is LOCAL
        word = f"itp-{policy.value}" if itp else policy.value
        from_there = "" if client == OUTSIDE else f".{client.name}"
        stem = f"nodes.{entrance.value}.{word}.{protocol.value}.{family.value}{from_there}.{requires.value}"
        yield EveryNodeCheck(
            id=stem.lower(),
            requirement=said.sentence.format(client=NAMES[client]),
            level=level,
            suite=SUITE,
            references=said.references,
            subject=subject,
            expected=said.expected,
            fails_if=said.fails_if,
            asked=ASKED_LINK if requires is Requires.ONE_NODE else ASKED,
            features=needs(*others, client=None if entrance in INSIDE else client, family=family, balancer=balancer),
            differences=_differences(subject),
        )


def _differences(subject: EveryNode) -> tuple[KnownDifference, ...]:
    if subject.entrance is not Entrance.CLUSTER_IP:
        return ()
    if subject.requires is Requires.SILENT and subject.policy is LOCAL:
        return (FALLS_BACK,)
    return (BY_SOCKET,) if subject.requires is Requires.EVEN and subject.protocol is Protocol.UDP else ()


def of_families(family: Family) -> Iterator[EveryNodeCheck]:
    """Yield the checks of health checks and addresses."""
    for (entrance, requires), said in OF_FAMILIES.items():
        if entrance in FROM_LINK_LOCAL and family is Family.IPV4:
            continue  # hosts have no such address beside another one
        made = EveryNodeCheck(
            id=f"nodes.{entrance.value}.{family.value}.{requires.value}".lower(),
            requirement=said.sentence,
            level=said.level,
            suite=SUITE,
            references=said.references,
            subject=EveryNode(entrance, requires, family),
            expected=said.expected,
            fails_if=said.fails_if,
            asked="20 requests to each node" if entrance is not Entrance.ADDRESSES else "the Node objects",
            features=needs(client=OUTSIDE, family=family),
        )
        if entrance in FROM_LINK_LOCAL:
            made = replace(made, features=made.features | {LINK_LOCAL})
        if FROM_LINK_LOCAL.get(entrance, entrance) is Entrance.PROXY:
            made = replace(made, features=made.features | {KUBE_PROXY})
        if entrance is Entrance.ADDRESSES:
            made = replace(made, features=frozenset({f"nodes.{family.value.lower()}"}))
        yield made


CHECKS = [
    *(check for protocol in Protocol for family in Family for check in of_protocols(protocol, family)),
    *(check for family in Family for check in of_families(family)),
]
