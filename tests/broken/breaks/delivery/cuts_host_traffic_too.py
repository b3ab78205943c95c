"""During a rolling update, a node drops all traffic from outside for a while, also for its own processes."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Event

from esipp.checks.check import Check, is_about
from esipp.checks.continuity import NODEPORT, Continuity, Phase, Way, What
from esipp.checks.model import TrafficPolicy
from esipp.judging.topology import family_of
from tests.broken.breakage import Break, Group, RunOptions
from tests.broken.breaks.delivery.one_connection_lost import rolling
from tests.broken.nodes import Live, Nodes, Placed, Rule
from tests.broken.policy_changes import in_background

SECONDS = 3.0
CLIENT = "outside-1"


def cutting(nodes: Nodes, run: str) -> list[Rule]:
    """All that a client outside sends to the bare node, for whomever there."""
    client = Live(run, [], []).addresses_of(CLIENT)
    drop = [("--protocol", "tcp", "--source", address, "--jump", "DROP") for address in client]
    return [Rule(family_of(words[3]), "PREROUTING", words, (nodes.bare,), "mangle") for words in drop]


@contextmanager
def while_rolling(nodes: Nodes) -> Iterator[Placed]:
    """For so long, from the moment on at which our run begins its rolling update."""
    placed = Placed()

    def work(ended: Event) -> None:
        while not ended.wait(0.1):
            if rolling(nodes):
                (run,) = nodes.own_namespaces().values()
                with nodes.rules(*cutting(nodes, run)):
                    placed.at = time.time()
                    ended.wait(SECONDS)
                return

    with in_background(work):
        yield placed


def notices(check: Check) -> bool:
    at_the_node = Way(NODEPORT, TrafficPolicy.CLUSTER)
    return is_about(check, Continuity) and (check.subject.phase, check.subject.way, check.subject.what) == (
        Phase.ROLLING_UPDATE,
        at_the_node,
        What.NO_LOSS,
    )


def meanwhile(check: Check) -> bool:
    """By VIPs, too, some requests meet that node, and connections that last."""
    return is_about(check, Continuity) and check.subject.phase is Phase.ROLLING_UPDATE


BREAK = Break(
    "node-cuts-host-traffic-too",
    Group.DELIVERY,
    "during three seconds of a rolling update, the node without local endpoint drops all traffic from outside, "
    "including that for its own processes",
    RunOptions(("continuity",), (f"continuity.{Phase.QUIET.value}.", f"continuity.{Phase.ROLLING_UPDATE.value}.")),
    while_rolling,
    notices,
    names="dropped|lost",
    may=meanwhile,
    at_once=False,
    scoped=True,
)
