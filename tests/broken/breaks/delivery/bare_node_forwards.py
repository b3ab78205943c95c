"""The node without local endpoint forwards traffic to Local nodePorts, instead of dropping it."""

from collections.abc import Callable

from esipp.checks.model import Vantage
from esipp.checks.path import PathCheck
from tests.broken.breakage import Break, Group, RunOptions, path_checks
from tests.broken.forwarding import HANDS_ON, forwarding_bare_node, refused_at_bare_node

INTEROP = ("interop.nodeport.", "interop.loadbalancer.", "interop.external-ips.", "interop.names.")
"""Neighbours, and the many Services, are other Local Services at that node, of checks that are no paths."""


def _dialled_by(fits: Callable[[Vantage], bool]) -> Callable[[PathCheck], bool]:
    return lambda path_check: refused_at_bare_node(path_check) and fits(path_check.subject.path.client.vantage)


def _forwards(
    name: str, what: str, run: RunOptions, notices: Callable[[PathCheck], bool], *, fixed: bool = False, **how: bool
) -> Break:
    return Break(
        name,
        Group.DELIVERY,
        f"the node without local endpoint forwards {what}",
        run,
        forwarding_bare_node(**how),
        path_checks(notices),
        names=HANDS_ON,
        scoped=True,
        fixed=fixed,
    )


BREAKS = (
    _forwards(
        "bare-node-forwards",
        "nodePort traffic of Local Services to the endpoint node, masqueraded",
        RunOptions(("source_ip",)),
        refused_at_bare_node,
        fixed=True,
        masquerade=True,
    ),
    _forwards(
        "interop-bare-node-forwards-for-outside",
        "traffic from outside the pod network to Local nodePorts, masqueraded",
        RunOptions(("interoperability",), INTEROP),
        _dialled_by(lambda vantage: vantage is Vantage.OUTSIDE),
        masquerade=True,
        not_pods=True,
    ),
    _forwards(  # only packets show it; of pods it is a known difference
        "bare-node-forwards-unmasqueraded",
        "nodePort traffic of Local Services to the endpoint node, not masqueraded",
        RunOptions(("source_ip",)),
        _dialled_by(lambda vantage: vantage is not Vantage.POD),
        masquerade=False,
    ),
)
