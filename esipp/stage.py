"""Arranges, once, what a set of rows needs: pinned pods, services, VIPs. And takes it all down again."""

import contextlib
import hashlib
import json
import os
import socket
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path as FilePath
from typing import Any

from esipp import manifests
from esipp.cluster import ApiError, Cluster, UnreachableError
from esipp.convergence import Budget, Reading, converge
from esipp.errors import HarnessError
from esipp.labels import MANAGED_BY, OWNER, RUN_LABEL
from esipp.model import EntryKind, Family, Path, Role, Service, ServiceType, Vantage
from esipp.topology import Node, Pod, by_family

Json = dict[str, Any]

ACCOUNT = Budget("the namespace's default service account", 20.0, need=1, spacing=0.05)
PODS_READY = Budget("our pods being ready", 50.0)
VIP_ASSIGNED = Budget("load balancers getting their VIPs", 30.0)
LISTENING = Budget("the reference listeners", 20.0, need=1, spacing=0.1)
GONE = Budget("our namespace being gone", 90.0)

MOST_AGENTS = 10
"""On larger clusters only the nodes that play a role, and the first few others, carry an agent."""

NO_IMAGE = {"ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName"}
NO_START = {"CreateContainerConfigError", "CreateContainerError", "RunContainerError", "CrashLoopBackOff"}

BACKEND = "backend"


def agent_name(node: str) -> str:
    """The agent pod of a node: readable, and unique where the node's name is too long to be part of it."""
    name = f"agent-{node.replace('.', '-')}"
    return name if len(name) <= 63 and "." not in node else f"{name[:54].rstrip('-')}-{_digest(node)}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


