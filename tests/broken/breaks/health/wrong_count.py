"""Every health check counts one endpoint too many."""

from esipp.checks.health import About
from tests.broken.breakage import Break, Group
from tests.broken.health_proxies import asks, at_rest, lying

BREAK = Break(
    "health-wrong-count",
    Group.HEALTH,
    "every node's health check counts one endpoint too many, in the body and in the weight",
    at_rest(),
    lying("count"),
    lambda check: asks(check, About.COUNT, About.WEIGHT),
    names="the count includes endpoints",
    scoped=True,
    fixed=True,
)
