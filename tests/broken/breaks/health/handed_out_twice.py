"""Two Services share a health-check node port."""

from contextlib import AbstractContextManager
from dataclasses import replace

from esipp.checks.check import Check, Level, is_about
from esipp.checks.health import About, HealthAnswer, Situation
from esipp.scenarios.health.objects import service_name
from tests.broken.breakage import Break, Group
from tests.broken.health_proxies import STATUS_AND_TRUTH, at_rest, redirected
from tests.broken.nodes import Live, Nodes, Placed, Rule

SECOND, FIRST = Situation.NO_PODS, Situation.SEVERAL_PODS
"""Whose health check is answered by whose."""


def answered_by_another(nodes: Nodes) -> AbstractContextManager[Placed]:
    def rules(live: Live) -> list[Rule]:
        second, first = (live.service(service_name(each))["spec"]["healthCheckNodePort"] for each in (SECOND, FIRST))
        return redirected([str(second)], first)

    return nodes.live(rules)


def notices(check: Check) -> bool:
    """Where the first service has pods and the second has none, and wherever the answer says whose it is."""
    if (
        not is_about(check, HealthAnswer)
        or check.subject.question.situation is not SECOND
        or check.level is Level.RECORD
    ):
        return False
    there = replace(check.subject.question, situation=FIRST).local_pods
    if check.subject.about in (*STATUS_AND_TRUTH, About.COUNT, About.WEIGHT):
        return there > 0
    return check.subject.about is About.DOCUMENT


BREAK = Break(
    "health-port-handed-out-twice",
    Group.HEALTH,
    "two Services share a health-check node port, and one answers for both on every node",
    at_rest(),
    answered_by_another,
    notices,
    names="another Service's health check answers on this port",
    scoped=True,
)
