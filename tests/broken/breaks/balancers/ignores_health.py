"""A load balancer that ignores health checks."""

from esipp.checks.endpoint_change import What
from tests.broken.balancing import LATE, MOVING, fault, forwarder
from tests.broken.breakage import Break, Group

BREAK = Break(
    "balancer-ignores-health",
    Group.BALANCERS,
    "a load balancer ignores health checks and sends packets to all nodes",
    MOVING,
    fault("ignore-health"),
    forwarder(What.STEERS, What.BLACK_HOLE),
    may=forwarder(*LATE),
    names="ignores health checks",
    at_once=False,  # such a run never settles: pods move from its first moment on
)
