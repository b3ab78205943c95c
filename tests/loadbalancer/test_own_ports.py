"""The filter that gives every connection of HAProxy a source port of its own."""

import platform
import subprocess
import sys
from pathlib import Path

import pytest

from images.loadbalancer.balancer.own_ports import MACHINES, program

HOUSE = Path(__file__).resolve().parents[2]
SHARE = """
import socket, sys
from images.loadbalancer.balancer.own_ports import IP_BIND_ADDRESS_NO_PORT, give_each_its_own
if sys.argv[1:] == ["filtered"]:
    give_each_its_own()
def bound(family, host):
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.setsockopt(socket.IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1)
    sock.setsockopt(socket.IPPROTO_IP, socket.IP_TTL, 7)
    sock.bind((host, 0))
    assert family != socket.AF_INET or sock.getsockopt(socket.IPPROTO_IP, socket.IP_TTL) == 7
    return sock
socks = [bound(socket.AF_INET, "127.0.0.1") for _ in range(200)]
print(len({sock.getsockname()[1] for sock in socks} - {0}))
"""


def ports(*arguments: str) -> int:
    """How many ports 200 sockets have that are bound as HAProxy binds them."""
    command = [sys.executable, "-c", SHARE, *arguments]
    done = subprocess.run(command, cwd=HOUSE, capture_output=True, text=True, timeout=30, check=True)
    assert done.stderr == ""
    return int(done.stdout)


@pytest.mark.skipif(platform.machine() not in MACHINES, reason="no filter for this machine")
def test_each_connection_has_a_port_before_it_is_made() -> None:
    assert ports() == 0, "without the filter the kernel chooses in connect(), for each destination apart"
    assert ports("filtered") == 200


def test_a_machine_that_is_not_known_has_no_filter() -> None:
    assert program("riscv64") == b""
    assert {len(program(machine)) for machine in MACHINES} == {80}
