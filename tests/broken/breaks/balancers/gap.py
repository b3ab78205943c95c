"""A load balancer that drops all packets for a moment whenever its nodes change."""

from esipp.checks.endpoint_change import What
from tests.broken.balancing import LATE, MOVING, fault, forwarder
from tests.broken.breakage import Break, Group

BREAK = Break(
    "balancer-gap-at-each-change",
    Group.BALANCERS,
    "a load balancer drops all packets for a VIP for 1.5 seconds whenever its nodes change",
    MOVING,
    fault("gap"),
    forwarder(What.NO_LOSS),
    may=forwarder(What.STEERS, *LATE),
    names="lost|drops requests",
    at_once=False,  # such a run never settles: pods move from its first moment on
)
