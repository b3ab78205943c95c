"""What goes wrong while Cilium's agent of all nodes gets another version.

Rules of netfilter do not affect Services there: a NetworkPolicy does what an agent that serves nothing would.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import Event

from esipp.base.json import Json
from esipp.checks.check import Check, is_about
from esipp.checks.continuity import Continuity, Phase, What
from esipp.checks.disruption import Disruption
from esipp.disruption import daemon_sets
from esipp.scenarios.changing_pods import MOVES_LABEL
from esipp.scenarios.continuity.objects import DEPLOYMENT, service_name
from esipp.testbed.network_policies import collection_of, manifest
from tests.broken.breakage import CILIUM, Break, Group
from tests.broken.breaks.changes.network_policies import NOBODY
from tests.broken.breaks.delivery.streams import by_chance
from tests.broken.breaks.nodes.returned import AT_NODE, THROUGH_NODE
from tests.broken.during import LOOKS, of_phase, restarted, run_of
from tests.broken.nodes import Nodes, Placed
from tests.broken.policy_changes import in_background, set_up_run

PHASE = Phase.NETWORK_AGENT_UPGRADED
RUN = run_of(PHASE)
GONE = 60.0
"""Seconds without Services, at most. A node whose agent is just starting follows the NetworkPolicy only then: how long
new connections are lost there is chance."""


def policy_meanwhile(*rules: Json) -> Callable[[Nodes], AbstractContextManager[Placed]]:
    """A NetworkPolicy for the event's pods, with these ingress rules, from the first other agent on."""

    @contextmanager
    def apply(nodes: Nodes) -> Iterator[Placed]:
        placed, is_so = Placed(), restarted(nodes, Disruption.NETWORK_AGENT_UPGRADED)

        def work(ended: Event) -> None:
            live = set_up_run(nodes, {service_name(AT_NODE)}, ended)
            while live is not None and not ended.wait(LOOKS):
                if not is_so():
                    continue
                spec = {
                    "podSelector": {"matchLabels": {MOVES_LABEL: DEPLOYMENT}},
                    "policyTypes": ["Ingress"],
                    "ingress": list(rules),
                }
                there = collection_of(live.namespace)
                nodes.cluster.create(there, manifest("broken", live.run, spec))
                placed.at = time.time()
                until = time.monotonic() + GONE
                while daemon_sets.left_behind(nodes.cluster) and time.monotonic() < until and not ended.wait(LOOKS):
                    pass
                if not ended.is_set():  # else it goes with the run's namespace
                    nodes.cluster.delete(f"{there}/broken")
                return

        with in_background(work):
            yield placed

    return apply


def meanwhile_or_by_chance(check: Check) -> bool:
    """All that this event asks: every way leads to the same pods."""
    return (is_about(check, Continuity) and check.subject.phase is PHASE) or by_chance(check)


BREAKS = (
    Break(
        "services-gone-while-cilium-is-upgraded",
        Group.NODES,
        "no node serves anything, and open connections get no answer, from the first agent of another version on, for "
        "a minute at most",
        RUN,
        policy_meanwhile({"from": NOBODY}),
        lambda check: any(of_phase(check, PHASE, way, What.LASTING) for way in (AT_NODE, THROUGH_NODE)),
        names="flushes connection tracking",
        may=meanwhile_or_by_chance,
        at_once=False,
        data_planes=(CILIUM,),
    ),
)
