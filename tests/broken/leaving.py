"""Breaks that begin once a pod terminates or is gone."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager

from esipp.checks.model import Family
from tests.broken.matching import AT_THE_NODE, DROP, to_port
from tests.broken.nodes import Live, Nodes, Placed, Rule
from tests.broken.policy_changes import in_background, set_up_run, states_of


def dropping_once_it_leaves(
    service: str, pod: str, there: Callable[[Nodes], tuple[str, ...]] = lambda _: ()
) -> Callable[[Nodes], AbstractContextManager[Placed]]:
    """Nodes drop what comes to a Service's nodePorts as soon as its pod terminates, or is gone without grace.

    Args:
        service, pod: their names.
        there: the nodes that do so; none for all.
    """

    @contextmanager
    def apply(nodes: Nodes) -> Iterator[Placed]:
        placed, stack = Placed(), ExitStack()

        def rules(live: Live) -> list[Rule]:
            ports = live.service(service)["spec"]["ports"]
            words = [(*to_port(port, port["nodePort"]), *AT_THE_NODE, *DROP) for port in ports]
            return [Rule(family, "PREROUTING", each, there(nodes), "mangle") for family in Family for each in words]

        def work(ended: threading.Event) -> None:
            live = set_up_run(nodes, {service}, ended)
            if live is None:
                return
            for state in states_of(nodes, f"/api/v1/namespaces/{live.namespace}/pods/{pod}", ended):
                if state["metadata"].get("deletionTimestamp"):
                    break
            if not ended.is_set():
                stack.enter_context(nodes.rules(*rules(live)))
                placed.at = time.time()

        with stack, in_background(work):
            yield placed

    return apply
