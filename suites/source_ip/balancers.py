"""Load balancers of every kind, headers that tell or forge the client's address, and who else uses the source."""

from collections.abc import Iterator

from suites.path_checks import *

Rows = Iterator[PathCheck]

IN_A_HEADER = {
    Balancer.PROXY_FORWARDED_FOR: Claim.FORWARDED_FOR,
    Balancer.PROXY_V1: Claim.PROXY_V1,
    Balancer.PROXY_V2: Claim.PROXY_V2,
}


STATELESS = (
    "a forwarder without connection tracking (ECMP) moves connections that are open while its routes change to another "
    "node, which resets them; its routes did change in this window, as its health checks were late"
)
STEERED = (
    "Each reset connection was open when the reference load balancer changed the routes of this very Service in this "
    "family, by its own decisions and their times."
)
RESET_OTHERWISE = "A node that resets a connection in the very moment of a change of routes."


def rerouted(accept: frozenset[AddressClass], balancer: Balancer) -> tuple[Override, ...]:
    """Where the reference load balancer told that it changed its routes while connections were made."""
    when = (("load-balancer.steered", "yes"),)
    known = Override(when, accept, STATELESS, (RFC_2992,), resets=True, evidence=STEERED, hides=RESET_OTHERWISE)
    return (known,) if balancer is Balancer.ECMP else ()


def forwarders(protocol: Protocol, family: Family) -> Rows:
    """The reference load balancer as a forwarder, to one node and to several: the client's address reaches the pod."""
    for balancer in (Balancer.FORWARD, Balancer.ECMP):
        for client in EVERYONE:
            path = Path(client, VIP, protocol, family, replace(LB_LOCAL, balancer=balancer))
            yield path_check(path, CLIENT_IP, Level.CORE, API_ETP, TUTORIAL_LB, overrides=rerouted(CLIENT_IP, balancer))
        for client in OUTSIDE:
            path = Path(client, VIP, protocol, family, replace(LB_CLUSTER, balancer=balancer))
            for check in answers_and_rewrites(path, TUTORIAL_LB):
                yield replace(check, overrides=(*check.overrides, *rerouted(check.accept, balancer)))


def proxies(family: Family) -> Rows:
    """The reference load balancer as a proxy: the pod sees its address, and is told the client's out of band."""
    for balancer in (Balancer.PROXY, *IN_A_HEADER):
        told = IN_A_HEADER.get(balancer, Claim.NOTHING)
        service = replace(LB_LOCAL, balancer=balancer, several_ports=True)
        port = Port.HTTP if told is Claim.FORWARDED_FOR else Port.MAIN
        reference = PROXY_PROTOCOL if told in (Claim.PROXY_V1, Claim.PROXY_V2) else TUTORIAL_PROXY
        for client in EVERYONE:
            path = Path(client, VIP, Protocol.TCP, family, service, port)
            # under ipMode Proxy clients inside the cluster go through the balancer as well
            level = Level.CORE if client in OUTSIDE else Level.EXTENDED
            yield path_check(path, BALANCER_IP, level, reference, API_IP_MODE, KEP_1860, told=told)
        if told is not Claim.NOTHING:
            for client in OUTSIDE:
                path = Path(client, VIP, Protocol.TCP, family, service, port, claim=told)
                yield path_check(path, BALANCER_IP, Level.CORE, reference, told=told)


def forged_headers(family: Family) -> Rows:
    """What a client claims about itself changes nothing about the address that the backend sees.

    A transparent proxy on the way may believe it, and connect from the address that was claimed.
    """
    for claim in (Claim.FORWARDED_FOR, Claim.PROXY_V1, Claim.PROXY_V2):
        for client in OUTSIDE:
            for entry, shape in ((ENDPOINT_NODE, NODE_PORT_LOCAL), (VIP, LB_LOCAL)):
                service = replace(shape, several_ports=True)
                path = Path(client, entry, Protocol.TCP, family, service, Port.HTTP, claim)
                yield path_check(path, CLIENT_IP, Level.CORE, API_ETP)


def source_ranges(protocol: Protocol, family: Family) -> Rows:
    """loadBalancerSourceRanges judge by the source: they admit exactly the client they name."""
    service = replace(LB_LOCAL, ranges=(OUTSIDE_1.name,))
    yield path_check(Path(OUTSIDE_1, VIP, protocol, family, service), CLIENT_IP, Level.CORE, API_RANGES, API_ETP)
    path = Path(OUTSIDE_2, VIP, protocol, family, service)
    controls = (
        same_client(path, LB_LOCAL, "the same client must be answered by a service without ranges"),
        same_service(path, OUTSIDE_1, "the same service must answer the client it names"),
    )
    # "ignored if the cloud-provider does not support the feature" (API text); kube-proxy does it for VIPs
    yield path_check(path, NO_ANSWER, Level.EXTENDED, API_RANGES, PROXIER, controls=controls)
    for client in (POD_ON_OTHER_NODE, HOST_ON_OTHER_NODE):
        yield path_check(Path(client, VIP, protocol, family, service), ANYTHING, Level.RECORD, API_RANGES)
    for client in OUTSIDE:  # kube-proxy binds VIPs by them, never nodePorts
        yield path_check(Path(client, ENDPOINT_NODE, protocol, family, service), ANYTHING, Level.RECORD, API_RANGES)


def affinity(protocol: Protocol, family: Family) -> Rows:
    """sessionAffinity ClientIP goes by the source: under Local each outside client keeps to its own backend."""
    for entry, shape in ((ENDPOINT_NODE, NODE_PORT_LOCAL), (VIP, LB_LOCAL)):
        free = replace(shape, backends=Backends.PAIR)
        for client in OUTSIDE:
            choice = Control(
                Path(client, entry, protocol, family, free),
                frozenset(),
                "without affinity the same client must meet both backends",
                Spread.SEVERAL,
            )
            path = Path(client, entry, protocol, family, replace(free, affinity=True))
            yield path_check(path, CLIENT_IP, Level.CORE, API_AFFINITY, API_ETP, controls=(choice,), spread=Spread.ONE)


BOTH = (Protocol.TCP, Protocol.UDP)
CHECKS: tuple[PathCheck, ...] = (
    *(check for protocol in BOTH for family in FAMILIES for check in forwarders(protocol, family)),
    *(check for family in FAMILIES for checks in (proxies, forged_headers) for check in checks(family)),
    *(
        check
        for protocol in BOTH
        for family in FAMILIES
        for checks in (source_ranges, affinity)
        for check in checks(protocol, family)
    ),
)
