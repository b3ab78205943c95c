"""Two hosts on a bridge such as kind's, before ``ci/test --over-ssh`` puts them on kind's own: what they are seen by.

The engine's namespace has the bridge and the addresses of docker's gateways; an echo server plays the reference
listeners of two nodes. Addresses are chosen from what docker tells of such a network.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from ci import network
from esipp.checks.model import Family
from tests.echoserver.harness import EchoServer
from tests.echoserver.namespaces import Namespace, needs_namespaces, sweep
from tests.hosts.bridged import EAST, LOCKED, PYTHONLESS, WEST, Hosts, hosts, routes
from tests.hosts.sshd import SSH_TOOLS
from tests.tools import needs_tool

HOUSE = Path(__file__).parents[2]
INSPECTED = json.loads((Path(__file__).parent / "kind-network.json").read_text())[0]
NODES = {"worker-1": ("172.18.0.3", "fc00:f853:ccd:e793::3"), "worker-2": ("172.18.0.5", "fc00:f853:ccd:e793::5")}

pytestmark = [
    *needs_namespaces,
    needs_tool(*SSH_TOOLS),
]


@dataclass
class Lab:
    """The engine's namespace, the hosts on its bridge, and the port of the nodes' listeners."""

    engine: Namespace
    hosts: Hosts
    port: int

    def learn(self, places: str) -> tuple[int, list[dict[str, Any]]]:
        """What esipp finds out about places, from the engine's namespace: the driver's exit code and words."""
        nodes = [f"{name}={address}" for name, addresses in NODES.items() for address in addresses]
        command = [*self.engine.prefix, sys.executable, "-B", "-m", "tests.hosts.driver", "learn", places]
        done = subprocess.run(
            [*command, str(self.port), *nodes], cwd=HOUSE, env=self.hosts.env, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        assert done.stderr == "", done.stderr
        return done.returncode, [json.loads(line) for line in done.stdout.splitlines()]

    def found(self, places: str) -> dict[tuple[str, str], tuple[str, str | None]]:
        """The same, of places that can be had: finding and address by client and family."""
        code, said = self.learn(places)
        assert code == 0, said
        return {(each["client"], each["family"]): (each["finding"], each["seen"]) for each in said}


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    sweep()
    bridge, nets = network.bridge_of(INSPECTED), network.subnets_of(INSPECTED)
    engine = Namespace()
    try:
        nodes = Namespace()
        try:
            engine.ip("link", "add", bridge, "type", "bridge")
            engine.ip("link", "set", bridge, "up")
            engine.ip("link", "add", "nodes", "type", "veth", "peer", "name", "eth0", "netns", nodes.name)
            engine.ip("link", "set", "nodes", "master", bridge, "up")
            nodes.ip("link", "set", "eth0", "up")
            for family, gateway in enumerate(("172.18.0.1", "fc00:f853:ccd:e793::1")):
                length = (16, 64)[family]
                engine.add_address(gateway, length, bridge)
                for addresses in NODES.values():
                    nodes.add_address(addresses[family], length, "eth0")
            taken = network.held(INSPECTED)
            given = list(zip(*(network.spare_addresses(net, 2, taken) for net in nets), strict=True))
            folder = tmp_path_factory.mktemp("beside")
            with (
                EchoServer(prefix=nodes.prefix) as echo,
                hosts(bridge, given, folder, engine) as made,
            ):
                yield Lab(engine, made, echo.ports["tcp"])
            ports = engine.shows("-o", "link", "show", "master", bridge)
            assert [line.split()[1].partition("@")[0] for line in ports.splitlines()] == ["nodes"]
        finally:
            nodes.remove()
    finally:
        engine.remove()


def test_both_are_seen_by_their_own_addresses(lab: Lab) -> None:
    east, west = lab.hosts.east.addresses, lab.hosts.west.addresses
    assert east.keys() == west.keys() == set(Family)
    assert lab.found(f"ssh:root@{EAST},ssh:{WEST}:22") == {
        (client, family.value): ("direct", addresses[family])
        for client, addresses in (("outside-1", east), ("outside-2", west))
        for family in Family
    }


def test_this_machine_is_seen_by_the_bridge_s_addresses(lab: Lab) -> None:
    assert lab.found("machine") == {
        ("outside-1", "IPv4"): ("direct", "172.18.0.1"),
        ("outside-1", "IPv6"): ("direct", "fc00:f853:ccd:e793::1"),
    }


def test_nothing_is_left_on_a_host(lab: Lab) -> None:
    lab.found(f"ssh:{EAST}")
    assert lab.hosts.east.sshd.until_alone()
    assert lab.hosts.east.sshd.files() == []


def test_what_a_host_would_leave_is_noticed(lab: Lab) -> None:
    ssh = [*lab.engine.prefix, "ssh", EAST]
    subprocess.run([*ssh, "touch left /tmp/left"], env=lab.hosts.env, check=True)
    left = lab.hosts.east.sshd.files()
    subprocess.run([*ssh, "rm left /tmp/left"], env=lab.hosts.env, check=True)
    assert len(left) == 2
    assert "/tmp/left" in left  # noqa: S108 - the host's own
    elsewhere = subprocess.run([*ssh, "touch /usr/left"], env=lab.hosts.env, capture_output=True, check=False)
    assert b"Read-only file system" in elsewhere.stderr
    assert lab.hosts.east.sshd.until_alone()


def test_a_process_that_a_host_would_keep_is_noticed(lab: Lab) -> None:
    ssh = [*lab.engine.prefix, "ssh", EAST, "echo here; read line"]
    with subprocess.Popen(ssh, env=lab.hosts.env, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as going:
        assert going.stdout is not None
        assert going.stdout.readline() == b"here\n"
        assert lab.hosts.east.sshd.others()
        going.communicate(b"\n")
    assert lab.hosts.east.sshd.until_alone()


def test_there_is_no_way_out(lab: Lab) -> None:
    for host in (lab.hosts.east, lab.hosts.west):
        assert not [line for line in routes(host) if line.startswith("default") or " via " in line]


def test_a_host_without_a_route_to_the_nodes_reaches_no_listener(lab: Lab) -> None:
    west = lab.hosts.west
    with west.cut_off_from(address for addresses in NODES.values() for address in addresses):
        code, said = lab.learn(f"ssh:{WEST}")
    assert (code, {each["finding"] for each in said}) == (0, {"unproven"})
    assert said[0]["said"].startswith("outside-1 reaches no control listener over IPv4 (dialled: worker-1, worker-2): ")
    assert lab.found(f"ssh:{WEST}")["outside-1", "IPv6"] == ("direct", west.addresses[Family.IPV6])


@pytest.mark.parametrize(
    ("host", "sentence"), [(LOCKED, "denies access"), (PYTHONLESS, f"There is no python3 on {PYTHONLESS}.")]
)
def test_a_host_that_cannot_be_had_is_a_sentence(lab: Lab, host: str, sentence: str) -> None:
    code, (said,) = lab.learn(f"ssh:{host}")
    assert code == 4
    assert sentence in said["error"], said
    assert said["hint"]
