"""Every health check answers later than anybody waits."""

from esipp.health.model import About
from tests.broken.breakage import Asked, Break, Group
from tests.broken.health_proxies import asks, lying, reads

BREAK = Break(
    "health-slow",
    Group.HEALTH,
    "every node's health check is answered after three seconds, when nobody waits any more",
    Asked(("health_checks",)),
    lying("slow"),
    lambda row: asks(row, About.STATUS),
    opens=reads,
    names="not answered in time",
    scoped=True,
)
