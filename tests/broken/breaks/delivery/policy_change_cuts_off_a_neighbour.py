"""A policy change of one Service makes another's nodePort refuse connections for half a second, or drop SYNs."""

from contextlib import AbstractContextManager

from esipp.checks.check import Check, Profile, is_about
from esipp.checks.model import Family, Role
from esipp.checks.policy_change import IsolatedConnections
from tests.broken.breakage import Break, Group
from tests.broken.matching import AT_THE_NODE, DROP, to_port
from tests.broken.nodes import Live, Nodes, Placed, Rule
from tests.broken.policy_changes import OF_POLICY_CHANGES, STEADY, disturbed_by_neighbours, steady_at

CLOSED = "19997"
"""A port without a listener."""


def refusing_for_a_moment(nodes: Nodes) -> AbstractContextManager[Placed]:
    def make(live: Live) -> list[Rule]:
        here = (nodes.roles[Role.ENDPOINT_NODE],)
        (port,) = live.service(STEADY)["spec"]["ports"]
        to_nobody = ("--jump", "REDIRECT", "--to-ports", CLOSED)
        words = (*to_port(port, port["nodePort"]), *AT_THE_NODE, *to_nobody)
        return [Rule(family, "PREROUTING", words, here) for family in Family]

    return disturbed_by_neighbours(nodes, make)


def dropping_for_a_moment(nodes: Nodes) -> AbstractContextManager[Placed]:
    def make(live: Live) -> list[Rule]:
        here = (nodes.roles[Role.ENDPOINT_NODE],)
        (port,) = live.service(STEADY)["spec"]["ports"]
        words = (*to_port(port, port["nodePort"]), *AT_THE_NODE, "--syn", *DROP)
        return [Rule(family, "PREROUTING", words, here, "mangle") for family in Family]

    return disturbed_by_neighbours(nodes, make)


def repeated_syns(check: Check) -> bool:
    return is_about(check, IsolatedConnections) and check.subject.on_connections.kind is Profile.NODE_PORT


BREAKS = (
    Break(
        "flip-cuts-off-a-neighbour",
        Group.DELIVERY,
        "at each policy change of one Service, another Service's nodePort is refused for half a second",
        OF_POLICY_CHANGES,
        refusing_for_a_moment,
        lambda check: steady_at(check, Role.ENDPOINT_NODE),
        names=r"after neighbour-\S+ changed",
        opens=lambda check: steady_at(check, Role.BARE_NODE),  # the same service must answer at the endpoint's node
        at_once=False,
        scoped=True,
    ),
    Break(
        "flip-drops-the-syns-of-a-neighbour",
        Group.DELIVERY,
        "at each policy change of one Service, SYNs to another Service's nodePort are dropped for half a second",
        OF_POLICY_CHANGES,
        dropping_for_a_moment,
        repeated_syns,
        names="after a repeated SYN",
        # a SYN that meets several of these moments is not answered in four seconds
        may=lambda check: steady_at(check, Role.ENDPOINT_NODE) or steady_at(check, Role.BARE_NODE),
        at_once=False,
        scoped=True,
    ),
)
