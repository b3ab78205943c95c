"""Checks of the source IP suite: who dials what, and which address the backend must see. Data only.

This module is the regular matrix: three protocols, two families, every client, every kind of entry, each policy. Core
checks follow Kubernetes' documentation and API text, extended checks follow kube-proxy. variants.py has Services of
other shapes. balancers.py has load balancers, headers and features that use the source address. Known differences of
data planes are in suites/known_differences/paths.py.
"""

from collections.abc import Iterator

from suites.path_checks import *
from suites.source_ip import balancers, variants
from suites.source_ip.connections import connections_checks

Checks = Iterator[PathCheck]


def pod_ip(protocol: Protocol, family: Family) -> Checks:
    """Yield checks without a Service, on which all others rest: no data plane rewrites the source."""
    for client in PODS:
        yield path_check(Path(client, POD_IP, protocol, family), CLIENT_IP, Level.CORE, NETWORK_MODEL)
    for client in HOSTS:  # any address of its node is right
        yield path_check(Path(client, POD_IP, protocol, family), CLIENT_IP, Level.CORE, NETWORK_MODEL)


def cluster_ip(protocol: Protocol, family: Family) -> Checks:
    """Yield checks of ClusterIPs: pods keep their address; a host process may show any address of its node."""
    for service in (PLAIN, NODE_PORT_CLUSTER, NODE_PORT_LOCAL):  # the external policy does not apply here
        for client in PODS:
            path = Path(client, CLUSTER_IP, protocol, family, service)
            yield path_check(path, CLIENT_IP, Level.CORE, TUTORIAL_CLUSTER_IP)
    for client in HOSTS:
        path = Path(client, CLUSTER_IP, protocol, family, PLAIN)
        yield path_check(path, CLIENT_IP, Level.CORE, TUTORIAL_CLUSTER_IP, PROXIER)


def cluster_ip_local(protocol: Protocol, family: Family) -> Checks:
    """Yield checks of internalTrafficPolicy Local on all Service types: same source, and local endpoints only."""
    for shape in (PLAIN, NODE_PORT_CLUSTER, NODE_PORT_LOCAL, LB_LOCAL):
        service = replace(shape, internal=LOCAL)
        near, far = (Path(client, CLUSTER_IP, protocol, family, service) for client in PODS)
        yield path_check(near, CLIENT_IP, Level.CORE, API_ITP, KEP_2086)
        controls = (
            same_client(far, PLAIN, "a Service with internalTrafficPolicy Cluster must answer the same client"),
            same_service(far, POD_ON_ENDPOINT_NODE, "the same Service must answer a pod on the endpoint node"),
        )
        yield path_check(far, NO_ANSWER, Level.CORE, API_ITP, KEP_2086, controls=controls)
    service = replace(PLAIN, internal=LOCAL)
    near, far = (Path(client, CLUSTER_IP, protocol, family, service) for client in HOSTS)
    yield path_check(near, CLIENT_IP, Level.CORE, API_ITP, KEP_2086)
    controls = (
        same_client(far, PLAIN, "a Service with internalTrafficPolicy Cluster must answer the same client"),
        same_service(far, HOST_ON_ENDPOINT_NODE, "the same Service must answer a host process on the endpoint node"),
    )
    yield path_check(far, NO_ANSWER, Level.CORE, API_ITP, KEP_2086, controls=controls)


def internal_policy_from_outside(protocol: Protocol, family: Family) -> Checks:
    """Yield checks of both policies together: the internal policy does not apply to traffic from outside."""
    cluster, local = replace(NODE_PORT_CLUSTER, internal=LOCAL), replace(NODE_PORT_LOCAL, internal=LOCAL)
    for entry, service in ((ENDPOINT_NODE, cluster), (BARE_NODE, cluster), (VIP, replace(LB_CLUSTER, internal=LOCAL))):
        yield from answers_and_rewrites(Path(OUTSIDE_1, entry, protocol, family, service), API_ITP, KEP_2086)
    for client in OUTSIDE:
        yield path_check(
            Path(client, ENDPOINT_NODE, protocol, family, local), CLIENT_IP, Level.CORE, API_ETP, API_ITP, KEP_2086
        )
        yield silent_at_bare_node(Path(client, BARE_NODE, protocol, family, local), API_ETP, API_ITP, KEP_2086)
        path = Path(client, VIP, protocol, family, replace(LB_LOCAL, internal=LOCAL))
        yield path_check(path, CLIENT_IP, Level.CORE, API_ETP, API_ITP, KEP_2086)
    # the external policy applies to a VIP, and for clients inside it always means Cluster
    path = Path(POD_ON_OTHER_NODE, VIP, protocol, family, replace(LB_LOCAL, internal=LOCAL))
    yield path_check(path, CLIENT_IP, Level.CORE, API_ETP, API_ITP, KEP_2086)


