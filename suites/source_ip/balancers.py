"""Path checks of load balancers, of headers that carry or forge the client's address, and of features that use it."""

from collections.abc import Iterator

from suites.path_checks import *

Checks = Iterator[PathCheck]

IN_A_HEADER = {
    Balancer.PROXY_FORWARDED_FOR: Claim.FORWARDED_FOR,
    Balancer.PROXY_V1: Claim.PROXY_V1,
    Balancer.PROXY_V2: Claim.PROXY_V2,
}
HEADERS = tuple(IN_A_HEADER.values())

STATELESS = (
    "an ECMP forwarder tracks no connections: when its routes change, open connections reach another node, which "
    "resets them; late health checks changed its routes during this measurement"
)
ROUTES_CHANGED = (
    "Each reset connection was open when the reference load balancer changed the routes of this Service in this "
    "family, according to the times of its own decisions."
)
OTHER_RESETS = "A node that resets a connection at the moment of a route change for another reason."


def rerouted(accept: frozenset[AddressClass], balancer: Balancer) -> tuple[KnownDifference, ...]:
    """Return the known difference of the ECMP forwarder: it reported a route change while connections were open."""
    when = (("load-balancer.steered", "yes"),)
    known = KnownDifference(
        when,
        Connections(accept, resets=True),
        STATELESS,
        (RFC_2992,),
        evidence=ROUTES_CHANGED,
        hides=OTHER_RESETS,
    )
    return (known,) if balancer is Balancer.ECMP else ()


def forwarders(protocol: Protocol, family: Family) -> Checks:
    """Yield checks of the reference load balancer as a forwarder: the pod sees the client's address."""
    for balancer in (Balancer.FORWARD, Balancer.ECMP):
        for client in EVERYONE:
            path = Path(client, VIP, protocol, family, replace(LB_LOCAL, balancer=balancer))
            yield path_check(
                path, CLIENT_IP, Level.CORE, API_ETP, TUTORIAL_LB, differences=rerouted(CLIENT_IP, balancer)
            )
        for client in OUTSIDE:
            path = Path(client, VIP, protocol, family, replace(LB_CLUSTER, balancer=balancer))
            for check in answers_and_rewrites(path, TUTORIAL_LB):
                yield replace(check, differences=(*check.differences, *rerouted(check.subject.accept, balancer)))


def proxies(family: Family) -> Checks:
    """Yield checks of the reference load balancer as a proxy: the pod sees its address, a header has the client's."""
    for balancer in (Balancer.PROXY, *IN_A_HEADER):
        reported = IN_A_HEADER.get(balancer, Claim.NOTHING)
        service = replace(LB_LOCAL, balancer=balancer, several_ports=True)
        port = Port.HTTP if reported is Claim.FORWARDED_FOR else Port.MAIN
        reference = PROXY_PROTOCOL if reported in (Claim.PROXY_V1, Claim.PROXY_V2) else TUTORIAL_PROXY
        for client in EVERYONE:
            path = Path(client, VIP, Protocol.TCP, family, service, port)
            # under ipMode Proxy, clients inside the cluster also go through the load balancer
            level = Level.CORE if client in OUTSIDE else Level.EXTENDED
            yield path_check(path, BALANCER_IP, level, reference, API_IP_MODE, KEP_1860, reported=reported)
        if reported is not Claim.NOTHING:
            for client in OUTSIDE:
                path = Path(client, VIP, Protocol.TCP, family, service, port, claim=reported)
                yield path_check(path, BALANCER_IP, Level.CORE, reference, reported=reported)


