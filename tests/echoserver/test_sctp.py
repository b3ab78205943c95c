"""SCTP by hand: packets as both sides write and read them, what the echo server keeps silent to, and rights."""

from __future__ import annotations

import importlib
import json
import os
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from images.echoserver import prober
from tests.echoserver.harness import IMAGE, LOOPBACK, PATIENCE, EchoServer, Prober
from tests.tools import needs_root, needs_tool

sys.path.append(str(IMAGE))  # the server's modules know each other as they lie in the image
sctp: Any = importlib.import_module("sctp")


@pytest.mark.parametrize(
    ("data", "checksum"),
    [  # RFC 3720, B.4, and the usual check value
        (b"123456789", 0xE3069283),
        (bytes(32), 0x8A9136AA),
        (b"\xff" * 32, 0x62A8AB43),
        (bytes(range(32)), 0x46DD794E),
    ],
)
def test_checksum(data: bytes, checksum: int) -> None:
    assert sctp.crc32c(data) == checksum
    for seal in (sctp.sealed, prober.sealed):  # it is over the whole packet, its own place counted as zero
        packet = seal(data[:8].ljust(8), data[8:])
        assert packet[8:12] == struct.pack("<I", sctp.crc32c(packet[:8] + bytes(4) + packet[12:]))


@given(nonce=st.text("azAZ09._:-", min_size=1, max_size=128), tag=st.integers(1, 0xFFFFFFFF))
def test_both_sides_understand_each_other(nonce: str, tag: int) -> None:
    packet = prober.sctp_init(40000, 7000, tag, nonce.encode())
    assert len(packet) % 4 == 0
    assert sctp.question(packet, 7000) == (40000, tag, nonce)
    document = json.dumps({"schema": 1, "nonce": nonce, "peer_address": "192.0.2.1", "peer_port": 40000})
    answer = sctp.answer(7000, 40000, tag, document.encode())
    assert len(answer) % 4 == 0
    assert struct.unpack_from("!HHI", answer) == (7000, 40000, tag)
    assert prober.sctp_document(answer, nonce) == (json.loads(document), "")


def chunk(packet: bytes, at: int, new: bytes) -> bytes:
    """A packet with some of its bytes replaced, and a right checksum."""
    changed = packet[:at] + new + packet[at + len(new) :]
    return bytes(sctp.sealed(changed[:8], changed[12:]))


GOOD = prober.sctp_init(40000, 7000, 77, b"nonce:1")
NOT_ASKED = {
    "nothing": b"",
    "header only": GOOD[:12],
    "cut": GOOD[:40],
    "another port": chunk(GOOD, 2, b"\x00\x07"),
    "source port 0": chunk(GOOD, 0, bytes(2)),
    "a verification tag": chunk(GOOD, 4, b"\0\0\0\1"),
    "INIT-ACK": chunk(GOOD, 12, b"\2"),
    "ABORT": chunk(GOOD, 12, b"\6"),
    "tag 0": chunk(GOOD, 16, bytes(4)),
    "no streams": chunk(GOOD, 24, bytes(4)),
    "bad checksum": GOOD[:8] + b"\1\2\3\4" + GOOD[12:],
    "length too small": chunk(GOOD, 14, b"\0\4"),
    "length too large": chunk(GOOD, 14, b"\1\0"),
    "a second chunk": bytes(sctp.sealed(GOOD[:8], GOOD[12:] + b"\x0b\0\0\4")),
    "no nonce": chunk(GOOD, 32, b"\x80\x05"),
    "a bad nonce": chunk(GOOD, 36, b"a b"),
    "parameter of no length": chunk(GOOD, 34, bytes(2)),
    "parameter too long": chunk(GOOD, 34, b"\0\xff"),
}


@pytest.mark.parametrize("kind", NOT_ASKED)
def test_what_is_no_question(kind: str) -> None:
    assert sctp.question(NOT_ASKED[kind], 7000) is None
    assert sctp.question(GOOD, 7000) == (40000, 77, "nonce:1")


def test_other_parameters_are_skipped() -> None:
    parameters = struct.pack("!HHI", 0xC000, 4, 0)[:4] + struct.pack("!HHB3x", 0x8005, 5, 1) + GOOD[32:]
    packet = sctp.sealed(GOOD[:8], GOOD[12:14] + struct.pack("!H", 20 + len(parameters) - 1) + GOOD[16:32] + parameters)
    assert sctp.question(packet, 7000) == (40000, 77, "nonce:1")


