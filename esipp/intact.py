"""Whether our own pods are those that were arranged: what they missed says nothing about the product."""

import contextlib
from collections.abc import Iterable, Mapping
from typing import Any

from esipp.cluster import ApiError, Cluster, UnreachableError
from esipp.errors import HarnessError
from esipp.pods import HARMED, changed, harm

Json = dict[str, Any]


def compare(
    cluster: Cluster,
    pods: Iterable[Json],
    known: Mapping[str, tuple[str, int, str]],
    nodes: Mapping[str, str] | None = None,
) -> None:
    """Hold our pods, as they are now, against what they were.

    Args:
        cluster: asked for the node of a pod that is not what it was.
        pods: all of ours, also those that come and go with a suite.
        known: those that must be the same, with their identity then.
        nodes: where those stand whose names do not tell.

    Raises:
        HarnessError: one is gone, or something happened to it.
    """
    now = {item["metadata"]["name"]: item for item in pods}
    for name, then in known.items():
        state = changed(now[name], then) if name in now else "is gone"
        if state:
            node = _of_node(cluster, now[name]["spec"].get("nodeName", "")) if name in now else ""
            where = f" (on node {nodes[name]})" if nodes and name in nodes else ""
            raise HarnessError(f"Our own pod {name}{where} {state}{node}: the window cannot be judged.", HARMED)
    for name, item in now.items():
        if name not in known and harm(item):
            raise HarnessError(f"Our own pod {name} {harm(item)}: what was seen cannot be judged.", HARMED)


def _of_node(cluster: Cluster, node: str) -> str:
    """That a node is not ready, or since when it is."""
    with contextlib.suppress(ApiError, UnreachableError):
        for item in cluster.list("/api/v1/nodes", fieldSelector=f"metadata.name={node}"):
            for each in item.get("status", {}).get("conditions") or []:
                if each["type"] == "Ready" and each["status"] != "True":
                    return f", and its node {node} is lost ({each.get('message') or each.get('reason')})"
                if each["type"] == "Ready" and each.get("lastTransitionTime"):
                    return f"; its node {node} is ready since {each['lastTransitionTime']}"
    return ""
