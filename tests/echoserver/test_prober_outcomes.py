"""What the prober says of servers that answer, lie, refuse, stall and misdirect."""

from __future__ import annotations

import json
import os
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator

import pytest

from tests.echoserver.harness import (
    IMAGE,
    LOOPBACK,
    EchoServer,
    Prober,
    Process,
    closed_port,
    document,
    tcp_server,
    udp_server,
)

HEAD = b"HTTP/1.1 200 OK\r\nConnection: close\r\n"
Respond = Callable[[str], bytes]


@pytest.fixture(scope="module")
def prober() -> Iterator[Prober]:
    proxies = {
        "http_proxy": "http://127.0.0.1:1",
        "HTTP_PROXY": "http://127.0.0.1:1",
        "ALL_PROXY": "http://127.0.0.1:1",
    }
    with Prober(env=proxies) as running:
        yield running
        assert [line for line in running.lines if "not json" in line] == []


def nonce_of(sock: socket.socket) -> str:
    """What a probe has sent as its nonce, over TCP or HTTP."""
    data = b""
    while not data.endswith(b"\n"):
        data += sock.recv(4096)
    for line in data.decode().splitlines():
        if line.startswith("X-Esipp-Nonce: "):
            while not data.endswith(b"\r\n\r\n"):
                data += sock.recv(4096)
            return line.removeprefix("X-Esipp-Nonce: ")
    return data.decode().rstrip()


@pytest.mark.parametrize("family", LOOPBACK)
@pytest.mark.parametrize("protocol", ["tcp", "http", "udp"])
def test_answered(server: EchoServer, prober: Prober, protocol: str, family: str) -> None:
    before, wall = time.monotonic(), time.time()
    result = prober.probe(protocol, LOOPBACK[family], server.ports[protocol], id=f"answered/{protocol}-{family}")
    after = time.monotonic()
    assert result.keys() == {
        "id", "seq", "outcome", "nonce", "started", "connected", "ended", "time", "source_address", "source_port",
        "echo", "detail",
    }  # fmt: skip
    assert (result["outcome"], result["seq"], result["detail"]) == ("answered", 0, None)
    echo = result["echo"]
    assert (echo["nonce"], echo["protocol"], echo["pod"]) == (result["nonce"], protocol, "echo-1")
    assert (echo["peer_address"], echo["peer_port"]) == (result["source_address"], result["source_port"])
    assert result["source_address"] == LOOPBACK[family]
    if protocol == "udp":
        assert result["connected"] is None
        assert before <= result["started"] <= result["ended"] <= after
    else:
        assert before <= result["started"] <= result["connected"] <= result["ended"] <= after
    assert wall - 0.1 <= result["time"] <= time.time() + 0.1


@pytest.mark.parametrize("protocol", ["tcp", "http", "udp"])
def test_the_source_that_was_asked_for(server: EchoServer, prober: Prober, protocol: str) -> None:
    port = closed_port(socket.SOCK_DGRAM if protocol == "udp" else socket.SOCK_STREAM)
    for source_port in (None, port):
        result = prober.probe(
            protocol, "127.0.0.1", server.ports[protocol], source_address="127.0.0.9", source_port=source_port
        )
        assert result["echo"]["peer_address"] == result["source_address"] == "127.0.0.9"
        assert result["echo"]["peer_port"] == result["source_port"]
        assert source_port in (None, result["source_port"])


def test_http_path_and_headers(server: EchoServer, prober: Prober) -> None:
    headers = {"X-Forwarded-For": "203.0.113.1", "Host": "example.org", "User-Agent": "mine"}
    result = prober.probe("http", "::1", server.ports["http"], path="/?x=1", headers=headers)
    assert result["echo"]["x_forwarded_for"] == ["203.0.113.1"]


