"""Running commands on the nodes of a kind cluster, and the suite against it."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from esipp.catalog import HOUSE
from esipp.cluster import Cluster
from esipp.report.ledger import read_ledger
from esipp.topology import read_node


@dataclass(frozen=True)
class Result:
    """What a run of the suite said: exit code, and the status of every row."""

    exit_code: int
    statuses: dict[str, str]
    text: str

    def not_passed(self) -> dict[str, str]:
        """The rows that did not pass, with their status."""
        return {row: status for row, status in self.statuses.items() if status != "pass"}


@dataclass(frozen=True)
class Nodes:
    """The node containers, the pod CIDR of each family, and the context to reach the cluster by."""

    context: str
    containers: tuple[str, ...]
    pod_cidrs: dict[str, str]

    @classmethod
    def of(cls, context: str, kubeconfig: str | None) -> "Nodes":
        """Read them from the cluster; only containers of kind are ever touched."""
        cluster = Cluster(context, kubeconfig)
        found = [read_node(item) for item in cluster.list("/api/v1/nodes")]
        assert all(node.provider_id.startswith("kind://docker/") for node in found), "only kind nodes are broken"
        config = cluster.request("GET", "/api/v1/namespaces/kube-system/configmaps/kube-proxy")["data"]["config.conf"]
        listed = re.search(r"^clusterCIDR: (\S+)$", config, re.MULTILINE)
        assert listed is not None, "kube-proxy has no clusterCIDR"
        cidrs = {("ip6tables" if ":" in cidr else "iptables"): cidr for cidr in listed[1].split(",")}
        return cls(context, tuple(sorted(node.name for node in found)), cidrs)

    def run(self, *command: str) -> None:
        """Run a command on every node.

        Raises:
            CalledProcessError: it failed on one.
        """
        for container in self.containers:
            subprocess.run(["docker", "exec", container, *command], check=True, capture_output=True, timeout=30)

    @contextmanager
    def rule(self, program: str, chain: str, *rule: str) -> Iterator[None]:
        """A nat rule at the top of a chain on every node, taken away again whatever happens."""
        try:
            self.run(program, "--wait", "--table", "nat", "--insert", chain, *rule)
            yield
        finally:
            for container in self.containers:
                away = ["docker", "exec", container, program, "--wait", "--table", "nat", "--delete", chain, *rule]
                while subprocess.run(away, check=False, capture_output=True, timeout=30).returncode == 0:
                    pass  # also those that an interrupted earlier test left

    def qualify(self, out: Path) -> Result:
        """Run the whole suite on the cluster, as a user would."""
        command = [sys.executable, "-m", "esipp", "run", "--context", self.context, "--out", str(out)]
        done = subprocess.run(command, cwd=HOUSE, capture_output=True, text=True, timeout=300, check=False)
        records = list(read_ledger(out / "ledger.jsonl"))
        statuses = {record["id"]: record["status"] for record in records if record["record"] == "verdict"}
        return Result(done.returncode, statuses, done.stdout + done.stderr)
