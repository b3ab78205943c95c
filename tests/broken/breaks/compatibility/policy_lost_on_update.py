"""The external traffic policy is lost with every update."""

from esipp.checks.api import HEALTH_PORT, POLICY, Requests
from esipp.checks.check import Check, is_about
from tests.broken.breakage import Break, Group, RunOptions
from tests.broken.controllers import losing
from tests.broken.edits import wants_after_an_update

LOCAL = "has(oldObject.spec.externalTrafficPolicy) && has(object.spec.externalTrafficPolicy) && "
LOCAL += "oldObject.spec.externalTrafficPolicy == 'Local' && object.spec.externalTrafficPolicy == 'Local'"


COMES_TO_LOCAL = ("clusterip-to-", "round-trip", "to-local.")
"""Parts of ids: here the update itself brings Local to a Service that had it not, and keeps it."""


def notices(check: Check) -> bool:
    """Whether a Service that has Local must have it, or what follows from it, after an update."""
    if is_about(check, Requests) and any(f"api.change.{part}" in check.id for part in COMES_TO_LOCAL):
        return False
    return wants_after_an_update(check, POLICY, "Local") or wants_after_an_update(check, HEALTH_PORT)


BREAK = Break(
    "policy-lost-on-update",
    Group.COMPATIBILITY,
    "an admission policy drops externalTrafficPolicy Local from every update of a Service",
    # A load balancer's own controller updates Services, too, which lose their policy by that: paths are not asked.
    RunOptions(("compatibility",), ("api.client.", "api.change.", "api.old.")),
    lambda nodes: losing(nodes, "loses-the-policy", ("externalTrafficPolicy",), LOCAL),
    notices,
    names="does not know the field resets it",
    at_once=False,  # a run about the API alone never settles
)
