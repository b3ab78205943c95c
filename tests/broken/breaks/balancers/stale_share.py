"""A load balancer that sends a few connections to a removed node."""

from esipp.checks.endpoint_change import What
from tests.broken.balancing import LATE, MOVING, fault, forwarder
from tests.broken.breakage import Break, Group

BREAK = Break(
    "balancer-one-in-fifty-to-a-removed-node",
    Group.BALANCERS,
    "a load balancer sends one connection in fifty to removed nodes",
    MOVING,
    fault("one-in-fifty-stale"),
    forwarder(What.STEERS),
    may=forwarder(*LATE),
    names="keeps a removed node",
    at_once=False,  # such a run never settles: pods move from its first moment on
)
