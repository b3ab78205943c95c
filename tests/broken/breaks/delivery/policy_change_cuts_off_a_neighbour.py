"""A policy change of one Service makes another's nodePort refuse connections for half a second."""

from contextlib import AbstractContextManager

from esipp.checks.model import Family, Role
from tests.broken.breakage import Break, Group
from tests.broken.matching import AT_THE_NODE, to_port
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


BREAK = Break(
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
)
