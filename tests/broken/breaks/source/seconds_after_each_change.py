"""A Service's source stays rewritten for nine seconds after each policy change back to Local."""

from contextlib import AbstractContextManager

from esipp.checks.check import Check, is_about
from esipp.checks.model import Family, Role, TrafficPolicy
from esipp.checks.policy_change import At, ChangingService, PolicyChange, PolicyClaim
from tests.broken.breakage import Break, Group
from tests.broken.matching import MASQUERADE, came_by
from tests.broken.nodes import Live, Nodes, Placed, Rule
from tests.broken.policy_changes import OF_POLICY_CHANGES, after_each_change, is_change_check

SERVICE = ChangingService.NODE_PORT
SECONDS = 9.0


def rewriting_for_a_while(nodes: Nodes) -> AbstractContextManager[Placed]:
    def make(live: Live) -> list[Rule]:
        here = (nodes.roles[Role.ENDPOINT_NODE],)
        (port,) = live.service(SERVICE.object_name)["spec"]["ports"]
        words = (*came_by(port, port["nodePort"]), *MASQUERADE)
        return [Rule(family, "POSTROUTING", words, here) for family in Family]

    return after_each_change(nodes, (SERVICE.object_name,), (), make, SECONDS, TrafficPolicy.LOCAL)


def at_the_node(check: Check) -> bool:
    """Any claim about that Service at the endpoint node."""
    return is_about(check, PolicyChange) and (check.subject.service, check.subject.at) == (SERVICE, At.ENDPOINT_NODE)


BREAK = Break(
    "source-rewritten-for-9-s-after-each-flip",
    Group.SOURCE,
    "the endpoint node keeps masquerading a Service's traffic for nine seconds after each policy change back to Local",
    OF_POLICY_CHANGES,
    rewriting_for_a_while,
    lambda check: is_change_check(check, SERVICE, At.ENDPOINT_NODE, PolicyClaim.PROMPT),
    names="rewrit",
    may=at_the_node,
    at_once=False,
    scoped=True,
)
