"""Health checks that lie on a real cluster: how each is made, and which checks are about what.

A small proxy stands between whoever asks and the service proxy's health server (lying_proxy.py), in the network of
every node; nat brings it what is sent to the run's health-check node ports.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from esipp.checks.check import Check, Level
from esipp.checks.health import About, HealthAnswerCheck, HealthScenarioCheck, Question
from esipp.checks.model import Family
from tests.broken import lying_proxy
from tests.broken.breakage import Asked
from tests.broken.matching import AT_THE_NODE
from tests.broken.nodes import Live, Nodes, Placed, Rule

USER = 4242
"""Of the proxies' processes: what they send themselves is not redirected."""

CLOSED = 19997
"""A port without a listener."""

SITUATIONS = (
    *("healthcheck.one-pod.", "healthcheck.no-pods.", "healthcheck.several-pods.", "healthcheck.several-ports."),
    *("healthcheck.unready-pod.", "healthcheck.published-unready-pod.", "healthcheck.host-network-pod."),
)
"""Parts of ids: of all that is asked while nothing moves."""


def at_rest(*trials: str) -> Asked:
    """All that is asked while nothing moves, and these trials.

    Of a health check that lies about the status each of the others takes its whole budget: minutes.
    """
    return Asked(("health_checks",), (*SITUATIONS, *trials))


ALL_NODE_PORTS = "30000:32767"


def lying(lie: str) -> Callable[[Nodes], AbstractContextManager[Placed]]:
    """Every node's health checks of the run tell a lie of lying_proxy.py."""

    @contextmanager
    def apply(nodes: Nodes) -> Iterator[Placed]:
        with (
            health_proxies(nodes, lie) as port,
            nodes.live(lambda live: redirected(health_ports(live), port)) as placed,
        ):
            yield placed

    return apply


def refusing(*families: Family) -> Callable[[Nodes], AbstractContextManager[Placed]]:
    """Every node refuses the run's health checks, in these families."""
    return lambda nodes: nodes.live(lambda live: redirected(health_ports(live), CLOSED, families=families))


def health_ports(live: Live) -> list[str]:
    """The health-check node ports of a run."""
    ports = [service["spec"].get("healthCheckNodePort") for service in live.services]
    return [str(port) for port in ports if port]


def redirected(
    ports: list[str], to: int, nodes: tuple[str, ...] = (), families: tuple[Family, ...] = tuple(Family)
) -> list[Rule]:
    """What is sent to a node at these ports, from elsewhere or from itself, goes to another port there."""
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
    """The lying proxy in the network of every node, at the port of this lie."""
    script = Path(lying_proxy.__file__).read_text(encoding="utf-8")
    with nodes.running(os.environ["ESIPP_IMAGE"], USER, ["python3", "-B", "-c", script, lie]):
        yield lying_proxy.port_of(lie)


# ------------------------------------------------------------------------------------------------ what checks are about
TOLD = (About.STATUS, About.TRUTH)
"""Checks that the status alone decides."""

READ = tuple(set(About) - {About.STATUS})
"""Checks that need an HTTP answer to say anything."""


def asked(check: Check, *parts: About) -> Question | None:
    """The question of a check that is about one of these parts of an answer that a node gives; else none.

    The VIP's own answers are only recorded.
    """
    ours = isinstance(check, HealthAnswerCheck) and check.about in parts and check.level is not Level.RECORD
    return check.question if ours and isinstance(check, HealthAnswerCheck) else None


def asks(check: Check, *parts: About) -> bool:
    """Whether a check is about one of these parts of an answer that a node gives."""
    return asked(check, *parts) is not None


def reads(check: Check) -> bool:
    """Whether a check needs an HTTP answer to say anything."""
    return asks(check, *READ)


def claims(check: Check, trial: str, *of_it: str) -> bool:
    """Whether a check claims one of these of a trial."""
    return isinstance(check, HealthScenarioCheck) and check.trial == trial and check.claim in of_it
