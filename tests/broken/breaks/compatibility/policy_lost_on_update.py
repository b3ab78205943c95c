"""The external traffic policy is lost with every update."""

from esipp.checks.api import HEALTH_PORT, POLICY
from esipp.checks.check import Row
from tests.broken.breakage import Asked, Break, Group
from tests.broken.controllers import losing
from tests.broken.edits import wants_after_an_update

LOCAL = "has(oldObject.spec.externalTrafficPolicy) && has(object.spec.externalTrafficPolicy) && "
LOCAL += "oldObject.spec.externalTrafficPolicy == 'Local' && object.spec.externalTrafficPolicy == 'Local'"


def notices(row: Row) -> bool:
    """Whether Local, or what follows from it, must be there after an update."""
    return wants_after_an_update(row, POLICY, "Local") or wants_after_an_update(row, HEALTH_PORT)


BREAK = Break(
    "policy-lost-on-update",
    Group.COMPATIBILITY,
    "admission drops externalTrafficPolicy Local from every update of a Service",
    Asked(("compatibility",)),
    lambda nodes: losing(nodes, "loses-the-policy", ("externalTrafficPolicy",), LOCAL),
    notices,
    names="does not know the field resets it",
    at_once=False,  # a run about the API alone never settles
)
