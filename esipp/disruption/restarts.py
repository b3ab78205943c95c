"""Restarts of DaemonSets' pods: kube-proxy, and a load balancer's speaker."""

from esipp.base.errors import HarnessError
from esipp.base.interrupt import Stop
from esipp.base.json import Json
from esipp.base.waiting import Budget, Reading, converge
from esipp.checks.check import Feature
from esipp.checks.disruption import Disruption
from esipp.cluster.client import ApiError, Cluster, UnreachableError
from esipp.disruption.marks import is_ready
from esipp.disruption.rollback import Undo

GONE = Budget("termination of a pod", 30.0, need=1, spacing=0.1)
AGAIN = Budget("the DaemonSet's next pod to be ready", 120.0, need=1, spacing=0.2)

KINDS = {
    Disruption.KUBE_PROXY: ("/api/v1/namespaces/kube-system/pods", ("k8s-app=kube-proxy",)),
    Disruption.SPEAKER: ("/api/v1/pods", ("app=metallb,component=speaker", "app.kubernetes.io/component=speaker")),
}
"""The API paths and labels of the pods: kubeadm's, and those of MetalLB's manifests and chart."""


def daemon_pods(cluster: Cluster, what: Disruption) -> list[Json]:
    """The pods of a kind that belong to a DaemonSet."""
    collection, selectors = KINDS[what]
    found = {}
    for selector in selectors:
        for pod in cluster.list(collection, labelSelector=selector):
            if daemon_set(pod):
                found[pod["metadata"]["uid"]] = pod
    return list(found.values())


def daemon_set(pod: Json) -> str:
    """The uid of the DaemonSet that will replace a pod; "" if there is none."""
    owners = pod["metadata"].get("ownerReferences") or []
    return next((str(each["uid"]) for each in owners if each["kind"] == "DaemonSet" and each.get("controller")), "")


def pods_feature(cluster: Cluster, what: Disruption) -> Feature:
    """Whether there are such pods."""
    collection, selectors = KINDS[what]
    try:
        pods = daemon_pods(cluster, what)
    except (ApiError, UnreachableError) as broken:
        return Feature(False, f"cannot list {collection}: {broken}")
    labelled = f"with {' or '.join(selectors)}, of a DaemonSet"
    return Feature(bool(pods), f"{len(pods)} pods {labelled}" if pods else f"no pod {labelled}")


class Restart:
    """The restart of the pods of a kind, on a node or on all nodes one after the other.

    The last replacement starts while the caller observes. The DaemonSet replaces the pods, so there is no rollback.
    """

    undos: tuple[Undo, ...] = ()

    def __init__(self, cluster: Cluster, what: Disruption, node: str) -> None:
        self._cluster, self._what, self._node = cluster, what, node
        self._last: Json = {}

    def do(self) -> None:
        """Do nothing yet; no part of a restart needs a shield."""

    def prove(self, stop: Stop) -> str:
        """Delete each pod, and wait until each one except the last is replaced."""
        pods = [p for p in daemon_pods(self._cluster, self._what) if self._node in ("", p["spec"].get("nodeName"))]
        if not pods:
            raise HarnessError(
                f"There is no pod of {self._what} on {self._node or 'any node'}.", "see 'kubectl get pods -A'."
            )
        said = []
        for pod in sorted(pods, key=lambda pod: str(pod["spec"]["nodeName"])):
            if self._last:
                said.append(self._successor())
            stop.check()
            self._end(pod)
            self._last = pod
        return "; ".join([*said, f"deleted {_named(self._last)}"])

    def lasts(self) -> str:
        """Check nothing, because the duration of a restart is undefined."""
        return ""

    def back(self) -> str:
        """Wait until the last deleted pod, if any, is replaced."""
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
            return Reading(ends, "terminating" if ends else "not terminating")

        waited = converge(look, GONE)
        if not waited.held:
            raise HarnessError(f"Pod {_named(pod)} does not terminate: {waited}", f"see 'kubectl get --raw {path}'.")

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
            raise HarnessError(
                f"The replacement of pod {_named(before)} is not ready: {waited}", "see 'kubectl get pods -A'."
            )
        return f"{_named(before)} was replaced by {_named(found[0])} on {node}"


def _named(pod: Json) -> str:
    return f"{pod['metadata']['name']} (uid {pod['metadata']['uid']})"
