"""Wrong health check answers on a real cluster, and the checks that must notice them.

A small proxy (lying_proxy.py) in every node's network sits between clients and the service proxy's health server; NAT
redirects traffic to the run's health-check node ports to it.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from esipp.checks.check import Check, Level, is_about
from esipp.checks.health import About, HealthAnswer, HealthScenario, Question
from esipp.checks.model import Family, Role
from tests.broken import lying_proxy
from tests.broken.breakage import RunOptions
from tests.broken.matching import AT_THE_NODE
from tests.broken.nodes import Live, Nodes, Placed, Rule

USER = 4242
"""The user of the proxies' processes, which are not redirected themselves."""

CLOSED = 19997
"""A port without a listener."""

SITUATIONS = (
    *("healthcheck.one-pod.", "healthcheck.no-pods.", "healthcheck.several-pods.", "healthcheck.several-ports."),
    *("healthcheck.unready-pod.", "healthcheck.published-unready-pod.", "healthcheck.host-network-pod."),
)
"""Parts of ids of checks without endpoint changes."""


def at_rest(*trials: str) -> RunOptions:
    """All checks without endpoint changes, and these scenarios.

    With a wrong status, each of the other scenarios would take its full timeout: minutes.
    """
    return RunOptions(("health_checks",), (*SITUATIONS, *trials))


ALL_NODE_PORTS = "30000:32767"


def refusing(*families: Family) -> Callable[[Nodes], AbstractContextManager[Placed]]:
    """Every node refuses the run's health checks, in these families."""
    return lambda nodes: nodes.live(lambda live: redirected(health_ports(live), CLOSED, families=families))


def health_ports(live: Live) -> list[str]:
    """The health-check node ports of a run."""
    ports = [service["spec"].get("healthCheckNodePort") for service in live.services]
    return [str(port) for port in ports if port]


def lying(
    lie: str, ports: Callable[[Live], list[str]] = health_ports, *roles: Role
) -> Callable[[Nodes], AbstractContextManager[Placed]]:
    """The run's health checks, or other ports, get a wrong answer of lying_proxy.py, at nodes with roles or at all."""

    @contextmanager
    def apply(nodes: Nodes) -> Iterator[Placed]:
        there = tuple(nodes.roles[role] for role in roles)
        with (
            health_proxies(nodes, lie) as port,
            nodes.live(lambda live: redirected(ports(live), port, there)) as placed,
        ):
            yield placed

    return apply


def redirected(
    ports: list[str], to: int, nodes: tuple[str, ...] = (), families: tuple[Family, ...] = tuple(Family)
) -> list[Rule]:
    """Redirect traffic to these ports of a node, from outside or from itself, to another port."""
    rules = []
    for family in families:
        for port in ports:
            words = ("--protocol", "tcp", "--dport", port, *AT_THE_NODE)
            jump = ("--jump", "REDIRECT", "--to-ports", str(to))
            others = ("--match", "owner", "!", "--uid-owner", str(USER))
            rules.append(Rule(family, "PREROUTING", (*words, *jump), nodes))
            rules.append(Rule(family, "OUTPUT", (*words, *others, *jump), nodes))
    return rules


@contextmanager
def health_proxies(nodes: Nodes, lie: str) -> Iterator[int]:
    """The proxy in every node's network, at the port of this wrong answer."""
    script = Path(lying_proxy.__file__).read_text(encoding="utf-8")
    with nodes.running(os.environ["ESIPP_IMAGE"], USER, ["python3", "-B", "-c", script, lie]):
        yield lying_proxy.port_of(lie)


# ------------------------------------------------------------------------------------------------ what checks are about
STATUS_AND_TRUTH = (About.STATUS, About.TRUTH)
"""Checks that depend only on the status."""

READ = tuple(set(About) - {About.STATUS})
"""Checks that need an HTTP answer for a verdict."""


def asked(check: Check, *parts: About) -> Question | None:
    """The question of a check that is about one of these parts of an answer that a node gives; else none.

    The VIP's own answers are only recorded.
    """
    ours = is_about(check, HealthAnswer) and check.subject.about in parts and check.level is not Level.RECORD
    return check.subject.question if ours and is_about(check, HealthAnswer) else None


def asks(check: Check, *parts: About) -> bool:
    """Whether a check is about one of these parts of an answer that a node gives."""
    return asked(check, *parts) is not None


def reads(check: Check) -> bool:
    """Whether a check needs an HTTP answer to say anything."""
    return asks(check, *READ)


def claims(check: Check, trial: str, *of_it: str) -> bool:
    """Whether a check claims one of these of a trial."""
    return is_about(check, HealthScenario) and check.subject.scenario == trial and check.subject.claim in of_it
