"""Harmless: a proxy that announces a hostname, with its own address as source."""

import time
from collections.abc import Iterator
from contextlib import contextmanager

from esipp.checks.model import Balancer, EntryKind, Protocol, TrafficPolicy
from esipp.checks.path import PathCheck
from tests.broken.balancing import HOSTNAME_PROXY, WITH_PROXY
from tests.broken.breakage import KNOWN, Break, Group, RunOptions, path_checks
from tests.broken.nodes import Nodes, Placed


@contextmanager
def nothing(_: Nodes) -> Iterator[Placed]:
    """It is as it is."""
    yield Placed(time.time())


def knows(path_check: PathCheck) -> bool:
    """Paths to a Local Service by the cluster's own load balancer, where the client's address is wanted."""
    path = path_check.subject.path
    own = path.service is not None and path.service.balancer is Balancer.DEFAULT and not path.service.ranges
    local = path.service is not None and path.service.policy is TrafficPolicy.LOCAL
    return own and local and path.entry.kind is EntryKind.VIP and path.protocol is Protocol.TCP


BREAK = Break(
    "honest-hostname-proxy",
    Group.HARMLESS,
    "the load balancer is a proxy with a hostname in the status, and backends see the proxy's address",
    RunOptions(("source_ip",), own=HOSTNAME_PROXY, options=WITH_PROXY),
    nothing,
    path_checks(knows),
    names="is a proxy",
    says=KNOWN,
)
