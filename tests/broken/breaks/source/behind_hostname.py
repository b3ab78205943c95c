"""A node masquerades what comes by a load balancer that is announced by a hostname: its address is no proxy's."""

from collections.abc import Iterator
from contextlib import contextmanager

from esipp.checks.model import Balancer, EntryKind, Protocol, TrafficPolicy
from esipp.checks.path import Cell
from esipp.judging.topology import family_of
from tests.broken.balancing import HOSTNAME_PROXY, WITH_PROXY, balancer_addresses
from tests.broken.breakage import Asked, Break, Group, cells
from tests.broken.masquerading import grouped
from tests.broken.matching import MASQUERADE
from tests.broken.nodes import Live, Nodes, Placed, Rule

FORWARDERS = (Balancer.FORWARD, Balancer.ECMP)


@contextmanager
def masquerading_the_proxy(nodes: Nodes) -> Iterator[Placed]:
    """Every node, of what the load balancer's own address sends to the run's pods."""

    def rules(live: Live) -> list[Rule]:
        pods = grouped(live.backends)
        return [
            Rule(
                family_of(own),
                "POSTROUTING",
                ("--destination", pod, "--match", "conntrack", "--ctorigsrc", own, *MASQUERADE),
            )
            for own in balancer_addresses()
            for pod in pods[family_of(own)]
        ]

    with nodes.live(rules) as placed:
        yield placed


def notices(cell: Cell) -> bool:
    """Paths through a proxy to a Local Service: a node must not rewrite the proxy's address."""
    path = cell.path
    if path.service is None or path.entry.kind is not EntryKind.VIP or path.service.balancer in FORWARDERS:
        return False
    return path.service.policy is TrafficPolicy.LOCAL and path.protocol is Protocol.TCP and not path.service.ranges


BREAK = Break(
    "hostname-vip-masqueraded-by-a-node",
    Group.SOURCE,
    "the load balancer announces a hostname, and nodes masquerade what it sends to the pods of Local Services",
    Asked(("source_ip",), own=HOSTNAME_PROXY, options=WITH_PROXY),
    masquerading_the_proxy,
    cells(notices),
    names="that node masquerades|address of a node|a node's",
    may=cells(lambda cell: cell.path.service is not None and bool(cell.path.service.ranges)),
)
