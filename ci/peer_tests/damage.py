"""The broken data planes that both are held against: the breaks of tests/broken, and how each is made for upstream.

What touches all traffic of a kind is the same for both. What needs to know a Service is made for our run's by the break
itself, and for upstream's, which come and go, by rules_for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

from ci.peer_tests.everywhere import Seen, black_holed, handed_on, health_ports, leaked, rules_for
from tests.broken.breakage import Break
from tests.broken.breaks import BREAKS
from tests.broken.health import CLOSED, health_proxies, redirected
from tests.broken.lying_proxy import PORT
from tests.broken.nodes import Nodes, Rule

Breaking = Callable[[Nodes], AbstractContextManager[Any]]


@dataclass(frozen=True)
class Damage:
    """One broken data plane.

    Args:
        name: of a break of tests/broken.
        theirs: breaks the cluster for upstream's specs; None where the break touches all traffic, whoever's it is.
    """

    name: str
    theirs: Breaking | None = None

    @property
    def ours(self) -> Break:
        """The break as our own tests have it."""
        return next(each for each in BREAKS if each.name == self.name)

    def for_theirs(self, nodes: Nodes) -> AbstractContextManager[Any]:
        """Break the cluster for upstream's specs."""
        return self.theirs(nodes) if self.theirs else self.ours.apply(nodes)


def following(make: Callable[[Nodes, Seen], list[Rule]]) -> Breaking:
    """Rules made from the services that are there."""
    return lambda nodes: rules_for(nodes, lambda seen: make(nodes, seen))


def lying(lie: str) -> Breaking:
    """Every health check node port tells one of lying_proxy.py's lies."""

    @contextmanager
    def apply(nodes: Nodes) -> Iterator[None]:
        with health_proxies(nodes, lie), rules_for(nodes, lambda seen: redirected(health_ports(seen), PORT)):
            yield

    return apply


def refusing(nodes: Nodes) -> AbstractContextManager[None]:
    """Every health check node port is closed."""
    return rules_for(nodes, lambda seen: redirected(health_ports(seen), CLOSED))


DAMAGES = (
    Damage("source-rewritten"),
    Damage("source-rewritten-ipv6-only"),
    Damage("source-rewritten-udp-only"),
    Damage("source-rewritten-one-in-fifty"),
    Damage("clusterip-masqueraded"),
    Damage("bare-node-forwards", following(handed_on)),
    Damage("internal-policy-leaks", following(leaked)),
    Damage("bare-node-drops-its-own", following(black_holed)),
    Damage("health-always-200", lying("200")),
    Damage("health-always-503", lying("503")),
    Damage("health-refused", refusing),
)
