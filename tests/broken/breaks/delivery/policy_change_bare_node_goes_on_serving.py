"""The node without local endpoint keeps serving, masqueraded, after a policy returned to Local."""

from contextlib import AbstractContextManager

from esipp.checks.policy_change import At, ChangingService, PolicyClaim
from tests.broken.breakage import Break, Group
from tests.broken.forwarding import handed_on
from tests.broken.nodes import Live, Nodes, Placed, Rule
from tests.broken.policy_changes import OF_POLICY_CHANGES, is_change_check


def serving(nodes: Nodes) -> AbstractContextManager[Placed]:
    def make(live: Live) -> list[Rule]:
        targets = live.targets(live.service(ChangingService.NODE_PORT.object_name))
        return [
            rule
            for port, address, _, target in targets
            for rule in handed_on(port, address, target, True, (nodes.bare,))
        ]

    return nodes.live(make)


BREAK = Break(
    "flip-bare-node-goes-on-serving",
    Group.DELIVERY,
    "the node without local endpoint keeps serving a Service after its policy returned to Local, masqueraded as "
    "under Cluster",
    OF_POLICY_CHANGES,
    serving,
    lambda check: is_change_check(
        check, ChangingService.NODE_PORT, At.BARE_NODE, PolicyClaim.SETTLES, PolicyClaim.PROMPT
    ),
    names="a node without local endpoints still serves",
    at_once=False,
    scoped=True,
)
