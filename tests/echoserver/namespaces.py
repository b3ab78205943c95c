"""Network namespaces that tests make, wire and remove; nothing in them has an uplink."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.echoserver.harness import PATIENCE
from tests.tools import needs_tool, require_tool

numbers = itertools.count()


def namespaces_work() -> bool:
    """Whether this user may make a network namespace; without iproute2 nothing says no, and needs_tool speaks."""
    if os.geteuid() != 0:
        return False
    if not shutil.which("ip"):
        return True
    name = f"esipp-try-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, check=False).returncode == 0
    if made:
        subprocess.run(["ip", "netns", "del", name], check=False)
    return made


TOOLS = ("ip", "nsenter", "unshare")
NOT_ALLOWED = "network namespaces need root, and a kernel that allows them"
needs_namespaces = [pytest.mark.skipif(not namespaces_work(), reason=NOT_ALLOWED), needs_tool(*TOOLS)]


def sweep() -> None:
    """Remove the namespaces of test processes that were killed, and what still runs in them."""
    for path in Path("/run/netns").glob("esipp-*-*"):
        owner = path.name.split("-")[1]
        if owner.isdigit() and not Path(f"/proc/{owner}").exists():
            end_within(path.name)
            subprocess.run(["ip", "netns", "del", path.name], capture_output=True, check=False)


def within(name: str) -> set[int]:
    """The processes in a namespace; none where there is no such namespace."""
    listed = subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True, check=False)
    return {int(pid) for pid in listed.stdout.split()}


def end_within(name: str) -> None:
    """Kill what runs in a namespace: without a name it would live on, with its addresses."""
    for pid in within(name):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


class Namespace:
    """A network namespace that is gone at the end."""

    def __init__(self) -> None:
        self.name = f"esipp-{os.getpid()}-{next(numbers)}"
        ip("netns", "add", self.name)
        self.ip("link", "set", "lo", "up")
        for family, key in (("ipv6", "accept_dad"), ("ipv6", "dad_transmits")):  # addresses are usable at once
            self.sysctl(f"{family}/conf/all/{key}", "0")
            self.sysctl(f"{family}/conf/default/{key}", "0")

    def ip(self, *arguments: str) -> None:
        ip("-n", self.name, *arguments)

    def add_address(self, address: str, length: int, device: str) -> None:
        """Add an address; an IPv6 one can be used only once the kernel's worker has entered its route."""
        six = ":" in address
        self.ip("addr", "add", f"{address}/{length}", "dev", device, *(["nodad"] if six else []))
        end = time.monotonic() + PATIENCE
        while six and not self.shows("-6", "route", "show", "table", "local", "type", "local", address):
            assert time.monotonic() < end, f"{address} is not usable"
        while six and self.shows("-6", "addr", "show", "to", address, "tentative"):
            assert time.monotonic() < end, f"{address} is not usable"

    def shows(self, *arguments: str) -> str:
        return subprocess.run(["ip", "-n", self.name, *arguments], capture_output=True, text=True, check=True).stdout

    @property
    def prefix(self) -> list[str]:
        return ["nsenter", f"--net=/run/netns/{self.name}", "--"]

    def sysctl(self, key: str, value: str) -> None:
        command = [*self.prefix, "sh", "-c", f"echo {value} > /proc/sys/net/{key}"]
        subprocess.run(command, check=True, capture_output=True)

    def remove(self) -> None:
        ip("netns", "del", self.name)


def ip(*arguments: str) -> None:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"ip {' '.join(arguments)}: {done.stderr}"


def wire(one: Namespace, other: Namespace, names: tuple[str, str], net: int) -> None:
    one.ip("link", "add", names[0], "type", "veth", "peer", "name", names[1], "netns", other.name)
    for namespace, name, _ in ((one, names[0], 2), (other, names[1], 1)):
        namespace.ip("link", "set", name, "up")
    for namespace, name, host in ((one, names[0], 2), (other, names[1], 1)):
        namespace.add_address(f"10.{net}.0.{host}", 24, name)
        namespace.add_address(f"fd0{net}::{host}", 64, name)


@contextlib.contextmanager
def rules(namespace: Namespace, family: str, *rules: str) -> Iterator[None]:
    """iptables rules, each "TABLE CHAIN WHAT", for a while."""
    program = "ip6tables" if family == "ipv6" else "iptables"
    require_tool(program)
    added: list[list[str]] = []
    try:
        for rule in rules:
            table, chain, *what = rule.split()
            command = [*namespace.prefix, program, "-w", "-t", table]
            done = subprocess.run([*command, "-A", chain, *what], capture_output=True, text=True, check=False)
            if done.returncode != 0:
                pytest.skip(f"{program} cannot do that here: {done.stderr}")
            added.append([*command, "-D", chain, *what])
        yield
    finally:
        for command in added:
            subprocess.run(command, check=True)
