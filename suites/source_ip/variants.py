"""Path checks of other Service shapes: host-network backends, ports, address families, zones, pods not ready."""

from collections.abc import Iterator

from suites.path_checks import *

Checks = Iterator[PathCheck]

ZONES = frozenset({"nodes.zones"})
"""The nodes with a role are in a zone of their own each."""


def host_network(protocol: Protocol, family: Family) -> Checks:
    """Yield checks of a backend on the host network: all is as usual, except that its address is its node's."""
    plain, node_port, balanced = (
        replace(shape, backends=Backends.HOST_NETWORK) for shape in (PLAIN, NODE_PORT_LOCAL, LB_LOCAL)
    )
    for client in OUTSIDE:
        yield path_check(Path(client, ENDPOINT_NODE, protocol, family, node_port), CLIENT_IP, Level.CORE, API_ETP)
        yield silent_at_bare_node(Path(client, BARE_NODE, protocol, family, node_port), API_ETP)
        yield path_check(Path(client, VIP, protocol, family, balanced), CLIENT_IP, Level.CORE, API_ETP)
        path = Path(client, BARE_NODE, protocol, family, replace(node_port, policy=CLUSTER))
        yield from answers_and_rewrites(path, TUTORIAL_NODE_PORT)
    inside = replace(plain, internal=LOCAL)
    near, far = (Path(client, CLUSTER_IP, protocol, family, inside) for client in PODS)
    yield path_check(near, CLIENT_OR_NODE_IP, Level.CORE, API_ITP, KEP_2086)
    controls = (
        same_client(far, PLAIN, "a Service with internalTrafficPolicy Cluster must answer the same client"),
        same_service(far, POD_ON_ENDPOINT_NODE, "the same Service must answer a pod on the endpoint node"),
    )
    yield path_check(far, NO_ANSWER, Level.CORE, API_ITP, KEP_2086, controls=controls)
    for client in PODS:
        path = Path(client, CLUSTER_IP, protocol, family, plain)
        direct = Path(client, Entry(EntryKind.NODE_LISTENER, Role.ENDPOINT_NODE), protocol, family)
        shows = Control(direct, CLIENT_OR_NODE_IP, "shows whether the add-on masquerades pods towards nodes")
        yield path_check(path, CLIENT_IP, Level.CORE, TUTORIAL_CLUSTER_IP, controls=(shows,))
    for client in HOSTS:
        path = Path(client, CLUSTER_IP, protocol, family, plain)
        yield path_check(path, CLIENT_IP, Level.CORE, TUTORIAL_CLUSTER_IP, PROXIER)


def several_ports(protocol: Protocol, family: Family) -> Checks:
    """Yield checks of Services with several ports: a targetPort by number, by name, or equal to the port."""
    ports = (Port.MAIN, Port.NAMED, Port.SAME) + ((Port.HTTP,) if protocol is Protocol.TCP else ())
    for port in ports:
        for client in OUTSIDE:
            for entry, shape in ((ENDPOINT_NODE, NODE_PORT_LOCAL), (VIP, LB_LOCAL)):
                path = Path(client, entry, protocol, family, replace(shape, several_ports=True), port)
                yield path_check(path, CLIENT_IP, Level.CORE, API_ETP, API_TARGET_PORT)
        for client in PODS:
            path = Path(client, CLUSTER_IP, protocol, family, replace(NODE_PORT_LOCAL, several_ports=True), port)
            yield path_check(path, CLIENT_IP, Level.CORE, TUTORIAL_CLUSTER_IP, API_TARGET_PORT)


def one_family(protocol: Protocol, family: Family) -> Checks:
    """Yield checks of single-stack Services in a dual-stack cluster: answers in one family, silence in the other."""
    single = replace(NODE_PORT_LOCAL, families=family)
    for client in OUTSIDE:
        yield path_check(
            Path(client, ENDPOINT_NODE, protocol, family, single), CLIENT_IP, Level.CORE, API_ETP, API_FAMILIES, KEP_563
        )
        yield path_check(
            Path(client, VIP, protocol, family, replace(LB_LOCAL, families=family)),
            CLIENT_IP,
            Level.CORE,
            API_ETP,
            API_FAMILIES,
            KEP_563,
        )
        path = Path(client, ENDPOINT_NODE, protocol, family.other, single)
        own = Control(
            Path(client, ENDPOINT_NODE, protocol, family, single),
            frozenset(),
            "the Service must answer in its own family",
        )
        dual = same_client(path, NODE_PORT_LOCAL, "the same node must answer in this family for a dual-stack Service")
        yield path_check(path, NO_ANSWER, Level.EXTENDED, API_FAMILIES, KEP_563, controls=(own, dual))
    path = Path(POD_ON_OTHER_NODE, CLUSTER_IP, protocol, family, replace(PLAIN, families=family))
    yield path_check(path, CLIENT_IP, Level.CORE, TUTORIAL_CLUSTER_IP, API_FAMILIES, KEP_563)


