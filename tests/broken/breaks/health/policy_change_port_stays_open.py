"""A Service's first health-check node port answers for ever, also after its policy left Local."""

from collections.abc import Iterator
from contextlib import contextmanager

from esipp.checks.policy_change import ChangingService, PolicyClaim
from tests.broken.breakage import Break, Group
from tests.broken.health_proxies import health_proxies, redirected
from tests.broken.nodes import Live, Nodes, Placed, Rule
from tests.broken.policy_changes import OF_POLICY_CHANGES, is_change_check


@contextmanager
def staying_open(nodes: Nodes) -> Iterator[Placed]:
    with health_proxies(nodes, "stays") as port:

        def make(live: Live) -> list[Rule]:
            service = live.service(ChangingService.DEFAULT.object_name)
            return redirected([str(service["spec"]["healthCheckNodePort"])], port)

        with nodes.live(make) as placed:
            yield placed


BREAK = Break(
    "flip-health-port-stays-open",
    Group.HEALTH,
    "every node still answers on a Service's health-check node port after its policy left Local",
    OF_POLICY_CHANGES,
    staying_open,
    lambda check: is_change_check(
        check, ChangingService.DEFAULT, None, PolicyClaim.HEALTH_CLOSED, PolicyClaim.HEALTH_PROMPT
    ),
    names="keeps the listener",
    at_once=False,
    scoped=True,
)
