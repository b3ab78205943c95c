"""Runs of the suite as a user starts them, changes of their environment meanwhile, and what they leave behind."""

import os
import re
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from esipp.base.json import Json
from esipp.base.labels import RUN_LABEL
from esipp.base.waiting import Budget, Reading, converge
from esipp.checks.catalog import HOUSE
from esipp.cluster.client import Cluster
from esipp.cluster.namespaces import of_runs
from esipp.ledger.file import read_ledger
from esipp.probing import outside

CHECKS = ("nodeport.local.tcp.ipv4", "nodeport.cluster.tcp.ipv4.outside-1", "clusterip.tcp.ipv4.pod-on-other-node")
"""Enough checks for every kind of client, and few enough to be quick."""

REACHED = 700.0
OVER = 1000.0


@dataclass
class Esipp:
    """An ``esipp run`` in a process of its own; its output goes to a file that can be read while it goes on."""

    process: subprocess.Popen[bytes]
    said: Path
    folder: Path
    context: str
    began: float = field(default_factory=time.monotonic)

    @property
    def text(self) -> str:
        """All that it has said so far."""
        return self.said.read_text(errors="replace")

    @property
    def run(self) -> str:
        """Its id; empty until its namespace is made."""
        found = re.search(r"namespace esipp-(\d{4}-\d{6}-[0-9a-f]{4})", self.text)
        return found[1] if found else ""

    @property
    def namespace(self) -> str:
        """Its namespace."""
        return f"esipp-{self.run}"

    def reach(self, phase: str) -> "Esipp":
        """Wait until a phase of it begins."""
        budget = Budget(f"phase {phase}", REACHED, need=1, spacing=0.02)

        def look() -> Reading:
            text = self.text
            return Reading(f"[esipp] {phase}: " in text, text[-1500:], hopeless=self.process.poll() is not None)

        waited = converge(look, budget)
        assert waited.held, waited
        return self

    def end(self) -> "Ended":
        """Wait until it is over."""
        code = self.process.wait(OVER)
        return Ended(code, self.text, self.folder, round(time.monotonic() - self.began, 1), self.run)


@dataclass(frozen=True)
class Ended:
    """A run that is over: exit code, output, the run's folder, seconds it took, its id."""

    code: int
    text: str
    folder: Path
    seconds: float
    run: str = ""

    @cached_property
    def records(self) -> list[Json]:
        """Its ledger."""
        path = self.folder / "ledger.jsonl"
        return list(read_ledger(path)) if path.exists() else []

    @property
    def statuses(self) -> dict[str, str]:
        """Each check that was judged, with its status."""
        return {each["id"]: each["status"] for each in self.records if each["record"] == "verdict"}

    @property
    def reasons(self) -> dict[str, str]:
        """The same with the reasons."""
        return {each["id"]: each["reason"] for each in self.records if each["record"] == "verdict"}

    @property
    def product_is_blamed(self) -> list[str]:
        """Checks with a verdict against the product."""
        return sorted(check for check, status in self.statuses.items() if status in ("fail", "flaky"))

    @property
    def messages(self) -> list[str]:
        """What a user reads: each sentence of the harness with its hint, or the last word on the product."""
        found = re.findall(r"^(?:esipp|ERROR): (.+(?:\n  hint: .+)?)", self.text, re.MULTILINE)
        found = found or re.findall(r"^[A-Z]{5,}: .+$", self.text, re.MULTILINE)[-1:]
        return [str(each) for each in found] or [self.text[-400:]]

    @property
    def message(self) -> str:
        """The first of them."""
        return self.messages[0]


@dataclass(frozen=True)
class Place:
    """A cluster, and a folder for runs on it."""

    cluster: Cluster
    folder: Path

    def start(
        self,
        *more: str,
        checks: Sequence[str] = CHECKS,
        suites: Sequence[str] = ("source_ip",),
        samples: int = 20,
        name: str = "run",
        context: str | None = None,
        out: Path | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> Esipp:
        """Start a run of these checks; a later ``--image`` and the like go before."""
        folder, said = out or self.folder / name, self.folder / f"{name}.said"
        command = [sys.executable, "-m", "esipp", "run", "--context", context or self.cluster.context]
        command += [*(f"--suite={suite}" for suite in suites), "--samples", str(samples), "--out", str(folder)]
        command += [*more, *checks]
        with said.open("wb") as log:
            process = subprocess.Popen(
                command, cwd=HOUSE, stdout=log, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                env={**os.environ, **(environment or {})},
            )  # fmt: skip
        return Esipp(process, said, folder, self.cluster.context)

    def left(self, ended: Ended) -> list[str]:
        """The resources that a run left behind: its namespace, its containers."""
        spaces = [each["metadata"]["labels"].get(RUN_LABEL) for each in of_runs(self.cluster)]
        containers = [run for run, _ in outside.left_behind(self.cluster.server).values()]
        left = ["its namespace" for run in spaces if run == ended.run]
        return left + ["a container" for run in containers if run == ended.run]

    def clean(self, *options: str) -> str:
        """Remove what is left."""
        return clean(self.cluster, *options)


CLEAN = Budget("the cluster being clean", 600.0, need=1, spacing=2.0)


def clean(cluster: Cluster, *options: str) -> str:
    """What ``esipp clean`` says, once it can do its work."""
    command = [sys.executable, "-m", "esipp", "clean", "--context", cluster.context, *options]

    def look() -> Reading:
        done = subprocess.run(command, cwd=HOUSE, capture_output=True, text=True, timeout=500, check=False)
        return Reading(done.returncode == 0, done.stdout + done.stderr)

    waited = converge(look, CLEAN)
    assert waited.held, waited
    return waited.state


def docker(*arguments: str, check: bool = True, text: str | None = None) -> str:
    """What a docker command prints."""
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True, timeout=120, check=False, input=text)
    assert not check or done.returncode == 0, done.stderr
    return done.stdout


def control_plane(cluster: Cluster) -> str:
    """The container of the control-plane node."""
    label = "node-role.kubernetes.io/control-plane"
    (node,) = cluster.list("/api/v1/nodes", labelSelector=label)
    return str(node["metadata"]["name"])
