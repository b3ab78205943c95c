"""The agents of a cluster: kube-proxy, the network add-on's, the load balancer's speakers and controller."""

from dataclasses import dataclass

from esipp.base.json import Json
from esipp.checks.check import Feature
from esipp.checks.disruption import Disruption
from esipp.cluster.client import ApiError, Cluster, UnreachableError


@dataclass(frozen=True)
class Agents:
    """The pods of an agent: their API path, their labels, each of one distribution, and the kind of their owner."""

    collection: str
    selectors: tuple[str, ...]
    owner: str = "DaemonSet"


KUBE_PROXIES = Agents("/api/v1/namespaces/kube-system/pods", ("k8s-app=kube-proxy",))
METALLB, METALLB_CHART = "app=metallb,component=", "app.kubernetes.io/name=metallb,app.kubernetes.io/component="
AGENTS = {
    Disruption.KUBE_PROXY: KUBE_PROXIES,
    Disruption.PROXY_STOPPED: KUBE_PROXIES,
    Disruption.PROXY_SICK: KUBE_PROXIES,
    Disruption.SPEAKER: Agents("/api/v1/pods", (f"{METALLB}speaker", "app.kubernetes.io/component=speaker")),
    Disruption.CONTROLLER_STOPPED: Agents(
        "/api/v1/pods", (f"{METALLB}controller", f"{METALLB_CHART}controller"), "ReplicaSet"
    ),
    Disruption.NETWORK_AGENT: Agents(
        "/api/v1/pods",
        (
            *("app=kindnet", "app=esipp-network", "app=flannel", "app=antrea,component=antrea-agent"),
            *("app=ovnkube-node", "k8s-app=aws-node", "k8s-app=calico-node", "k8s-app=cilium"),
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
