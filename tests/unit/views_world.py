"""Clouds' command-line tools as scripts of ours: they answer from recorded files, and note what they are asked."""

import json
import os
import select
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from esipp.checks.model import Family
from esipp.judging.health_view import Asked, Places
from esipp.judging.topology import Node, parse_address
from esipp.loadbalancers.views.cli import Cli, Tool

RECORDED = Path(__file__).with_name("recorded") / "views"

_SCRIPT = """#!{python} -IS
import json, os, signal, sys
home, argv = {home!r}, sys.argv[1:]
answers = json.load(open(home + "/answers.json"))
taken = home + "/asked.jsonl"
before = [json.loads(line)["argv"] for line in open(taken)] if os.path.exists(taken) else []
with open(taken, "a") as out:
    out.write(json.dumps({{"argv": argv, "environment": dict(os.environ)}}) + "\\n")
for when in answers:
    fits = lambda asked: asked[:len(when["words"])] == when["words"] and all(each in asked for each in when["also"])
    if fits(argv):
        given = when["given"]
        now = given[min(sum(map(fits, before)), len(given) - 1)]
        if now["hangs"]:
            signal.pause()
        sys.stdout.write(now["out"])
        sys.stderr.write(now["err"])
        sys.exit(now["code"])
sys.exit("there is no answer for " + " ".join(argv))
"""


@dataclass(frozen=True)
class Given:
    """One answer."""

    out: str = ""
    err: str = ""
    code: int = 0
    hangs: bool = False


def recorded(name: str) -> Given:
    """An answer as it is recorded."""
    return Given((RECORDED / f"{name}.json").read_text())


def refused(err: str, code: int = 1) -> Given:
    """A failure."""
    return Given("", err + "\n", code)


class Fake:
    """A tool on a PATH of its own."""

    def __init__(self, folder: Path, program: str) -> None:
        self.home = folder
        self.path = folder / "bin"
        self.path.mkdir()
        script = self.path / program
        script.write_text(_SCRIPT.format(python=sys.executable, home=str(folder)))
        script.chmod(0o755)
        self._answers: list[dict[str, Any]] = []

    def when(self, words: str, *given: Given, also: Sequence[str] = ()) -> "Fake":
        """What it says to a command with these words first: one answer after the other, the last one for ever."""
        answers = [asdict(each) for each in given]
        self._answers.insert(0, {"words": words.split(), "also": list(also), "given": answers})
        (self.home / "answers.json").write_text(json.dumps(self._answers))
        return self

    def cli(self, tool: Tool, pauses: list[float] | None = None, **more: Any) -> Cli:
        """Our side; ``pauses`` gets the times for which it would have waited."""
        return Cli(tool, pause=(pauses if pauses is not None else []).append, environment=self.environment, **more)

    @property
    def environment(self) -> dict[str, str]:
        """What the user's shell has."""
        return {"PATH": str(self.path), "CLOUD_PROFILE": "the user's own"}

    @property
    def asked(self) -> list[list[str]]:
        """What it was asked, in order."""
        return [each["argv"] for each in self.runs]

    @property
    def runs(self) -> list[dict[str, Any]]:
        """The same with its environment."""
        taken = self.home / "asked.jsonl"
        return [json.loads(line) for line in taken.read_text().splitlines()] if taken.exists() else []

    def times(self, words: str) -> int:
        """How often it was asked so."""
        return sum(argv[: len(words.split())] == words.split() for argv in self.asked)


def node(name: str, address: str, provider_id: str = "") -> Node:
    return Node(name, {Family.IPV4: address}, frozenset({parse_address(address)}), provider_id=provider_id)


GCE = [
    node(f"gke-shop-pool-{n}", f"10.132.0.{n}", f"gce://shop-1234/europe-west1-{'bcd'[n - 1]}/gke-shop-pool-{n}")
    for n in (1, 2, 3)
]
AWS = [
    node(f"ip-10-0-{n}-4.eu-west-1.compute.internal", f"10.0.{n}.4", f"aws:///eu-west-1a/i-0aaaaaaaaaaaaaaa{n}")
    for n in (1, 2, 3)
]
_GROUP = "azure:///subscriptions/00000000-1111-2222-3333-444444444444/resourceGroups/mc_shop_shop_westeurope"
AZURE = [
    node(
        f"aks-pool-1234-vmss00000{n}", f"10.224.0.{n + 4}",
        f"{_GROUP}/providers/Microsoft.Compute/virtualMachineScaleSets/aks-pool-1234-vmss/virtualMachines/{n}",
    )
    for n in (0, 1, 2)
]  # fmt: skip
OPENSTACK = [node(f"node-{n}", f"10.0.0.{n}", f"openstack:///0d9e-{n}") for n in (1, 2, 3)]
KIND = [node(("worker", "worker2", "worker3")[n - 1], f"10.0.0.{n}") for n in (1, 2, 3)]


def places(nodes: Sequence[Node], pods: dict[str, str] | None = None) -> Places:
    return Places(nodes, lambda: pods or {})


def asked(address: str = "", hostname: str = "", name: str = "shop/web") -> Asked:
    """A Service with port 80 and node port 31080."""
    addresses, hostnames = ((each,) if each else () for each in (address, hostname))
    return Asked(name, addresses, hostnames, frozenset({80}), frozenset({31080}))


def names(nodes: Sequence[Node]) -> list[str]:
    return [each.name for each in nodes]


def is_gone(pid: int) -> bool:
    """Whether a process ends within a few seconds, or has ended."""
    try:
        watched = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    with open(watched, "rb", closefd=True):  # noqa: PTH123 - a descriptor, no path
        return bool(select.select([watched], [], [], 10.0)[0])
