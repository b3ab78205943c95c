"""A Node object that is deleted while the node works on, and registered again."""

from dataclasses import dataclass, field

from esipp.base.errors import HarnessError
from esipp.base.json import Json
from esipp.base.waiting import Budget, Reading, converge
from esipp.cluster.client import ApiError
from esipp.disruption import marks, shell
from esipp.disruption.services import OnNodes, wait_for_node

DELETED = Budget("deletion of a Node object", 10.0, need=1, spacing=0.1)
KEPT = ("labels", "annotations"), ("podCIDRs", "providerID", "taints", "unschedulable")
"""What of ``metadata`` and ``spec`` the node must have again: kubelets alone do not set all of it."""


@dataclass
class NodeDeleted(OnNodes):
    """A Node object deleted by this run.

    The node saves the object before, and creates it again with its own account: without this run, too.
    """

    _before: Json = field(default_factory=dict, init=False)

    def do(self) -> None:
        """Let the node save its object, and delete the object in the version that is seen then, and in no later one."""
        self._before = marks.read(self.cluster, self._node)
        super().do()

        def attempt() -> Reading:
            version = marks.read(self.cluster, self._node)["metadata"].get("resourceVersion")
            body: Json = {"preconditions": {"resourceVersion": version}}
            try:
                self.cluster.request("DELETE", f"/api/v1/nodes/{self._node}", body=body)
            except ApiError as refused:
                if refused.status != 409:  # its kubelet has just reported
                    raise
                return Reading(False, refused.message)
            return Reading(True, "deleted")

        converge(attempt, DELETED).required(f"Cannot delete Node {self._node}", "check which other client changes it.")

    def back(self) -> str:
        """Wait until the node is ready, and check that it has what it had."""
        waited = wait_for_node(self.cluster, self._node)
        now = marks.read(self.cluster, self._node)
        if lost := _differing(self._before, now):
            raise HarnessError(
                f"Node {self._node} was registered again with other {', '.join(lost)}.",
                f"see 'kubectl get node {self._node} -o yaml'.",
            )
        return f"registered again, and ready after {waited:.1f} s"

    def _check_stopped(self) -> str:
        try:
            marks.read(self.cluster, self._node)
        except ApiError as refused:
            if refused.status == 404:
                return shell.SERVICES[self.what].state
            raise
        raise HarnessError(
            f"Node {self._node} should be deleted: it is still there, or it was registered meanwhile.",
            "check who registers nodes here.",
        )


def _differing(before: Json, now: Json) -> list[str]:
    """What a node had and has no longer; controllers may have added to it."""
    found = []
    for part, names in zip(("metadata", "spec"), KEPT, strict=True):
        for name in names:
            old, new = before.get(part, {}).get(name), now.get(part, {}).get(name)
            kept = old.items() <= (new or {}).items() if isinstance(old, dict) else old is None or old == new
            found += [] if kept else [name]
    return found
