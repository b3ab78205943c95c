"""Nodes that still know an address as the endpoint of the Service that had it before."""

from collections.abc import Iterator
from contextlib import AbstractContextManager

from esipp.checks.model import Family, Role
from esipp.scenarios.service_change.subject import At, Claim
from suites.changes.events import EVENTS
from tests.broken.breakage import Break, Group
from tests.broken.breaks.changes.freed import goes_on, of_stream, run_of
from tests.broken.breaks.changes.own_slices import to_the_first_pod
from tests.broken.matching import AT_THE_NODE, DROP, TAKEN, to_port
from tests.broken.nodes import Live, Nodes, Placed, Rule

EVENT = next(each for each in EVENTS if each.another)


def socket_goes_on(nodes: Nodes) -> AbstractContextManager[Placed]:
    """Datagrams from a socket in use go on to the first pod, which is an endpoint of another Service by then."""

    def made(live: Live) -> Iterator[Rule]:
        for port, address, target in to_the_first_pod(live, EVENT.name):
            if port["protocol"] == "UDP":
                yield from goes_on(port, address, target, nodes)

    return nodes.live(lambda live: list(made(live)))


def used_ports_dropped(nodes: Nodes) -> AbstractContextManager[Placed]:
    """The endpoint node drops connections to the other Service from source ports that those to the first one have."""

    def made(live: Live) -> Iterator[Rule]:
        for port in live.service(EVENT.another)["spec"]["ports"]:
            words = (*to_port(port, port["nodePort"]), *TAKEN, *AT_THE_NODE, *DROP)
            for family in Family if port["protocol"] == "TCP" else ():
                yield Rule(family, "PREROUTING", words, (nodes.roles[Role.ENDPOINT_NODE],), "mangle")

    return nodes.live(lambda live: list(made(live)))


BREAKS = (
    Break(
        "socket-goes-on-to-an-address-of-another-service",
        Group.CHANGES,
        "nodes go on sending datagrams from a socket that is in use to an address that was an endpoint of the Service, "
        "and is one of another Service by then",
        run_of(EVENT.name),
        socket_goes_on,
        of_stream(EVENT.name, "udp-socket", claims=(Claim.SERVED, Claim.GONE), at=(At.ENDPOINT_NODE,)),
        names="connection tracking still",
        at_once=False,
        scoped=True,
    ),
    Break(
        "used-ports-dropped-at-a-reused-address",
        Group.CHANGES,
        "a node drops connections to an endpoint whose address another Service had, from source ports that connections "
        "to that one have",
        run_of(EVENT.name),
        used_ports_dropped,
        of_stream(EVENT.name, "tcp-port", claims=(Claim.SERVED,), at=(At.ANOTHER_SERVICE,)),
        names="still has flows of that one",
        at_once=False,
        scoped=True,
    ),
)
