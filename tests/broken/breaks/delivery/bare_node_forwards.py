"""The node without local endpoint forwards traffic to Local nodePorts, masqueraded."""

from tests.broken.breakage import Break, Group, RunOptions, path_checks
from tests.broken.forwarding import HANDS_ON, forwarding_bare_node, refused_at_bare_node

BREAK = Break(
    "bare-node-forwards",
    Group.DELIVERY,
    "the node without local endpoint forwards nodePort traffic of Local Services to the endpoint node, masqueraded",
    RunOptions(("source_ip",)),
    forwarding_bare_node(masquerade=True),
    path_checks(refused_at_bare_node),
    names=HANDS_ON,
    scoped=True,
    fixed=True,
)
