"""What streams need of the prober and of the echo server: sizes, transfers, one source port, and no answers."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator

import pytest

from tests.echoserver.harness import LOOPBACK, EchoServer, Prober, document, exchange, http, tcp_server, udp_server
from tests.tools import needs_root


@pytest.mark.parametrize("family", LOOPBACK)
@pytest.mark.parametrize("size", [1, 65521, 10_000_000])
def test_what_is_transferred_comes_back(server: EchoServer, prober: Prober, family: str, size: int) -> None:
    result = prober.probe("bulk", LOOPBACK[family], server.ports["tcp"], size=size)
    assert (result["outcome"], result["detail"], result["bytes"]) == ("answered", None, size)
    assert (result["echo"]["pod"], result["echo"]["peer_port"]) == ("echo-1", result["source_port"])


def lies(change: bytes, until: int) -> Iterator[int]:
    """A server that sends back what it gets but for its first bytes, and closes after some bytes."""

    def serve(sock: socket.socket) -> None:
        lines = sock.makefile("rb")
        _, _, nonce = lines.readline().decode().split()
        sock.sendall(json.dumps(document(nonce)).encode() + b"\n" + change)
        done = len(change)
        lines.read(done)
        while done < until and (data := lines.read1(min(65536, until - done))):
            sock.sendall(data)
            done += len(data)

    with tcp_server(serve) as port:
        yield port


def test_a_changed_byte_is_noticed(prober: Prober) -> None:
    for port in lies(b"\0\1\2\3", 200_000):
        result = prober.probe("bulk", "127.0.0.1", port, size=200_000)
    assert (result["outcome"], result["bytes"]) == ("invalid", 200_000)
    assert result["detail"].startswith("other bytes than were sent")


def test_a_transfer_cut_short_is_a_reset(prober: Prober) -> None:
    for port in lies(b"", 100_000):
        result = prober.probe("bulk", "127.0.0.1", port, size=8_000_000)
    assert result["outcome"] == "reset"
    assert result["bytes"] <= 100_000
    assert "came back" in result["detail"]


def test_a_transfer_that_stalls_is_a_timeout(prober: Prober) -> None:
    def serve(sock: socket.socket) -> None:
        nonce = sock.recv(1000).split(b"\n")[0].split()[2].decode()
        sock.sendall(json.dumps(document(nonce)).encode() + b"\n12")
        while sock.recv(65536):
            pass

    with tcp_server(serve) as port:
        result = prober.probe("bulk", "127.0.0.1", port, size=50_000_000, timeout=0.4)
    assert (result["outcome"], result["bytes"]) == ("timeout", 2)
    assert result["detail"].startswith("stalled; of 50000000 bytes")


@pytest.mark.parametrize("line", [b"bulk 0 n\n", b"bulk 1e3 n\n", b"bulk 999999999999 n\n", b"bulk 5\n"])
def test_a_transfer_of_no_size_is_refused(server: EchoServer, line: bytes) -> None:
    assert exchange("ipv4", server.ports["tcp"], line) == b""


@pytest.mark.parametrize("family", LOOPBACK)
@pytest.mark.parametrize("size", [10, 1400, 4000, "mtu"])
def test_answers_are_as_large_as_datagrams(server: EchoServer, prober: Prober, family: str, size: int | str) -> None:
    result = prober.probe("udp", LOOPBACK[family], server.ports["udp"], size=size)
    assert result["outcome"] == "answered"
    assert result["bytes"] >= (10_000 if size == "mtu" else int(size))


def test_a_smaller_answer_is_no_answer(prober: Prober) -> None:
    def serve(sock: socket.socket, data: bytes, peer: tuple[str, int]) -> None:
        nonce, _, padding = data.decode().partition(" ")
        assert not padding.strip(".")
        sock.sendto(json.dumps(document(nonce)).encode(), peer)

    with udp_server(serve) as port:
        result = prober.probe("udp", "127.0.0.1", port, size=1400)
    assert result["outcome"] == "invalid"
    assert "in answer to 1400" in result["detail"]


def test_datagrams_that_nobody_answers_are_counted(server: EchoServer, prober: Prober) -> None:
    job = {"one_way": True, "count": 4, "spacing": 0.01, "host": "127.0.0.1", "port": server.ports["udp"]}
    logged = len(server.documents())
    results = prober.take(prober.give("udp", job.pop("host"), job.pop("port"), **job))
    assert {result["outcome"] for result in results} == {"sent"}
    assert len({result["source_port"] for result in results}) == 1
    nonces = results[0]["nonce"].rpartition(":")[0]
    answer = http(server.ports["http"], f"/counted?nonce={nonces}")
    port = results[0]["source_port"]
    senders = [{"address": "127.0.0.1", "port": port, "arrived": [[0, 3]]}]
    assert json.loads(answer.text) == {"pod": "echo-1", "senders": senders}
    assert json.loads(http(server.ports["http"], "/counted?nonce=other").text)["senders"] == []
    assert len(server.documents()) == logged


def test_what_is_lost_leaves_a_gap_in_the_count(server: EchoServer) -> None:
    with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as sock:
        for number in (0, 1, 5, 6):
            sock.sendto(f"count gap:{number} ....".encode(), ("::1", server.ports["udp"]))
        sock.sendto(b"count gap:x", ("::1", server.ports["udp"]))
    (sender,) = json.loads(http(server.ports["http"], "/counted?nonce=gap").text)["senders"]
    assert sender["arrived"] == [[0, 1], [5, 6]]


@needs_root
def test_sctp_from_one_port_goes_on_without_answers(prober: Prober) -> None:
    job = prober.give("sctp", "127.0.0.1", 9, count=4, one_socket=True, spacing=0.05, timeout=0.5)
    results = prober.take(job)
    assert {result["outcome"] for result in results} <= {"timeout", "refused"}
    assert len({result["source_port"] for result in results}) == 1
    assert len({result["tag"] for result in results}) == 4


@pytest.mark.parametrize(
    ("protocol", "more", "problem"),
    [
        ("tcp", {"size": 5}, "size is for udp and bulk only"),
        ("tcp", {"one_way": True}, "one_way is for udp only"),
        ("tcp", {"one_socket": True}, "one_socket is for udp and sctp only"),
        ("bulk", {}, "size is an integer"),
        ("udp", {"size": 70_000}, "size is an integer"),
    ],
)
def test_jobs_that_make_no_sense_are_refused(
    prober: Prober, protocol: str, more: dict[str, object], problem: str
) -> None:
    name = prober.give(protocol, "127.0.0.1", 9, **more)
    answer = prober.wait_for(lambda line: line.get("id") == name)
    assert problem in answer["error"]
