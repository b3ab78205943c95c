"""The agents of a cluster, and restarts of those of DaemonSets: kube-proxy, the network add-on's, speakers."""

from dataclasses import dataclass

from esipp.base.errors import HarnessError
from esipp.base.interrupt import Stop
from esipp.base.json import Json
from esipp.base.waiting import Budget, Reading, converge
from esipp.checks.check import Feature
from esipp.checks.disruption import Disruption
from esipp.cluster.client import ApiError, Cluster, UnreachableError
from esipp.disruption.actions import Action
from esipp.disruption.marks import is_ready

GONE = Budget("termination of a pod", 30.0, need=1, spacing=0.1)
AGAIN = Budget("the DaemonSet's next pod to be ready", 120.0, need=1, spacing=0.2)


@dataclass(frozen=True)
class Agents:
    """The pods of an agent: their API path, their labels, each of one distribution, and the kind of their owner."""

    collection: str
    selectors: tuple[str, ...]
    owner: str = "DaemonSet"


KUBE_PROXIES = Agents("/api/v1/namespaces/kube-system/pods", ("k8s-app=kube-proxy",))
CILIUM = "k8s-app=cilium"
METALLB, METALLB_CHART = "app=metallb,component=", "app.kubernetes.io/name=metallb,app.kubernetes.io/component="
AGENTS = {
    Disruption.KUBE_PROXY: KUBE_PROXIES,
    Disruption.PROXY_STOPPED: KUBE_PROXIES,
    **dict.fromkeys((Disruption.PROXY_SICK, Disruption.PROXY_MODE, Disruption.PROXY_UPGRADED), KUBE_PROXIES),
    Disruption.NETWORK_AGENT_UPGRADED: Agents("/api/v1/namespaces/kube-system/pods", (CILIUM,)),
    Disruption.SPEAKER: Agents("/api/v1/pods", (f"{METALLB}speaker", "app.kubernetes.io/component=speaker")),
    Disruption.CONTROLLER_STOPPED: Agents(
        "/api/v1/pods", (f"{METALLB}controller", f"{METALLB_CHART}controller"), "ReplicaSet"
    ),
    Disruption.NETWORK_AGENT: Agents(
        "/api/v1/pods",
        (
            *("app=kindnet", "app=esipp-network", "app=flannel", "app=antrea,component=antrea-agent"),
            *("app=ovnkube-node", "k8s-app=aws-node", "k8s-app=calico-node", CILIUM),
        ),
    ),
}
"""The agents that a disruption is about, where pods are: kubeadm's, MetalLB's manifests and chart, network add-ons."""


def agent_pods(cluster: Cluster, what: Disruption) -> list[Json]:
    """The pods of the agents that a disruption is about, if their owner will replace them."""
    agents, found = AGENTS[what], {}
    for selector in agents.selectors:
        for pod in cluster.list(agents.collection, labelSelector=selector):
            if owner_of(pod, agents.owner):
                found[pod["metadata"]["uid"]] = pod
    return list(found.values())


def owner_of(pod: Json, kind: str = "DaemonSet") -> str:
    """The uid of the owner that will replace a pod; "" if there is none of this kind."""
    owners = pod["metadata"].get("ownerReferences") or []
    return next((str(each["uid"]) for each in owners if each["kind"] == kind and each.get("controller")), "")


def pods_feature(cluster: Cluster, what: Disruption) -> Feature:
    """Whether there are such pods."""
    agents = AGENTS[what]
    try:
        pods = agent_pods(cluster, what)
    except (ApiError, UnreachableError) as broken:
        return Feature(False, f"cannot list {agents.collection}: {broken}")
    labelled = f"with {' or '.join(agents.selectors)}, of a {agents.owner}"
    return Feature(bool(pods), f"{len(pods)} pods {labelled}" if pods else f"no pod {labelled}")


class Restart(Action):
    """The restart of the pods of a kind, on a node or on all nodes one after the other.

    The last replacement starts while the caller observes. The DaemonSet replaces the pods, so there is no rollback.
    How long a restart lasts is undefined.
    """

    def __init__(self, cluster: Cluster, what: Disruption, node: str) -> None:
        self._cluster, self._what, self._node = cluster, what, node
        self._last: Json = {}

    def prove(self, stop: Stop) -> str:
        """Delete each pod, and wait until each one except the last is replaced."""
        pods = [p for p in agent_pods(self._cluster, self._what) if self._node in ("", p["spec"].get("nodeName"))]
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

        converge(look, GONE).required(f"Pod {_named(pod)} does not terminate", f"see 'kubectl get --raw {path}'.")

    def _successor(self) -> str:
        before, node = self._last, self._last["spec"]["nodeName"]
        found: list[Json] = []

        def look() -> Reading:
            try:
                pods = agent_pods(self._cluster, self._what)
            except UnreachableError as silent:
                return Reading(False, str(silent))
            there = [p for p in pods if p["spec"].get("nodeName") == node and owner_of(p) == owner_of(before)]
            found[:] = [p for p in there if p["metadata"]["uid"] != before["metadata"]["uid"]]
            ready = len(there) == len(found) == 1 and is_ready(found[0])
            return Reading(ready, ", ".join(_named(pod) for pod in there) or "no pod")

        converge(look, AGAIN).required(
            f"The replacement of pod {_named(before)} is not ready", "see 'kubectl get pods -A'."
        )
        return f"{_named(before)} was replaced by {_named(found[0])} on {node}"


def _named(pod: Json) -> str:
    return f"{pod['metadata']['name']} (uid {pod['metadata']['uid']})"
