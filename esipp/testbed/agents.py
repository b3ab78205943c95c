"""The agents: a pod on the host network of each sampled node, all of one DaemonSet, which Kubernetes places."""

from collections.abc import Mapping, Sequence
from typing import Any

from esipp.base.labels import RUN_LABEL, labels_of
from esipp.cluster.client import NOT_THERE, ApiError, Cluster
from esipp.testbed.manifests import POD_LABEL, agent_pod

Json = dict[str, Any]

NAME = "agent"
"""Of the DaemonSet, and of every agent in ``esipp.dev/pod``; the pods' own names are Kubernetes' choice."""


def daemon_set(run: str, image: str, nodes: Sequence[str], *, raw: bool) -> Json:
    """Agents for these nodes.

    A term a node, which are alternatives: a requirement on a field has one value (``NodeSelectorTerm`` of the API).
    The controller puts a pod's own node in their place; the scheduler binds it, whatever taints the node has.
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
            # nothing is ever rolled out anew: whoever changes an agent ends the run
            "updateStrategy": {"type": "OnDelete"},
            "template": template,
        },
    }


def create(cluster: Cluster, namespace: str, made: Json) -> Json:
    """Create the DaemonSet; a pod of it is tried by a dry run first, as a refusal would else be an event only.

    Raises:
        ApiError: such a pod, or the DaemonSet, is refused.
        UnreachableError: no answer.
    """
    template = made["spec"]["template"]
    pod = {"apiVersion": "v1", "kind": "Pod", **template, "metadata": {**template["metadata"], "name": NAME}}
    try:
        cluster.request("POST", f"/api/v1/namespaces/{namespace}/pods", query={"dryRun": "All"}, body=pod)
    except ApiError as refused:
        if refused.reason != NOT_THERE and "dry run" not in refused.message:  # a webhook that knows none
            raise
    return cluster.create(f"/apis/apps/v1/namespaces/{namespace}/daemonsets", made)


def node_of(pod: Mapping[str, Any]) -> str:
    """The node of an agent, also of one that waits for the scheduler; empty for any other pod."""
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
    """By what a pod is waited for: its name, or of an agent, which has none that is known before, its node."""
    node = node_of(pod)
    return waited_for(node) if node else str(pod["metadata"]["name"])


def waited_for(node: str) -> str:
    """See ``key_of``; no pod's name has a space."""
    return f"the agent on {node}"
