"""A load balancer that splits by the weights which health checks ask for."""

from esipp.checks.endpoint_change import What
from tests.broken.balancing import MOVING, forwarder, options
from tests.broken.breakage import KNOWN, Break, Group

BREAK = Break(
    "weighting-balancer",
    Group.HARMLESS,
    "a load balancer splits connections between nodes by X-Load-Balancing-Endpoint-Weight, and not equally",
    MOVING,
    options("--weigh"),
    forwarder(What.BALANCE),
    may=forwarder(What.NO_LOSS),
    names="weighs nodes",
    says=KNOWN,
    at_once=False,  # such a run never settles: pods move from its first moment on
)
