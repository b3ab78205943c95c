"""Path checks of clients on nodes without local endpoints: they reach the Service where outside traffic is dropped.

The in-cluster clients of the source IP suite run on the endpoint node and on a third node. The clients here run on the
node that outside clients dial. The node drops outside traffic and serves its own pods and processes, at the same time
and for the same Service. A data plane that treats Local like Cluster fails the silent checks. One that drops all
traffic on nodes without endpoints fails the others.
"""

from collections.abc import Iterator

from suites.path_checks import *

Checks = Iterator[PathCheck]

SUITE = "interoperability"
BOTH = (Protocol.TCP, Protocol.UDP)

LB_HOST_NETWORK = replace(LB_LOCAL, backends=Backends.HOST_NETWORK)
NODE_PORT_HOST_NETWORK = replace(NODE_PORT_LOCAL, backends=Backends.HOST_NETWORK)
LB_CONTROL_PLANE = replace(LB_LOCAL, backends=Backends.CONTROL_PLANE)
BEHIND_A_PROXY = replace(LB_LOCAL, balancer=Balancer.PROXY, several_ports=True)


def service_addresses(protocol: Protocol, family: Family) -> Checks:
    """Yield checks of ClusterIP and VIP of a Local Service: inside, all endpoints serve and pods keep their address."""
    for client in ON_BARE_NODE:
        path = Path(client, CLUSTER_IP, protocol, family, LB_LOCAL)
        yield path_check(path, CLIENT_IP, Level.CORE, TUTORIAL_CLUSTER_IP, DESIGN_INTEROP)
        path = Path(client, VIP, protocol, family, LB_LOCAL)
        yield path_check(path, CLIENT_IP, Level.CORE, API_ETP, DESIGN_INTEROP)
        if protocol is Protocol.TCP:  # the reference proxy carries TCP only
            path = Path(client, VIP, protocol, family, BEHIND_A_PROXY)
            yield path_check(path, BALANCER_IP, Level.EXTENDED, API_IP_MODE, KEP_1860, TUTORIAL_PROXY)


def external_ips(protocol: Protocol, family: Family) -> Checks:
    """Yield checks of externalIPs that are the address of the endpoint node, or of the client's own node."""
    for client in ON_BARE_NODE:
        for entry in (EXTERNAL_IP_OF_ENDPOINT_NODE, EXTERNAL_IP_OF_BARE_NODE):
            path = Path(client, entry, protocol, family, EXTERNAL_IPS_LOCAL)
            yield path_check(path, CLIENT_IP, Level.CORE, API_ETP, API_EXTERNAL_IPS, DESIGN_INTEROP)


def node_ports(protocol: Protocol, family: Family) -> Checks:
    """Yield checks of nodePorts on three nodes: their own (kube-proxy's short circuit), the endpoint node, another.

    The other node has no endpoint and treats them like any client from elsewhere.
    """
    for client in ON_BARE_NODE:
        path = Path(client, BARE_NODE, protocol, family, NODE_PORT_LOCAL)
        yield path_check(path, CLIENT_IP, Level.EXTENDED, API_ETP, PROXIER, DESIGN_INTEROP)
        path = Path(client, ENDPOINT_NODE, protocol, family, NODE_PORT_LOCAL)
        yield path_check(path, CLIENT_IP, Level.CORE, API_ETP, TUTORIAL_NODE_PORT)
        path = Path(client, OTHER_NODE, protocol, family, NODE_PORT_LOCAL)
        yield silent_at_bare_node(path, API_ETP, DESIGN_BLACKHOLE)


def under_cluster(protocol: Protocol, family: Family) -> Checks:
    """Yield checks of the same clients under Cluster: every node answers and rewrites the source."""
    for client in ON_BARE_NODE:
        yield from answers_and_rewrites(Path(client, VIP, protocol, family, LB_CLUSTER), TUTORIAL_LB)
        yield from answers_and_rewrites(
            Path(client, OTHER_NODE, protocol, family, NODE_PORT_CLUSTER), TUTORIAL_NODE_PORT
        )


