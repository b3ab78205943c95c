"""A node's health check keeps answering 200 during endpoint changes."""

from esipp.checks.check import Check
from tests.broken.breakage import Break, Group, RunOptions
from tests.broken.health_proxies import claims, lying


def notices(check: Check) -> bool:
    """Pods that move, and the node's last pod when it ends: the whole suite is asked."""
    return claims(check, "placement", "status", "count") or claims(check, "terminating", "status", "count")


BREAK = Break(
    "health-stuck-while-pods-move",
    Group.HEALTH,
    "a health check that answered 200 once does so for ever, also after the node's pods moved to another node",
    RunOptions(("health_checks",)),
    lying("stuck"),
    notices,
    share=0.7,  # after two late rounds no more are played: a node without a pod until then never said 200
    names="the health check is stuck",
    unsure=lambda check: claims(
        check, "placement", "prompt"
    ),  # it times the rounds that were followed: here few, or none
)
