"""Harmless: a node follows no change while its network add-on's agent is stopped, as if that served its Services."""

from contextlib import AbstractContextManager

from esipp.checks.disruption import Disruption
from esipp.scenarios.service_change.subject import service_of
from tests.broken.breakage import Break, Group, no_check
from tests.broken.breaks.delivery.proxy_frozen import stopped_proxy
from tests.broken.breaks.nodes.agents_away import NETWORK
from tests.broken.during import at_bare_node, effect_of, entered_while_so, run_of_change
from tests.broken.nodes import Nodes, Placed


def stops_too(nodes: Nodes) -> AbstractContextManager[Placed]:
    is_stopped = effect_of(Disruption.NETWORK_STOPPED, at_bare_node)(nodes)
    return entered_while_so(nodes, (service_of(NETWORK),), is_stopped, lambda live: stopped_proxy(nodes, live))


BREAK = Break(
    "services-stand-still-with-the-network-add-on",
    Group.HARMLESS,
    "a node follows no change of Services while its network add-on's agent is stopped, as if that served them",
    run_of_change(NETWORK),
    stops_too,
    no_check,
    at_once=False,
)
