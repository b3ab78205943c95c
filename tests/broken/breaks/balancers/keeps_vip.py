"""A load balancer that keeps the VIPs of deleted Services."""

from esipp.checks.endpoint_change import What
from tests.broken.balancing import MOVING, fault, forwarder
from tests.broken.breakage import Break, Group

BREAK = Break(
    "balancer-keeps-a-vip",
    Group.BALANCERS,
    "a load balancer keeps serving the VIPs of deleted Services",
    MOVING,
    fault("keep-vip"),
    forwarder(What.FREED),
    may=forwarder(What.NO_LOSS),
    names="keeps the VIP",
    at_once=False,  # such a run never settles: pods move from its first moment on
)
