"""The floor of a run: what no arrangement can go below, the start of one pod and one sync of the service proxy."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from esipp import manifests
from esipp.catalog import all_cells
from esipp.cluster import Cluster, kubeconfig_arguments
from esipp.convergence import Budget, Reading, converge
from esipp.model import Protocol, ServiceType
from esipp.probing import transports
from esipp.probing.prober import Job, Prober
from esipp.stage import is_ready, remove_namespace, wait_for_account
from esipp.topology import read_node

SYNCED = Budget("the service proxy's sync", 20.0, need=1, spacing=0.01)


def floor_of(cluster: Cluster, image: str, samples: int) -> Mapping[str, Sequence[float]]:
    """How long one pod takes to be ready, and one new service until it answers."""
    nodes = sorted(node.name for node in map(read_node, cluster.list("/api/v1/nodes")) if node.schedulable)
    run = f"bench-{os.getpid()}"
    pods, syncs = [], []
    with namespace(cluster, run) as where:
        for number in range(samples):
            name = f"pod-{number}"
            labels = manifests.BACKEND if number == 0 else None
            began = time.monotonic()
            cluster.create(f"{where}/pods", manifests.echo_pod(name, run, nodes[0], image, extra_labels=labels))
            cluster.wait_for(f"{where}/pods", is_ready, {name}, budget=60.0)
            pods.append(time.monotonic() - began)
        command = transports.kubectl(kubeconfig_arguments(cluster.context, None), f"esipp-{run}", "pod-0")
        prober = Prober("pod-0", command)
        try:
            prober.hello()
            for number in range(samples):
                syncs.append(one_sync(cluster, where, run, f"sync-{number}", prober))
        finally:
            prober.close()
    return {"one pod": pods, "one proxy sync": syncs}


def one_sync(cluster: Cluster, where: str, run: str, name: str, prober: Prober) -> float:
    """Seconds from the creation of a service over a ready pod until it answers on its ClusterIP."""
    path = next(cell.path for cell in all_cells() if _plain(cell.path.service, cell.path.protocol))
    assert path.service
    manifest = manifests.service(path.service, run)
    manifest["metadata"]["name"] = name
    began = time.monotonic()
    address = cluster.create(f"{where}/services", manifest)["spec"]["clusterIP"]

    def look() -> Reading:
        job = Job(path, address, manifests.SERVICE_PORT, 1, timeout=0.2)
        seen = prober.submit(job).result(timeout=10)
        return Reading(seen[0].outcome == "answered", str(seen[0].outcome))

    waited = converge(look, SYNCED)
    if not waited.held:
        raise SystemExit(f"service {name} did not answer: {waited}")
    return time.monotonic() - began


def _plain(service: object, protocol: Protocol) -> bool:
    return protocol is Protocol.TCP and getattr(service, "type", None) is ServiceType.CLUSTER_IP


@contextmanager
def namespace(cluster: Cluster, run: str) -> Iterator[str]:
    """A namespace of our own; the path of its objects."""
    name = f"esipp-{run}"
    cluster.create("/api/v1/namespaces", manifests.namespace(name, run, "ci/bench"))
    try:
        wait_for_account(cluster, name)
        yield f"/api/v1/namespaces/{name}"
    finally:
        remove_namespace(cluster, name)