def outside_meanwhile(protocol: Protocol, family: Family) -> Checks:
    """Yield the counterpart: at the same nodes and the same time, the same Services do not answer clients outside."""
    for entry, service, inside in (
        (BARE_NODE, NODE_PORT_LOCAL, POD_ON_BARE_NODE),
        (OTHER_NODE, NODE_PORT_LOCAL, POD_ON_OTHER_NODE),
        (BARE_NODE, LB_LOCAL, POD_ON_BARE_NODE),
        (EXTERNAL_IP_OF_BARE_NODE, EXTERNAL_IPS_LOCAL, POD_ON_BARE_NODE),
    ):
        also = needs(node=entry.role)
        check = silent_at_bare_node(
            Path(OUTSIDE_1, entry, protocol, family, service), API_ETP, DESIGN_BLACKHOLE, DESIGN_INTEROP, also=also
        )
        yield _while_a_pod_is_served(check, inside)


def host_network_only(protocol: Protocol, family: Family) -> Checks:
    """Yield checks of a Service with its only backend on the host network of another node."""
    direct = Entry(EntryKind.NODE_LISTENER, Role.ENDPOINT_NODE)
    for client in ON_BARE_NODE:
        controls = ()
        if client.vantage is Vantage.POD:
            way = Path(client, direct, protocol, family)
            controls = (
                Control(way, CLIENT_OR_NODE_IP, "shows whether the network add-on masquerades pod traffic to nodes"),
            )
        path = Path(client, CLUSTER_IP, protocol, family, LB_HOST_NETWORK)
        yield path_check(path, CLIENT_IP, Level.CORE, TUTORIAL_CLUSTER_IP, DESIGN_INTEROP, controls=controls)
        path = Path(client, VIP, protocol, family, LB_HOST_NETWORK)
        yield path_check(path, CLIENT_IP, Level.CORE, API_ETP, DESIGN_INTEROP, controls=controls)
        path = Path(client, BARE_NODE, protocol, family, NODE_PORT_HOST_NETWORK)
        yield path_check(path, CLIENT_IP, Level.EXTENDED, API_ETP, PROXIER, controls=controls)


def control_plane_only(protocol: Protocol, family: Family) -> Checks:
    """Yield checks of a Service with its only backend on a control plane node, where the policy applies as elsewhere.

    Load balancers may leave out these nodes, and often do, so the check of the VIP from outside is informational.
    """
    service = LB_CONTROL_PLANE
    for client in ON_BARE_NODE:
        path = Path(client, CLUSTER_IP, protocol, family, service)
        yield path_check(path, CLIENT_IP, Level.CORE, TUTORIAL_CLUSTER_IP, DESIGN_INTEROP)
        path = Path(client, VIP, protocol, family, service)
        yield path_check(path, CLIENT_IP, Level.CORE, API_ETP, DESIGN_INTEROP)
    yield path_check(Path(OUTSIDE_1, CONTROL_PLANE, protocol, family, service), CLIENT_IP, Level.CORE, API_ETP)
    path = Path(
        OUTSIDE_1, ENDPOINT_NODE, protocol, family, service
    )  # it has endpoints of other Services, none of this one
    controls = (
        same_client(path, NODE_PORT_CLUSTER, "the same node must answer this client for a Cluster Service"),
        same_client(path, service, "the same Service must answer this client on the control plane node", CONTROL_PLANE),
    )
    yield path_check(path, NO_ANSWER, Level.CORE, API_ETP, DESIGN_BLACKHOLE, controls=controls)
    yield path_check(
        Path(OUTSIDE_1, VIP, protocol, family, service), ANYTHING, Level.RECORD, KUBEADM_LABELS, EXCLUDE_LABEL
    )


def _while_a_pod_is_served(check: PathCheck, inside: Client) -> PathCheck:
    """Return the same check with a control: a pod on the node reaches the Service by its ClusterIP meanwhile."""
    outside = check.subject.path
    path = Path(inside, CLUSTER_IP, outside.protocol, outside.family, outside.service)
    served = Control(
        path, frozenset(), "a pod on the same node must reach the Service by its ClusterIP at the same time"
    )
    requirement = f"{check.requirement} Meanwhile, a pod on that node reaches the Service by its ClusterIP."
    subject = replace(check.subject, controls=(*check.subject.controls, served))
    return replace(check, requirement=requirement, subject=subject)


def _ours(check: PathCheck) -> PathCheck:
    """Return the check for this suite; a path that another suite uses too is probed once for both."""
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
