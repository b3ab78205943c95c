"""Every health check answers 503."""

from esipp.checks.check import Check
from tests.broken.breakage import Break, Group
from tests.broken.health_proxies import TOLD, asked, at_rest, lying


def notices(check: Check) -> bool:
    question = asked(check, *TOLD)
    return question is not None and bool(question.local_pods)


BREAK = Break(
    "health-always-503",
    Group.HEALTH,
    "every node's health check always answers 503, with or without a local endpoint",
    at_rest(),
    lying("503"),
    notices,
    names="always says 503",
    scoped=True,
)
