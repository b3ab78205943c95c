"""The node without local endpoint forwards traffic of clients outside to Local nodePorts, and serves its own pods."""

from esipp.checks.model import Vantage
from tests.broken.breakage import Break, Group, RunOptions, path_checks
from tests.broken.forwarding import HANDS_ON, forwarding_bare_node, refused_at_bare_node

BREAK = Break(
    "interop-bare-node-forwards-for-outside",
    Group.DELIVERY,
    "the node without local endpoint forwards traffic from outside the pod network to Local nodePorts, masqueraded",
    # Neighbours, and the many services, are other Local services at that node, of checks that are no paths.
    RunOptions(
        ("interoperability",), ("interop.nodeport.", "interop.loadbalancer.", "interop.external-ips.", "interop.names.")
    ),
    forwarding_bare_node(masquerade=True, not_pods=True),
    path_checks(
        lambda path_check: (
            refused_at_bare_node(path_check) and path_check.subject.path.client.vantage is Vantage.OUTSIDE
        )
    ),
    names=HANDS_ON,
    scoped=True,
)
