"""A Service's first health-check node port answers for ever, also after its policy left Local."""

from collections.abc import Iterator
from contextlib import contextmanager

from esipp.checks.policy_change import FlipClaim, Flipping
from tests.broken.breakage import Break, Group
from tests.broken.flipping import OF_FLIPS, flips
from tests.broken.health_proxies import health_proxies, redirected
from tests.broken.nodes import Live, Nodes, Placed, Rule


@contextmanager
def staying_open(nodes: Nodes) -> Iterator[Placed]:
    with health_proxies(nodes, "stays") as port:

        def make(live: Live) -> list[Rule]:
            service = live.service(Flipping.DEFAULT.object_name)
            return redirected([str(service["spec"]["healthCheckNodePort"])], port)

        with nodes.live(make) as placed:
            yield placed


BREAK = Break(
    "flip-health-port-stays-open",
    Group.HEALTH,
    "every node still answers on a Service's health-check node port after its policy left Local",
    OF_FLIPS,
    staying_open,
    lambda check: flips(check, Flipping.DEFAULT, None, FlipClaim.HEALTH_CLOSED, FlipClaim.HEALTH_PROMPT),
    names="keeps the listener",
    at_once=False,
    scoped=True,
)
