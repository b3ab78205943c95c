"""A load balancer with a slightly uneven distribution."""

from dataclasses import replace

from esipp.checks.endpoint_change import What
from tests.broken.balancing import MOVING, fault, forwarder
from tests.broken.breakage import Break, Group

BREAK = Break(
    "balancer-uneven-by-a-little",
    Group.BALANCERS,
    "a load balancer gives one of two nodes 55 of 100 connections, and the other 45",
    replace(MOVING, moves=10),  # a split as small takes many connections to be seen
    fault("uneven"),
    forwarder(What.BALANCE),
    may=forwarder(What.NO_LOSS),
    names="uses only one node",
    at_once=False,  # such a run never settles: pods move from its first moment on
)
