"""Harmless: a load balancer that distributes by the weights in health checks."""

from esipp.checks.endpoint_change import What
from tests.broken.balancing import MOVING, forwarder, options
from tests.broken.breakage import KNOWN, Break, Group

BREAK = Break(
    "weighting-balancer",
    Group.HARMLESS,
    "a load balancer distributes connections by X-Load-Balancing-Endpoint-Weight instead of equally",
    MOVING,
    options("--weigh"),
    forwarder(What.BALANCE),
    may=forwarder(What.NO_LOSS),
    names="uses the weights",
    says=KNOWN,
    at_once=False,  # such a run never settles: pods move from its first moment on
)
