"""Health-check node ports answer for ever."""

from collections.abc import Iterator
from contextlib import contextmanager

from tests.broken.breakage import Break, Group, RunOptions
from tests.broken.health_proxies import ALL_NODE_PORTS, claims, health_proxies, redirected
from tests.broken.nodes import Nodes, Placed

SETTLED = "healthcheck.one-pod.ipv4.outside-1-to-bare-node.status"
"""Asked where all others are trials, so that it is known when the run began to look."""


@contextmanager
def staying_open(nodes: Nodes) -> Iterator[Placed]:
    with health_proxies(nodes, "stays") as port, nodes.rules(*redirected([ALL_NODE_PORTS], port)) as placed:
        yield placed


BREAK = Break(
    "health-ports-stay-open",
    Group.HEALTH,
    "health-check node ports keep answering with their last answer after the service proxy has closed them",
    # The proxy stands before all node ports, for this trial's ports come and go. So what they serve is not asked.
    RunOptions(("health_checks",), (SETTLED, "healthcheck.lifecycle.")),
    staying_open,
    lambda check: claims(check, "lifecycle", "freed-by-policy", "freed-by-type", "freed-by-deletion"),
    names="keeps the port open",
)
