"""A load balancer that checks less often than it reports."""

from esipp.checks.endpoint_change import What
from tests.broken.balancing import LATE, MOVING, fault, forwarder
from tests.broken.breakage import Break, Group

BREAK = Break(
    "balancer-slow",
    Group.BALANCERS,
    "a load balancer checks nodes ten times less often than it reports",
    MOVING,
    fault("slow"),
    forwarder(What.BLACK_HOLE),
    may=forwarder(What.STEERS, *LATE),
    names="probes less often, than its bound",
    at_once=False,  # such a run never settles: pods move from its first moment on
)
