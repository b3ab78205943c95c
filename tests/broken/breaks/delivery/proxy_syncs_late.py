"""The service proxy of one node syncs its rules every eight seconds at most."""

from contextlib import AbstractContextManager

from esipp.checks.check import Row
from esipp.checks.policy_change import At, FlipClaim, FlippedRow, Flipping
from tests.broken.breakage import Break, Group
from tests.broken.flipping import OF_FLIPS
from tests.broken.nodes import Nodes, Placed
from tests.broken.proxies import syncing_every

SECONDS = 8


def late(nodes: Nodes) -> AbstractContextManager[Placed]:
    return syncing_every(SECONDS, nodes, nodes.bare)


def notices(row: Row) -> bool:
    """What is asked of the bare node's nodePort shortly after a flip."""
    return isinstance(row, FlippedRow) and row.at is At.BARE_NODE and row.claim is FlipClaim.PROMPT


def may(row: Row) -> bool:
    """Health ports are asked at every node; and steady rows may notice that a node lags."""
    return isinstance(row, FlippedRow) and (row.at in (None, At.BARE_NODE, At.VIP) or row.service in Flipping)


BREAK = Break(
    "proxy-syncs-every-8-s",
    Group.DELIVERY,
    "the bare node's kube-proxy has a minSyncPeriod of eight seconds, so that it is late each time",
    OF_FLIPS,
    late,
    notices,
    names="for seconds|late",
    may=may,
    share=0.5,  # the first of several changes goes through at once
)
