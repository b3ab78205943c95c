"""A load balancer that never removes a node."""

from esipp.checks.endpoint_change import What
from tests.broken.balancing import LATE, MOVING, fault, forwarder
from tests.broken.breakage import Break, Group

BREAK = Break(
    "balancer-keeps-one",
    Group.BALANCERS,
    "a load balancer never removes a node once it has sent packets there",
    MOVING,
    fault("keep-one"),
    forwarder(What.STEERS, What.BLACK_HOLE),
    may=forwarder(*LATE),
    names="keeps a removed node",
    at_once=False,  # such a run never settles: pods move from its first moment on
)
