"""`ci/bench [RUNS]`: what arranging, observing and judging all rows costs on a standing cluster, beside the floor.

The floor is what no suite can be faster than: one pod from `apply` to Ready, and one Service from `apply` until every
node's proxy answers for it.
"""

from __future__ import annotations

import json
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from ci import cluster
from ci.places import CONTEXT, places
from ci.step import Journal, SetupError, Step
from ci.surroundings import Surroundings

NAMESPACE = "esipp-bench"
# Runs where the nodes can be reached: connects to every address given until all have answered.
ANSWERED = """
import socket, sys, time
port, waiting, end = int(sys.argv[1]), set(sys.argv[2:]), time.monotonic() + 30
while waiting and time.monotonic() < end:
    for address in sorted(waiting):
        try:
            socket.create_connection((address, port), timeout=0.2).close()
            waiting.discard(address)
        except OSError:
            pass
sys.exit(len(waiting))
"""


def main(arguments: list[str]) -> int:
    """Measure and print."""
    runs = int(arguments[0]) if arguments else 3
    where = places()
    try:
        there = Surroundings.load(where)
        if not there or not cluster.healthy(there):
            raise SetupError("ci/bench needs a standing cluster.", "ci/conformance --up")
        journal = Journal(where.logs / "bench")
        with journal.step("the floor: one pod, one proxy sync") as step:
            pod, sync = _floor(there, step)
        phases: dict[str, list[float]] = {}
        for number in range(1, runs + 1):
            with journal.step(f"run {number} of {runs}, all rows") as step:
                for name, seconds in _suite(there, step).items():
                    phases.setdefault(name, []).append(seconds)
    except SetupError as error:
        error.show()
        return 4
    print(f"\nmedian of {runs} runs, seconds")
    for name, values in phases.items():
        print(f"  {name:<28} {statistics.median(values):6.1f}   ({min(values):.1f} to {max(values):.1f})")
    print(f"  {'floor: one pod Ready':<28} {pod:6.1f}\n  {'floor: one proxy sync':<28} {sync:6.1f}")
    return 0


def _floor(there: Surroundings, step: Step) -> tuple[float, float]:
    metadata = {"name": "floor", "namespace": NAMESPACE}
    container = {"name": "echo", "image": there.image, "imagePullPolicy": "IfNotPresent"}
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**metadata, "labels": {"app": "floor"}},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 0},
    }
    ports = [{"port": 80, "targetPort": 8080}]
    spec = {"type": "NodePort", "selector": {"app": "floor"}, "ports": ports}
    service = {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    try:
        _apply(there, step, namespace)
        _apply(there, step, {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {**metadata, "name": "default"}})
        began = time.monotonic()
        _apply(there, step, pod)
        cluster.kubectl(there, step, "-n", NAMESPACE, "wait", "pod/floor", "--for=condition=Ready", "--timeout=60s")
        started = time.monotonic() - began
        began = time.monotonic()
        _apply(there, step, service)
        port = _ask(there, "-n", NAMESPACE, "get", "service", "floor", "-o", "jsonpath={.spec.ports[0].nodePort}")
        wanted = 'jsonpath={.items[*].status.addresses[?(@.type=="InternalIP")].address}'
        addresses = [address for address in _ask(there, "get", "nodes", "-o", wanted).split() if ":" not in address]
        there.run(step, sys.executable, "-c", ANSWERED, port, *addresses)
        return started, time.monotonic() - began
    finally:
        cluster.kubectl(there, step, "delete", "namespace", NAMESPACE, "--ignore-not-found")


def _suite(there: Surroundings, step: Step) -> dict[str, float]:
    with tempfile.TemporaryDirectory(prefix="esipp-bench-") as out:
        began = time.monotonic()
        there.run(step, "esipp", "run", "--context", CONTEXT, "--lane", "bench", "--out", Path(out) / "run")
        whole = time.monotonic() - began
    lines = [line for line in step.log.read_text().splitlines() if line.startswith("phases: ")]
    phases = {name: float(seconds) for name, seconds in re.findall(r"([a-z]+) ([0-9.]+) s", lines[-1])} if lines else {}
    return {**phases, "judge, report, python": whole - sum(phases.values()), "whole": whole}


def _apply(there: Surroundings, step: Step, thing: Mapping[str, object]) -> None:
    cluster.kubectl(there, step, "apply", "--filename", "-", stdin=json.dumps(thing).encode())


def _ask(there: Surroundings, *arguments: str) -> str:
    answer = there.ask("kubectl", "--context", CONTEXT, *arguments)
    if answer is None:
        raise SetupError("The API server did not answer.", "ci/enter kubectl get nodes")
    return answer


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
