"""Clients outside for real: this machine and hosts over ssh, each a network namespace; one stands behind NAT.

client 10.1.0.2, host 10.2.0.2 and natted 10.3.0.2 (sshd on both) are beside a router that leads to the server, 10.4.0.2
and 10.4.0.3, where an echo server plays the control listeners of two nodes. Nothing has an uplink.
"""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.echoserver.harness import EchoServer, Process
from tests.echoserver.namespaces import Namespace, needs_namespaces, rules, sweep, wire, within
from tests.hosts.sshd import SSH_TOOLS, Sshd, prepare
from tests.tools import needs_tool

HOUSE = Path(__file__).parents[2]
NODES = ("worker-1=10.4.0.2", "worker-2=10.4.0.3", "worker-1=fd04::2", "worker-2=fd04::3")

pytestmark = [
    *needs_namespaces,
    needs_tool(*SSH_TOOLS),
]

SSH_CONFIG = """
Host alias
    HostName 10.2.0.2
    User root
Host stranger
    HostName 10.2.0.2
    UserKnownHostsFile /dev/null
Host locked
    HostKeyAlias 10.2.0.2
    HostName 10.2.0.2
    IdentityFile {folder}/other
Host bare
    HostKeyAlias 10.2.0.2
    HostName 10.2.0.2
    User root
    IdentityFile {folder}/bare
Host * !locked !bare
    IdentityFile {folder}/key
Host *
    IdentitiesOnly yes
    GlobalKnownHostsFile /dev/null
    UserKnownHostsFile {folder}/known
"""


@dataclass
class Lab:
    client: Namespace
    host: Namespace
    natted: Namespace
    router: Namespace
    port: int
    env: dict[str, str] = field(default_factory=dict)

    def command(self, *words: str) -> list[str]:
        return [*self.client.prefix, sys.executable, "-B", "-m", "tests.hosts.driver", *words]

    def learn(self, places: str, *nodes: str) -> tuple[int, list[dict[str, Any]]]:
        command = self.command("learn", places, str(self.port), *(nodes or NODES))
        done = subprocess.run(command, cwd=HOUSE, env=self.env, capture_output=True, text=True, check=False)
        assert done.stderr == "", done.stderr
        return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]

    def found(self, places: str, *nodes: str) -> dict[tuple[str, str], tuple[str, str | None]]:
        code, said = self.learn(places, *nodes)
        assert code == 0, said
        return {(each["client"], each["family"]): (each["finding"], each["seen"]) for each in said}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    sweep()
    folder = tmp_path_factory.mktemp("ssh")
    env = prepare(folder, ("10.2.0.2", "10.3.0.2", "fd03::2", "alias"), SSH_CONFIG.format(folder=folder))
    made: list[Namespace] = []
    try:
        for _ in range(5):
            made.append(Namespace())
        client, host, natted, server, router = made
        for net, each in enumerate((client, host, natted, server), 1):
            wire(each, router, ("eth0", f"side{net}"), net)
            each.ip("route", "add", "default", "via", f"10.{net}.0.1")
            each.ip("-6", "route", "add", "default", "via", f"fd0{net}::1")
        server.add_address("10.4.0.3", 24, "eth0")
        server.add_address("fd04::3", 64, "eth0")
        for key in ("ipv4/ip_forward", "ipv6/conf/all/forwarding"):
            router.sysctl(key, "1")
        with (
            rules(router, "ipv4", "nat POSTROUTING -s 10.3.0.0/24 -o side4 -j MASQUERADE"),
            EchoServer(prefix=server.prefix) as echo,
            Sshd(host, folder, "one"),
            Sshd(natted, folder, "other"),
        ):
            yield Lab(client, host, natted, router, echo.ports["tcp"], env)
    finally:
        for namespace in made:
            namespace.remove()


def test_this_machine_is_seen_as_it_is(lab: Lab) -> None:
    assert lab.found("machine") == {
        ("outside-1", "IPv4"): ("direct", "10.1.0.2"),
        ("outside-1", "IPv6"): ("direct", "fd01::2"),
    }


