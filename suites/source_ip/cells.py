"""The rows of the source IP suite: who dials what, and whose address the backend must see.

Data only. The expectations are the matrix of Kubernetes' documentation and of kube-proxy (iptables mode); where a
data plane may legitimately differ the row is `extended`, or an override with reason and reference stands beside it.
"""

from collections.abc import Iterator

from esipp.model import (
    NO_ANSWER,
    AddressClass,
    Cell,
    Client,
    Control,
    Entry,
    EntryKind,
    Family,
    Level,
    Override,
    Path,
    Protocol,
    Role,
    Service,
    ServiceType,
    TrafficPolicy,
    Vantage,
)

SUITE = "source_ip"

# ---------------------------------------------------------------------------------------------------------- words
OUTSIDE_1 = Client("outside-1", Vantage.OUTSIDE)
OUTSIDE_2 = Client("outside-2", Vantage.OUTSIDE)
POD_ON_ENDPOINT_NODE = Client("pod-on-endpoint-node", Vantage.POD, Role.ENDPOINT_NODE)
POD_ON_OTHER_NODE = Client("pod-on-other-node", Vantage.POD, Role.OTHER_NODE)
NODE = Client("node", Vantage.NODE, Role.OTHER_NODE)

OUTSIDE = (OUTSIDE_1, OUTSIDE_2)
PODS = (POD_ON_ENDPOINT_NODE, POD_ON_OTHER_NODE)
INSIDE = (*PODS, NODE)
EVERYONE = (*OUTSIDE, *INSIDE)

POD_IP = Entry(EntryKind.POD_IP)
CLUSTER_IP = Entry(EntryKind.CLUSTER_IP)
ENDPOINT_NODE = Entry(EntryKind.NODE_PORT, Role.ENDPOINT_NODE)
BARE_NODE = Entry(EntryKind.NODE_PORT, Role.BARE_NODE)
VIP = Entry(EntryKind.VIP)

CLUSTER_IP_SERVICE = Service(ServiceType.CLUSTER_IP)
NODE_PORT_CLUSTER = Service(ServiceType.NODE_PORT, TrafficPolicy.CLUSTER)
NODE_PORT_LOCAL = Service(ServiceType.NODE_PORT, TrafficPolicy.LOCAL)
LB_CLUSTER = Service(ServiceType.LOAD_BALANCER, TrafficPolicy.CLUSTER)
LB_LOCAL = Service(ServiceType.LOAD_BALANCER, TrafficPolicy.LOCAL)

CLIENT_IP = frozenset({AddressClass.CLIENT})
NODE_IP = frozenset({AddressClass.NODE})
CLIENT_OR_NODE_IP = frozenset({AddressClass.CLIENT, AddressClass.NODE})

# ----------------------------------------------------------------------------------------------------- references
MODEL = "Kubernetes documentation, Cluster Networking: pods communicate with all other pods without NAT"
TUTORIAL_CLUSTER_IP = "Kubernetes documentation, Using Source IP: Services with Type=ClusterIP (seeds 000, 002)"
TUTORIAL_NODE_PORT = "Kubernetes documentation, Using Source IP: Services with Type=NodePort (seeds 000, 002)"
TUTORIAL_LB = "Kubernetes documentation, Using Source IP: Services with Type=LoadBalancer (seeds 000, 002)"
API_ETP = "API: service.spec.externalTrafficPolicy"
DESIGN = "ESIPP design proposal, Testing 1.1 (seed 003)"
DESIGN_BLACKHOLE = "ESIPP design proposal, External Traffic Blackholed on nodes with no local endpoints (seed 003)"
DESIGN_INTEROP = "ESIPP design proposal, Testing 2, Inter-Operability (seed 003)"
KUBE_PROXY = "kube-proxy: pkg/proxy/iptables/proxier.go, service external chains"

# ------------------------------------------------------------------------------------------- what must hold besides
SAYS_WHO_WHERE = {
    OUTSIDE_1: "a client outside the cluster",
    OUTSIDE_2: "a second client outside the cluster",
    POD_ON_ENDPOINT_NODE: "a pod on the endpoint's node",
    POD_ON_OTHER_NODE: "a pod on another node",
    NODE: "a host process on another node",
}


