"""Session affinity is lost with every update."""

from esipp.checks.api import AFFINITY
from esipp.checks.check import Check
from tests.broken.breakage import Break, Group, RunOptions
from tests.broken.controllers import losing
from tests.broken.edits import wants_after_an_update

STICKY = "object.spec.sessionAffinity == 'ClientIP'"


def notices(check: Check) -> bool:
    """Whether affinity must be there after an update."""
    return wants_after_an_update(check, AFFINITY, "ClientIP")


BREAK = Break(
    "affinity-lost-on-update",
    Group.COMPATIBILITY,
    "an admission policy drops sessionAffinity from every update of a Service",
    RunOptions(("compatibility",)),
    lambda nodes: losing(nodes, "loses-affinity", ("sessionAffinity", "sessionAffinityConfig"), STICKY),
    notices,
    names="clients lose their session affinity",
    at_once=False,  # a run about the API alone never settles
)
