"""The agents of a cluster: kube-proxy, the network add-on's, the load balancer's speakers and controller."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from esipp.base.json import Json
from esipp.checks.check import Feature
from esipp.checks.disruption import Disruption
from esipp.cluster.client import ApiError, Cluster, UnreachableError
from esipp.disruption.marks import is_ready


@dataclass(frozen=True)
class Agents:
    """The pods of an agent.

    Args:
        noun: what it is, as text.
        collection: the API path of the pods.
        processes: label selectors of the pods, each of one distribution, and the name of the agent's process there;
            empty where it has several, so that esipp does not stop it.
        owner: the kind of the pods' owner.
    """

    noun: str
    collection: str
    processes: Mapping[str, str]
    owner: str = "DaemonSet"

    @property
    def stoppable(self) -> "Agents":
        """Those with a single process."""
        return replace(self, processes={selector: name for selector, name in self.processes.items() if name})


KUBE_PROXIES = Agents("kube-proxy", "/api/v1/namespaces/kube-system/pods", {"k8s-app=kube-proxy": "kube-proxy"})
CILIUMS = Agents("Cilium's agent", "/api/v1/namespaces/kube-system/pods", {"k8s-app=cilium": "cilium-agent"})
METALLB, METALLB_CHART = "app=metallb,component=", "app.kubernetes.io/name=metallb,app.kubernetes.io/component="
SPEAKERS = Agents(
    "the load balancer's speaker",
    "/api/v1/pods",
    dict.fromkeys((f"{METALLB}speaker", "app.kubernetes.io/component=speaker"), "speaker"),
)
NETWORK_AGENTS = Agents(
    "the network add-on's agent",
    "/api/v1/pods",
    {
        "app=kindnet": "kindnetd",
        "app=esipp-network": "esipp-network",
        "app=flannel": "flanneld",
        "app=antrea,component=antrea-agent": "antrea-agent",
        **CILIUMS.processes,
        **dict.fromkeys(("app=ovnkube-node", "k8s-app=aws-node", "k8s-app=calico-node"), ""),
    },
)
AGENTS = {
    **dict.fromkeys((Disruption.KUBE_PROXY, Disruption.PROXY_STOPPED, Disruption.PROXY_SICK), KUBE_PROXIES),
    **dict.fromkeys((Disruption.PROXY_MODE, Disruption.PROXY_SLOW, Disruption.PROXY_UPGRADED), KUBE_PROXIES),
    Disruption.NETWORK_AGENT_UPGRADED: CILIUMS,
    Disruption.SPEAKER: SPEAKERS,
    Disruption.SPEAKER_STOPPED: SPEAKERS,
    Disruption.CONTROLLER_STOPPED: Agents(
        "the load balancer's controller",
        "/api/v1/pods",
        dict.fromkeys((f"{METALLB}controller", f"{METALLB_CHART}controller"), "controller"),
        "ReplicaSet",
    ),
    Disruption.NETWORK_AGENT: NETWORK_AGENTS,
    Disruption.NETWORK_STOPPED: NETWORK_AGENTS.stoppable,
}
"""The agents that a disruption is about, where pods are: kubeadm's, MetalLB's manifests and chart, network add-ons."""

STOPPED = (
    Disruption.PROXY_STOPPED,
    Disruption.NETWORK_STOPPED,
    Disruption.SPEAKER_STOPPED,
    Disruption.CONTROLLER_STOPPED,
)
"""The disruptions that stop an agent's process. Esipp does so on nodes of kind only, where its own checks of load
balancers are at home: elsewhere, others may have processes of these names."""


def agent_pods(cluster: Cluster, what: Disruption) -> list[Json]:
    """The pods of the agents that a disruption is about, if their owner will replace them."""
    agents, found = AGENTS[what], {}
    for selector in agents.processes:
        for pod in cluster.list(agents.collection, labelSelector=selector):
            if owner_of(pod, agents.owner):
                found[pod["metadata"]["uid"]] = pod
    return list(found.values())


def owner_of(pod: Json, kind: str = "DaemonSet") -> str:
    """The uid of the owner that will replace a pod; "" if there is none of this kind."""
    owners = pod["metadata"].get("ownerReferences") or []
    return next((str(each["uid"]) for each in owners if each["kind"] == kind and each.get("controller")), "")


def api_servers(cluster: Cluster) -> list[Json]:
    """The API servers that are pods, as kubeadm's are."""
    return cluster.list("/api/v1/namespaces/kube-system/pods", labelSelector="component=kube-apiserver")


def on_node(pods: Collection[Json], node: str) -> list[Json]:
    """Those of the pods that are on a node."""
    return [pod for pod in pods if pod["spec"].get("nodeName") == node]


def starts_of(pods: Collection[Json]) -> tuple[int, bool]:
    """How often the containers of pods were started again, and whether all of these pods are ready; not without any."""
    states = [state for pod in pods for state in pod.get("status", {}).get("containerStatuses") or []]
    return sum(int(state.get("restartCount", 0)) for state in states), bool(pods) and all(map(is_ready, pods))


def pods_feature(cluster: Cluster, what: Disruption) -> Feature:
    """Whether there are such pods."""
    agents = AGENTS[what]
    try:
        pods = agent_pods(cluster, what)
    except (ApiError, UnreachableError) as broken:
        return Feature(False, f"cannot list {agents.collection}: {broken}")
    labelled = f"with {' or '.join(agents.processes)}, of a {agents.owner}"
    return Feature(bool(pods), f"{len(pods)} pods {labelled}" if pods else f"no pod {labelled}")


def uid_of(pod: Json) -> str:
    """What tells it from another pod of the same name."""
    return str(pod["metadata"]["uid"])


def waits_to_start(pod: Json) -> bool:
    """Whether the kubelet lets a container wait before it starts it again, as it has often ended."""
    states = pod.get("status", {}).get("containerStatuses") or []
    return any((state.get("state") or {}).get("waiting", {}).get("reason") == "CrashLoopBackOff" for state in states)
