"""During a rolling update, a node drops the SYNs of a moment; each is sent again, so no request is lost."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from threading import Event

from esipp.checks.check import Check, is_about
from esipp.checks.continuity import Continuity, Phase, What
from esipp.checks.model import Family
from tests.broken.breakage import Break, Group, RunOptions, no_check
from tests.broken.breaks.delivery.one_connection_lost import WAY, rolling
from tests.broken.breaks.delivery.streams import by_chance
from tests.broken.during import of_phase
from tests.broken.matching import AT_THE_NODE, DROP
from tests.broken.nodes import Nodes, Placed, Rule, new_mark
from tests.broken.policy_changes import for_a_moment, in_own_rules

SECONDS = 1.3
"""Linux since 6.5 sends a SYN again after one second and after two."""

ONE = ("--match", "limit", "--limit", "1/day", "--limit-burst", "1")
"""A single packet."""

RUN = RunOptions(("continuity",), (f"continuity.{Phase.QUIET.value}.", f"continuity.{Phase.ROLLING_UPDATE.value}."))


def dropping(*which: str) -> Callable[[Nodes], AbstractContextManager[Placed]]:
    """The bare node drops SYNs to its nodePort over IPv4 for a moment, or those of them that match."""

    @contextmanager
    def while_rolling(nodes: Nodes) -> Iterator[Placed]:
        placed, mark = Placed(), new_mark()

        def work(ended: Event) -> None:
            while not ended.wait(0.1):
                if port := rolling(nodes):
                    ended.wait(1.0)
                    syn = ("--protocol", "tcp", "--dport", port, *AT_THE_NODE, "--syn", *which, *DROP)
                    placed.at = time.time()
                    for_a_moment([Rule(Family.IPV4, "PREROUTING", syn, (nodes.bare,), "mangle")], SECONDS, mark)
                    return

        with in_own_rules(nodes, mark, work):
            yield placed

    return while_rolling


def late(check: Check) -> bool:
    ours = of_phase(check, Phase.ROLLING_UPDATE, WAY, What.NO_DELAY)
    return ours and is_about(check, Continuity) and check.subject.family is Family.IPV4


# Both run alone: next to another suite, probes on two cores came up to 1.3 s apart, and 0.7 s are judged.
BREAKS = (
    Break(
        "syns-of-a-moment-dropped",
        Group.DELIVERY,
        "during a rolling update, the node without local endpoint drops for 1.3 seconds the SYNs to a nodePort under "
        "Cluster, which clients send again",
        RUN,
        dropping(),
        late,
        names="a gap of",
        may=lambda check: of_phase(check, Phase.ROLLING_UPDATE, WAY, What.NO_LOSS),  # kernels before 6.5 wait for 3 s
        at_once=False,
    ),
    Break(
        "one-syn-dropped",
        Group.HARMLESS,
        "during a rolling update, the node without local endpoint drops a single SYN, which its client sends again",
        RUN,
        dropping(*ONE),
        no_check,
        may=by_chance,
        at_once=False,
    ),
)
