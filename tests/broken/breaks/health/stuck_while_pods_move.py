"""A node's health check goes on saying 200 while pods move."""

from esipp.checks.check import Check
from tests.broken.breakage import Asked, Break, Group
from tests.broken.health_proxies import claims, lying


def notices(check: Check) -> bool:
    """Pods that move, and the node's last pod when it ends: the whole suite is asked."""
    return claims(check, "placement", "status", "count") or claims(check, "terminating", "status", "count")


BREAK = Break(
    "health-stuck-while-pods-move",
    Group.HEALTH,
    "a health check that has said 200 once says so for ever: also when the node's pods have moved elsewhere",
    Asked(("health_checks",)),
    lying("stuck"),
    notices,
    names="the health check is stuck",
    unsure=lambda check: claims(
        check, "placement", "prompt"
    ),  # it times the rounds that were followed: here few, or none
)
