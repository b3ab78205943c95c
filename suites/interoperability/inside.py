"""From nodes without an endpoint, pods and host processes still reach the service; outside traffic there is dropped.

The source IP suite's clients stand on the endpoint node and on a third one. These stand on the bare node, the one that
outside clients dial: where their traffic is dropped, that of the node's own pods and processes is served, at the same
time and for the same service. A data plane that takes Local for Cluster fails the silent checks, one that drops all on
nodes without endpoints fails the others.
"""

from collections.abc import Iterator

from suites.path_checks import *

Rows = Iterator[PathCheck]

SUITE = "interoperability"
BOTH = (Protocol.TCP, Protocol.UDP)

LB_HOST_NETWORK = replace(LB_LOCAL, backends=Backends.HOST_NETWORK)
NODE_PORT_HOST_NETWORK = replace(NODE_PORT_LOCAL, backends=Backends.HOST_NETWORK)
LB_CONTROL_PLANE = replace(LB_LOCAL, backends=Backends.CONTROL_PLANE)
BEHIND_A_PROXY = replace(LB_LOCAL, balancer=Balancer.PROXY, several_ports=True)


def service_addresses(protocol: Protocol, family: Family) -> Rows:
    """ClusterIP and VIP of a Local service: inside the cluster every endpoint serves, and pods keep their address."""
    for client in ON_BARE_NODE:
        path = Path(client, CLUSTER_IP, protocol, family, LB_LOCAL)
        yield path_check(path, CLIENT_IP, Level.CORE, TUTORIAL_CLUSTER_IP, DESIGN_INTEROP)
        path = Path(client, VIP, protocol, family, LB_LOCAL)
        yield path_check(path, CLIENT_IP, Level.CORE, API_ETP, DESIGN_INTEROP)
        if protocol is Protocol.TCP:  # a proxy
            path = Path(client, VIP, protocol, family, BEHIND_A_PROXY)
            yield path_check(path, BALANCER_IP, Level.EXTENDED, API_IP_MODE, KEP_1860, TUTORIAL_PROXY)


def external_ips(protocol: Protocol, family: Family) -> Rows:
    """externalIPs that are the endpoint node's address, and their own node's."""
    for client in ON_BARE_NODE:
        for entry in (EXTERNAL_IP_OF_ENDPOINT_NODE, EXTERNAL_IP_OF_BARE_NODE):
            path = Path(client, entry, protocol, family, EXTERNAL_IPS_LOCAL)
            yield path_check(path, CLIENT_IP, Level.CORE, API_ETP, API_EXTERNAL_IPS, DESIGN_INTEROP)


def node_ports(protocol: Protocol, family: Family) -> Rows:
    """Their own nodePort (kube-proxy's short circuit), the endpoint node's, and that of another bare node.

    To the last they come from elsewhere, as anybody does.
    """
    for client in ON_BARE_NODE:
        path = Path(client, BARE_NODE, protocol, family, NODE_PORT_LOCAL)
        yield path_check(path, CLIENT_IP, Level.EXTENDED, API_ETP, PROXIER, DESIGN_INTEROP)
        path = Path(client, ENDPOINT_NODE, protocol, family, NODE_PORT_LOCAL)
        yield path_check(path, CLIENT_IP, Level.CORE, API_ETP, TUTORIAL_NODE_PORT)
        path = Path(client, OTHER_NODE, protocol, family, NODE_PORT_LOCAL)
        yield silent_at_bare_node(path, API_ETP, DESIGN_BLACKHOLE)


def under_cluster(protocol: Protocol, family: Family) -> Rows:
    """The same node and its pods under Cluster: answered everywhere, also where Local is silent, and rewritten."""
    for client in ON_BARE_NODE:
        yield from answers_and_rewrites(Path(client, VIP, protocol, family, LB_CLUSTER), TUTORIAL_LB)
        yield from answers_and_rewrites(
            Path(client, OTHER_NODE, protocol, family, NODE_PORT_CLUSTER), TUTORIAL_NODE_PORT
        )


