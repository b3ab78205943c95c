"""The reference load balancer started again with other options, faults say; and which rows are about what it does."""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from ci import loadbalancer
from ci.places import places
from ci.surroundings import Surroundings
from esipp.model import Balancer, Claim
from esipp.moves.rows import MoveRow, What
from esipp.rows import Row
from tests.broken.breakage import Asked, cells
from tests.broken.nodes import Nodes, Placed

FEW = 3
"""Moves up, and as many down: each that is not followed takes its whole budget."""

MOVING = Asked(("convergence",), ("convergence.reference-ecmp", "convergence.default"), moves=FEW)
"""What a forwarder makes of health checks, and of its neighbour that is not broken."""

HEADERS = Asked(("source_ip",), (".reference-proxy",))
"""All proxies, those that tell the client's address and the one that does not."""

LATE = (What.NO_LOSS, What.BALANCE, What.BLACK_HOLE)
"""What may go wrong as well where nodes are left too late, if not in every sequence of moves."""


def options(*words: str) -> Callable[[Nodes], AbstractContextManager[Placed]]:
    """Start the balancer with these, and again without."""

    @contextmanager
    def apply(_: Nodes) -> Iterator[Placed]:
        there = Surroundings.load(places())
        assert there is not None, "these tests need a cluster that ci/conformance keeps"
        try:
            loadbalancer.restart(there, words)
            yield Placed(time.time())
        finally:
            loadbalancer.restart(there)

    return apply


def fault(name: str) -> Callable[[Nodes], AbstractContextManager[Placed]]:
    """Have it do wrong on purpose (images/loadbalancer/README.md)."""
    return options("--fault", name)


def forwarder(*about: What) -> Callable[[Row], bool]:
    """Rows about this of the forwarder to all healthy nodes."""
    return lambda row: isinstance(row, MoveRow) and row.balancer is Balancer.ECMP and row.what in about


def told_in(*headers: Claim) -> Callable[[Row], bool]:
    """Rows that want the client's address in one of these headers."""
    return cells(lambda cell: cell.told in headers)
