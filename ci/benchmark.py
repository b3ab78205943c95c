"""`ci/bench`: the phases of whole runs on a standing cluster, and beside them the floor.

The floor is what no arrangement can go below: the start of one pod, one sync of the service proxy, and the pause of
the namespace controller before it deletes anything. Nothing is asserted: machines are noisy.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from ci.places import CONTEXT
from esipp import manifests
from esipp.catalog import all_cells
from esipp.cluster import Cluster, kubeconfig_arguments
from esipp.convergence import Budget, Reading, converge
from esipp.model import Outcome, Service, ServiceType
from esipp.probing import transports
from esipp.probing.prober import Job, Prober
from esipp.stage import is_ready, remove_namespace, wait_for_account
from esipp.topology import read_node

PHASES = ("preflight", "arrange", "clients", "settle", "observe", "judge", "strike")
SYNCED = Budget("the service proxy's sync", 20.0, need=1, spacing=0.01)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="ci/bench", description="Times of whole runs, by phase, beside the floor.")
    parser.add_argument("--context", default=CONTEXT, help="kubeconfig context (%(default)s)")
    parser.add_argument("--image", default=os.environ.get("ESIPP_IMAGE"), help="echo image ($ESIPP_IMAGE)")
    parser.add_argument("--runs", type=int, default=5, help="runs, and samples of the floor (%(default)s)")
    options = parser.parse_args(arguments)

    cluster = Cluster(options.context)
    floor = floor_of(cluster, options.image, options.runs)
    runs = [one_run(options.context, options.image) for _ in range(options.runs)]
    print(f"{len(all_cells())} rows, {os.cpu_count()} cores, {options.runs} runs; seconds: median (least to most)")
    for name in (*PHASES, "whole"):
        show(name, [run.get(name, 0.0) for run in runs])
    print("the floor:")
    for name, values in floor.items():
        show(name, values)
    least = statistics.median(floor["one pod"]) + statistics.median(floor["one proxy sync"])
    arranged = statistics.median(run["arrange"] + run["settle"] for run in runs)
    print(f"arrange + settle is {arranged / least:.1f} times one pod + one proxy sync")
    return 0


def show(name: str, values: Sequence[float]) -> None:
    """Print one line of figures."""
    print(f"  {name:<16} {statistics.median(values):7.2f}  ({min(values):.2f} to {max(values):.2f})")


def one_run(context: str, image: str) -> Mapping[str, float]:
    """Run the whole suite once; its phases as the ledger has them, and the time of the whole command."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        command = [sys.executable, "-m", "esipp", "run", "--context", context, "--image", image, "--out", str(out)]
        began = time.monotonic()
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        whole = time.monotonic() - began
        if done.returncode not in (0, 1):
            raise SystemExit(f"the run ended with {done.returncode}:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        end = json.loads((out / "ledger.jsonl").read_text().splitlines()[-1])
        return {**end["seconds"], "whole": whole}


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
    manifest = manifests.service(Service(ServiceType.CLUSTER_IP), run)
    manifest["metadata"]["name"] = name
    path = next(cell.path for cell in all_cells() if cell.path.service)
    began = time.monotonic()
    address = cluster.create(f"{where}/services", manifest)["spec"]["clusterIP"]

    def look() -> Reading:
        job = Job(path, address, manifests.SERVICE_PORT, 1, timeout=0.2)
        seen = prober.submit(job).result(timeout=10)
        return Reading(seen[0].outcome is Outcome.ANSWERED, seen[0].outcome.value)

    waited = converge(look, SYNCED)
    if not waited.held:
        raise SystemExit(f"service {name} did not answer: {waited}")
    return time.monotonic() - began


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


if __name__ == "__main__":
    sys.exit(main())