def ipv6_first(protocol: Protocol, family: Family) -> Checks:
    """Yield checks of dual-stack Services whose first family is IPv6: both families are served as in any other order.

    One client and TCP are enough: only what takes the first ClusterIP for the whole Service treats them otherwise.
    """
    if protocol is not Protocol.TCP:
        return
    plain, cluster, local, lb_cluster, lb_local = (
        replace(shape, first=Family.IPV6) for shape in (PLAIN, NODE_PORT_CLUSTER, NODE_PORT_LOCAL, LB_CLUSTER, LB_LOCAL)
    )
    for entry, shape in ((ENDPOINT_NODE, local), (VIP, lb_local)):
        path = Path(OUTSIDE_1, entry, protocol, family, shape)
        yield path_check(path, CLIENT_IP, Level.CORE, API_ETP, API_FAMILIES, KEP_563)
    yield silent_at_bare_node(Path(OUTSIDE_1, BARE_NODE, protocol, family, local), API_ETP, API_FAMILIES, KEP_563)
    for entry, shape in ((BARE_NODE, cluster), (VIP, lb_cluster)):
        yield from answers_and_rewrites(Path(OUTSIDE_1, entry, protocol, family, shape), API_FAMILIES, KEP_563)
    path = Path(POD_ON_OTHER_NODE, CLUSTER_IP, protocol, family, plain)
    yield path_check(path, CLIENT_IP, Level.CORE, TUTORIAL_CLUSTER_IP, API_FAMILIES, KEP_563)


def far_endpoints(protocol: Protocol, family: Family) -> Checks:
    """Yield checks of trafficDistribution PreferClose if the only endpoint is in no other node's zone.

    It expresses a preference: where no endpoint is close, all of them serve. A Local policy applies before it.
    """
    if protocol is not Protocol.TCP:
        return
    plain, cluster, local, lb_cluster, lb_local = (
        replace(shape, prefers_close=True)
        for shape in (PLAIN, NODE_PORT_CLUSTER, NODE_PORT_LOCAL, LB_CLUSTER, LB_LOCAL)
    )
    for entry, shape in ((ENDPOINT_NODE, local), (VIP, lb_local)):
        path = Path(OUTSIDE_1, entry, protocol, family, shape)
        yield path_check(path, CLIENT_IP, Level.CORE, API_ETP, API_DISTRIBUTION, KEP_4444, also=ZONES)
    path = Path(OUTSIDE_1, BARE_NODE, protocol, family, local)
    yield silent_at_bare_node(path, API_ETP, API_DISTRIBUTION, KEP_4444, also=ZONES)
    for client, entry, shape, accept in (
        (OUTSIDE_1, BARE_NODE, cluster, CLIENT_OR_NODE_IP),
        (OUTSIDE_1, VIP, lb_cluster, CLIENT_OR_NODE_IP),
        (POD_ON_OTHER_NODE, CLUSTER_IP, plain, CLIENT_IP),
    ):
        path = Path(client, entry, protocol, family, shape)
        yield path_check(path, accept, Level.EXTENDED, API_DISTRIBUTION, KEP_4444, also=ZONES)


def not_ready(protocol: Protocol, family: Family) -> Checks:
    """Yield checks of pods that are not ready: they serve only where publishNotReadyAddresses is set."""
    silent = replace(NODE_PORT_LOCAL, backends=Backends.NOT_READY)
    published = replace(silent, publish_not_ready=True)
    for client in OUTSIDE:
        path = Path(client, ENDPOINT_NODE, protocol, family, published)
        yield path_check(path, CLIENT_IP, Level.CORE, API_ETP, API_NOT_READY)
        yield silent_at_bare_node(Path(client, BARE_NODE, protocol, family, published), API_ETP, API_NOT_READY)
        path = Path(client, ENDPOINT_NODE, protocol, family, silent)
        controls = (
            same_client(path, NODE_PORT_LOCAL, "the same node must answer this client for a ready backend"),
            same_client(path, published, "the backend that is not ready must be able to answer"),
        )
        yield path_check(path, NO_ANSWER, Level.CORE, API_NOT_READY, controls=controls)
    for client in PODS:
        path = Path(client, CLUSTER_IP, protocol, family, published)
        yield path_check(path, CLIENT_IP, Level.CORE, TUTORIAL_CLUSTER_IP, API_NOT_READY)


CHECKS: tuple[PathCheck, ...] = tuple(
    check
    for protocol in (Protocol.TCP, Protocol.UDP)
    for family in FAMILIES
    for checks in (host_network, several_ports, one_family, ipv6_first, far_endpoints, not_ready)
    for check in checks(protocol, family)
)
