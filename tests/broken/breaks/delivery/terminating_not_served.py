"""A node drops traffic to its last pod once it terminates, although it still serves."""

from esipp.checks.check import Check, is_about
from esipp.checks.health import HealthScenario
from esipp.checks.model import Role
from tests.broken.breakage import Break, Group, RunOptions
from tests.broken.leaving import dropping_once_it_leaves


def claims(check: Check, *named: str) -> bool:
    return is_about(check, HealthScenario) and check.subject.scenario == "terminating" and check.subject.claim in named


BREAK = Break(
    "terminating-not-served",
    Group.DELIVERY,
    "a node drops traffic to its last pod as soon as the pod terminates, although it still serves",
    RunOptions(("health_checks",)),
    dropping_once_it_leaves("health-terminating", "leaving", lambda nodes: (nodes.roles[Role.ENDPOINT_NODE],)),
    lambda check: claims(check, "serves"),
    names="drops traffic to endpoints",
    may=lambda check: claims(check, "source"),  # only what was served before the rule came has a source to be looked at
    at_once=False,
    scoped=True,
)
