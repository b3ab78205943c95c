"""A proxy that forges X-Forwarded-For."""

from esipp.checks.model import Claim
from tests.broken.balancing import HEADERS, fault, told_in
from tests.broken.breakage import Break, Group

BREAK = Break(
    "balancer-forges-x-forwarded-for",
    Group.BALANCERS,
    "a proxy sends backends X-Forwarded-For with 192.0.2.1 or 2001:db8::1 as the client",
    HEADERS,
    fault("forge-xff"),
    told_in(Claim.FORWARDED_FOR),
    names="reports another one",
    fixed=True,
)
