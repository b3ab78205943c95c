"""A load balancer that switches nodes although nothing changes."""

from esipp.checks.check import Check, is_about
from esipp.checks.continuity import Continuity, Phase, Way, What
from esipp.checks.model import Balancer, TrafficPolicy
from tests.broken.balancing import PROFILE, fault
from tests.broken.breakage import Break, Group, RunOptions

FORWARDERS = (Balancer.DEFAULT.value, Balancer.ECMP.value)


def notices(check: Check) -> bool:
    """Connections that last by the cluster's own load balancer, while nothing is done."""
    own = Way(Balancer.DEFAULT.value, TrafficPolicy.LOCAL)
    return is_about(check, Continuity) and (check.subject.way, check.subject.what) == (own, What.LASTING)


def may(check: Check) -> bool:
    """It wanders for all forwarded VIPs; a request that is under way is lost now and then."""
    return is_about(check, Continuity) and check.subject.way.by in FORWARDERS


BREAK = Break(
    "balancer-wanders-at-rest",
    Group.BALANCERS,
    "a load balancer sends all traffic to one healthy node at a time, and switches every three seconds without reason",
    RunOptions(
        ("continuity",),
        (f"continuity.{Phase.QUIET.value}.",),
        own=("--default", Balancer.FORWARD.value),
        options=PROFILE,
    ),
    fault("wander"),
    notices,
    names="flushed|another node|moved",
    may=may,
    at_once=False,
)
