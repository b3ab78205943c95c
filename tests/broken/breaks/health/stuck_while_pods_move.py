"""A node's health check goes on saying 200 while pods move."""

from tests.broken.breakage import Asked, Break, Group
from tests.broken.health_proxies import claims, lying

BREAK = Break(
    "health-stuck-while-pods-move",
    Group.HEALTH,
    "a health check that has said 200 once says so for ever: also when the node's pods have moved elsewhere",
    Asked(("health_checks",)),
    lying("stuck"),
    lambda row: claims(row, "placement", "status", "count"),
    names="the health check is stuck",
)
