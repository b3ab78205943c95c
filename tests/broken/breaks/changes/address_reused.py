"""Nodes that still know an address as the endpoint of the Service that had it before."""

from collections.abc import Iterator
from contextlib import AbstractContextManager

from esipp.checks.model import Role
from esipp.scenarios.service_change.subject import At, Claim
from suites.changes.events import EVENTS
from tests.broken.breakage import Break, Group
from tests.broken.breaks.changes.freed import goes_on, of_stream, run_of
from tests.broken.breaks.changes.own_slices import dropped_at, to_the_first_pod
from tests.broken.matching import TAKEN
from tests.broken.nodes import Live, Nodes, Placed, Rule

EVENT = next(each for each in EVENTS if each.another)


def socket_goes_on(nodes: Nodes) -> AbstractContextManager[Placed]:
    """Datagrams from a socket in use go on to the first pod, which is an endpoint of another Service by then."""

    def made(live: Live) -> Iterator[Rule]:
        for port, address, target in to_the_first_pod(live, EVENT.name):
            if port["protocol"] == "UDP":
                yield from goes_on(port, address, target, nodes)

    return nodes.live(made)


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
        dropped_at(Role.ENDPOINT_NODE, EVENT.another, *TAKEN),
        of_stream(EVENT.name, "tcp-port", claims=(Claim.SERVED,), at=(At.ANOTHER_SERVICE,)),
        names="still has flows of that one",
        at_once=False,
        scoped=True,
    ),
)
