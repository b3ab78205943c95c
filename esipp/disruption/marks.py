"""What is done to Node objects, and the marks by which it is undone: ours, and nobody else's.

An annotation beside each change says which run made it (``host/pid``), in the same request. What was there before has
no such mark: it is neither made anew nor taken away.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from esipp.base.errors import HarnessError
from esipp.base.waiting import Budget, Reading, converge
from esipp.cluster.client import ApiError, Cluster

Json = dict[str, Any]

EXCLUDE_LABEL = "node.kubernetes.io/exclude-from-external-load-balancers"
UNSCHEDULABLE_TAINT = "node.kubernetes.io/unschedulable"

CHANGED = Budget("a Node object being changed", 20.0, need=1, spacing=0.1)


class RefusedError(HarnessError):
    """Nothing was done: it is so already, by somebody else's doing, or it is not allowed."""


class Mark(StrEnum):
    """The annotations; the value of each is the run's owner."""

    CORDONED = "esipp.dev/cordoned-by"
    EXCLUDED = "esipp.dev/excluded-by"


CORDONED_BY = Mark.CORDONED.value

UNDOING = {Mark.CORDONED: "uncordoned node {}", Mark.EXCLUDED: "took the label off that excluded node {}"}
"""What is said when it was undone."""


@dataclass(frozen=True)
class Left:
    """A mark that was found on a node."""

    node: str
    mark: Mark
    owner: str


def is_so(node: Json, mark: Mark) -> bool:
    """Whether a Node object shows what the mark stands for, whoever did it."""
    if mark is Mark.CORDONED:
        return bool(node.get("spec", {}).get("unschedulable"))
    return EXCLUDE_LABEL in (node["metadata"].get("labels") or {})


def change(cluster: Cluster, name: str, mark: Mark, owner: str) -> None:
    """Make it so, marked as ours.

    Raises:
        RefusedError: it is so already.
        ApiError, UnreachableError: of the API server.
    """

    def make(node: Json) -> Json:
        if is_so(node, mark):
            by = owner_of(node, mark)
            who = f"run {by}" if by else "somebody else"
            raise RefusedError(f"Node {name} is {mark.name.lower()} already, by {who}.", f"kubectl get node {name}")
        return _patch(mark, owner)

    _rewrite(cluster, name, make)


def undo(cluster: Cluster, name: str, mark: Mark, owner: str | None = None) -> bool:
    """Undo it if the mark is there, and of this owner if one is named; whether there was anything to undo.

    Raises:
        ApiError, UnreachableError: of the API server; a node that is gone has nothing to undo.
    """

    def make(node: Json) -> Json | None:
        by = owner_of(node, mark)
        return None if by is None or owner not in (None, by) else _patch(mark, None)

    try:
        return _rewrite(cluster, name, make)
    except ApiError as refused:
        if refused.status != 404:
            raise
        return False


def owner_of(node: Json, mark: Mark) -> str | None:
    """Whose mark a Node object bears."""
    by = (node["metadata"].get("annotations") or {}).get(mark.value)
    return None if by is None else str(by)


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
    """Whether it has a taint with one of these keys."""
    return any(taint["key"] in keys for taint in node.get("spec", {}).get("taints") or [])


def is_ready(item: Json) -> bool:
    """Whether a node or a pod has the condition Ready."""
    conditions = item.get("status", {}).get("conditions") or []
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _patch(mark: Mark, owner: str | None) -> Json:
    """The change, or, without an owner, what undoes it; a null takes away."""
    body: Json = {"metadata": {"annotations": {mark.value: owner}}}
    if mark is Mark.CORDONED:
        return {**body, "spec": {"unschedulable": True if owner else None}}
    body["metadata"]["labels"] = {EXCLUDE_LABEL: "" if owner else None}
    return body


def _rewrite(cluster: Cluster, name: str, make: Callable[[Json], Json | None]) -> bool:
    """Read, decide, and write only if nobody has written meanwhile; whether it was written."""
    written = False

    def attempt() -> Reading:
        nonlocal written
        node = read(cluster, name)
        body = make(node)
        if body is None:
            return Reading(True, "nothing to change")
        body["metadata"]["resourceVersion"] = node["metadata"].get("resourceVersion")
        try:
            cluster.patch(f"/api/v1/nodes/{name}", body, "merge-patch")
        except ApiError as refused:
            if refused.status != 409:
                raise
            return Reading(False, refused.message)
        written = True
        return Reading(True, "changed")

    waited = converge(attempt, CHANGED)
    if not waited.held:
        raise HarnessError(f"Node {name} cannot be changed: {waited}", "who else writes to it all the time?")
    return written
