"""What goes wrong while Cilium's agent of all nodes gets another version.

Rules of netfilter do not affect Services there: a NetworkPolicy does what an agent that serves nothing would.
"""

import time
from contextlib import AbstractContextManager
from threading import Event

from esipp.base.json import Json
from esipp.checks.check import Check, is_about
from esipp.checks.continuity import Continuity, Phase, What
from esipp.checks.disruption import Disruption
from esipp.checks.model import Balancer
from esipp.disruption import daemon_sets
from esipp.scenarios.changing_pods import MOVES_LABEL
from esipp.scenarios.continuity.objects import DEPLOYMENT, service_name
from esipp.testbed.network_policies import collection_of, manifest
from suites.streams import ONE_PORT
from tests.broken.breakage import CILIUM, Apply, Break, Group
from tests.broken.breaks.changes.network_policies import NOBODY
from tests.broken.breaks.delivery.streams import by_chance
from tests.broken.breaks.nodes.returned import AT_NODE, THROUGH_NODE
from tests.broken.during import of_phase, restarted, run_of, run_once
from tests.broken.nodes import Live, Nodes, Placed
from tests.broken.policy_changes import LOOKS

PHASE = Phase.NETWORK_AGENT_UPGRADED
RUN = run_of(PHASE)
GONE = 60.0
"""Seconds without Services, at most. Connections that are open get no answer either, but on two cores, two agents that
start make machines so busy (20 tasks for each core) that a late answer proves nothing."""


def policy_meanwhile(*rules: Json) -> Apply:
    """A NetworkPolicy for the event's pods, with these ingress rules, from the first other agent on."""
    spec = {
        "podSelector": {"matchLabels": {MOVES_LABEL: DEPLOYMENT}},
        "policyTypes": ["Ingress"],
        "ingress": list(rules),
    }

    def apply(nodes: Nodes) -> AbstractContextManager[Placed]:
        def meanwhile(live: Live, ended: Event) -> None:
            there = collection_of(live.namespace)
            nodes.cluster.create(there, manifest("broken", live.run, spec))
            until = time.monotonic() + GONE
            while daemon_sets.left_behind(nodes.cluster) and time.monotonic() < until and not ended.wait(LOOKS):
                pass
            if not ended.is_set():  # else it goes with the run's namespace
                nodes.cluster.delete(f"{there}/broken")

        is_so = restarted(nodes, Disruption.NETWORK_AGENT_UPGRADED)
        return run_once(nodes, (service_name(AT_NODE),), is_so, meanwhile)

    return apply


def by_chance_with_cilium(check: Check) -> bool:
    """What is chance anywhere, and with Cilium: which connections from one source port it confuses, and whether the
    node of a Cluster VIP has a pod, whose clients' addresses it keeps.
    """
    if not is_about(check, Continuity):
        return False
    way, what = check.subject.way, check.subject.what
    kept = way.by == Balancer.DEFAULT.value and not way.local and what is What.SOURCE
    return kept or check.subject.stream == ONE_PORT or by_chance(check)


def meanwhile_or_by_chance(check: Check) -> bool:
    """All that this event asks: every way leads to the same pods."""
    return (is_about(check, Continuity) and check.subject.phase is PHASE) or by_chance_with_cilium(check)


BREAKS = (
    Break(
        "services-gone-while-cilium-is-upgraded",
        Group.NODES,
        "no node serves anything, and open connections get no answer, from the first agent of another version on, for "
        "a minute at most",
        RUN,
        policy_meanwhile({"from": NOBODY}),
        lambda check: any(of_phase(check, PHASE, way, What.GAP) for way in (AT_NODE, THROUGH_NODE)),
        names="a node serves nothing while its agent starts",
        may=meanwhile_or_by_chance,
        at_once=False,
        data_planes=(CILIUM,),
    ),
)