@pytest.mark.parametrize("family", LOOPBACK)
@pytest.mark.parametrize("protocol", ["tcp", "http", "udp"])
def test_refused(prober: Prober, protocol: str, family: str) -> None:
    port = closed_port(socket.SOCK_DGRAM if protocol == "udp" else socket.SOCK_STREAM)
    result = prober.probe(protocol, LOOPBACK[family], port)
    assert (result["outcome"], result["echo"]) == ("refused", None)
    assert result["detail"].startswith("ECONNREFUSED")
    assert result["connected"] is None
    assert result["source_address"] == LOOPBACK[family]
    if protocol == "udp":
        assert f"from {LOOPBACK[family]})" in result["detail"]  # who refused


def stall(sock: socket.socket) -> None:
    nonce_of(sock)
    sock.recv(1)


def test_timeout_after_connecting(prober: Prober) -> None:
    with tcp_server(stall) as port:
        for protocol in ("tcp", "http"):
            result = prober.probe(protocol, "127.0.0.1", port, timeout=0.2)
            assert (result["outcome"], result["detail"]) == ("timeout", "connected, no answer")
            assert result["connected"] is not None
            assert 0.2 <= result["ended"] - result["started"] < 2


def test_timeout_of_a_datagram(prober: Prober) -> None:
    with udp_server(lambda *_: None) as port:
        result = prober.probe("udp", "127.0.0.1", port, timeout=0.2)
    assert (result["outcome"], result["detail"]) == ("timeout", "no answer")
    assert 0.2 <= result["ended"] - result["started"] < 2


def reset(sock: socket.socket) -> None:
    nonce_of(sock)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def close_silently(sock: socket.socket) -> None:
    nonce_of(sock)


@pytest.mark.parametrize("protocol", ["tcp", "http"])
@pytest.mark.parametrize(("serve", "detail"), [(reset, "ECONNRESET"), (close_silently, "closed without an answer")])
def test_reset(prober: Prober, serve: Callable[[socket.socket], None], detail: str, protocol: str) -> None:
    with tcp_server(serve) as port:
        result = prober.probe(protocol, "127.0.0.1", port)
    assert result["outcome"] == "reset"
    assert result["detail"].startswith(detail)
    assert result["connected"] is not None


def body(nonce: str) -> bytes:
    return json.dumps(document(nonce)).encode()


def with_length(data: bytes, length: int | None = None) -> bytes:
    return HEAD + b"Content-Length: %d\r\n\r\n" % (len(data) if length is None else length) + data


