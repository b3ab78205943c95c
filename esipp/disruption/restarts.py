"""Pods of DaemonSets that are deleted, to come again: kube-proxy, and a load balancer's speaker."""

from typing import Any

from esipp.base.errors import HarnessError
from esipp.base.interrupt import Stop
from esipp.base.waiting import Budget, Reading, converge
from esipp.checks.check import Feature
from esipp.checks.disruption import Disruption
from esipp.cluster.client import ApiError, Cluster, UnreachableError
from esipp.disruption.marks import is_ready
from esipp.disruption.rollback import Undo

Json = dict[str, Any]

GONE = Budget("a pod being told to end", 30.0, need=1, spacing=0.1)
AGAIN = Budget("the DaemonSet's next pod being ready", 120.0, need=1, spacing=0.2)

KINDS = {
    Disruption.KUBE_PROXY: ("/api/v1/namespaces/kube-system/pods", ("k8s-app=kube-proxy",)),
    Disruption.SPEAKER: ("/api/v1/pods", ("app=metallb,component=speaker", "app.kubernetes.io/component=speaker")),
}
"""Where the pods are, and the labels by which they are known: kubeadm's, and those of MetalLB's manifests and chart."""


def daemon_pods(cluster: Cluster, what: Disruption) -> list[Json]:
    """The pods of that kind that a DaemonSet has made."""
    collection, selectors = KINDS[what]
    found = {}
    for selector in selectors:
        for pod in cluster.list(collection, labelSelector=selector):
            if daemon_set(pod):
                found[pod["metadata"]["uid"]] = pod
    return list(found.values())


def daemon_set(pod: Json) -> str:
    """The DaemonSet that will bring another pod in this one's place; "" if none will."""
    owners = pod["metadata"].get("ownerReferences") or []
    return next((str(each["uid"]) for each in owners if each["kind"] == "DaemonSet" and each.get("controller")), "")


def pods_feature(cluster: Cluster, what: Disruption) -> Feature:
    """Whether there are pods that can be restarted like that."""
    collection, selectors = KINDS[what]
    try:
        pods = daemon_pods(cluster, what)
    except (ApiError, UnreachableError) as broken:
        return Feature(False, f"{collection} cannot be listed: {broken}")
    labelled = f"with {' or '.join(selectors)}, of a DaemonSet"
    return Feature(bool(pods), f"{len(pods)} pods {labelled}" if pods else f"no pod {labelled}")


class Restart:
    """The pods of one kind on a node, or on all of them one after the other; the last is coming while others look on.

    There is nothing to undo: the DaemonSet does, whatever becomes of us.
    """

    undos: tuple[Undo, ...] = ()

    def __init__(self, cluster: Cluster, what: Disruption, node: str) -> None:
        self._cluster, self._what, self._node = cluster, what, node
        self._last: Json = {}

    def do(self) -> None:
        """Nothing yet: no part of it needs to be shielded."""

    def prove(self, stop: Stop) -> str:
        """Each pod is told to end, and each but the last has a successor."""
        pods = [p for p in daemon_pods(self._cluster, self._what) if self._node in ("", p["spec"].get("nodeName"))]
        if not pods:
            raise HarnessError(f"There is no pod of {self._what} on {self._node or 'any node'}.", "kubectl get pods -A")
        said = []
        for pod in sorted(pods, key=lambda pod: str(pod["spec"]["nodeName"])):
            if self._last:
                said.append(self._successor())
            stop.check()
            self._end(pod)
            self._last = pod
        return "; ".join([*said, f"deleted {_named(self._last)}"])

    def lasts(self) -> str:
        """How long it takes is not ours to say."""
        return ""

    def back(self) -> str:
        """The last one has a successor, too; nothing to wait for where none was deleted."""
        return self._successor() if self._last else ""

    def _end(self, pod: Json) -> None:
        path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
        self._cluster.delete(path)

        def look() -> Reading:
            try:
                now = self._cluster.request("GET", path)["metadata"]
            except ApiError as refused:
                return Reading(refused.status == 404, refused.message)
            ends = now["uid"] != pod["metadata"]["uid"] or bool(now.get("deletionTimestamp"))
            return Reading(ends, "told to end" if ends else "not told to end")

        waited = converge(look, GONE)
        if not waited.held:
            raise HarnessError(f"Pod {_named(pod)} is not deleted: {waited}", f"kubectl get --raw {path}")

    def _successor(self) -> str:
        before, node = self._last, self._last["spec"]["nodeName"]
        found: list[Json] = []

        def look() -> Reading:
            try:
                pods = daemon_pods(self._cluster, self._what)
            except UnreachableError as silent:
                return Reading(False, str(silent))
            there = [p for p in pods if p["spec"].get("nodeName") == node and daemon_set(p) == daemon_set(before)]
            found[:] = [p for p in there if p["metadata"]["uid"] != before["metadata"]["uid"]]
            ready = len(there) == len(found) == 1 and is_ready(found[0])
            return Reading(ready, ", ".join(_named(pod) for pod in there) or "no pod")

        waited = converge(look, AGAIN)
        if not waited.held:
            raise HarnessError(f"No other pod is ready in place of {_named(before)}: {waited}", "kubectl get pods -A")
        return f"{_named(before)} was replaced by {_named(found[0])} on {node}"


def _named(pod: Json) -> str:
    return f"{pod['metadata']['name']} (uid {pod['metadata']['uid']})"