def preconditions(path: Path) -> tuple[Control, ...]:
    """What proves that this client shows its own address when no Service is in the way."""
    if path.client.vantage is Vantage.OUTSIDE:
        role = path.entry.role or Role.ENDPOINT_NODE
        listener = Path(path.client, Entry(EntryKind.NODE_LISTENER, role), path.protocol, path.family)
        return (Control(listener, CLIENT_IP, "the client must not be masqueraded on its way to the node"),)
    if path.entry.kind is EntryKind.POD_IP:
        return ()
    direct = Path(path.client, POD_IP, path.protocol, path.family)
    if path.client.vantage is Vantage.POD:
        return (Control(direct, CLIENT_IP, "pods must see each other's own address on the direct path"),)
    return (Control(direct, frozenset(), "the node must reach the pod directly"),)


def positive_controls(path: Path) -> tuple[Control, ...]:
    """For a row that claims silence: two siblings that must answer the same client in the same window."""
    same_node = Path(path.client, path.entry, path.protocol, path.family, NODE_PORT_CLUSTER)
    same_service = Path(path.client, ENDPOINT_NODE, path.protocol, path.family, path.service)
    return (
        Control(same_node, frozenset(), "the same node must answer this client for a Cluster service"),
        Control(same_service, frozenset(), "the same service must answer this client on the endpoint's node"),
    )


def masqueraded_on_the_way(path: Path) -> tuple[tuple[Control, ...], tuple[Override, ...]]:
    """A pod that dials another node's address: some network add-ons masquerade it before it leaves its own node."""
    listener = Path(path.client, Entry(EntryKind.NODE_LISTENER, path.entry.role), path.protocol, path.family)
    return (
        (Control(listener, CLIENT_OR_NODE_IP, "shows whether the add-on masquerades pods towards nodes"),),
        (
            Override(
                when=((f"pod-to-node.{path.family.value.lower()}", "masqueraded"),),
                accept=NODE_IP,
                reason="the network add-on masquerades pod traffic to node addresses before any Service rule sees it",
                reference="ip-masq-agent and kindnet: destinations outside the pod CIDRs are masqueraded",
            ),
        ),
    )


# ------------------------------------------------------------------------------------------------------- the rows
def cell(
    path: Path,
    requirement: str,
    level: Level,
    accept: frozenset[AddressClass],
    *references: str,
    suffix: str = "",
    controls: tuple[Control, ...] = (),
    overrides: tuple[Override, ...] = (),
) -> Cell:
    """One row; its id, features and preconditions follow from its path."""
    features = {f"family.{path.family.value.lower()}"}
    if path.client.vantage is Vantage.OUTSIDE:
        features.add("vantage.outside")
    if path.client == OUTSIDE_2:
        features.add("vantage.outside.two-addresses")
    if path.client.role is Role.OTHER_NODE and path.entry.role is Role.BARE_NODE:
        features.add("nodes.three")
    if path.service and path.service.type is ServiceType.LOAD_BALANCER:
        features.add("load-balancer")
    sentence = requirement.format(who=SAYS_WHO_WHERE[path.client], family=path.family.value)
    return Cell(
        id=path.key + suffix,
        requirement=sentence[0].upper() + sentence[1:],
        level=level,
        suite=SUITE,
        path=path,
        accept=accept,
        references=references,
        features=frozenset(features),
        controls=preconditions(path) + controls,
        overrides=overrides,
    )


def pod_ip(protocol: Protocol, family: Family) -> Iterator[Cell]:
    """The precondition of everything: no Service, no rewriting."""
    for client in PODS:
        yield cell(
            Path(client, POD_IP, protocol, family),
            "{who} that dials a pod's own {family} address is seen with its own address.",
            Level.CORE,
            CLIENT_IP,
            MODEL,
        )
    yield cell(
        Path(NODE, POD_IP, protocol, family),
        "{who} that dials a pod's own {family} address is seen with a node's address.",
        Level.CORE,
        NODE_IP,
        MODEL,
    )