LIES: list[tuple[str, Respond, str]] = [
    ("tcp", lambda nonce: body("other") + b"\n", "another nonce: {"),
    ("tcp", lambda nonce: body(nonce + "0") + b"\n", "another nonce: {"),
    ("tcp", lambda nonce: nonce.encode() + b"\n", "not JSON: "),
    ("tcp", lambda nonce: b"\xff\x00" * 5000, "not JSON: \\xff\x00"),
    ("tcp", lambda nonce: b"[" * 50_000 + b"\n", "not JSON: "),
    ("tcp", lambda nonce: b"\n", "not JSON: "),
    ("tcp", lambda nonce: b'"text"\n', "not an echo document: "),
    ("tcp", lambda nonce: json.dumps({"nonce": nonce}).encode() + b"\n", "not an echo document: "),
    ("tcp", lambda nonce: json.dumps({"nonce": nonce, "schema": 1}).encode() + b"\n", "not an echo document: "),
    ("tcp", lambda nonce: body(nonce)[:-1], "not JSON: "),
    ("tcp", lambda nonce: b"x" * 200_000, "not JSON: "),
    ("http", lambda nonce: body(nonce) + b"\n", "no HTTP response: "),
    ("http", lambda nonce: b"HTTP/1.1", "no HTTP response: "),
    ("http", lambda nonce: b"HTTP/1.1 2OO OK\r\n\r\n", "no HTTP response: "),
    ("http", lambda nonce: with_length(body("other")), "another nonce: "),
    ("http", lambda nonce: with_length(b""), "not JSON: "),
    ("http", lambda nonce: with_length(body(nonce), 9999), "HTTP response cut short: "),
    ("http", lambda nonce: with_length(body(nonce), -1), "HTTP response with a bad length: "),
    ("http", lambda nonce: with_length(body(nonce)).replace(b"200", b"503", 1), "HTTP status 503: "),
    ("http", lambda nonce: HEAD + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", "HTTP response with a bad length: "),
    ("http", lambda nonce: HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nab", "HTTP response cut short: "),
]


@pytest.mark.parametrize(("protocol", "respond", "detail"), LIES, ids=range(len(LIES)))
def test_invalid(prober: Prober, protocol: str, respond: Respond, detail: str) -> None:
    with tcp_server(lambda sock: sock.sendall(respond(nonce_of(sock)))) as port:
        result = prober.probe(protocol, "127.0.0.1", port)
    assert (result["outcome"], result["echo"]) == ("invalid", None)
    assert result["detail"].startswith(detail)
    assert len(result["detail"]) < 900  # 200 bytes, escaped


def chunked(nonce: str) -> bytes:
    text = body(nonce)
    chunks = b"".join(b"%x;note\r\n%b\r\n" % (len(part), part) for part in (text[:7], text[7:]))
    return HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + chunks + b"0\r\n\r\n"


@pytest.mark.parametrize(
    ("protocol", "respond"),
    [
        ("tcp", lambda nonce: body(nonce) + b"\n"),
        ("tcp", body),
        ("http", lambda nonce: with_length(body(nonce))),
        ("http", lambda nonce: HEAD + b"\r\n" + body(nonce)),
        ("http", chunked),
    ],
    ids=["line", "no newline", "length", "until the end", "chunked"],
)
def test_answered_in_another_way(prober: Prober, protocol: str, respond: Respond) -> None:
    def in_pieces(sock: socket.socket) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        answer = respond(nonce_of(sock))
        for start in range(0, len(answer), 10):
            sock.sendall(answer[start : start + 10])

    with tcp_server(in_pieces) as port:
        assert prober.probe(protocol, "127.0.0.1", port)["outcome"] == "answered"


def test_a_server_that_does_not_close_has_answered(prober: Prober) -> None:
    def hold(sock: socket.socket) -> None:
        sock.sendall(body(nonce_of(sock)) + b"\n")
        sock.recv(1)  # until the prober closes

    with tcp_server(hold) as port:
        result = prober.probe("tcp", "127.0.0.1", port, timeout=5)
    assert result["outcome"] == "answered"
    assert result["ended"] - result["started"] < 2


def test_a_reset_after_the_answer_does_not_undo_it(prober: Prober) -> None:
    def answer_and_reset(sock: socket.socket) -> None:
        sock.sendall(body(nonce_of(sock)) + b"\n")
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    with tcp_server(answer_and_reset) as port:
        outcomes = [r["outcome"] for r in prober.take(prober.give("tcp", "127.0.0.1", port, count=30))]
    # A reset that overtakes the data destroys it in the kernel; what was read counts.
    assert set(outcomes) <= {"answered", "reset"}


@pytest.mark.parametrize("one_socket", [False, True])
@pytest.mark.parametrize(
    ("respond", "outcome", "detail"),
    [
        (lambda nonce: body(nonce), "answered", None),
        (lambda nonce: body("other"), "invalid", "another nonce: "),
        (lambda nonce: b"", "invalid", "not JSON: "),
        (lambda nonce: b"garbage", "invalid", "not JSON: garbage"),
    ],
    ids=["document", "another nonce", "empty", "garbage"],
)
def test_udp_answers(prober: Prober, respond: Respond, outcome: str, detail: str | None, one_socket: bool) -> None:
    with udp_server(lambda sock, data, peer: sock.sendto(respond(data.decode()), peer)) as port:
        result = prober.probe("udp", "127.0.0.1", port, one_socket=one_socket)
    assert result["outcome"] == outcome
    assert (result["detail"] or "").startswith(detail or "")


@pytest.mark.parametrize("one_socket", [False, True])
@pytest.mark.parametrize("family", LOOPBACK)
@pytest.mark.parametrize("garbage", [False, True])
def test_misdirected(prober: Prober, family: str, one_socket: bool, garbage: bool) -> None:
    kind = socket.AF_INET6 if family == "ipv6" else socket.AF_INET
    with socket.socket(kind, socket.SOCK_DGRAM) as other:
        other.bind(("::1" if family == "ipv6" else "127.0.0.66", 0))

        def answer(_sock: socket.socket, data: bytes, peer: tuple[str, int]) -> None:
            other.sendto(b"garbage" if garbage else body(data.decode()), peer)

        with udp_server(answer, family) as port:
            result = prober.probe("udp", LOOPBACK[family], port, one_socket=one_socket)
        wrong = other.getsockname()
    assert result["outcome"] == "misdirected"
    assert result["answered_from"] == (f"[::1]:{wrong[1]}" if family == "ipv6" else f"127.0.0.66:{wrong[1]}")
    assert (result["echo"] is None) == garbage


def test_late_and_double_datagrams_belong_to_nobody(prober: Prober) -> None:
    kept: list[tuple[bytes, tuple[str, int]]] = []

    def answer(sock: socket.socket, data: bytes, peer: tuple[str, int]) -> None:
        kept.append((data, peer))
        if len(kept) % 2 == 0:  # the first of each two only after its time, the second twice
            for old, where in (kept[-2], kept[-1], kept[-1]):
                sock.sendto(body(old.decode()), where)

    with udp_server(answer) as port:
        job = prober.give("udp", "127.0.0.1", port, one_socket=True, count=4, spacing=0.3, timeout=0.15)
        outcomes = {result["seq"]: result["outcome"] for result in prober.take(job)}
    assert outcomes == {0: "timeout", 1: "answered", 2: "timeout", 3: "answered"}


def test_our_own_trouble_is_an_error(prober: Prober, server: EchoServer) -> None:
    result = prober.probe("tcp", "127.0.0.1", server.ports["tcp"], source_address="192.0.2.99")
    assert result["outcome"] == "error"
    assert result["detail"].startswith("EADDRNOTAVAIL")
    for kind, protocol in ((socket.SOCK_STREAM, "tcp"), (socket.SOCK_DGRAM, "udp")):
        with socket.socket(socket.AF_INET, kind) as holder:
            holder.bind(("127.0.0.1", 0))
            port = holder.getsockname()[1]
            result = prober.probe(protocol, "127.0.0.1", server.ports[protocol], source_port=port)
        assert result["outcome"] == "error"
        assert result["detail"].startswith("EADDRINUSE")
        assert (result["source_address"], result["source_port"], result["connected"]) == (None, None, None)


# Cilium's programs at connect() refuse so where a Service has no endpoint.
NOT_LET_OUT = """
import errno, socket, sys
sys.path.insert(0, sys.argv.pop(1))
import prober
class Socket(socket.socket):
    def connect_ex(self, target): return errno.EPERM
    def connect(self, target): raise PermissionError(errno.EPERM, "Operation not permitted")
socket.socket = Socket
prober.main()
"""


class KeptBack(Prober):
    """A prober on a host that lets nothing out."""

    def __init__(self) -> None:
        command = [sys.executable, "-B", "-c", NOT_LET_OUT, str(IMAGE)]
        Process.__init__(self, command, {"PATH": os.environ["PATH"]})
        self.about = self.wait_for(lambda line: line.get("event") == "ready")
        self.given = 0


@pytest.mark.parametrize("brief", [False, True])
@pytest.mark.parametrize("protocol", ["tcp", "http", "udp"])
def test_what_this_host_does_not_let_out_is_unreachable(protocol: str, brief: bool) -> None:
    with KeptBack() as prober:
        result = prober.probe(protocol, "127.0.0.1", 9, brief=brief)
    assert (result["outcome"], result["detail"]) == ("unreachable", "EPERM: Operation not permitted (at once)")
