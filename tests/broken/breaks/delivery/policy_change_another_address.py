"""The node without local endpoint masquerades with an unused address for a moment after each change to Cluster.

The address is from the node's own pod CIDR, so that answers return to it.
"""

from contextlib import AbstractContextManager

from esipp.checks.model import TrafficPolicy
from esipp.checks.policy_change import At, ChangingService, PolicyClaim
from esipp.judging.topology import family_of, parse_address
from tests.broken.breakage import Break, Group
from tests.broken.matching import came_by
from tests.broken.nodes import Live, Nodes, Placed, Rule
from tests.broken.policy_changes import OF_POLICY_CHANGES, after_each_change, is_change_check

SERVICE = ChangingService.NODE_PORT


def another_address(nodes: Nodes) -> AbstractContextManager[Placed]:
    def make(live: Live) -> list[Rule]:
        (port,) = live.service(SERVICE.object_name)["spec"]["ports"]
        rules = []
        for cidr in nodes.cluster.request("GET", f"/api/v1/nodes/{nodes.bare}")["spec"]["podCIDRs"]:
            first = parse_address(cidr.partition("/")[0])
            words = (*came_by(port, port["nodePort"]), "--jump", "SNAT", "--to-source", str(first + 250))
            rules.append(Rule(family_of(first), "POSTROUTING", words, (nodes.bare,)))
        return rules

    return after_each_change(nodes, (SERVICE.object_name,), (), make, 2.0, TrafficPolicy.CLUSTER)


BREAK = Break(
    "flip-another-address-for-a-moment",
    Group.DELIVERY,
    "for two seconds after each policy change to Cluster, the node without local endpoint masquerades with an "
    "unused address",
    OF_POLICY_CHANGES,
    another_address,
    lambda check: is_change_check(check, SERVICE, At.BARE_NODE, PolicyClaim.OTHERWISE),
    names="masquerades them with another address",
    at_once=False,
    scoped=True,
)
