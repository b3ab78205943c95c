"""Health checks over IPv4 only."""

from esipp.checks.check import Check
from esipp.checks.health import About
from esipp.checks.model import Family
from tests.broken.breakage import Break, Group
from tests.broken.health_proxies import READ, asked, at_rest, refusing


def in_ipv6(check: Check, *parts: About) -> bool:
    question = asked(check, *parts)
    return question is not None and question.family is Family.IPV6


BREAK = Break(
    "health-ipv4-only",
    Group.HEALTH,
    "on a dual-stack cluster, every node serves health checks over IPv4 only",
    at_rest(),
    refusing(Family.IPV6),
    lambda check: in_ipv6(check, About.STATUS),
    opens=lambda check: in_ipv6(check, *READ),
    names="in this IP family",
    scoped=True,
)
