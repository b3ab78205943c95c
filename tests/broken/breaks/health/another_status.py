"""Every health check answers 500."""

from esipp.checks.health import About
from tests.broken.breakage import Break, Group
from tests.broken.health_proxies import asks, at_rest, lying

BREAK = Break(
    "health-another-status",
    Group.HEALTH,
    "every node's health check answers 500",
    at_rest(),
    lying("500"),
    lambda check: asks(check, About.STATUS),
    opens=lambda check: asks(check, About.TRUTH),
    names="another process answers",
    scoped=True,
)
