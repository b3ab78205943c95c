"""A controller that acts on an obsolete annotation."""

from contextlib import AbstractContextManager

from esipp.base.json import Json
from esipp.checks.check import Check, is_about
from esipp.checks.model import OldForm
from esipp.checks.path import OnPath
from esipp.testbed.manifests import OLD_ANNOTATIONS
from tests.broken.breakage import Break, Group, RunOptions
from tests.broken.controllers import controller
from tests.broken.nodes import Nodes, Placed


def old_controller(nodes: Nodes) -> AbstractContextManager[Placed]:
    """What a controller of 1.4 to 1.7 did: OnlyLocal in the annotation makes the policy Local."""

    def act(path: str, service: Json) -> bool:
        notes = service["metadata"].get("annotations") or {}
        asks = any(notes.get(key) == OldForm.ONLY_LOCAL for key in OLD_ANNOTATIONS)
        if not asks or service["spec"].get("externalTrafficPolicy") == "Local":
            return False
        nodes.cluster.patch(path, {"spec": {"externalTrafficPolicy": "Local"}}, "merge-patch")
        return True

    return controller(nodes, act)


def notices(check: Check) -> bool:
    """With Local in truth: the bare node falls silent, and the endpoint's node does not rewrite the source any more."""
    if is_about(check, OnPath):
        service = check.subject.path.service
        annotated = service is not None and service.old_form is OldForm.ONLY_LOCAL
        return annotated and not check.id.endswith("to-endpoint-node.answers")
    return check.id.endswith(".not-heard")


BREAK = Break(
    "old-annotation-takes-effect",
    Group.COMPATIBILITY,
    "an old controller sets the policy Local on Services with the beta annotation OnlyLocal",
    # Services that stand while they are looked at, and one that is read again a while after it was made.
    RunOptions(("compatibility",)),
    old_controller,
    notices,
    # The controller acts a moment after a request: an answer before that moment shows the policy that was asked for.
    may=lambda check: check.id.startswith("api.old.") and ".onlylocal." in check.id,
    names="annotation",
    scoped=True,
    fixed=True,
)
