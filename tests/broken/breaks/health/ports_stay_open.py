"""Health-check node ports are answered for ever."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.broken.breakage import Break, Group
from tests.broken.health_proxies import ALL_NODE_PORTS, at_rest, claims, health_proxies, redirected
from tests.broken.nodes import Nodes, Placed


@contextmanager
def staying_open(nodes: Nodes) -> Iterator[Placed]:
    with health_proxies(nodes, "stays") as port, nodes.rules(*redirected([ALL_NODE_PORTS], port)) as placed:
        yield placed


BREAK = Break(
    "health-ports-stay-open",
    Group.HEALTH,
    "ports on which the service proxy has once listened are answered for ever, as they were at last",
    at_rest("healthcheck.lifecycle."),
    staying_open,
    lambda row: claims(row, "lifecycle", "freed-by-policy", "freed-by-type", "freed-by-deletion"),
    names="the listener survives",
)
