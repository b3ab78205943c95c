"""The policy about address families is lost with every update that changes it."""

from tests.broken.breakage import Break, Group, RunOptions
from tests.broken.controllers import losing

CHANGES = "has(oldObject.spec.ipFamilyPolicy) && has(object.spec.ipFamilyPolicy) && "
CHANGES += "oldObject.spec.ipFamilyPolicy != object.spec.ipFamilyPolicy"

BREAK = Break(
    "family-policy-lost-on-update",
    Group.COMPATIBILITY,
    "an admission policy drops ipFamilyPolicy from every update of a Service that changes it",
    RunOptions(("compatibility",), ("api.families.", "api.change.")),
    lambda nodes: losing(nodes, "loses-the-family-policy", ("ipFamilyPolicy",), CHANGES),
    lambda check: check.id in ("api.families.removed", "api.families.added"),
    names="keeps its families",
    at_once=False,  # a run about the API alone never settles
)
