"""Health checks without the weight header."""

from esipp.checks.health import About
from tests.broken.breakage import Break, Group, RunOptions
from tests.broken.health_proxies import asks, lying

BREAK = Break(
    "health-no-weight",
    Group.HEALTH,
    "no node's health check has the header X-Load-Balancing-Endpoint-Weight",
    RunOptions(("health_checks",)),
    lying("weight"),
    lambda check: asks(check, About.WEIGHT),
    names="the weight header is missing",
    scoped=True,
)
