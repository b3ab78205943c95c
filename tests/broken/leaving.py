"""Breaks that begin once a pod terminates or is gone."""

import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from tests.broken.lost import node_port_dropped
from tests.broken.nodes import Live, Nodes, Placed, Rule
from tests.broken.policy_changes import entered_once, states_of


def dropping_once_it_leaves(
    service: str, pod: str, there: Callable[[Nodes], tuple[str, ...]] = lambda _: ()
) -> Callable[[Nodes], AbstractContextManager[Placed]]:
    """Nodes drop what comes to a Service's nodePorts as soon as its pod terminates, or is gone without grace.

    Args:
        service, pod: their names.
        there: the nodes that do so; none for all.
    """

    def apply(nodes: Nodes) -> AbstractContextManager[Placed]:
        def rules(live: Live) -> Iterator[Rule]:
            for port in live.service(service)["spec"]["ports"]:
                yield from node_port_dropped(port, there(nodes))

        def left(live: Live, ended: threading.Event) -> bool:
            states = states_of(nodes, f"/api/v1/namespaces/{live.namespace}/pods/{pod}", ended)
            next((state for state in states if state["metadata"].get("deletionTimestamp")), None)
            return not ended.is_set()

        return entered_once(nodes, (service,), left, lambda live: nodes.rules(*rules(live)))

    return apply
