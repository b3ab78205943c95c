"""Snapshots of `kubectl get all,nodes -A -o yaml` without volatile fields, and their differences."""

import re
import subprocess
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from esipp.base.json import Json

BY_ITSELF = {
    "resourceVersion": "every write changes it, also those of what is the same",
    "managedFields": "who wrote last, with the time",
    "lastHeartbeatTime": "a node's kubelet tells its status every few minutes",
    "lastTransitionTime": "a condition that changed and is as it was again keeps the time; what it says is compared",
    "lastUpdateTime": "likewise, a Deployment's",
    "lastProbeTime": "likewise, a pod's",
    "generation": "every change of a spec counts, also one that is undone; what a spec says is compared",
    "observedGeneration": "likewise",
    "deprecated.daemonset.template.generation": "likewise, a DaemonSet's template",
    "pod-template-generation": "likewise, in its pods",
    "restartCount": "what loses its leader election while the API server is away ends, and is started anew",
    "containerID": "a container that was started anew is another one",
    "startedAt": "likewise; that it runs is compared",
    "lastState": "likewise: how the one before it ended",
    "images": "a node's list of images, in an order of its own; what was pulled for a run stays until it is collected",
}
"""Names of fields that are left out wherever they are, and why."""

OF_DAEMON_PODS = {
    "metadata.name": "a DaemonSet's pod that was restarted is another one, with another suffix",
    "metadata.uid": "likewise",
    "metadata.creationTimestamp": "likewise",
    "status.startTime": "likewise",
    "status.resources": "what a kubelet reads back of a new pod's cgroup, up to a minute after it runs",
}
"""What is left out of the pods of DaemonSets, which DaemonSet and node identify."""

OF_PODS = {
    "status.podIP": "a pod that was replaced, or whose node was restarted, may have another address",
    "status.podIPs": "likewise",
}
"""What is left out of all pods."""

OF_NODES = {
    "metadata.uid": "a Node object that was registered again is another one",
    "metadata.creationTimestamp": "likewise",
    "status.nodeInfo.machineID": "kind's entrypoint draws another one each time that a node's container starts",
    "status.nodeInfo.systemUUID": "likewise, where the machine has no DMI, the kubelet takes it from there",
}
"""What is left out of Nodes."""

TOKEN_VOLUME = re.compile(r"kube-api-access-[a-z0-9]{5}")
"""The volume of a pod's token has a random suffix."""


def take(context: str, kubeconfig: str | None = None) -> Json:
    """The cluster as kubectl shows it, normalised."""
    command = ["kubectl", "--context", context, *(["--kubeconfig", kubeconfig] if kubeconfig else [])]
    command += ["get", "all,nodes", "--all-namespaces", "--output", "yaml"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return normalised(yaml.load(done.stdout, yaml.CSafeLoader)["items"])


def normalised(items: list[Json]) -> Json:
    """Objects by their names, without what changes by itself."""
    return {_key(item): _scrubbed(_without_replacement(item)) for item in items}


def differences(before: Any, after: Any, path: str = "") -> Iterator[str]:
    """One line for each difference."""
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in sorted({*before, *after}):
            here = f"{path}.{name}" if path else str(name)
            if name not in after:
                yield f"{here} is missing; it was {_short(before[name])}"
            elif name not in before:
                yield f"{here} is new: {_short(after[name])}"
            else:
                yield from differences(before[name], after[name], here)
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for number, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from differences(one, other, f"{path}[{number}]")
    elif before != after:
        yield f"{path} was {_short(before)}, and is {_short(after)}"


def _key(item: Json) -> str:
    metadata = item["metadata"]
    name = metadata["name"]
    daemon_set = _daemon_set(item)
    if daemon_set:
        name = f"{daemon_set} on {item['spec'].get('nodeName', 'no node')}"
        if metadata.get("deletionTimestamp"):
            name += " (leaving)"  # its successor may be there already
    return f"{item['kind']} {metadata.get('namespace', '')}/{name}"


def _daemon_set(item: Json) -> str:
    owners = item["metadata"].get("ownerReferences") or [] if item["kind"] == "Pod" else []
    return next((str(owner["name"]) for owner in owners if owner["kind"] == "DaemonSet"), "")


def _without_replacement(item: Json) -> Json:
    left_out = {"Pod": OF_PODS, "Node": OF_NODES}.get(item["kind"], {})
    left_out = left_out | OF_DAEMON_PODS if _daemon_set(item) else left_out
    for path in left_out:
        item = _without(item, path.split("."))
    return item


def _without(value: Any, path: list[str]) -> Any:
    """A copy without the field of this path."""
    if not isinstance(value, Mapping) or path[0] not in value:
        return value
    kept = {name: each for name, each in value.items() if name != path[0]}
    return kept if len(path) == 1 else {**kept, path[0]: _without(value[path[0]], path[1:])}


def _scrubbed(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _scrubbed(each) for name, each in value.items() if name not in BY_ITSELF}
    if isinstance(value, list):
        # conditions and taints are sets: their order is the writer's
        named = [_scrubbed(each) for each in value]
        return sorted(named, key=lambda each: str(each.get("type") or each.get("key"))) if _is_set(named) else named
    return TOKEN_VOLUME.sub("kube-api-access", value) if isinstance(value, str) else value


def _is_set(values: list[Any]) -> bool:
    return bool(values) and all(isinstance(each, Mapping) and ("type" in each or "effect" in each) for each in values)


def _short(value: Any) -> str:
    text = " ".join(str(value).split())
    return text if len(text) <= 120 else f"{text[:117]}..."
