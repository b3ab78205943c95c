"""Health checks that lie on a real cluster: how each is made, and which rows must notice; none other may.

A small proxy stands between whoever asks and the service proxy's health server (lying_proxy.py), in the network of
every node; nat brings it what is sent to the run's health-check node ports.
"""

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from esipp.health.model import About, HealthTrialRow, Place, QuestionRow, Situation
from esipp.health.props import service_name
from esipp.model import Family, Role
from esipp.rows import Level, Row
from tests.broken import lying_proxy
from tests.broken.nodes import Live, Nodes, Placed, Rule
from tests.broken.rowbreaks import RowBreak

USER = 4242
"""Of the proxy's processes: what they send themselves is not redirected."""

CLOSED = 19997
"""A port where nobody listens."""

ALL_NODE_PORTS = "30000:32767"
LOCAL = ("--match", "addrtype", "--dst-type", "LOCAL")


# -------------------------------------------------------------------------------------------------------- the breaks
def lying(lie: str) -> Callable[[Nodes], AbstractContextManager[Placed]]:
    """Every node's health checks of the run tell a lie of lying_proxy.py."""

    @contextmanager
    def apply(nodes: Nodes) -> Iterator[Placed]:
        with (
            health_proxies(nodes, lie),
            nodes.live(lambda live: redirected(_health_ports(live), lying_proxy.PORT)) as placed,
        ):
            yield placed

    return apply


def refusing(nodes: Nodes) -> AbstractContextManager[Placed]:
    """Every node refuses health checks."""
    return nodes.live(lambda live: redirected(_health_ports(live), CLOSED))


def not_serving(nodes: Nodes) -> AbstractContextManager[Placed]:
    """The endpoint node does not serve one service any more, whose health check says 200 there as ever."""

    def rules(live: Live) -> list[Rule]:
        (service,) = [s for s in live.services if s["metadata"]["name"] == service_name(Situation.SEVERAL_PODS)]
        ports = [str(port["nodePort"]) for port in service["spec"]["ports"]]
        return redirected(ports, CLOSED, (nodes.roles[Role.ENDPOINT_NODE],))

    return nodes.live(rules)


@contextmanager
def staying_open(nodes: Nodes) -> Iterator[Placed]:
    """Ports on which the service proxy has once listened are answered for ever, as they were at last."""
    with health_proxies(nodes, "stays"), nodes.rules(*redirected([ALL_NODE_PORTS], lying_proxy.PORT)) as placed:
        yield placed


def _health_ports(live: Live) -> list[str]:
    ports = [service["spec"].get("healthCheckNodePort") for service in live.services]
    return [str(port) for port in ports if port]


def redirected(ports: list[str], to: int, nodes: tuple[str, ...] = ()) -> list[Rule]:
    """What is sent to a node at these ports, from elsewhere or from itself, goes to another port there."""
    rules = []
    for family in Family:
        for port in ports:
            words = ("--protocol", "tcp", "--dport", port, *LOCAL)
            jump = ("--jump", "REDIRECT", "--to-ports", str(to))
            others = ("--match", "owner", "!", "--uid-owner", str(USER))
            rules.append(Rule(family, "PREROUTING", (*words, *jump), nodes))
            rules.append(Rule(family, "OUTPUT", (*words, *others, *jump), nodes))
    return rules


@contextmanager
def health_proxies(nodes: Nodes, lie: str) -> Iterator[None]:
    """The lying proxy in the network of every node."""
    script = Path(lying_proxy.__file__).read_text(encoding="utf-8")
    with nodes.running(os.environ["ESIPP_IMAGE"], USER, ["python3", "-B", "-c", script, lie]):
        yield


# ------------------------------------------------------------------------------------------------- who must notice
def _asks(row: Row, *parts: About) -> bool:
    """Whether a row is about these parts of an answer that a node gives; the VIP's own answers are only recorded."""
    return isinstance(row, QuestionRow) and row.about in parts and row.level is not Level.RECORD


def _on_bare(row: Row) -> bool:
    return isinstance(row, QuestionRow) and not row.question.local_pods


def _claims(row: Row, trial: str, *claims: str) -> bool:
    return isinstance(row, HealthTrialRow) and row.trial == trial and row.claim in claims


def _read(row: Row) -> bool:
    """Rows that need an HTTP answer to say anything."""
    return _asks(row, About.DOCUMENT, About.COUNT, About.PROXY, About.WEIGHT, About.TRUTH)


TOLD = (About.STATUS, About.TRUTH)
ONE_AND_NONE = ("healthcheck.one-pod.", "healthcheck.no-pods.")
SETTLED = "healthcheck.one-pod.ipv4.outside-1-to-bare-node.status"
"""Asked where all others are trials, so that it is known when the run began to look."""

HEALTH_BREAKS = (
    RowBreak(
        "health-always-200",
        "health_checks",
        lying("200"),
        ONE_AND_NONE,
        lambda row: _asks(row, *TOLD) and _on_bare(row),
    ),
    RowBreak(
        "health-wrong-count",
        "health_checks",
        lying("count"),
        ("healthcheck.several-pods.",),
        lambda row: _asks(row, About.COUNT, About.WEIGHT),
    ),
    RowBreak(
        "health-refused",
        "health_checks",
        refusing,
        ("healthcheck.one-pod.",),
        lambda row: _asks(row, About.STATUS),
        _read,
    ),
    RowBreak(
        "health-always-503",
        "health_checks",
        lying("503"),
        ONE_AND_NONE,
        lambda row: _asks(row, *TOLD) and not _on_bare(row),
    ),
    RowBreak(
        "health-another-status",
        "health_checks",
        lying("500"),
        ONE_AND_NONE,
        lambda row: _asks(row, About.STATUS),
        lambda row: _asks(row, About.TRUTH),
    ),
    RowBreak("health-no-weight", "health_checks", lying("weight"), ONE_AND_NONE, lambda row: _asks(row, About.WEIGHT)),
    RowBreak(
        "health-slow",
        "health_checks",
        lying("slow"),
        ("healthcheck.one-pod.",),
        lambda row: _asks(row, About.STATUS),
        _read,
    ),
    RowBreak(
        "health-200-but-not-served",
        "health_checks",
        not_serving,
        ("healthcheck.several-pods.", "healthcheck.no-pods."),
        lambda row: (
            isinstance(row, QuestionRow)
            and row.about is About.TRUTH
            and (row.question.situation, row.question.place) == (Situation.SEVERAL_PODS, Place.ENDPOINT_NODE)
        ),
    ),
    RowBreak(
        "health-stuck-after-the-pod-left",
        "health_checks",
        lying("stuck"),
        (SETTLED, "healthcheck.terminating."),
        lambda row: _claims(row, "terminating", "status", "count"),
    ),
    RowBreak(
        "health-stuck-while-pods-move",
        "health_checks",
        lying("stuck"),
        (SETTLED, "healthcheck.placement.", "healthcheck.stable."),
        lambda row: _claims(row, "placement", "status", "count"),
    ),
    RowBreak(
        "health-ports-stay-open",
        "health_checks",
        staying_open,
        (SETTLED, "healthcheck.lifecycle."),
        lambda row: _claims(row, "lifecycle", "freed-by-policy", "freed-by-type", "freed-by-deletion"),
    ),
)
