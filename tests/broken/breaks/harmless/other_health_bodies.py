"""Harmless: health checks with the correct status and fewer fields in the body."""

from esipp.checks.health import About
from tests.broken.breakage import KNOWN, Break, Group, RunOptions
from tests.broken.health_proxies import asks, lying

BREAK = Break(
    "health-in-other-words",
    Group.HARMLESS,
    "health checks have the correct status, but no serviceProxyHealthy in the body, as with other service proxies",
    RunOptions(("health_checks",)),
    lying("other-words"),
    lambda check: asks(check, About.PROXY),
    names="load balancers use the status",
    says=KNOWN,
    scoped=True,
)
