"""Every health check says 500."""

from esipp.health.model import About
from tests.broken.breakage import Asked, Break, Group
from tests.broken.health_proxies import asks, lying

BREAK = Break(
    "health-another-status",
    Group.HEALTH,
    "every node's health check says 500",
    Asked(("health_checks",)),
    lying("500"),
    lambda row: asks(row, About.STATUS),
    opens=lambda row: asks(row, About.TRUTH),
    names="something else answers",
    scoped=True,
)
