"""Every health check answers later than the timeout."""

from esipp.checks.health import About
from tests.broken.breakage import Break, Group
from tests.broken.health_proxies import asks, at_rest, lying, reads

BREAK = Break(
    "health-slow",
    Group.HEALTH,
    "every node's health check answers only after three seconds, later than the timeout",
    at_rest(),
    lying("slow"),
    lambda check: asks(check, About.STATUS),
    opens=reads,
    names="does not answer in time",
    scoped=True,
)
