"""Simulated nodes: objects as kubelets write them, health-check node ports, and kubelets that say that pods run."""

import asyncio
import json
import threading
from concurrent.futures import ThreadPoolExecutor

from esipp.base.json import Json
from esipp.cluster.client import ApiError, Cluster, UnreachableError
from esipp.testbed.manifests import POD_LABEL

HEALTH_PORT = 31999
SINCE = "2026-01-01T00:00:00Z"
IMAGES = 40
"""Of those that a kubelet lists, by default 50 at most: they are most of a Node's bytes."""


def name_of(number: int) -> str:
    return f"pool-a-{number:04}.zone-{number % 3}.example.internal"


def address_of(number: int) -> str:
    """Of 127.0.0.0/8, which is all one host's own: no address has to be given to an interface."""
    return f"127.{1 + number // 62500}.{number // 250 % 250}.{number % 250 + 1}"


def node(number: int) -> Json:
    """What a node without a cloud is made of: labels, annotations, and a status as kubelet v1.36 writes it."""
    name, control = name_of(number), number == 0
    labels = {
        "beta.kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64",
        "kubernetes.io/os": "linux", "kubernetes.io/hostname": name, "node.kubernetes.io/instance-type": "m4",
        "topology.kubernetes.io/region": "r1", "topology.kubernetes.io/zone": f"zone-{number % 3}",
        **({"node-role.kubernetes.io/control-plane": ""} if control else {}),
    }  # fmt: skip
    taint = [{"key": "node-role.kubernetes.io/control-plane", "effect": "NoSchedule"}] if control else []
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": {"node.alpha.kubernetes.io/ttl": "0"}},
        "spec": {"podCIDR": f"10.{100 + number // 250}.{number % 250}.0/24", "taints": taint},
        "status": _status(number),
    }


def _status(number: int) -> Json:
    there = {"cpu": "4", "memory": "16384000Ki", "pods": "110", "ephemeral-storage": "103Gi", "hugepages-2Mi": "0"}
    names = ("MemoryPressure", "DiskPressure", "PIDPressure", "Ready")
    conditions = [
        {
            "type": each, "status": str(each == "Ready"), "lastHeartbeatTime": SINCE, "lastTransitionTime": SINCE,
            "reason": f"Kubelet{'' if each == 'Ready' else 'HasNo'}{each}", "message": f"kubelet reports {each}",
        }
        for each in names
    ]  # fmt: skip
    images = [
        {
            "names": [
                f"registry.example.com/team/program-{each}@sha256:{each:064x}",
                f"registry.example.com/team/program-{each}:v1.{each}",
            ],
            "sizeBytes": 10_000_000 + each,
        }
        for each in range(IMAGES)
    ]
    info = {
        "machineID": f"{number:032x}", "systemUUID": f"{number:032x}", "bootID": f"{number:032x}",
        "kernelVersion": "6.1.0", "osImage": "Debian GNU/Linux 12 (bookworm)", "operatingSystem": "linux",
        "architecture": "amd64", "containerRuntimeVersion": "containerd://2.2.0", "kubeletVersion": "v1.36.3",
        "kubeProxyVersion": "",
    }  # fmt: skip
    addresses = [
        {"type": "InternalIP", "address": address_of(number)},
        {"type": "Hostname", "address": name_of(number)},
    ]
    endpoint = {"kubeletEndpoint": {"Port": 10250}}
    return {
        "addresses": addresses, "allocatable": there, "capacity": there, "conditions": conditions, "images": images,
        "nodeInfo": info, "daemonEndpoints": endpoint,
    }  # fmt: skip


def _daemon(name: str, number: int) -> Json:
    """A pod of a DaemonSet of the system's, on a node."""
    owner = {"apiVersion": "apps/v1", "kind": "DaemonSet", "name": name, "uid": "0", "controller": True}
    image = f"registry.example.com/system/{name}:v1.36.3"
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": f"{name}-{number:05}", "labels": {"k8s-app": name}, "ownerReferences": [owner]},
        "spec": {"nodeName": name_of(number), "hostNetwork": True, "containers": [{"name": name, "image": image}]},
    }