def cluster_ip(protocol: Protocol, family: Family) -> Iterator[Cell]:
    """Packets to a ClusterIP from a pod are never source NAT'd; a host process may be masqueraded, as its node."""
    for client in PODS:
        yield cell(
            Path(client, CLUSTER_IP, protocol, family, CLUSTER_IP_SERVICE),
            "{who} that dials a ClusterIP over {family} is seen with its own address.",
            Level.CORE,
            CLIENT_IP,
            TUTORIAL_CLUSTER_IP,
        )
    yield cell(
        Path(NODE, CLUSTER_IP, protocol, family, CLUSTER_IP_SERVICE),
        "{who} that dials a ClusterIP over {family} is seen with a node's address.",
        Level.CORE,
        NODE_IP,
        TUTORIAL_CLUSTER_IP,
        KUBE_PROXY,
    )


def with_cluster_policy(path: Path, what: str, *references: str) -> Iterator[Cell]:
    """Two claims on one path: that it answers at all (API), and that the source is rewritten (kube-proxy)."""
    yield cell(
        path,
        f"{{who}} that dials {what} with externalTrafficPolicy Cluster over {{family}} is answered.",
        Level.CORE,
        CLIENT_OR_NODE_IP,
        API_ETP,
        *references,
        suffix=".answers",
    )
    yield cell(
        path,
        f"{{who}} that dials {what} with externalTrafficPolicy Cluster over {{family}} is seen with a node's address.",
        Level.EXTENDED,
        NODE_IP,
        *references,
        KUBE_PROXY,
    )


def node_port_cluster(protocol: Protocol, family: Family) -> Iterator[Cell]:
    """Every node answers, and rewrites the source on the way."""
    for entry, what in ((ENDPOINT_NODE, "the endpoint node's nodePort"), (BARE_NODE, "a bare node's nodePort")):
        for client in EVERYONE:
            path = Path(client, entry, protocol, family, NODE_PORT_CLUSTER)
            yield from with_cluster_policy(path, what, TUTORIAL_NODE_PORT)


def node_port_local(protocol: Protocol, family: Family) -> Iterator[Cell]:
    """The endpoint's node keeps the source; a bare node does not answer."""
    for client in EVERYONE:
        path = Path(client, ENDPOINT_NODE, protocol, family, NODE_PORT_LOCAL)
        controls, overrides = masqueraded_on_the_way(path) if client == POD_ON_OTHER_NODE else ((), ())
        yield cell(
            path,
            "{who} that dials the endpoint node's nodePort with externalTrafficPolicy Local over {family} "
            "is seen with its own address.",
            # a pod that dials its own node's nodePort: implementations disagree, upstream does not test it (#123622)
            Level.EXTENDED if client == POD_ON_ENDPOINT_NODE else Level.CORE,
            CLIENT_IP,
            API_ETP,
            TUTORIAL_NODE_PORT,
            DESIGN,
            controls=controls,
            overrides=overrides,
        )
    for client in EVERYONE:
        path = Path(client, BARE_NODE, protocol, family, NODE_PORT_LOCAL)
        yield cell(
            path,
            "{who} that dials a bare node's nodePort with externalTrafficPolicy Local over {family} gets no answer.",
            # from inside the cluster eBPF data planes answer; the API only warns such clients
            Level.CORE if client in OUTSIDE else Level.EXTENDED,
            NO_ANSWER,
            API_ETP,
            TUTORIAL_NODE_PORT,
            DESIGN_BLACKHOLE,
            controls=positive_controls(path),
        )


def load_balancer(protocol: Protocol, family: Family) -> Iterator[Cell]:
    """The VIP: Local keeps the source, Cluster rewrites it; inside the cluster the VIP always answers."""
    for client in EVERYONE:
        path = Path(client, VIP, protocol, family, LB_CLUSTER)
        yield from with_cluster_policy(path, "the load balancer's VIP", TUTORIAL_LB)
    for client in EVERYONE:
        yield cell(
            Path(client, VIP, protocol, family, LB_LOCAL),
            "{who} that dials the load balancer's VIP with externalTrafficPolicy Local over {family} "
            "is seen with its own address.",
            Level.CORE,
            CLIENT_IP,
            API_ETP,
            TUTORIAL_LB,
            DESIGN if client in OUTSIDE else DESIGN_INTEROP,
        )


CELLS: tuple[Cell, ...] = tuple(
    row
    for protocol in (Protocol.TCP,)
    for family in Family
    for rows in (pod_ip, cluster_ip, node_port_cluster, node_port_local, load_balancer)
    for row in rows(protocol, family)
)