def headers_of_own(family: Family) -> Checks:
    """Yield checks of the header in which the cluster's own load balancer reports the client, if it speaks one.

    Whose address the connection itself has is not their topic.
    """
    for header in HEADERS:
        http = header is Claim.FORWARDED_FOR
        service = replace(LB_LOCAL, reports=header, several_ports=http)
        port = Port.HTTP if http else Port.MAIN
        references = (FORWARDED_FOR, TUTORIAL_PROXY) if http else (PROXY_PROTOCOL, TUTORIAL_PROXY)
        for client in OUTSIDE:
            for claim in (Claim.NOTHING, header):
                path = Path(client, VIP, Protocol.TCP, family, service, port, claim)
                yield path_check(path, ANSWERED, Level.EXTENDED, *references, reported=header)


def forged_headers(family: Family) -> Checks:
    """Yield checks that a forged header does not change the address that the backend sees.

    They fail where a transparent proxy trusts the header and connects from the claimed address.
    """
    for claim in HEADERS:
        for client in OUTSIDE:
            for entry, shape in ((ENDPOINT_NODE, NODE_PORT_LOCAL), (VIP, LB_LOCAL)):
                service = replace(shape, several_ports=True)
                path = Path(client, entry, Protocol.TCP, family, service, Port.HTTP, claim)
                yield path_check(path, CLIENT_IP, Level.CORE, API_ETP)


def source_ranges(protocol: Protocol, family: Family) -> Checks:
    """Yield checks that loadBalancerSourceRanges admit exactly the client that they name."""
    service = replace(LB_LOCAL, ranges=(OUTSIDE_1.name,))
    yield path_check(Path(OUTSIDE_1, VIP, protocol, family, service), CLIENT_IP, Level.CORE, API_RANGES, API_ETP)
    path = Path(OUTSIDE_2, VIP, protocol, family, service)
    controls = (
        same_client(path, LB_LOCAL, "a Service without ranges must answer the same client"),
        same_service(path, OUTSIDE_1, "the same Service must answer the client that its ranges name"),
    )
    # "ignored if the cloud-provider does not support the feature" (API text); kube-proxy does it for VIPs
    yield path_check(path, NO_ANSWER, Level.EXTENDED, API_RANGES, PROXIER, controls=controls)
    for client in (POD_ON_OTHER_NODE, HOST_ON_OTHER_NODE):
        yield path_check(Path(client, VIP, protocol, family, service), ANYTHING, Level.RECORD, API_RANGES)
    for client in OUTSIDE:  # kube-proxy applies them to VIPs, never to nodePorts
        yield path_check(Path(client, ENDPOINT_NODE, protocol, family, service), ANYTHING, Level.RECORD, API_RANGES)


def affinity(protocol: Protocol, family: Family) -> Checks:
    """Yield checks of sessionAffinity ClientIP: at one address, each client outside stays with one backend.

    Under Cluster that is a nodePort: behind a load balancer that spreads connections, each node chooses for itself.
    """
    for entry, shape, accept in (
        (ENDPOINT_NODE, NODE_PORT_LOCAL, CLIENT_IP),
        (VIP, LB_LOCAL, CLIENT_IP),
        (ENDPOINT_NODE, NODE_PORT_CLUSTER, CLIENT_OR_NODE_IP),
    ):
        free = replace(shape, backends=Backends.PAIR)
        for client in OUTSIDE:
            choice = Control(
                Path(client, entry, protocol, family, free),
                frozenset(),
                "without affinity, both backends must answer the same client",
                Spread.SEVERAL,
            )
            path = Path(client, entry, protocol, family, replace(free, affinity=True))
            yield path_check(path, accept, Level.CORE, API_AFFINITY, API_ETP, controls=(choice,), spread=Spread.ONE)


BOTH = (Protocol.TCP, Protocol.UDP)
CHECKS: tuple[PathCheck, ...] = (
    *(check for protocol in BOTH for family in FAMILIES for check in forwarders(protocol, family)),
    *(check for family in FAMILIES for checks in (proxies, forged_headers, headers_of_own) for check in checks(family)),
    *(
        check
        for protocol in BOTH
        for family in FAMILIES
        for checks in (source_ranges, affinity)
        for check in checks(protocol, family)
    ),
)
