"""A node drops traffic to its last pod once it terminates, although it still serves."""

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from esipp.checks.check import Check, is_about
from esipp.checks.health import HealthScenario
from esipp.checks.model import Family, Role
from tests.broken.breakage import Break, Group, RunOptions
from tests.broken.matching import AT_THE_NODE, DROP, to_port
from tests.broken.nodes import Live, Nodes, Placed, Rule
from tests.broken.policy_changes import in_background, set_up_run, states_of

SERVICE, POD = "health-terminating", "leaving"


@contextmanager
def dropping_once_it_leaves(nodes: Nodes) -> Iterator[Placed]:
    placed, stack = Placed(), ExitStack()

    def rules(live: Live) -> list[Rule]:
        here = (nodes.roles[Role.ENDPOINT_NODE],)
        ports = live.service(SERVICE)["spec"]["ports"]
        words = [(*to_port(port, port["nodePort"]), *AT_THE_NODE, *DROP) for port in ports]
        return [Rule(family, "PREROUTING", each, here, "mangle") for family in Family for each in words]

    def work(ended: threading.Event) -> None:
        live = set_up_run(nodes, {SERVICE}, ended)
        if live is None:
            return
        for pod in states_of(nodes, f"/api/v1/namespaces/{live.namespace}/pods/{POD}", ended):
            if pod["metadata"].get("deletionTimestamp"):
                stack.enter_context(nodes.rules(*rules(live)))
                placed.at = time.time()
                return

    with stack, in_background(work):
        yield placed


def claims(check: Check, *named: str) -> bool:
    return is_about(check, HealthScenario) and check.subject.scenario == "terminating" and check.subject.claim in named


BREAK = Break(
    "terminating-not-served",
    Group.DELIVERY,
    "a node drops traffic to its last pod as soon as the pod terminates, although it still serves",
    RunOptions(("health_checks",)),
    dropping_once_it_leaves,
    lambda check: claims(check, "serves"),
    names="drops traffic to endpoints",
    may=lambda check: claims(check, "source"),  # only what was served before the rule came has a source to be looked at
    at_once=False,
    scoped=True,
)
