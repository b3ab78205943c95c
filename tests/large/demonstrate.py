"""The demonstration: a control plane and simulated nodes, and ``measure`` at each number of them.

``python -m tests.large.demonstrate FOLDER ETCD KUBERNETES NODES,…`` in a network namespace of its own; what was
measured goes to ``FOLDER/measured.json``.
"""

import json
import subprocess
import sys
from pathlib import Path

from esipp.base.json import Json
from tests.large import nodes
from tests.large.control_plane import ADDRESS, ControlPlane


def measured(kubeconfig: Path, count: int, health: nodes.HealthPorts) -> Json:
    """What the suite's process tells at so many nodes."""
    command = [sys.executable, "-B", "-m", "tests.large.measure", str(kubeconfig), str(count)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        last = ""
        for line in process.stdout:
            last = line.strip()
            if last in ("serve", "end"):
                there = {nodes.address_of(number) for number in range(count)}
                health.serving = frozenset(there) if last == "serve" else frozenset()
                process.stdin.write("done\n")
                process.stdin.flush()
        assert process.wait() == 0, f"at {count} nodes"
        return dict(json.loads(last))


def audited(log: Path) -> int:
    """How many requests of what is measured the API server has answered so far."""
    return sum(1 for line in log.read_text().splitlines() if line) if log.exists() else 0


def main() -> None:
    folder, etcd, kubernetes, sizes = Path(sys.argv[1]), Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4].split(",")
    for words in ("link set lo up", f"address add {ADDRESS}/32 dev lo"):
        subprocess.run(["ip", *words.split()], check=True)
    names = ("kube-apiserver", "kube-controller-manager", "kube-scheduler")
    programs = {"etcd": etcd / "etcd", **{name: kubernetes / name for name in names}}
    plane = ControlPlane(folder, programs)
    found: list[Json] = []
    with plane.running() as cluster:
        health, there = nodes.HealthPorts(), 0
        nodes.Kubelets(cluster, max(map(int, sizes)))
        for count in map(int, sizes):
            nodes.add(cluster, range(there, count))
            there, before = count, audited(plane.audit)
            made = measured(plane.kubeconfig, count, health)
            found.append({**made, "audited": audited(plane.audit) - before})
            print(f"{count} nodes: {made['seconds']}", flush=True)
    (folder / "measured.json").write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
