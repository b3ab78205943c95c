"""The broken data planes that both are held against: the breaks of tests/broken, and how each is made for upstream.

What touches all traffic of a kind is the same for both. What needs to know a Service is made for our run's by the break
itself, and for upstream's, which come and go, by rules_for.
"""

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any

from ci.peer_tests.everywhere import (
    UpstreamServices,
    black_holed,
    dropped_once_terminating,
    forgotten,
    hairpins_left,
    handed_on,
    health_ports,
    leaked,
    rewritten_at_home,
    rules_for,
)
from esipp.checks.model import Family
from tests.broken.breakage import Break
from tests.broken.breaks import BREAKS
from tests.broken.breaks.source.masquerading import every
from tests.broken.health_proxies import CLOSED, health_proxies, redirected
from tests.broken.matching import MASQUERADE
from tests.broken.nodes import Nodes, Rule

Breaking = Callable[[Nodes], AbstractContextManager[Any]]


@dataclass(frozen=True)
class Damage:
    """One break.

    Args:
        name: the break of tests/broken, for this suite's checks.
        theirs: the same break for upstream's specs.
    """

    name: str
    theirs: Breaking

    @property
    def ours(self) -> Break:
        """The break of tests/broken."""
        return next(each for each in BREAKS if each.name == self.name)


# ---------------------------------------------------------------------------------------- whoever's the traffic is
def into_pods(*more: str, families: tuple[Family, ...] = tuple(Family)) -> Breaking:
    """Nodes masquerade all traffic that enters the pod network."""

    def apply(nodes: Nodes) -> AbstractContextManager[Any]:
        cidrs = {family: cidr for family, cidr in nodes.pod_cidrs.items() if family in families}
        matches = {family: ("--destination", cidr, "!", "--source", cidr, *more) for family, cidr in cidrs.items()}
        return nodes.rules(*(Rule(each, "POSTROUTING", (*matches[each], *MASQUERADE)) for each in matches))

    return apply


def to_cluster_ips(nodes: Nodes) -> AbstractContextManager[Any]:
    """Every node masquerades all connections to ClusterIPs."""
    matches = {family: ("--match", "conntrack", "--ctorigdst", cidr) for family, cidr in nodes.service_cidrs.items()}
    return nodes.rules(*(Rule(each, "POSTROUTING", (*matches[each], *MASQUERADE)) for each in matches))


# ------------------------------------------------------------------------------------- by the services that are there
def following(make: Callable[[Nodes, UpstreamServices], list[Rule]]) -> Breaking:
    """Rules for the current Services of upstream's specs."""
    return lambda nodes: rules_for(nodes, lambda upstream: make(nodes, upstream))


def lying(lie: str) -> Breaking:
    """Every health check node port gives one of lying_proxy.py's wrong answers."""

    @contextmanager
    def apply(nodes: Nodes) -> Iterator[None]:
        with (
            health_proxies(nodes, lie) as port,
            rules_for(nodes, lambda here: redirected(health_ports(here), port)),
        ):
            yield

    return apply


DAMAGES = (
    Damage("source-rewritten-ipv6-only", into_pods(families=(Family.IPV6,))),
    Damage("source-rewritten-udp-only", into_pods("--protocol", "udp")),
    Damage("source-rewritten-one-in-fifty", into_pods(*every(50))),
    Damage("source-rewritten", into_pods()),
    Damage("clusterip-masqueraded", to_cluster_ips),
    Damage("internal-policy-leaks", following(leaked)),
    Damage("health-always-200", lying("200")),
    Damage("bare-node-forwards", following(handed_on)),
    Damage("health-always-503", lying("503")),
    Damage("hairpin-not-masqueraded", following(hairpins_left)),
    Damage("terminating-not-served", following(dropped_once_terminating)),
    Damage("interop-bare-node-drops-its-own", following(black_holed)),
    Damage("affinity-lost", following(forgotten)),
    Damage("health-refused", following(lambda _, upstream: redirected(health_ports(upstream), CLOSED))),
    Damage("source-rewritten-same-node", following(rewritten_at_home)),
)

TOGETHER = "+"
PLAN = (TOGETHER.join(each.name for each in DAMAGES[:3]), *(each.name for each in DAMAGES[3:]))
"""The default breaks. The first three are in place at once for upstream's specs, which check neither IPv6 nor a
datagram's source nor more than one right answer. They run one by one if a spec turns red."""
