"""A node drops traffic to its last pod once it terminates, although it still serves."""

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from esipp.checks.check import Check
from esipp.checks.health import HealthScenarioCheck
from esipp.checks.model import Family, Role
from tests.broken.breakage import Asked, Break, Group
from tests.broken.flipping import arranged, beside, seen
from tests.broken.matching import AT_THE_NODE, DROP, to_port
from tests.broken.nodes import Live, Nodes, Placed, Rule

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
        live = arranged(nodes, {SERVICE}, ended)
        if live is None:
            return
        for pod in seen(nodes, f"/api/v1/namespaces/{live.namespace}/pods/{POD}", ended):
            if pod["metadata"].get("deletionTimestamp"):
                stack.enter_context(nodes.rules(*rules(live)))
                placed.at = time.time()
                return

    with stack, beside(work):
        yield placed


def claims(check: Check, *named: str) -> bool:
    return isinstance(check, HealthScenarioCheck) and check.trial == "terminating" and check.claim in named


BREAK = Break(
    "terminating-not-served",
    Group.DELIVERY,
    "a node drops traffic to its last pod as soon as the pod terminates, although it still serves",
    Asked(("health_checks",)),
    dropping_once_it_leaves,
    lambda check: claims(check, "serves"),
    names="drops traffic to endpoints",
    may=lambda check: claims(check, "source"),  # only what was served before the rule came has a source to be looked at
    at_once=False,
    scoped=True,
)
