"""A node's health check goes on saying 200 when its last pod ends."""

from tests.broken.breakage import Break, Group
from tests.broken.health_proxies import at_rest, claims, lying

BREAK = Break(
    "health-stuck-after-the-pod-left",
    Group.HEALTH,
    "a health check that has said 200 once says so for ever: also when the node's last pod is told to end",
    at_rest("healthcheck.terminating."),
    lying("stuck"),
    lambda check: claims(check, "terminating", "status", "count"),
    names="terminating endpoints count as ready",
    scoped=True,
)
