"""A proxy that does not report the client's address."""

from esipp.checks.model import Claim
from tests.broken.balancing import HEADERS, fault, told_in
from tests.broken.breakage import Break, Group

BREAK = Break(
    "balancer-drops-x-forwarded-for",
    Group.BALANCERS,
    "a proxy sends no X-Forwarded-For, or passes on the client's own header",
    HEADERS,
    fault("drop-xff"),
    told_in(Claim.FORWARDED_FOR),
    names=r"the backend got (no address|\S+) in",
)