def node_port_cluster(protocol: Protocol, family: Family) -> Checks:
    """Yield checks of nodePorts under Cluster: every node answers and rewrites the source."""
    for entry in (ENDPOINT_NODE, BARE_NODE):
        for client in EVERYONE:
            path = Path(client, entry, protocol, family, NODE_PORT_CLUSTER)
            yield from answers_and_rewrites(path, TUTORIAL_NODE_PORT)
    for client in (POD_ON_OTHER_NODE, HOST_ON_OTHER_NODE):  # their own node
        path = Path(client, OTHER_NODE, protocol, family, NODE_PORT_CLUSTER)
        yield from answers_and_rewrites(path, TUTORIAL_NODE_PORT)


def node_port_local(protocol: Protocol, family: Family) -> Checks:
    """Yield checks of nodePorts under Local: the endpoint node keeps the source; other nodes serve own clients only."""
    for client in EVERYONE:
        path = Path(client, ENDPOINT_NODE, protocol, family, NODE_PORT_LOCAL)
        # implementations disagree about a pod that dials its own node's nodePort; upstream does not test it (#123622)
        level = Level.EXTENDED if client == POD_ON_ENDPOINT_NODE else Level.CORE
        yield path_check(path, CLIENT_IP, level, API_ETP, TUTORIAL_NODE_PORT, DESIGN_SOURCE_IP)
    for client in EVERYONE:
        path = Path(client, BARE_NODE, protocol, family, NODE_PORT_LOCAL)
        yield silent_at_bare_node(path, API_ETP, TUTORIAL_NODE_PORT, DESIGN_BLACKHOLE)
    for client in (POD_ON_OTHER_NODE, HOST_ON_OTHER_NODE):  # only kube-proxy promises this short circuit for nodePorts
        path = Path(client, OTHER_NODE, protocol, family, NODE_PORT_LOCAL)
        yield path_check(path, CLIENT_IP, Level.EXTENDED, API_ETP, PROXIER)


def unset_policy(protocol: Protocol, family: Family) -> Checks:
    """Yield checks of Services without an external policy: they behave as with Cluster."""
    node_port, balanced = Service(ServiceType.NODE_PORT), Service(ServiceType.LOAD_BALANCER)
    external = Service(ServiceType.CLUSTER_IP, external_ips=True)
    for client in (*OUTSIDE, POD_ON_OTHER_NODE, HOST_ON_OTHER_NODE):
        own = () if client in OUTSIDE else (OTHER_NODE,)
        for entry in (ENDPOINT_NODE, BARE_NODE, *own):
            yield from answers_and_rewrites(Path(client, entry, protocol, family, node_port), TUTORIAL_NODE_PORT)
        yield from answers_and_rewrites(Path(client, VIP, protocol, family, balanced), TUTORIAL_LB)
    for client in (OUTSIDE_1, POD_ON_OTHER_NODE):
        for entry in (EXTERNAL_IP_OF_ENDPOINT_NODE, EXTERNAL_IP_OF_BARE_NODE):
            yield from answers_and_rewrites(Path(client, entry, protocol, family, external), API_EXTERNAL_IPS)


def second_address(protocol: Protocol, family: Family) -> Checks:
    """Yield checks of nodePorts at a node's second address, which kube-proxy serves unless configured otherwise."""
    for client in (*OUTSIDE, POD_ON_OTHER_NODE, HOST_ON_OTHER_NODE):
        path = Path(client, SECOND_OF_ENDPOINT_NODE, protocol, family, NODE_PORT_LOCAL)
        yield path_check(path, CLIENT_IP, Level.EXTENDED, API_ETP, PROXIER)
        path = Path(client, SECOND_OF_BARE_NODE, protocol, family, NODE_PORT_CLUSTER)
        yield path_check(path, NODE_IP, Level.EXTENDED, TUTORIAL_NODE_PORT, PROXIER)
    for client in OUTSIDE:
        path = Path(client, SECOND_OF_BARE_NODE, protocol, family, NODE_PORT_LOCAL)
        yield silent_at_bare_node(path, API_ETP, also=frozenset({"node-ports.all-addresses"}))