def outside_meanwhile(protocol: Protocol, family: Family) -> Rows:
    """The counterpart: of these very services, at the same nodes and at the same time, outside clients get nothing."""
    for entry, service, inside in (
        (BARE_NODE, NODE_PORT_LOCAL, POD_ON_BARE_NODE),
        (OTHER_NODE, NODE_PORT_LOCAL, POD_ON_OTHER_NODE),
        (BARE_NODE, LB_LOCAL, POD_ON_BARE_NODE),
        (EXTERNAL_IP_OF_BARE_NODE, EXTERNAL_IPS_LOCAL, POD_ON_BARE_NODE),
    ):
        needs = frozenset({"nodes.three"} if entry is OTHER_NODE else ())
        check = silent_at_bare_node(
            Path(OUTSIDE_1, entry, protocol, family, service), API_ETP, DESIGN_BLACKHOLE, DESIGN_INTEROP, needs=needs
        )
        yield _while_it_is_served(check, inside)


def host_network_only(protocol: Protocol, family: Family) -> Rows:
    """A service whose only backend is on the host network of another node."""
    direct = Entry(EntryKind.NODE_LISTENER, Role.ENDPOINT_NODE)
    for client in ON_BARE_NODE:
        controls = ()
        if client.vantage is Vantage.POD:
            way = Path(client, direct, protocol, family)
            controls = (Control(way, CLIENT_OR_NODE_IP, "shows whether the add-on masquerades pods towards nodes"),)
        path = Path(client, CLUSTER_IP, protocol, family, LB_HOST_NETWORK)
        yield path_check(path, CLIENT_IP, Level.CORE, TUTORIAL_CLUSTER_IP, DESIGN_INTEROP, controls=controls)
        path = Path(client, VIP, protocol, family, LB_HOST_NETWORK)
        yield path_check(path, CLIENT_IP, Level.CORE, API_ETP, DESIGN_INTEROP, controls=controls)
        path = Path(client, BARE_NODE, protocol, family, NODE_PORT_HOST_NETWORK)
        yield path_check(path, CLIENT_IP, Level.EXTENDED, API_ETP, PROXIER, controls=controls)


def control_plane_only(protocol: Protocol, family: Family) -> Rows:
    """A service whose only backend is on a control plane's node: a node as any other to the policy.

    Load balancers often leave these nodes out, and may: what the VIP gives outside is recorded.
    """
    service = LB_CONTROL_PLANE
    for client in ON_BARE_NODE:
        path = Path(client, CLUSTER_IP, protocol, family, service)
        yield path_check(path, CLIENT_IP, Level.CORE, TUTORIAL_CLUSTER_IP, DESIGN_INTEROP)
        path = Path(client, VIP, protocol, family, service)
        yield path_check(path, CLIENT_IP, Level.CORE, API_ETP, DESIGN_INTEROP)
    yield path_check(Path(OUTSIDE_1, CONTROL_PLANE, protocol, family, service), CLIENT_IP, Level.CORE, API_ETP)
    path = Path(OUTSIDE_1, ENDPOINT_NODE, protocol, family, service)  # the endpoint node of others: bare to this one
    controls = (
        same_client(path, NODE_PORT_CLUSTER, "the same node must answer this client for a Cluster service"),
        same_client(
            path, service, "the same service must answer this client on the control plane's node", CONTROL_PLANE
        ),
    )
    yield path_check(path, NO_ANSWER, Level.CORE, API_ETP, DESIGN_BLACKHOLE, controls=controls)
    yield path_check(
        Path(OUTSIDE_1, VIP, protocol, family, service), ANYTHING, Level.RECORD, KUBEADM_LABELS, EXCLUDE_LABEL
    )


def _while_it_is_served(check: PathCheck, inside: Client) -> PathCheck:
    """The same check, if meanwhile a pod on the node reaches the service: by its ClusterIP, as on every data plane."""
    path = Path(inside, CLUSTER_IP, check.path.protocol, check.path.family, check.path.service)
    served = Control(path, frozenset(), "a pod on the same node must reach the service meanwhile, by its ClusterIP")
    said = check.requirement[0].lower() + check.requirement[1:]
    requirement = f"While a pod on that node reaches the service by its ClusterIP, {said}"
    return replace(check, requirement=requirement, controls=(*check.controls, served))


def _ours(check: PathCheck) -> PathCheck:
    """A check of this suite; its path may be another suite's as well, which is probed once for both."""
    return replace(check, id=f"interop.{check.id}", suite=SUITE)


CHECKS: tuple[PathCheck, ...] = tuple(
    _ours(check)
    for protocol in BOTH
    for family in FAMILIES
    for checks in (
        service_addresses,
        external_ips,
        node_ports,
        under_cluster,
        outside_meanwhile,
        host_network_only,
        control_plane_only,
    )
    for check in checks(protocol, family)
)
