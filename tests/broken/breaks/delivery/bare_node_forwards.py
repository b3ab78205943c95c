"""The bare node hands traffic to Local nodePorts on, masqueraded."""

from tests.broken.breakage import Asked, Break, Group, path_checks
from tests.broken.forwarding import HANDS_ON, forwarding_bare_node, refused_at_bare_node

BREAK = Break(
    "bare-node-forwards",
    Group.DELIVERY,
    "the bare node hands traffic to nodePorts of Local services on to the endpoint's node, and masquerades it",
    Asked(("source_ip",)),
    forwarding_bare_node(masquerade=True),
    path_checks(refused_at_bare_node),
    names=HANDS_ON,
    scoped=True,
    fixed=True,
)
