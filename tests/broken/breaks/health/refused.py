"""No node serves health checks."""

from esipp.checks.health import About
from esipp.checks.model import Family
from tests.broken.breakage import Break, Group
from tests.broken.health_proxies import asks, at_rest, reads, refusing

BREAK = Break(
    "health-refused",
    Group.HEALTH,
    "every node refuses connections to health-check node ports",
    at_rest(),
    refusing(*Family),
    lambda check: asks(check, About.STATUS),
    opens=reads,
    names="nothing listens",
    scoped=True,
)
