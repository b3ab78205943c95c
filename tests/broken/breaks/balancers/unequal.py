"""A load balancer that prefers nodes."""

from esipp.checks.endpoint_change import What
from tests.broken.balancing import MOVING, fault, forwarder
from tests.broken.breakage import Break, Group

BREAK = Break(
    "balancer-unequal",
    Group.BALANCERS,
    "a load balancer prefers nodes by name: one gets a fourth of another's share",
    MOVING,
    fault("unequal"),
    forwarder(What.BALANCE),
    may=forwarder(What.NO_LOSS),
    names="uses only one node",
    at_once=False,  # such a run never settles: pods move from its first moment on
)
