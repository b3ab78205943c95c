"""The service proxy of the bare node stands still: its rules stay what they were when the services were made."""

import shlex
from collections.abc import Iterator
from contextlib import contextmanager

from esipp.checks.check import Row
from esipp.checks.policy_change import At, FlipClaim, Flipping
from tests.broken.breakage import Asked, Break, Group
from tests.broken.flipping import flips
from tests.broken.nodes import LONGEST, Live, Nodes, Placed

STOP, GO_ON = "pkill -STOP -x kube-proxy", "pkill -CONT -x kube-proxy"


@contextmanager
def standing_still(nodes: Nodes, _: Live) -> Iterator[None]:
    """Stopped, not ended; and it goes on by itself if nobody is left to let it."""
    there = nodes.bare
    dead_mans_switch = f"(sleep {LONGEST:.0f}; {GO_ON}) >/dev/null 2>&1 &"
    script = f"setsid sh -c {shlex.quote(dead_mans_switch)}; {STOP}"
    try:
        nodes.on_nodes(lambda node: script if node == there else "")
        yield
    finally:
        nodes.on_nodes(lambda node: GO_ON if node == there else "")


@contextmanager
def freezing(nodes: Nodes) -> Iterator[Placed]:
    with nodes.once_arranged(lambda live: standing_still(nodes, live)) as placed:
        yield placed


def notices(row: Row) -> bool:
    return flips(row, Flipping.NODE_PORT, At.BARE_NODE, FlipClaim.SETTLES, FlipClaim.REWRITES)


BREAK = Break(
    "proxy-frozen",
    Group.DELIVERY,
    "the service proxy of the bare node stands still, so that its rules are those of before the policies flip",
    Asked(("compatibility",)),
    freezing,
    notices,
    names="by some nodes only",
    opens=lambda row: flips(row, Flipping.NODE_PORT, At.BARE_NODE, FlipClaim.KEPT),  # none can be made there
    at_once=False,
)
