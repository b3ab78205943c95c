"""The agents: one DaemonSet with a host-network pod on each sampled node."""

from collections.abc import Mapping, Sequence
from typing import Any

from esipp.base.json import Json
from esipp.base.labels import RUN_LABEL, labels_of
from esipp.cluster.client import NOT_THERE, ApiError, Cluster
from esipp.testbed.manifests import POD_LABEL, agent_pod

NAME = "agent"
"""The name of the DaemonSet, and of every agent in ``esipp.dev/pod``; Kubernetes generates the pods' own names."""


def daemon_set(run: str, image: str, nodes: Sequence[str], *, raw: bool) -> Json:
    """The DaemonSet of the agents for these nodes.

    Each node has its own alternative term, because a requirement on a field has one value (``NodeSelectorTerm`` in the
    API). The controller replaces the terms with a pod's own node. The scheduler ignores the node's taints.
    """
    pod = agent_pod(NAME, run, "", image, raw=raw)
    del pod["spec"]["nodeName"]
    terms = [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": [node]}]} for node in nodes]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    template = {
        "metadata": {name: pod["metadata"][name] for name in ("labels", "annotations")},
        "spec": {**pod["spec"], "affinity": {"nodeAffinity": required}},
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": NAME, "labels": labels_of(run)},
        "spec": {
            "selector": {"matchLabels": {RUN_LABEL: run, POD_LABEL: NAME}},
            # no rollouts: a change of an agent would end the run
            "updateStrategy": {"type": "OnDelete"},
            "template": template,
        },
    }


def create(cluster: Cluster, namespace: str, made: Json) -> Json:
    """Create the DaemonSet after a dry run of one of its pods, whose refusal would otherwise only be an event.

    Raises:
        ApiError: the API server refuses such a pod, or the DaemonSet.
        UnreachableError: the API server does not answer.
    """
    template = made["spec"]["template"]
    pod = {"apiVersion": "v1", "kind": "Pod", **template, "metadata": {**template["metadata"], "name": NAME}}
    try:
        cluster.request("POST", f"/api/v1/namespaces/{namespace}/pods", query={"dryRun": "All"}, body=pod)
    except ApiError as refused:
        if refused.reason != NOT_THERE and "dry run" not in refused.message:  # a webhook without support for dry runs
            raise
    return cluster.create(f"/apis/apps/v1/namespaces/{namespace}/daemonsets", made)


def node_of(pod: Mapping[str, Any]) -> str:
    """The node of an agent, even if it is not scheduled yet; empty for any other pod."""
    if ((pod["metadata"].get("labels") or {}).get(POD_LABEL)) != NAME:
        return ""
    spec = pod["spec"]
    if spec.get("nodeName"):
        return str(spec["nodeName"])
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    terms = (affinity.get("requiredDuringSchedulingIgnoredDuringExecution") or {}).get("nodeSelectorTerms") or []
    fields = [field for term in terms for field in term.get("matchFields") or ()]
    named = [value for field in fields if field.get("key") == "metadata.name" for value in field.get("values") or ()]
    return str(named[0]) if len(named) == 1 else ""


def key_of(pod: Mapping[str, Any]) -> str:
    """The wait key of a pod: its name, or for an agent a text with its node, because its name is generated."""
    node = node_of(pod)
    return waited_for(node) if node else str(pod["metadata"]["name"])


def waited_for(node: str) -> str:
    """The wait key of an agent; it contains spaces, unlike any pod's name."""
    return f"the agent on {node}"
