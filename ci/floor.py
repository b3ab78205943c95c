"""The lower bound for the time of a run: the start of one pod, and one sync of the service proxy."""

import os
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from esipp.base.labels import OWNER, labels_of
from esipp.cluster.client import Cluster

BUDGET_SECONDS = 60.0
PORT = 8080  # where the echo image listens if nobody says otherwise
APP = {"esipp.dev/bench": "floor"}
# Runs in the pod: for each address that it reads it prints when it first reached it, or that it did not.
DIAL = """
import socket, sys, time
for host in sys.stdin:
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        try:
            socket.create_connection((host.strip(), 80), 0.2).close()
        except OSError:
            time.sleep(0.01)  # between two attempts: the floor is a time, and nothing announces it
        else:
            print("reached", flush=True)
            break
    else:
        print("not reached", flush=True)
"""


def floor_of(cluster: Cluster, image: str, samples: int) -> Mapping[str, Sequence[float]]:
    """Seconds until one pod is ready, and until one new Service answers."""
    workers = (item for item in cluster.list("/api/v1/nodes") if not item["spec"].get("taints"))
    node = sorted(item["metadata"]["name"] for item in workers)[0]
    run = f"bench-{os.getpid()}"
    with _namespace(cluster, run) as where:
        pods = [_one_pod(cluster, where, _pod(f"pod-{number}", node, image)) for number in range(samples)]
        argv = ["kubectl", "--context", cluster.context, "exec", "-i", "-n", f"esipp-{run}", "pod-0"]
        argv += ["--", "python3", "-u", "-c", DIAL]
        with subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1) as dialler:
            syncs = [_one_sync(cluster, where, f"sync-{number}", dialler) for number in range(samples)]
            dialler.communicate()  # closes its input, which ends it
    return {"one pod": pods, "one proxy sync": syncs}


def _one_pod(cluster: Cluster, where: str, pod: dict[str, Any]) -> float:
    """Seconds from the creation of a pod until it is ready."""
    began = time.monotonic()
    cluster.create(f"{where}/pods", pod)
    name = pod["metadata"]["name"]
    made = cluster.wait_for(f"{where}/pods", _is_ready, {name}, budget=BUDGET_SECONDS)
    if name not in made or not _is_ready(made[name]):
        raise SystemExit(f"{name} was not ready within {BUDGET_SECONDS:.0f} s")
    return time.monotonic() - began


def _one_sync(cluster: Cluster, where: str, name: str, dialler: subprocess.Popen[str]) -> float:
    """Seconds from the creation of a service over a ready pod until it answers on its ClusterIP."""
    assert dialler.stdin
    assert dialler.stdout
    spec = {"selector": APP, "ports": [{"port": 80, "targetPort": PORT}]}
    manifest = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": name}, "spec": spec}
    began = time.monotonic()
    address = cluster.create(f"{where}/services", manifest)["spec"]["clusterIP"]
    dialler.stdin.write(f"{address}\n")
    said = dialler.stdout.readline().strip()
    if said != "reached":
        raise SystemExit(f"service {name} at {address}: {said or 'the dialling pod is gone'}")
    return time.monotonic() - began


def _pod(name: str, node: str, image: str) -> dict[str, Any]:
    """A pod of the echo image, without delays of its own."""
    probe = {"httpGet": {"path": "/readyz", "port": PORT}, "periodSeconds": 1}
    container = {"name": "echo", "image": image, "imagePullPolicy": "IfNotPresent", "readinessProbe": probe}
    spec: dict[str, Any] = {"nodeName": node, "terminationGracePeriodSeconds": 1, "containers": [container]}
    spec["automountServiceAccountToken"] = False  # a volume to be filled first
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, "labels": APP}, "spec": spec}


def _is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod.get("status", {}).get("conditions") or []
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


@contextmanager
def _namespace(cluster: Cluster, run: str) -> Iterator[str]:
    """A namespace that `esipp clean` would also find; yields the path of its objects."""
    path = f"/api/v1/namespaces/esipp-{run}"
    owner = {OWNER: f"{socket.gethostname()}/{os.getpid()}"}
    metadata = {"name": f"esipp-{run}", "labels": labels_of(run), "annotations": owner}
    cluster.create("/api/v1/namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": metadata})
    try:
        cluster.wait_for(f"{path}/serviceaccounts", lambda _: True, {"default"}, budget=BUDGET_SECONDS)
        yield path
    finally:
        cluster.delete(path)
        cluster.wait_gone(path, budget=BUDGET_SECONDS)
