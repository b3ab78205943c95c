"""Changes to Node objects, with marks by which esipp undoes only its own changes.

The request that changes a node also sets an annotation with the run's owner (``host/pid``). A state that existed before
has no such mark; esipp neither sets nor removes it. ``OFF`` is no change to the object: the node's container is killed.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from esipp.base.errors import HarnessError
from esipp.base.json import Json
from esipp.base.waiting import Budget, Reading, converge
from esipp.cluster.client import ApiError, Cluster

EXCLUDE_LABEL = "node.kubernetes.io/exclude-from-external-load-balancers"
UNSCHEDULABLE_TAINT = "node.kubernetes.io/unschedulable"
AUTOSCALER_TAINT = "ToBeDeletedByClusterAutoscaler"

CHANGED = Budget("a change to an object", 20.0, need=1, spacing=0.1)


class RefusedError(HarnessError):
    """Nothing was done, because the state exists already or the change is not allowed."""


class Mark(StrEnum):
    """The annotation of a change; its value is the run's owner."""

    CORDONED = "esipp.dev/cordoned-by"
    EXCLUDED = "esipp.dev/excluded-by"
    TAINTED = "esipp.dev/tainted-by"
    OFF = "esipp.dev/switched-off-by"


CORDONED_BY = Mark.CORDONED.value

UNDOING = {
    Mark.CORDONED: "uncordoned node {}",
    Mark.EXCLUDED: "removed the exclusion label from node {}",
    Mark.TAINTED: "removed the autoscaler's taint from node {}",
    Mark.OFF: "started the container of node {}",
}
"""The messages about an undone change."""


@dataclass(frozen=True)
class Left:
    """A mark on a node."""

    node: str
    mark: Mark
    owner: str


def is_so(node: Json, mark: Mark) -> bool:
    """Whether a Node object has the state of a mark, whoever set it."""
    if mark is Mark.CORDONED:
        return bool(node.get("spec", {}).get("unschedulable"))
    if mark is Mark.TAINTED:
        return is_tainted(node, AUTOSCALER_TAINT)
    if mark is Mark.OFF:  # the object does not show it otherwise
        return owner_of(node, mark) is not None
    return EXCLUDE_LABEL in (node["metadata"].get("labels") or {})


def change(cluster: Cluster, name: str, mark: Mark, owner: str) -> None:
    """Change a node and set the mark.

    Raises:
        RefusedError: the node has that state already.
        ApiError, UnreachableError: the API server refuses or does not answer.
    """

    def make(node: Json) -> Json:
        if is_so(node, mark):
            by = owner_of(node, mark)
            who = f"run {by}" if by else "someone else"
            raise RefusedError(
                f"Node {name} is already {mark.name.lower()} by {who}.", f"see 'kubectl get node {name}'."
            )
        return _patch(mark, owner, node)

    rewrite(cluster, f"/api/v1/nodes/{name}", f"node {name}", make)


def undo(cluster: Cluster, name: str, mark: Mark, owner: str | None = None) -> bool:
    """Undo a change if its mark exists (of this owner, if given), and return whether there was one.

    Raises:
        ApiError, UnreachableError: the API server refuses or does not answer; a node that is gone is no error.
    """

    def make(node: Json) -> Json | None:
        by = owner_of(node, mark)
        return None if by is None or owner not in (None, by) else _patch(mark, None, node)

    try:
        return rewrite(cluster, f"/api/v1/nodes/{name}", f"node {name}", make)
    except ApiError as refused:
        if refused.status != 404:
            raise
        return False


def owner_of(node: Json, mark: Mark) -> str | None:
    """The owner of a mark on a Node object."""
    by = (node["metadata"].get("annotations") or {}).get(mark.value)
    return None if by is None else str(by)


def is_owned(cluster: Cluster, name: str, mark: Mark, owner: str) -> bool:
    """Whether a node has a mark of this owner; not if the node is gone.

    Raises:
        ApiError, UnreachableError: the API server refuses or does not answer.
    """
    return any(each == Left(name, mark, owner) for each in left_behind(cluster))


def left_behind(cluster: Cluster) -> list[Left]:
    """All marks on all nodes."""
    found = []
    for node in cluster.list("/api/v1/nodes"):
        for mark in Mark:
            by = owner_of(node, mark)
            found += [Left(node["metadata"]["name"], mark, by)] if by is not None else []
    return found


def read(cluster: Cluster, name: str) -> Json:
    """The Node object."""
    return cluster.request("GET", f"/api/v1/nodes/{name}")


def is_tainted(node: Json, *keys: str) -> bool:
    """Whether a node has a taint with one of these keys."""
    return any(taint["key"] in keys for taint in node.get("spec", {}).get("taints") or [])


def is_ready(item: Json) -> bool:
    """Whether a node or a pod has the condition Ready."""
    conditions = item.get("status", {}).get("conditions") or []
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _patch(mark: Mark, owner: str | None, node: Json) -> Json:
    """The merge patch that sets a mark, or without an owner the one that removes it."""
    body: Json = {"metadata": {"annotations": {mark.value: owner}}}
    if mark is Mark.CORDONED:
        return {**body, "spec": {"unschedulable": True if owner else None}}
    if mark is Mark.TAINTED:
        others = [each for each in node.get("spec", {}).get("taints") or [] if each["key"] != AUTOSCALER_TAINT]
        own = [{"key": AUTOSCALER_TAINT, "effect": "NoSchedule"}] if owner else []
        return {**body, "spec": {"taints": [*others, *own] or None}}
    if mark is Mark.OFF:
        return body
    body["metadata"]["labels"] = {EXCLUDE_LABEL: "" if owner else None}
    return body


def rewrite(cluster: Cluster, path: str, name: str, make: Callable[[Json], Json | None]) -> bool:
    """Read and patch an object, and retry after a conflict. Return whether there was something to write.

    Args:
        cluster: the cluster.
        path: the object's.
        name: the object's, as text.
        make: the merge patch for the object as it was read; None for no change.

    Raises:
        HarnessError: others change it all the time.
        ApiError, UnreachableError: the API server refuses or does not answer.
    """
    written = False

    def attempt() -> Reading:
        nonlocal written
        found = cluster.request("GET", path)
        body = make(found)
        if body is None:
            return Reading(True, "nothing to change")
        body["metadata"]["resourceVersion"] = found["metadata"].get("resourceVersion")
        try:
            cluster.patch(path, body, "merge-patch")
        except ApiError as refused:
            if refused.status != 409:
                raise
            return Reading(False, refused.message)
        written = True
        return Reading(True, "changed")

    converge(attempt, CHANGED).required(f"Cannot change {name}", "check which other client changes it all the time.")
    return written
