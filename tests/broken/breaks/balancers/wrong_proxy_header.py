"""A proxy whose PROXY protocol headers are wrong."""

from esipp.checks.model import Claim
from tests.broken.balancing import HEADERS, fault, told_in
from tests.broken.breakage import Break, Group

BREAK = Break(
    "balancer-wrong-proxy-header",
    Group.BALANCERS,
    "a proxy sends PROXY protocol headers with 192.0.2.1 or 2001:db8::1 as the client",
    HEADERS,
    fault("wrong-proxy-header"),
    told_in(Claim.PROXY_V1, Claim.PROXY_V2),
    names="reports another one",
)
