"""The service proxy of one node syncs its rules every eight seconds at most."""

from contextlib import AbstractContextManager

from esipp.checks.check import Check, is_about
from esipp.checks.policy_change import (
    At,
    Isolated,
    IsolatedHealth,
    PolicyChange,
    PolicyClaim,
)
from tests.broken.breakage import Break, Group
from tests.broken.nodes import Nodes, Placed
from tests.broken.policy_changes import OF_POLICY_CHANGES
from tests.broken.proxies import syncing_every

SECONDS = 8


def late(nodes: Nodes) -> AbstractContextManager[Placed]:
    return syncing_every(SECONDS, nodes, nodes.bare)


PROMPT = (PolicyClaim.PROMPT, PolicyClaim.HEALTH_PROMPT)


def notices(check: Check) -> bool:
    """Promptness at that node: of its nodePorts, and of the health-check ports, which every node is asked for."""
    return is_about(check, PolicyChange) and check.subject.at in (None, At.BARE_NODE) and check.subject.claim in PROMPT


def may(check: Check) -> bool:
    """A VIP may lead to the node that is late. All other claims allow a minute, and hold."""
    return is_about(check, PolicyChange) and check.subject.at is At.VIP


def unsure(check: Check) -> bool:
    """Steady Services beside neighbours, whose policies change every 1.6 s: a sync may miss each.

    Nobody can say then that the neighbours' changes disturbed nothing.
    """
    return isinstance(check.subject, Isolated | IsolatedHealth)


BREAK = Break(
    "proxy-syncs-every-8-s",
    Group.DELIVERY,
    "the kube-proxy of the node without local endpoint has a minSyncPeriod of eight seconds, so each update is late",
    OF_POLICY_CHANGES,
    late,
    notices,
    names="for seconds|late",
    may=may,
    unsure=unsure,
    # Each family has a sync of its own, and the next change waits for the later one. That family has synced only a
    # second before then, and is late again. The other one's last sync may be eight seconds ago, and then it is prompt.
    share=0.5,
)
