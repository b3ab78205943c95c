"""A node's health check keeps answering 200 after its last pod terminates."""

from tests.broken.breakage import Break, Group
from tests.broken.health_proxies import at_rest, claims, lying

BREAK = Break(
    "health-stuck-after-the-pod-left",
    Group.HEALTH,
    "a health check that answered 200 once does so for ever, also after the node's last pod terminates",
    at_rest("healthcheck.terminating."),
    lying("stuck"),
    lambda check: claims(check, "terminating", "status", "count"),
    names="terminating endpoints count as ready",
    scoped=True,
)
