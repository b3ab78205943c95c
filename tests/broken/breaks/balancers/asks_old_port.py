"""A proxy that goes on asking a health port which the Service no longer has.

Ours did so by mistake: a new HAProxy takes the check port that the last one's state names for one set by hand. Under
Cluster nobody answers there, and no node is left to it.
"""

from esipp.checks.check import Check
from esipp.checks.continuity import ContinuityCheck, Phase, What
from esipp.checks.model import Balancer
from tests.broken.balancing import OWN, PROFILE, fault
from tests.broken.breakage import Asked, Break, Group

WAYS = tuple(f"continuity.{phase.value}.{Balancer.PROXY.value}." for phase in (Phase.QUIET, Phase.FLIPS))


def notices(check: Check) -> bool:
    return isinstance(check, ContinuityCheck) and check.phase is Phase.FLIPS and check.what is What.GAP


def may_be_silent(check: Check) -> bool:
    """How soon the source is right after the return: nobody can tell it where nobody is answered by then."""
    return isinstance(check, ContinuityCheck) and check.phase is Phase.FLIPS and check.what is What.PROMPT


BREAK = Break(
    "balancer-asks-the-old-health-port",
    Group.BALANCERS,
    "a proxy goes on asking a health port that a flip of the policy has closed",
    Asked(("continuity",), WAYS, own=OWN, options=PROFILE),
    fault("old-health-port"),
    notices,
    names="had no node left",
    unsure=may_be_silent,
    at_once=False,  # nothing settles before such a run's first moment
)
