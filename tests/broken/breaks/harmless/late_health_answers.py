"""Harmless: health checks that answer after 200 ms, long before a load balancer gives up."""

from tests.broken.breakage import Break, Group, no_check
from tests.broken.health_proxies import at_rest, lying

BREAK = Break(
    "health-answers-after-200-ms",
    Group.HARMLESS,
    "every node's health check answers after 200 ms",
    at_rest("healthcheck.in-time."),
    lying("after-200-ms"),
    no_check,
    scoped=True,
)
