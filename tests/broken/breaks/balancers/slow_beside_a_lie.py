"""A slow load balancer combined with one wrong health check answer: neither may hide the other."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from esipp.checks.check import Check, is_about
from esipp.checks.endpoint_change import EndpointChange, What
from esipp.checks.model import Balancer
from tests.broken.balancing import LATE, MOVING, fault, forwarder
from tests.broken.breakage import Break, Group
from tests.broken.health_proxies import health_ports, health_proxies, redirected
from tests.broken.nodes import Nodes, Placed


@contextmanager
def slow_and_lying(nodes: Nodes) -> Iterator[Placed]:
    """The bare node's health checks are wrong once each."""
    with ExitStack() as stack:
        stack.enter_context(fault("slow")(nodes))
        port = stack.enter_context(health_proxies(nodes, "once"))
        here = (nodes.bare,)
        yield stack.enter_context(nodes.live(lambda live: redirected(health_ports(live), port, here)))


def at_nodes(check: Check) -> bool:
    """What nodes' health checks and the balancers' views of them say."""
    ours = (Balancer.ECMP, Balancer.DEFAULT)
    return (
        is_about(check, EndpointChange)
        and check.subject.balancer in ours
        and check.subject.what not in (What.SOURCE, What.BLACK_HOLE)
    )


BREAK = Break(
    "balancer-slow-beside-a-health-check-that-lies-once",
    Group.BALANCERS,
    "a load balancer checks nodes ten times less often than it reports, and a node's health check is wrong once",
    MOVING,
    slow_and_lying,
    forwarder(What.BLACK_HOLE),
    may=lambda check: at_nodes(check) or forwarder(*LATE)(check),
    names="probes less often, than its bound",
    at_once=False,  # such a run never settles: pods move from its first moment on
)
