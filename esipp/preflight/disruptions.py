"""Preflight for disruptive checks: which disruptions are possible. It changes nothing."""

from collections.abc import Collection

from esipp.checks.check import Feature
from esipp.checks.disruption import Disruption
from esipp.cluster.client import ApiError, Cluster, UnreachableError
from esipp.disruption.restarts import agent_pods, pods_feature


def disruption_features(cluster: Cluster, nodes: Collection[str], reached: Collection[str]) -> dict[str, Feature]:
    """The features of ``Disruption``, except ``disruptive`` itself.

    Args:
        cluster: the cluster.
        nodes: all nodes of the cluster.
        reached: nodes that are proven to be containers on this machine (``node_containers.proven``).
    """
    lost = sorted(set(nodes) - set(reached))
    found = {
        "kube-proxy.pods": pods_feature(cluster, Disruption.KUBE_PROXY),
        "load-balancer.speaker": pods_feature(cluster, Disruption.SPEAKER),
        "network-add-on.agents": pods_feature(cluster, Disruption.NETWORK_AGENT),
        "load-balancer.controller": _controller(cluster, reached),
        "nodes.shell": Feature(
            not lost,
            f"node {lost[0]} is not a container on this machine" if lost else "docker exec reaches every node",
        ),
    }
    found["control-plane.reachable"] = _control_plane(cluster, reached)
    return found


def _controller(cluster: Cluster, reached: Collection[str]) -> Feature:
    """Whether the controller of the cluster's own load balancer runs on nodes that can be reached."""
    found = pods_feature(cluster, Disruption.CONTROLLER_STOPPED)
    if not found.present:
        return found
    nodes = {pod["spec"].get("nodeName", "") for pod in agent_pods(cluster, Disruption.CONTROLLER_STOPPED)}
    return _reached(sorted(nodes), reached)


def _control_plane(cluster: Cluster, reached: Collection[str]) -> Feature:
    try:
        pods = cluster.list("/api/v1/namespaces/kube-system/pods", labelSelector="component=kube-apiserver")
    except (ApiError, UnreachableError) as broken:
        return Feature(False, f"cannot list the pods of kube-system: {broken}")
    on = sorted({pod["spec"].get("nodeName", "") for pod in pods})
    if not on:
        return Feature(False, "no pod has the label component=kube-apiserver")
    return _reached(on, reached)


def _reached(nodes: Collection[str], reached: Collection[str]) -> Feature:
    lost = [node for node in nodes if node not in reached]
    if lost:
        return Feature(False, f"node {lost[0]} is not a container on this machine")
    return Feature(True, f"docker exec reaches {', '.join(nodes)}")
