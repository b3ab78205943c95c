"""The service proxy of the node without local endpoint is stopped, so its rules do not change."""

import shlex
from collections.abc import Iterator
from contextlib import contextmanager

from esipp.checks.check import Check, is_about
from esipp.checks.policy_change import (
    At,
    ChangingService,
    Isolated,
    IsolatedHealth,
    PolicyChange,
    PolicyClaim,
)
from tests.broken.breakage import Break, Group, RunOptions
from tests.broken.nodes import GO_ON, LONGEST, SWITCH, Live, Nodes, Placed
from tests.broken.policy_changes import is_change_check

STOP, BY_ITSELF = "pkill -STOP -x kube-proxy", "pkill -CONT -x kube-proxy"


@contextmanager
def stopped_proxy(nodes: Nodes, _: Live) -> Iterator[None]:
    """Stopped, not ended; and it goes on by itself if nobody is left to let it."""
    there = nodes.bare
    dead_mans_switch = f"(sleep {LONGEST:.0f}; {BY_ITSELF}) >/dev/null 2>&1 &"
    script = f"setsid sh -c {shlex.quote(dead_mans_switch)} {SWITCH}; {STOP}"
    try:
        nodes.on_nodes(lambda node: script if node == there else "")
        yield
    finally:
        nodes.on_nodes(lambda node: GO_ON if node == there else "")


@contextmanager
def freezing(nodes: Nodes) -> Iterator[Placed]:
    with nodes.once_arranged(lambda live: stopped_proxy(nodes, live)) as placed:
        yield placed


LATE = (PolicyClaim.SETTLES, PolicyClaim.REWRITES, PolicyClaim.PROMPT)
HEALTH = (PolicyClaim.HEALTH_AGAIN, PolicyClaim.HEALTH_PROMPT)


def notices(check: Check) -> bool:
    """At that node no change to Cluster is followed, and no change to Local opens a new health-check port.

    The old health-check port is closed all the same: a process that stands still answers nobody.
    """
    if not is_about(check, PolicyChange):
        return False
    return (check.subject.at is At.BARE_NODE and check.subject.claim in LATE) or (
        check.subject.at is None and check.subject.claim in HEALTH
    )


def opens(check: Check) -> bool:
    """No connection can be made there under Cluster, and the neighbours of steady Services never change there."""
    kept = is_change_check(check, ChangingService.NODE_PORT, At.BARE_NODE, PolicyClaim.KEPT)
    return kept or is_about(check, Isolated) or is_about(check, IsolatedHealth)


def may(check: Check) -> bool:
    """A VIP may lead to the node that stands still."""
    return is_about(check, PolicyChange) and check.subject.at is At.VIP


BREAK = Break(
    "proxy-frozen",
    Group.DELIVERY,
    "the service proxy of the node without local endpoint is stopped, so its rules predate the policy changes",
    # Paths that no policy change concerns are left out: the node may have stopped before it had their rules.
    RunOptions(("compatibility",), ("flip.", "beside.")),
    freezing,
    notices,
    names="ignore policy changes",
    opens=opens,
    may=may,
    at_once=False,
)
