"""The echo server under garbage, slowness, floods: it drops them and lives on."""

from __future__ import annotations

import contextlib
import resource
import socket
import struct
import time
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from images.echoserver import http1
from tests.echoserver.harness import LOOPBACK, EchoServer, Response, ask, connect, exchange, read_all

STATUSES = {200, 400, 404, 405, 413, 431, 503, 505}
fuzz = settings(
    max_examples=200, deadline=None, database=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)


@pytest.fixture(scope="module", name="server")
def one_server() -> Iterator[EchoServer]:
    with EchoServer() as running:
        yield running
        running.check()


METHODS = st.sampled_from([b"GET", b"HEAD", b"PUT", b"get", b"", b"G ET"])
TARGETS = st.sampled_from([b"/", b"/clientip", b"/ready", b"/?nonce=", b"*", b"http://", b"//", b"/%"])
NAMES = st.sampled_from(
    [b"Host", b"X-Esipp-Nonce", b"Content-Length", b"Transfer-Encoding", b"Accept", b"X-Forwarded-For"]
)
HEADERS = st.tuples(NAMES, st.binary(max_size=12) | st.sampled_from([b"h", b"1", b"chunked", b"text/plain"]))
REQUESTS = st.builds(
    lambda method, target, extra, headers, body: (
        method + b" " + target + extra + b" HTTP/1.1\r\n"
        + b"".join(name + b": " + value + b"\r\n" for name, value in headers) + b"\r\n" + body
    ),
    METHODS, TARGETS, st.binary(max_size=5), st.lists(HEADERS, max_size=5), st.binary(max_size=50),
)  # fmt: skip


@fuzz
@given(data=st.binary(max_size=400) | REQUESTS)
def test_random_http(server: EchoServer, data: bytes) -> None:
    for port in (server.ports["http"], server.ports["control"]):
        answer = exchange("ipv4", port, data, shut=True)
        assert not answer or Response(answer).status in STATUSES


@fuzz
@given(data=st.binary(max_size=400) | REQUESTS)
def test_random_request_heads(data: bytes) -> None:
    try:
        request = http1.Request(data.partition(b"\r\n\r\n")[0])
    except http1.HttpError:  # and no other exception
        return
    assert request.path.startswith("/") or request.path == "*"


@fuzz
@given(data=st.binary(max_size=1500))
def test_random_tcp(server: EchoServer, data: bytes) -> None:
    answer = exchange("ipv6", server.ports["tcp"], data, shut=True)
    nonce, newline, _ = data.partition(b"\n")
    valid = bool(newline) and http1.valid_nonce(nonce.removesuffix(b"\r"))
    if len(data) <= 1024 or not answer:
        assert valid == answer.startswith(b'{"schema": 1') or len(data) > 1024


@fuzz
@given(data=st.binary(max_size=300))
def test_random_udp(server: EchoServer, data: bytes) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(20)
        sock.connect(("127.0.0.1", server.ports["udp"]))
        sock.send(data)
        sock.send(b"next")
        answers = 1 + http1.valid_nonce(data.removesuffix(b"\n"))
        for _ in range(answers):
            assert sock.recv(65536).startswith(b'{"schema": 1')


STALLED = [
    ("tcp", b""),
    ("tcp", b"half a nonc"),
    ("http", b""),
    ("http", b"GET / HTTP/1.1\r\nHost: h\r\n"),
    ("http", b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 60000\r\n\r\n"),  # answered, then waited for
    ("control", b"PUT /ready HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\ntr"),
]


def test_slow_clients_are_dropped(server: EchoServer) -> None:
    began = time.monotonic()
    with contextlib.ExitStack() as stack:
        socks = [stack.enter_context(connect("ipv4", server.ports[name])) for name, _ in STALLED]
        for sock, (_, data) in zip(socks, STALLED, strict=True):
            sock.sendall(data)
        answers = [read_all(sock) for sock in socks]
        assert time.monotonic() - began > 11
    assert [answer[:12] for answer in answers] == [b"", b"", b"", b"", b"HTTP/1.1 405", b""]


def test_oversized_tcp_is_dropped_at_once(server: EchoServer) -> None:
    began = time.monotonic()
    assert exchange("ipv4", server.ports["tcp"], b"x" * 2000) == b""
    assert time.monotonic() - began < 3


def test_a_flood_of_body_does_not_hide_the_answer(server: EchoServer) -> None:
    head = b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 500000000\r\n\r\n"
    assert Response(exchange("ipv4", server.ports["http"], head, b"x" * 300_000, shut=True)).status == 413


def test_large_answers_arrive_whole(server: EchoServer) -> None:
    header = b"X-Forwarded-For: " + b"\xff" * 7500 + b"\r\n"  # six times as long in JSON
    with connect("ipv4", server.ports["http"]) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        sock.sendall(b"GET / HTTP/1.1\r\nHost: h\r\n" + header + b"\r\n")
        response = Response(read_all(sock))
    assert len(response.body) == int(response.headers["content-length"]) > 45000


@pytest.mark.parametrize("family", LOOPBACK)
def test_resets_and_scans(server: EchoServer, family: str) -> None:
    for name in ("tcp", "http", "control"):
        for data in (b"", b"GET / HT", b"nonce\n"):
            with connect(family, server.ports[name]) as sock:
                sock.sendall(data)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    server.check()


def test_many_idle_connections(server: EchoServer) -> None:
    room = resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 200
    idle = [connect("ipv4", server.ports[name]) for _ in range(min(500, room // 2)) for name in ("tcp", "http")]
    try:
        began = time.monotonic()
        for number in range(20):
            assert ask(server, ("tcp", "http")[number % 2], "ipv6", f"n{number}")[0]["nonce"] == f"n{number}"
        assert time.monotonic() - began < 4
    finally:
        for sock in idle:
            sock.close()
    server.check()


def test_more_connections_than_descriptors() -> None:
    with EchoServer(prefix=["prlimit", "--nofile=64"]) as server:
        idle = [connect("ipv4", server.ports["tcp"]) for _ in range(200)]
        try:
            began = time.monotonic()
            assert ask(server, "http", "ipv4", "in-between")[0]["nonce"] == "in-between"
            assert time.monotonic() - began < 4  # the oldest idle ones had to go
        finally:
            for sock in idle:
                sock.close()
        server.check()


def test_memory_does_not_grow() -> None:
    def storm() -> None:
        for number in range(700):
            exchange("ipv4", server.ports["tcp"], b"\xff" * (number % 1000), shut=True)
            exchange("ipv4", server.ports["http"], b"GET / HTTP/1.1\r\nA: " + b"a" * number * 12 + b"\r\n\r\n")
            ask(server, "udp", "ipv4", f"n{number}")

    with EchoServer() as server:
        storm()
        before = server.memory_kib()
        for _ in range(3):
            storm()
        assert server.memory_kib() - before < 2048
        server.check()