def external_ip(protocol: Protocol, family: Family) -> Checks:
    """Yield checks of externalIPs that are node addresses: Local applies to clients outside, Cluster inside."""
    here, there = EXTERNAL_IP_OF_ENDPOINT_NODE, EXTERNAL_IP_OF_BARE_NODE
    for client in OUTSIDE:
        yield path_check(
            Path(client, here, protocol, family, EXTERNAL_IPS_LOCAL), CLIENT_IP, Level.CORE, API_ETP, API_EXTERNAL_IPS
        )
        yield silent_at_bare_node(Path(client, there, protocol, family, EXTERNAL_IPS_LOCAL), API_ETP, API_EXTERNAL_IPS)
    for client in INSIDE:
        for entry in (here, there):
            path = Path(client, entry, protocol, family, EXTERNAL_IPS_LOCAL)
            yield path_check(path, CLIENT_IP, Level.CORE, API_ETP, DESIGN_INTEROP)
    for client in EVERYONE:
        for entry in (here, there):
            yield from answers_and_rewrites(
                Path(client, entry, protocol, family, EXTERNAL_IPS_CLUSTER), API_EXTERNAL_IPS
            )


def load_balancer(protocol: Protocol, family: Family) -> Checks:
    """Yield checks of VIPs: Local keeps the source, Cluster rewrites it, and clients inside always get an answer."""
    for client in EVERYONE:
        yield from answers_and_rewrites(Path(client, VIP, protocol, family, LB_CLUSTER), TUTORIAL_LB)
    for client in EVERYONE:
        test_plan = DESIGN_SOURCE_IP if client in OUTSIDE else DESIGN_INTEROP
        path = Path(client, VIP, protocol, family, LB_LOCAL)
        yield path_check(path, CLIENT_IP, Level.CORE, API_ETP, TUTORIAL_LB, test_plan)


def hairpin(protocol: Protocol, family: Family) -> Checks:
    """Yield checks of hairpins: the node rewrites the source of a backend that reaches itself, at every entry."""
    for entry, services in (
        (CLUSTER_IP, (PLAIN, replace(PLAIN, internal=LOCAL))),
        (ENDPOINT_NODE, (NODE_PORT_CLUSTER, NODE_PORT_LOCAL)),
        (VIP, (LB_CLUSTER, LB_LOCAL)),
    ):
        for service in services:
            yield path_check(
                Path(BACKEND, entry, protocol, family, service), HAIRPIN, Level.EXTENDED, HAIRPIN_NATED, PROXIER
            )


def one_socket(family: Family) -> Checks:
    """Yield checks of UDP flows: all datagrams from one source port arrive with the same source."""
    for client in OUTSIDE:
        path = Path(client, ENDPOINT_NODE, Protocol.UDP, family, NODE_PORT_LOCAL, one_socket=True)
        yield path_check(path, CLIENT_IP, Level.CORE, API_ETP, TUTORIAL_NODE_PORT)
        path = Path(client, VIP, Protocol.UDP, family, LB_LOCAL, one_socket=True)
        yield path_check(path, CLIENT_IP, Level.CORE, API_ETP, TUTORIAL_LB)
        path = Path(client, BARE_NODE, Protocol.UDP, family, NODE_PORT_CLUSTER, one_socket=True)
        yield path_check(path, NODE_IP, Level.EXTENDED, TUTORIAL_NODE_PORT, PROXIER)
    for client in PODS:
        path = Path(client, CLUSTER_IP, Protocol.UDP, family, PLAIN, one_socket=True)
        yield path_check(path, CLIENT_IP, Level.CORE, TUTORIAL_CLUSTER_IP)


MATRIX = (
    pod_ip,
    cluster_ip,
    cluster_ip_local,
    internal_policy_from_outside,
    node_port_cluster,
    node_port_local,
    unset_policy,
    second_address,
    external_ip,
    load_balancer,
    hairpin,
)

PATH_CHECKS: tuple[PathCheck, ...] = (
    *(check for protocol in Protocol for family in FAMILIES for checks in MATRIX for check in checks(protocol, family)),
    *(check for family in FAMILIES for check in one_socket(family)),
    *variants.CHECKS,
    *balancers.CHECKS,
)

CHECKS: tuple[Check, ...] = (*PATH_CHECKS, *connections_checks(PATH_CHECKS))
