"""A node that takes answers to its pods' own traffic for requests to a Service."""

from collections.abc import Iterator
from contextlib import AbstractContextManager

from esipp.checks.check import Check, is_about
from esipp.checks.model import Role
from esipp.scenarios.service_change.subject import At, ServiceChange, service_of
from tests.broken.breakage import Break, Group
from tests.broken.breaks.changes.freed import run_of
from tests.broken.forwarding import internal_addresses
from tests.broken.matching import DROP, to_port
from tests.broken.nodes import Live, Nodes, Placed, Rule


def intercepting(nodes: Nodes) -> AbstractContextManager[Placed]:
    """The node without endpoints drops what another node sends to the number of a nodePort."""

    def made(live: Live) -> Iterator[Rule]:
        from_there = internal_addresses(nodes, nodes.roles[Role.ENDPOINT_NODE])
        for port in live.service(service_of("replaced"))["spec"]["ports"]:
            for family, address in from_there.items():
                words = (*to_port(port, port["nodePort"]), "--source", address, *DROP)
                yield Rule(family, "PREROUTING", words, (nodes.bare,), "mangle")

    return nodes.live(made)


def notices(check: Check) -> bool:
    if not is_about(check, ServiceChange):
        return False
    return check.subject.at is At.OUT and not check.subject.stream.is_fresh


BREAK = Break(
    "answers-taken-for-requests",
    Group.CHANGES,
    "a node drops answers to its pods' own traffic that come to the number of a nodePort",
    run_of("replaced"),
    intercepting,
    notices,
    names="takes answers",
    at_once=False,
    scoped=True,
)