def test_hosts_over_ssh_one_of_them_behind_nat(lab: Lab) -> None:
    code, said = lab.learn("machine,ssh:root@10.2.0.2:22,ssh:root@10.3.0.2")
    assert code == 0, said
    assert {(each["client"], each["family"]): (each["finding"], each["seen"]) for each in said} == {
        ("outside-1", "IPv4"): ("direct", "10.1.0.2"),
        ("outside-1", "IPv6"): ("direct", "fd01::2"),
        ("outside-2", "IPv4"): ("direct", "10.2.0.2"),
        ("outside-2", "IPv6"): ("direct", "fd02::2"),
        ("outside-3", "IPv4"): ("nat", "10.4.0.1"),
        ("outside-3", "IPv6"): ("direct", "fd03::2"),
    }
    (nat,) = [each["said"] for each in said if each["finding"] == "nat"]
    assert nat == ("outside-3 is behind NAT: its own address is 10.3.0.2, and nodes worker-1 and worker-2 see 10.4.0.1")


def test_the_user_s_configuration_of_ssh_holds(lab: Lab) -> None:
    assert lab.found("ssh:alias")["outside-1", "IPv4"] == ("direct", "10.2.0.2")


def test_one_node_s_word_does_not_prove_nat(lab: Lab) -> None:
    code, said = lab.learn("ssh:root@10.3.0.2", "worker-1=10.4.0.2")
    assert (code, said[0]["finding"]) == (0, "unproven")
    assert "one witness is no proof" in said[0]["said"]


def test_nat_that_shows_each_node_another_address(lab: Lab) -> None:
    lab.router.add_address("10.4.0.9", 24, "side4")
    try:
        with rules(lab.router, "ipv4", "nat POSTROUTING -s 10.2.0.0/24 -d 10.4.0.3 -j SNAT --to-source 10.4.0.9"):
            code, said = lab.learn("ssh:root@10.2.0.2")
    finally:
        lab.router.ip("addr", "del", "10.4.0.9/24", "dev", "side4")
    assert (code, said[0]["finding"]) == (0, "unproven")
    assert "with different addresses" in said[0]["said"]


def test_two_names_of_one_host_are_one_client(lab: Lab) -> None:
    code, said = lab.learn("ssh:root@10.3.0.2,ssh:root@[fd03::2]")
    second = [each for each in said if each["client"] == "outside-2"]
    assert code == 0
    assert [each["finding"] for each in second] == ["unproven", "unproven"]
    assert second[0]["said"] == "outside-2 and outside-1 both appear as 10.4.0.1: the nodes cannot tell them apart"


@pytest.mark.parametrize(
    ("place", "sentence"),
    [
        ("ssh:root@stranger", "is unknown to ssh"),
        ("ssh:root@locked", "denies access"),
        ("ssh:bare", "There is no python3 on bare."),
        ("ssh:root@10.2.0.2:9", "over ssh: ssh: connect to host"),
        ("ssh:root@198.51.100.9", "over ssh: ssh: connect to host"),
    ],
)
def test_what_hinders_ssh_is_a_sentence(lab: Lab, place: str, sentence: str) -> None:
    lab.client.ip("route", "add", "unreachable", "198.51.100.9")
    try:
        code, (said,) = lab.learn(place)
    finally:
        lab.client.ip("route", "del", "unreachable", "198.51.100.9")
    assert code == 4
    assert sentence in said["error"], said
    assert said["hint"]


def test_the_far_side_ends_when_we_are_killed(lab: Lab) -> None:
    before = within(lab.host.name)
    with Process(lab.command("hold", "ssh:root@10.2.0.2"), {**lab.env, "PYTHONPATH": str(HOUSE)}) as driver:
        pid = driver.wait_for(lambda line: "pid" in line)["pid"]
        assert pid in within(lab.host.name) - before
        opened = {str(each.readlink()) for each in Path(f"/proc/{pid}/fd").iterdir()}
        assert not [name for name in opened if name.startswith("/") and name != "/dev/null"], "nothing is written"
        handle = os.pidfd_open(pid)
    try:  # leaving the block killed the driver, with SIGKILL
        assert select.select([handle], [], [], 60)[0], "the prober over there goes on"
    finally:
        os.close(handle)
