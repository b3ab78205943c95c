"""What of a cluster can be disturbed, found in preflight; nothing is changed."""

from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor

from esipp.cluster import ApiError, Cluster, UnreachableError
from esipp.disruption import shell
from esipp.disruption.model import Disruption
from esipp.disruption.restarts import pods_feature
from esipp.errors import HarnessError
from esipp.rows import Feature

Way = Callable[[str, list[str]], "list[str] | None"]
"""How a command is run on a node; None where there is no way."""


def disruption_features(cluster: Cluster, machines: Mapping[str, str], way: Way) -> dict[str, Feature]:
    """The features of ``Disruption`` beside ``disruptive`` itself.

    Args:
        cluster: the cluster.
        machines: each node's machine id, as its status tells it.
        way: how a command is run on a node.
    """
    reached = _reached(machines, way)
    lost = sorted(set(machines) - reached)
    found = {
        "kube-proxy.pods": pods_feature(cluster, Disruption.KUBE_PROXY),
        "load-balancer.speaker": pods_feature(cluster, Disruption.SPEAKER),
        "nodes.shell": Feature(
            not lost, f"node {lost[0]} is no container here" if lost else "docker exec reaches every node"
        ),
    }
    found["control-plane.reachable"] = _control_plane(cluster, reached)
    return found


def _reached(machines: Mapping[str, str], way: Way) -> set[str]:
    """The nodes that are containers of the engine here: a container of a node's name may be another cluster's."""

    def look(node: str) -> bool:
        command = way(node, [])
        try:
            done = shell.run(command, "cat /etc/machine-id") if command else None
        except HarnessError:
            return False
        return done is not None and done.returncode == 0 and done.stdout.strip() == machines[node]

    with ThreadPoolExecutor(max_workers=8) as pool:
        return {node for node, held in zip(machines, pool.map(look, machines), strict=True) if held}


def _control_plane(cluster: Cluster, reached: set[str]) -> Feature:
    try:
        pods = cluster.list("/api/v1/namespaces/kube-system/pods", labelSelector="component=kube-apiserver")
    except (ApiError, UnreachableError) as broken:
        return Feature(False, f"pods of kube-system cannot be listed: {broken}")
    on = sorted({pod["spec"].get("nodeName", "") for pod in pods})
    lost = [node for node in on if node not in reached]
    if not on:
        return Feature(False, "no pod has the label component=kube-apiserver")
    return Feature(not lost, f"node {lost[0]} is no container here" if lost else f"docker exec reaches {', '.join(on)}")
