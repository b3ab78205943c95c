"""A kind cluster with hosts beside its nodes: how esipp is run against it, and what it leaves in the cluster."""

import ipaddress
import json
import socket
import subprocess
import sys
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from esipp.base.json import Json
from esipp.base.labels import RUN_LABEL
from esipp.checks.catalog import HOUSE
from esipp.checks.model import Family
from esipp.ledger.reading import RecordedRun, read_run
from tests.hosts.bridged import Host, Hosts

RUN_SECONDS = 600
SECONDS = 120


@dataclass(frozen=True)
class Ended:
    """A command that is over: exit code, output; a run's folder."""

    code: int
    text: str
    folder: Path = Path()

    @cached_property
    def run(self) -> RecordedRun:
        """What its ledger tells."""
        return read_run(self.folder)

    def naming(self, secrets: list[str]) -> list[str]:
        """Where one of these stands: files of the run, and its output."""
        files = [each for each in self.folder.rglob("*") if each.is_file()]
        texts = {str(each.relative_to(self.folder)): each.read_bytes() for each in files}
        texts["what it printed"] = self.text.encode()
        return sorted(f"{where}: {word}" for where, text in texts.items() for word in secrets if word.encode() in text)


@dataclass(frozen=True)
class Kind:
    """A cluster's context, its nodes' InternalIPs by family, and the hosts beside them."""

    context: str
    nodes: dict[str, dict[Family, str]]
    hosts: Hosts

    @property
    def families(self) -> list[Family]:
        """Those that the cluster has."""
        return [family for family in Family if all(family in each for each in self.nodes.values())]

    def run(self, folder: Path, *words: str) -> Ended:
        """``esipp run``."""
        return self._esipp(
            "run", "--suite", "source_ip", "--samples", "20", "--out", str(folder), *words, folder=folder
        )

    def doctor(self, *words: str) -> tuple[int, Json]:
        """``esipp doctor``: its exit code and its report."""
        ended = self._esipp("doctor", "--suite", "source_ip", "--format", "json", *words)
        result: Json = json.loads(next(line for line in ended.text.splitlines() if line.startswith("{")))
        return ended.code, result

    def _esipp(self, command: str, *words: str, folder: Path = Path()) -> Ended:
        done = subprocess.run(
            [sys.executable, "-m", "esipp", command, "--context", self.context, *words], cwd=HOUSE, env=self.hosts.env,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=RUN_SECONDS,
            check=False,
        )  # fmt: skip
        return Ended(done.returncode, done.stdout, folder)

    def own_addresses(self) -> dict[Family, str]:
        """By which address this machine, where we are, speaks to nodes; nothing is sent to find out."""
        found = {}
        for family in self.families:
            node = next(iter(self.nodes.values()))[family]
            with socket.socket(socket.AF_INET6 if family is Family.IPV6 else socket.AF_INET, socket.SOCK_DGRAM) as sock:
                sock.connect((node, 9))
                found[family] = str(ipaddress.ip_address(sock.getsockname()[0]))
        return found

    def namespaces(self) -> list[str]:
        """The namespaces of runs."""
        command = ["kubectl", "--context", self.context, "get", "namespaces", "--selector", RUN_LABEL]
        done = subprocess.run(
            [*command, "--output", "name"], capture_output=True, text=True, timeout=SECONDS, check=False
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.split()

    def clean(self) -> None:
        """Remove what a run left that was killed."""
        command = [sys.executable, "-m", "esipp", "clean", "--context", self.context]
        subprocess.run(command, cwd=HOUSE, check=True, timeout=RUN_SECONDS)


def secrets_of(hosts: Hosts) -> list[str]:
    """What a report that may be published must not hold: hosts' names, and where keys are, and keys."""
    names = [name for host in (hosts.east, hosts.west) for name in (host.name, host.called)]
    keys = [path.read_text().splitlines()[1] for path in sorted(hosts.folder.glob("*")) if _is_private(path)]
    assert len(keys) > 1
    return [*names, str(hosts.folder), *keys]


def _is_private(path: Path) -> bool:
    return path.is_file() and "PRIVATE KEY" in path.read_text()


def left_on(host: Host) -> list[str]:
    """What of ours is on a host, once sessions had the time to end: processes and files."""
    alone = host.sshd.until_alone()
    return [*([] if alone else [f"process {pid}" for pid in sorted(host.sshd.others())]), *host.sshd.files()]