@given(data=st.binary(max_size=100))
def test_garbage(data: bytes) -> None:
    sctp.question(data, 7000)
    assert sctp.question(sctp.sealed(GOOD[:8], GOOD[12:32] + data), 7000) is None or b"\xbe\x51" in data
    prober.sctp_document(sctp.sealed(GOOD[:8], GOOD[12:32] + data), "n")


def free_port() -> int:
    """No other test of ours that runs beside uses it."""
    return 10_000 + os.getpid() % 20_000


@pytest.fixture(scope="module")
def server() -> Iterator[EchoServer]:
    with EchoServer(f"--sctp={free_port()}", env={"POD_NAME": "echo-1"}) as running:
        yield running
        running.check()


@needs_root
@pytest.mark.parametrize("family", LOOPBACK)
def test_only_questions_are_answered(server: EchoServer, family: str) -> None:
    port, kind = server.ports["sctp"], socket.AF_INET6 if family == "ipv6" else socket.AF_INET
    since = len(server.documents())
    with socket.socket(kind, socket.SOCK_RAW, 132) as sock:
        sock.settimeout(PATIENCE)
        for packet in NOT_ASKED.values():
            there = (
                packet if len(packet) < 12 or packet[2:4] != GOOD[2:4] else chunk(packet, 2, struct.pack("!H", port))
            )
            if packet is NOT_ASKED["bad checksum"]:
                there = there[:8] + bytes(4) + there[12:]
            sock.sendto(there, (LOOPBACK[family], 0))
        sock.sendto(prober.sctp_init(40000, port, 99, f"after-{family}".encode()), (LOOPBACK[family], 0))
        while True:  # the socket hears what it sends to the same machine
            packet = sock.recv(4096)[20 if family == "ipv4" else 0 :]
            if packet[12:13] == b"\2" and struct.unpack_from("!H", packet)[0] == port:
                break
    assert struct.unpack_from("!HHI", packet) == (port, 40000, 99)
    document, problem = prober.sctp_document(packet, f"after-{family}")
    assert document, problem
    assert (document["protocol"], document["family"], document["pod"]) == ("sctp", family, "echo-1")
    assert (document["peer_address"], document["peer_port"]) == (LOOPBACK[family], 40000)
    assert (document["local_address"], document["local_port"]) == (LOOPBACK[family], port)
    server.wait_for(lambda line: line.get("nonce") == f"after-{family}")
    assert len(server.documents()) == since + 1


@needs_root
def test_an_answer_is_one_packet() -> None:
    """Names as long as Kubernetes allows: some are left out, the addresses never."""
    names = {"POD_NAME": "p" * 253, "NODE_NAME": "n" * 253, "POD_NAMESPACE": "s" * 63, "POD_IP": "fd00::1234"}
    names["POD_IPS"] = ",".join(["fd00:10:244:1111:2222:3333:4444:5555"] * 8)
    with EchoServer(f"--sctp={free_port() + 1}", env=names) as server, Prober() as prober_process:
        result = prober_process.probe("sctp", "::1", server.ports["sctp"], id="x" * 64)
    assert result["outcome"] == "answered", result
    assert "pod_ips" not in result["echo"]
    assert result["echo"]["node"] == "n" * 253
    assert len(json.dumps(result["echo"])) <= sctp.ROOM


@needs_root
def test_a_brief_job_and_no_loops(server: EchoServer) -> None:
    """Every answer reaches the server's own raw socket on this machine: it must not answer that again."""
    with Prober() as process:
        since = len(server.documents())
        job = process.give("sctp", "127.0.0.1", server.ports["sctp"], count=100, brief=True, parallel=4)
        process.wait_for(lambda line: line.get("id") == job and "done" in line)
        (group,) = [line for line in process.lines if line.get("id") == job and "outcome" in line]
    assert (group["outcome"], group["count"], group["connected_count"]) == ("answered", 100, 0)
    assert "tag" not in group
    time.sleep(0.2)
    assert len(server.documents()) == since + 100


@needs_root
@needs_tool("setpriv")
def test_without_the_right() -> None:
    drop = ["setpriv", "--bounding-set=-net_raw", "--inh-caps=-all"]
    with Prober(prefix=drop) as process:
        result = process.probe("sctp", "127.0.0.1", 9)
    assert result["outcome"] == "error"
    assert result["detail"].startswith("EPERM: ")
    assert "CAP_NET_RAW" in result["detail"]
    command = [*drop, sys.executable, "-B", str(IMAGE / "echoserver.py"), "--sctp=7"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == "cannot listen on sctp port 7: Operation not permitted\n"


@pytest.mark.parametrize("port", ["0", "x", "65536"])
def test_wrong_ports(port: str) -> None:
    command = [sys.executable, "-B", str(IMAGE / "echoserver.py"), f"--sctp={port}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("--sctp is a port")
