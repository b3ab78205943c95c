"""The node without local endpoint forwards Local nodePort traffic unmasqueraded, which only packets show."""

from esipp.checks.model import Vantage
from tests.broken.breakage import Break, Group, RunOptions, path_checks
from tests.broken.forwarding import HANDS_ON, forwarding_bare_node, refused_at_bare_node

BREAK = Break(
    "bare-node-forwards-unmasqueraded",
    Group.DELIVERY,
    "the node without local endpoint forwards nodePort traffic of Local Services to the endpoint node, not masqueraded",
    RunOptions(("source_ip",)),
    forwarding_bare_node(masquerade=False),
    path_checks(
        lambda path_check: (
            refused_at_bare_node(path_check) and path_check.subject.path.client.vantage is not Vantage.POD
        )
    ),  # of pods: known
    names=HANDS_ON,
    scoped=True,
)
