"""Harmless: a node follows no change while its network add-on's agent is stopped, as if that served its Services."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from esipp.checks.disruption import Disruption
from esipp.scenarios.service_change.subject import service_of
from tests.broken.breakage import Break, Group, no_check
from tests.broken.breaks.delivery.proxy_frozen import stopped_proxy
from tests.broken.breaks.nodes.agents_away import NETWORK
from tests.broken.during import LOOKS, in_effect, run_of_change
from tests.broken.nodes import Nodes, Placed
from tests.broken.policy_changes import in_background, set_up_run


@contextmanager
def stops_too(nodes: Nodes) -> Iterator[Placed]:
    placed = Placed()

    def is_stopped() -> bool:
        return in_effect(nodes.bare, Disruption.NETWORK_STOPPED)

    def work(ended: threading.Event) -> None:
        live = set_up_run(nodes, {service_of(NETWORK)}, ended)
        while live is not None and not ended.wait(LOOKS):
            if is_stopped():
                with stopped_proxy(nodes, live):
                    placed.at = placed.at or time.time()
                    while is_stopped() and not ended.wait(LOOKS):
                        pass

    with in_background(work):
        yield placed


BREAK = Break(
    "services-stand-still-with-the-network-add-on",
    Group.HARMLESS,
    "a node follows no change of Services while its network add-on's agent is stopped, as if that served them",
    run_of_change(NETWORK),
    stops_too,
    no_check,
    at_once=False,
)