def running(pod: Json, address: str) -> Json:
    """The patch of a pod's status by which a kubelet says that it runs and is ready."""
    names = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled")
    containers = [
        {
            "name": each["name"], "image": each["image"],
            "imageID": f"{each['image'].partition(':')[0]}@sha256:{7:064x}",
            "ready": True, "started": True, "restartCount": 0, "state": {"running": {"startedAt": SINCE}},
        }
        for each in pod["spec"]["containers"]
    ]  # fmt: skip
    conditions = [{"type": each, "status": "True", "lastTransitionTime": SINCE} for each in names]
    return {
        "status": {
            "phase": "Running", "hostIP": address, "podIP": address, "podIPs": [{"ip": address}],
            "conditions": conditions, "containerStatuses": containers,
        }
    }  # fmt: skip


def add(cluster: Cluster, numbers: range) -> None:
    """Add nodes, each with two pods of the system's."""

    def make(number: int) -> None:
        cluster.create("/api/v1/nodes", node(number))
        for name in ("kube-proxy", "kindnet"):
            pod = cluster.create("/api/v1/namespaces/kube-system/pods", _daemon(name, number))
            path = f"/api/v1/namespaces/kube-system/pods/{pod['metadata']['name']}/status"
            cluster.patch(path, running(pod, address_of(number)))

    with ThreadPoolExecutor(max_workers=8) as pool:
        list(pool.map(make, numbers))


class Kubelets:
    """All of them: agents that were bound run at once, and those that are deleted are gone."""

    def __init__(self, cluster: Cluster, most: int) -> None:
        self._cluster = cluster
        self._addresses = {name_of(number): address_of(number) for number in range(most)}
        threading.Thread(target=self._watch, name="kubelets", daemon=True).start()

    def _watch(self) -> None:
        for kind, pod in self._cluster.watch("/api/v1/pods", budget=3600, labelSelector=f"{POD_LABEL}=agent"):
            if kind in ("ADDED", "MODIFIED") and pod["spec"].get("nodeName"):
                try:
                    self._tell(pod)
                except (ApiError, UnreachableError):
                    continue  # gone meanwhile; or the end

    def _tell(self, pod: Json) -> None:
        path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
        if pod["metadata"].get("deletionTimestamp"):
            self._cluster.delete(path, grace=0)
        elif pod.get("status", {}).get("phase") != "Running":
            self._cluster.patch(f"{path}/status", running(pod, self._addresses[pod["spec"]["nodeName"]]))


class HealthPorts:
    """The health-check node port of every node: one socket of one process, which answers by the address it is asked at.

    ``serving`` are the addresses of the nodes that have a pod.
    """

    def __init__(self) -> None:
        self.serving: frozenset[str] = frozenset()
        ready = threading.Event()
        threading.Thread(target=lambda: asyncio.run(self._serve(ready)), name="health ports", daemon=True).start()
        if not ready.wait(30):
            raise TimeoutError("the health ports did not come up")

    async def _serve(self, ready: threading.Event) -> None:
        server = await asyncio.start_server(self._answer, "0.0.0.0", HEALTH_PORT, backlog=1024)
        ready.set()
        await server.serve_forever()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await reader.readuntil(b"\r\n\r\n")
            pods = int(writer.get_extra_info("sockname")[0] in self.serving)
            document = {"service": {"namespace": "x", "name": "x"}, "localEndpoints": pods, "serviceProxyHealthy": True}
            body = json.dumps(document).encode()
            status = b"200 OK" if pods else b"503 Service Unavailable"
            head = b"HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n" % (status, len(body))
            writer.write(head + b"Connection: close\r\n\r\n" + body)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            return
        finally:
            writer.close()
