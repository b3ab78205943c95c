"""Health checks in the words of another service proxy: the same status, and a document with less in it."""

from esipp.checks.health import About
from tests.broken.breakage import KNOWN, Asked, Break, Group
from tests.broken.health_proxies import asks, lying

BREAK = Break(
    "health-in-other-words",
    Group.HARMLESS,
    "health checks have the right status, and no serviceProxyHealthy in the document, as other proxies",
    Asked(("health_checks",)),
    lying("other-words"),
    lambda check: asks(check, About.PROXY),
    names="load balancers go by the status",
    says=KNOWN,
    scoped=True,
)
