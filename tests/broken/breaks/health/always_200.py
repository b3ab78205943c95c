"""Every health check answers 200."""

from esipp.checks.check import Check
from tests.broken.breakage import Break, Group
from tests.broken.health_proxies import TOLD, asked, at_rest, lying


def notices(check: Check) -> bool:
    question = asked(check, *TOLD)
    return question is not None and not question.local_pods


BREAK = Break(
    "health-always-200",
    Group.HEALTH,
    "every node's health check always answers 200, with or without a local endpoint",
    at_rest(),
    lying("200"),
    notices,
    names="always says 200",
    scoped=True,
    fixed=True,
)
