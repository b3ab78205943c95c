"""A node answers 200 and does not serve."""

from contextlib import AbstractContextManager

from esipp.checks.check import Check
from esipp.checks.health import About, Place, Situation
from esipp.checks.model import Role
from esipp.scenarios.health.objects import service_name
from tests.broken.breakage import Break, Group, RunOptions
from tests.broken.health_proxies import CLOSED, asked, redirected
from tests.broken.nodes import Live, Nodes, Placed, Rule

BROKEN = Situation.SEVERAL_PODS


def not_serving(nodes: Nodes) -> AbstractContextManager[Placed]:
    def rules(live: Live) -> list[Rule]:
        ports = [str(port["nodePort"]) for port in live.service(service_name(BROKEN))["spec"]["ports"]]
        return redirected(ports, CLOSED, (nodes.roles[Role.ENDPOINT_NODE],))

    return nodes.live(rules)


def notices(check: Check) -> bool:
    question = asked(check, About.TRUTH)
    return question is not None and (question.situation, question.place) == (BROKEN, Place.ENDPOINT_NODE)


BREAK = Break(
    "health-200-but-not-served",
    Group.HEALTH,
    "the endpoint node refuses a Service's connections while its health check still answers 200",
    RunOptions(("health_checks",)),
    not_serving,
    notices,
    names="says 200, but",
    scoped=True,
)
