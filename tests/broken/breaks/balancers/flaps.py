"""A load balancer that flaps."""

from esipp.checks.endpoint_change import What
from tests.broken.balancing import LATE, MOVING, fault, forwarder
from tests.broken.breakage import Break, Group

BREAK = Break(
    "balancer-flaps",
    Group.BALANCERS,
    "for four seconds in every ten, a load balancer adds nodes with failing health checks and removes others",
    MOVING,
    fault("flap"),
    forwarder(What.STEERS),
    may=forwarder(*LATE, What.VIEW_LOCAL, What.VIEW_CLUSTER),
    names="flaps",
    at_once=False,  # such a run never settles: pods move from its first moment on
)