@dataclass
class Stage:
    """What stands in the cluster for this run.

    ``pods`` are ours by name, ``services`` the created objects by name, ``obstacles`` say why a service cannot be
    dialled (a VIP that never came), ``listeners`` are the reference listeners' TCP ports by node.
    """

    cluster: Cluster
    run: str
    image: str
    nodes: Mapping[str, Node]
    roles: Mapping[Role, str]
    namespace: str = ""
    pods: dict[str, Pod] = field(default_factory=dict)
    services: dict[str, Json] = field(default_factory=dict)
    obstacles: dict[tuple[str, Family], str] = field(default_factory=dict)
    listeners: dict[str, int] = field(default_factory=dict)
    _identities: dict[str, tuple[str, int]] = field(default_factory=dict)

    def arrange(self, paths: Iterable[Path]) -> None:
        """Create everything the paths need, together, and wait until it stands.

        Raises:
            HarnessError: something could not be created or never became ready; nothing is said about the product.
        """
        paths = list(paths)
        self.namespace = f"esipp-{self.run}"
        try:
            self._create_namespace()
            shapes = sorted({path.service for path in paths if path.service})
            wanted = self._pods_for(paths)
            with ThreadPoolExecutor(max_workers=8) as pool:
                made = [pool.submit(self.cluster.create, self._in("pods"), pod) for pod in wanted]
                made += [
                    pool.submit(self.cluster.create, self._in("services"), manifests.service(s, self.run))
                    for s in shapes
                ]
                for each in made:
                    each.result()
            self._wait_for_pods({pod["metadata"]["name"] for pod in wanted})
            self._wait_for_services(shapes)
            self._read_listeners()
        except ApiError as refused:
            raise HarnessError(f"The stage cannot be set: {refused.message}", _hint(refused)) from None
        except UnreachableError as silent:
            raise HarnessError(
                f"The API server stopped answering while the stage was set: {silent}.",
                f"when it is back: esipp clean --context {self.cluster.context}",
            ) from None

    def strike(self) -> None:
        """Remove everything and wait until it is gone.

        Raises:
            HarnessError: it is still there after the budget.
        """
        if not self.namespace:
            return
        try:
            remove_namespace(self.cluster, self.namespace)
        except (ApiError, UnreachableError) as broken:
            raise HarnessError(
                f"The namespace {self.namespace} could not be removed: {broken}.",
                f"esipp clean --context {self.cluster.context}",
            ) from None

    def address(self, path: Path) -> tuple[str, int] | str:
        """What is dialled on a path, as address and port; a sentence where it cannot be dialled."""
        entry = path.entry
        if entry.role is not None:
            node = self.nodes[self.roles[entry.role]]
            address = node.internal.get(path.family)
            if address is None:
                return f"node {node.name} has no {path.family} InternalIP"
            if entry.kind is EntryKind.NODE_LISTENER:
                return address, self.listeners[node.name]
            assert path.service is not None
            return address, int(self.services[path.service.name]["spec"]["ports"][0]["nodePort"])
        if entry.kind is EntryKind.POD_IP:
            pod = self.pods[BACKEND].addresses.get(path.family)
            return (pod, manifests.TCP) if pod else f"pods have no {path.family} address"
        assert path.service is not None
        spec = self.services[path.service.name]
        if entry.kind is EntryKind.VIP:
            vip = by_family(manifests.vips(spec.get("status", {}))).get(path.family)
            if vip is None:
                return self.obstacles.get((path.service.name, path.family), "the load balancer gave no VIP")
            return vip, manifests.SERVICE_PORT
        cluster_ip = by_family(spec["spec"].get("clusterIPs") or []).get(path.family)
        return (cluster_ip, manifests.SERVICE_PORT) if cluster_ip else f"the service has no {path.family} ClusterIP"

    def check_intact(self) -> None:
        """Make sure that our own pods are those that were arranged: what they missed says nothing about the product.

        Raises:
            HarnessError: one is gone, was restarted or is not ready any more.
        """
        try:
            now = {item["metadata"]["name"]: item for item in self.cluster.list(self._in("pods"))}
        except (ApiError, UnreachableError) as broken:
            raise HarnessError(f"Our pods cannot be looked at after the window: {broken}.", "run again.") from None
        for name, identity in self._identities.items():
            state = "is gone" if name not in now else "" if is_ready(now[name]) else "is not ready any more"
            if not state and _identity(now[name]) != identity:
                state = "was restarted or replaced"
            if state:
                raise HarnessError(
                    f"Our own pod {name} {state}: the window cannot be judged.",
                    "was it evicted or out of memory? kubectl get events -A --sort-by=.lastTimestamp; run again.",
                )

    # ------------------------------------------------------------------------------------------------- creation

    def _in(self, kind: str) -> str:
        return f"/api/v1/namespaces/{self.namespace}/{kind}"

    def _create_namespace(self) -> None:
        owner = f"{socket.gethostname()}/{os.getpid()}"
        self.cluster.create("/api/v1/namespaces", manifests.namespace(self.namespace, self.run, owner))
        wait_for_account(self.cluster, self.namespace)

    def _pods_for(self, paths: Sequence[Path]) -> list[Json]:
        clients = {path.client for path in paths if path.client.vantage is Vantage.POD}
        pods = [
            manifests.echo_pod(
                BACKEND, self.run, self.roles[Role.ENDPOINT_NODE], self.image, extra_labels=manifests.BACKEND
            )
        ]
        for client in sorted(clients):
            assert client.role is not None
            pods.append(manifests.echo_pod(client.name, self.run, self.roles[client.role], self.image))
        with_role = set(self.roles.values())
        usable = (node.name for node in self.nodes.values() if node.usable)
        ready = sorted(usable, key=lambda name: (name not in with_role, name))
        for node in ready[:MOST_AGENTS]:
            pods.append(manifests.agent_pod(agent_name(node), self.run, node, self.image))
        return pods

    def _wait_for_pods(self, names: set[str]) -> None:
        began = time.monotonic()
        last = self.cluster.wait_for(
            self._in("pods"), is_ready, names, budget=PODS_READY.seconds, labelSelector=f"{RUN_LABEL}={self.run}"
        )
        late = sorted(name for name in names if name not in last or not is_ready(last[name]))
        if late:
            gone = [name for name in late if name not in last]
            state = f"{gone[0]}: it is not there" if gone else f"{late[0]}: {_say_pod(last[late[0]])}"
            raise HarnessError(
                f"{len(late)} of {len(names)} pods are not ready after {time.monotonic() - began:.0f} s; {state}.",
                f"kubectl --context {self.cluster.context} get events -A --sort-by=.lastTimestamp",
            )
        for name, item in last.items():
            addresses = by_family(each["ip"] for each in item["status"].get("podIPs") or [])
            self.pods[name] = Pod(name, item["spec"]["nodeName"], addresses)
            self._identities[name] = _identity(item)

    def _wait_for_services(self, shapes: Sequence[Service]) -> None:
        balanced = {shape.name for shape in shapes if shape.type is ServiceType.LOAD_BALANCER}
        selector = f"{RUN_LABEL}={self.run}"
        if balanced:
            self.cluster.wait_for(
                self._in("services"), _has_vips, balanced, budget=VIP_ASSIGNED.seconds, labelSelector=selector
            )
        for item in self.cluster.list(self._in("services"), labelSelector=selector):
            name = item["metadata"]["name"]
            self.services[name] = item
            if name in balanced:
                given = by_family(manifests.vips(item.get("status", {})))
                for family in _families(item):
                    if family not in given:
                        self.obstacles[name, family] = (
                            f"no VIP came within {VIP_ASSIGNED.seconds:.0f} s: is a load balancer installed, and has "
                            "its pool free addresses of this family? --without load-balancer leaves these rows out"
                        )

    def _read_listeners(self) -> None:
        for name, pod in self.pods.items():
            if not name.startswith("agent-"):
                continue

            def look(name: str = name, node: str = pod.node) -> Reading:
                log = self.cluster.text(f"{self._in('pods')}/{name}/log")
                with contextlib.suppress(ValueError, KeyError):
                    self.listeners[node] = int(json.loads(log.splitlines()[0])["tcp"]) if log else 0
                return Reading(bool(self.listeners.get(node)), log[:120] or "its log is empty")

            waited = converge(look, LISTENING)
            if not waited.held:
                raise HarnessError(
                    f"The agent on node {pod.node} does not tell its ports: {waited.state}",
                    "is the echo image that of this checkout?",
                )


