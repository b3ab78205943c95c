"""A policy change of one Service makes another's nodePort masquerade for half a second."""

from contextlib import AbstractContextManager

from esipp.checks.check import Check, is_about
from esipp.checks.model import Family, Role
from esipp.checks.policy_change import Isolated
from tests.broken.breakage import Break, Group
from tests.broken.masquerading import CLIENT
from tests.broken.matching import MASQUERADE, came_by
from tests.broken.nodes import Live, Nodes, Placed, Rule
from tests.broken.policy_changes import OF_POLICY_CHANGES, STEADY, disturbed_by_neighbours, steady_at


def masquerading_for_a_moment(nodes: Nodes) -> AbstractContextManager[Placed]:
    def make(live: Live) -> list[Rule]:
        here = (nodes.roles[Role.ENDPOINT_NODE],)
        (port,) = live.service(STEADY)["spec"]["ports"]
        words = (*came_by(port, port["nodePort"]), *MASQUERADE)
        return [Rule(family, "POSTROUTING", words, here) for family in Family]

    return disturbed_by_neighbours(nodes, make)


def notices(check: Check) -> bool:
    return is_about(check, Isolated) and check.subject.on_path.accept == CLIENT and steady_at(check, Role.ENDPOINT_NODE)


BREAK = Break(
    "flip-masquerades-a-neighbour",
    Group.DELIVERY,
    "at each policy change of one Service, another Service's nodePort is masqueraded for half a second",
    OF_POLICY_CHANGES,
    masquerading_for_a_moment,
    notices,
    names=r"after neighbour-\S+ changed",
    at_once=False,
    scoped=True,
)
