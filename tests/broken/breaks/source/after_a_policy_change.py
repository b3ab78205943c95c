"""A Service's source stays rewritten under Local after a policy change from Cluster."""

from contextlib import AbstractContextManager

from esipp.checks.model import Family, Role, TrafficPolicy
from esipp.checks.policy_change import At, ChangingService, PolicyClaim
from tests.broken.breakage import Break, Group
from tests.broken.matching import MASQUERADE, came_by
from tests.broken.nodes import Live, Nodes, Placed, Rule
from tests.broken.policy_changes import OF_POLICY_CHANGES, after_the_first_change, is_change_check

SERVICE = ChangingService.NODE_PORT


def rewriting_from_then_on(nodes: Nodes) -> AbstractContextManager[Placed]:
    def make(live: Live) -> list[Rule]:
        here = (nodes.roles[Role.ENDPOINT_NODE],)
        (port,) = live.service(SERVICE.object_name)["spec"]["ports"]
        words = (*came_by(port, port["nodePort"]), *MASQUERADE)
        return [Rule(family, "POSTROUTING", words, here) for family in Family]

    return after_the_first_change(nodes, SERVICE.object_name, make, TrafficPolicy.CLUSTER)


BREAK = Break(
    "source-rewritten-after-a-flip",
    Group.SOURCE,
    "the endpoint node keeps masquerading a Service's traffic under Local once the policy has been Cluster",
    OF_POLICY_CHANGES,
    rewriting_from_then_on,
    lambda check: is_change_check(check, SERVICE, At.ENDPOINT_NODE, PolicyClaim.SETTLES, PolicyClaim.PROMPT),
    names="rewritten by the node that took it",
    at_once=False,
    scoped=True,
)