def is_ready(pod: Json) -> bool:
    """Ready; raises at once where waiting cannot help."""
    status = pod.get("status", {})
    for container in status.get("containerStatuses") or []:
        waiting = container.get("state", {}).get("waiting") or {}
        name, reason = pod["metadata"]["name"], waiting.get("reason", "")
        if reason in NO_IMAGE:
            raise HarnessError(
                f"The image {container['image']} cannot be had on node {pod['spec'].get('nodeName')} ({reason}).",
                "name one the nodes can pull with --image, or load it: kind load docker-image",
            )
        if reason in NO_START:
            raise HarnessError(
                f"Pod {name} cannot be started ({reason}): {waiting.get('message', '')[:200]}",
                f"kubectl logs {name} --previous -n {pod['metadata']['namespace']}",
            )
    if status.get("phase") == "Failed":
        raise HarnessError(f"Pod {pod['metadata']['name']} failed: {status.get('reason')} {status.get('message')}")
    return any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions") or [])


def _identity(pod: Json) -> tuple[str, int]:
    """What changes when a pod is replaced or one of its containers starts again."""
    restarts = sum(each.get("restartCount", 0) for each in pod.get("status", {}).get("containerStatuses") or [])
    return pod["metadata"]["uid"], restarts


def _say_pod(pod: Json) -> str:
    status = pod.get("status", {})
    for container in status.get("containerStatuses") or []:
        waiting = container.get("state", {}).get("waiting")
        if waiting:
            return f"{waiting.get('reason')} {waiting.get('message', '')}".strip()
    bad = [f"{c['type']}: {c.get('message') or c.get('reason')}" for c in status.get("conditions") or []
           if c["status"] != "True"]  # fmt: skip
    return "; ".join(bad) or f"phase {status.get('phase')}"


def _families(service: Json) -> list[Family]:
    return [Family(each) for each in service["spec"].get("ipFamilies") or []]


def _has_vips(service: Json) -> bool:
    given = by_family(manifests.vips(service.get("status", {})))
    return all(family in given for family in _families(service))


def _hint(refused: ApiError) -> str:
    text = refused.message.lower()
    if "range is full" in text or "allocate a nodeport" in text:
        return "no nodePort is free: delete NodePort services that are not needed, or widen --service-node-port-range."
    if "quota" in text:
        return "a ResourceQuota stands in the way; it must allow about a dozen small pods and five services."
    if refused.status == 403:
        return "the account needs the rights that 'esipp run' checks before it starts."
    return "the run was stopped and what it had made was removed."


def wait_for_account(cluster: Cluster, namespace: str) -> None:
    """Wait for a new namespace's default service account, without which no pod can be created.

    Raises:
        HarnessError: it does not come.
    """
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/default"

    def look() -> Reading:
        try:
            cluster.request("GET", path)
        except ApiError as refused:
            return Reading(False, refused.message)
        return Reading(True, "there")

    waited = converge(look, ACCOUNT)
    if not waited.held:
        raise HarnessError(
            f"The namespace {namespace} got no default service account: {waited.state}",
            "is the controller manager of the cluster running?",
        )


def remove_namespace(cluster: Cluster, name: str) -> None:
    """Delete a namespace and wait until it is gone.

    Raises:
        HarnessError: it is still there after the budget.
    """
    began = time.monotonic()
    cluster.delete(f"/api/v1/namespaces/{name}")
    # the namespace controller only starts after 5 s; what it would delete then is deleted while it waits
    for kind in ("services", "pods"):
        for item in cluster.list(f"/api/v1/namespaces/{name}/{kind}"):
            cluster.delete(f"/api/v1/namespaces/{name}/{kind}/{item['metadata']['name']}")
    if not cluster.wait_gone(f"/api/v1/namespaces/{name}", budget=GONE.seconds):
        raise HarnessError(
            f"The namespace {name} is still there after {time.monotonic() - began:.0f} s.",
            f"see what holds it: kubectl --context {cluster.context} get namespace {name} -o yaml",
        )


def left_behind(cluster: Cluster) -> dict[str, tuple[str, str]]:
    """The namespaces of earlier runs: name, and with it the run's id and its owner (``host/pid``)."""
    selector = ",".join(f"{key}={value}" for key, value in MANAGED_BY.items())
    found = {}
    for item in cluster.list("/api/v1/namespaces", labelSelector=selector):
        metadata = item["metadata"]
        found[metadata["name"]] = (
            metadata.get("labels", {}).get(RUN_LABEL, ""),
            metadata.get("annotations", {}).get(OWNER, ""),
        )
    return found


def is_alive(owner: str) -> bool:
    """Whether the process that made a run is still there; only known of this host's, and then only if it is ours."""
    host, _, pid = owner.rpartition("/")
    if host != socket.gethostname() or not pid.isdigit():
        return False
    try:
        command = FilePath(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return b"esipp" in command or b"pytest" in command
