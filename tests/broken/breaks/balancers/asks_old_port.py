"""A proxy that keeps checking a health check node port which the Service no longer has.

The reference load balancer once had this bug: a new HAProxy took the check port in its predecessor's state for a manual
setting. Under Cluster nothing answers there, so no node stays healthy.
"""

from esipp.checks.check import Check, is_about
from esipp.checks.continuity import Continuity, Phase, What
from esipp.checks.model import Balancer
from tests.broken.balancing import OWN, PROFILE, fault
from tests.broken.breakage import Break, Group, RunOptions

WAYS = tuple(f"continuity.{phase.value}.{Balancer.PROXY.value}." for phase in (Phase.QUIET, Phase.POLICY_CHANGES))


def notices(check: Check) -> bool:
    return (
        is_about(check, Continuity) and check.subject.phase is Phase.POLICY_CHANGES and check.subject.what is What.GAP
    )


def may_be_silent(check: Check) -> bool:
    """How soon the source is right after the return: nobody can tell it where nobody is answered by then."""
    return (
        is_about(check, Continuity)
        and check.subject.phase is Phase.POLICY_CHANGES
        and check.subject.what is What.PROMPT
    )


BREAK = Break(
    "balancer-asks-the-old-health-port",
    Group.BALANCERS,
    "a proxy keeps checking a health check node port that a policy change has closed",
    RunOptions(("continuity",), WAYS, own=OWN, options=PROFILE),
    fault("old-health-port"),
    notices,
    names="had no node left",
    unsure=may_be_silent,
    at_once=False,  # nothing settles before such a run's first moment
)
