"""What a get job tells of servers that answer in HTTP, in something like it, slowly, too much, or not at all."""

from __future__ import annotations

import bisect
import itertools
import json
import socket
import statistics
import struct
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests.echoserver.harness import LOOPBACK, EchoServer, Prober, closed_port, tcp_server

OK = b"HTTP/1.1 200 OK\r\n"
HEALTH = {"service": {"namespace": "esipp", "name": "web"}, "localEndpoints": 0, "serviceProxyHealthy": True}


def request_of(sock: socket.socket) -> bytes:
    data = b""
    while not data.endswith(b"\r\n\r\n"):
        data += sock.recv(4096)
    return data


def replying(answer: bytes, wait_for_the_end: bool = False) -> Callable[[socket.socket], None]:
    """A server that says so to every request."""

    def serve(sock: socket.socket) -> None:
        request_of(sock)
        sock.sendall(answer)
        if wait_for_the_end:
            sock.recv(1)  # until the prober closes

    return serve


def get(prober: Prober, answer: bytes, hold: bool = False, **more: Any) -> dict[str, Any]:
    with tcp_server(replying(answer, hold)) as port:
        return prober.probe("get", "127.0.0.1", port, **more)


class KubeProxy(BaseHTTPRequestHandler):
    """Answers as a health-check node port of kube-proxy without local endpoints does."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = json.dumps(HEALTH).encode()
        self.send_response(503)
        self.send_header("Content-Type", "application/json")
        self.send_header("X-Load-Balancing-Endpoint-Weight", "0")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(body)

    do_HEAD = do_GET  # noqa: N815 - the base class's names

    def log_message(self, *arguments: Any) -> None:
        pass


@pytest.fixture(scope="module")
def kube_proxy() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), KubeProxy) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


# ------------------------------------------------------------------------------------------------------ what is asked
@pytest.mark.parametrize("family", LOOPBACK)
def test_one_plain_request(prober: Prober, family: str) -> None:
    seen: list[bytes] = []

    def serve(sock: socket.socket) -> None:
        seen.append(request_of(sock))
        sock.sendall(OK + b"Content-Length: 0\r\n\r\n")
        sock.recv(1)

    with tcp_server(serve, family) as port:
        host = LOOPBACK[family]
        literal = f"[{host}]" if ":" in host else host
        prober.probe("get", host, port)
        prober.probe("get", host, port, method="HEAD", path="/healthz?x=1", headers={"Accept": "a/b", "X-Y": "z"})
    plain, full = (data.decode().split("\r\n") for data in seen)
    assert plain[:3] == ["GET / HTTP/1.1", f"Host: {literal}:{port}", "Accept: */*"]
    assert plain[-3:] == ["Connection: close", "", ""]
    assert len(plain) == 7, "and its User-Agent"
    assert full[0] == "HEAD /healthz?x=1 HTTP/1.1"
    assert {"Accept: a/b", "X-Y: z", "Connection: close"} < set(full)
    assert not any("nonce" in line.lower() for line in plain + full)


def test_a_scope_and_a_source_port(prober: Prober) -> None:
    port = closed_port()
    with tcp_server(replying(OK + b"Content-Length: 0\r\n\r\n"), "ipv6") as there:
        result = prober.probe("get", "::1%lo", there, source_port=port)
    assert (result["outcome"], result["source_port"]) == ("answered", port)


def test_the_connection_ends_with_a_reset(prober: Prober) -> None:
    ends: list[object] = []

    def serve(sock: socket.socket) -> None:
        request_of(sock)
        sock.sendall(OK + b"Content-Length: 2\r\n\r\nok")
        try:
            ends.append(sock.recv(1))
        except OSError as error:
            ends.append(type(error))

    with tcp_server(serve) as port:
        prober.probe("get", "127.0.0.1", port)
    assert ends == [ConnectionResetError]


# ------------------------------------------------------------------------------------------------- what is an answer
def test_a_health_check_that_says_503(prober: Prober, kube_proxy: int) -> None:
    result = prober.probe("get", "127.0.0.1", kube_proxy)
    assert (result["outcome"], result["echo"], result["detail"]) == ("answered", None, None)
    assert result["started"] <= result["connected"] <= result["ended"]
    response = result["response"]
    assert response.keys() == {"status", "headers", "body"}
    assert (response["status"], json.loads(response["body"])) == (503, HEALTH)
    assert response["headers"].keys() == {
        "server", "content-type", "x-load-balancing-endpoint-weight", "content-length",
    }  # fmt: skip
    assert response["headers"]["x-load-balancing-endpoint-weight"] == "0"


def test_head(prober: Prober, kube_proxy: int) -> None:
    response = prober.probe("get", "127.0.0.1", kube_proxy, method="HEAD")["response"]
    assert (response["status"], response["body"]) == (503, "")
    assert int(response["headers"]["content-length"]) == len(json.dumps(HEALTH))


def test_the_echo_server_is_a_server_as_any_other(prober: Prober) -> None:
    with EchoServer() as server:
        results = {path: prober.probe("get", "::1", server.ports["http"], path=path) for path in ("/healthz", "/no")}
    assert {path: result["response"]["status"] for path, result in results.items()} == {"/healthz": 200, "/no": 404}


CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"
LENGTH = OK + b"Content-Length: %d\r\n\r\n"
WHOLE: dict[str, tuple[bytes, int, str]] = {
    "length": (LENGTH % 5 + b"hello", 200, "hello"),
    "more than its length": (LENGTH % 5 + b"hello, world", 200, "hello"),
    "empty": (LENGTH % 0, 200, ""),
    "twice the same length": (OK + b"Content-Length: 2, 2\r\n\r\nok", 200, "ok"),
    "chunked": (CHUNKED + b"2;x=y\r\nhe\r\n003\r\nllo\r\n0\r\nX-Sum: 1\r\n\r\n", 200, "hello"),
    "chunked, not a length": (
        CHUNKED.replace(b"\r\n", b"\r\nContent-Length: 1\r\n", 1) + b"2\r\nok\r\n0\r\n\r\n",
        200,
        "ok",
    ),
    "another coding": (OK + b"Transfer-Encoding: gzip\r\n\r\nabc", 200, "abc"),
    "until it closes": (OK + b"\r\nall of it", 200, "all of it"),
    "no header": (b"HTTP/1.0 418 I'm a teapot\r\n\r\n", 418, ""),
    "no reason": (b"HTTP/1.1 599\r\nContent-Length: 0\r\n\r\n", 599, ""),
    "204": (b"HTTP/1.1 204 No Content\r\nContent-Length: 5\r\n\r\n", 204, ""),
    "304": (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", 304, ""),
    "101": (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\n\r\n", 101, ""),
    "after 100": (b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 E\r\nLink: x\r\n\r\n" + LENGTH % 2 + b"ok", 200, "ok"),
    "binary": (LENGTH % 6 + b"\xff\x00\xc3\xa9\n\xe2", 200, "\\xff\0é\n\\xe2"),
    "long": (LENGTH % 500_000 + b"x" * 500_000, 200, "x" * 2048),
    "long, chunked": (CHUNKED + b"4e20\r\n" + b"y" * 20_000 + b"\r\n0\r\n\r\n", 200, "y" * 2048),
    "long until it closes": (OK + b"\r\n" + b"z" * 900_000, 200, "z" * 2048),
}
CLOSES = {"another coding", "until it closes", "no header", "long until it closes"}


@pytest.mark.parametrize("kind", WHOLE)
def test_whole_answers(prober: Prober, kind: str) -> None:
    answer, status, body = WHOLE[kind]
    result = get(prober, answer, hold=kind not in CLOSES)
    assert result["outcome"] == "answered", result["detail"]
    assert (result["response"]["status"], result["response"]["body"]) == (status, body)
    assert result["ended"] - result["started"] < 5, "it did not wait for the end of the connection"


@pytest.mark.parametrize("kind", [kind for kind in WHOLE if not kind.startswith("long")])
def test_whole_answers_byte_by_byte(prober: Prober, kind: str) -> None:
    answer, status, body = WHOLE[kind]

    def serve(sock: socket.socket) -> None:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        request_of(sock)
        for byte in answer:
            sock.sendall(bytes([byte]))
            time.sleep(0.0005)
        if kind not in CLOSES:
            sock.recv(1)

    with tcp_server(serve) as port:
        result = prober.probe("get", "127.0.0.1", port)
    assert (result["response"]["status"], result["response"]["body"]) == (status, body), result["detail"]


def test_headers(prober: Prober) -> None:
    lines = b"Date: x\r\nX-A:1\r\nx-a:  2 \r\nLong : a\r\n\tb\r\nEmpty:\r\nLatin: \xe9\r\nContent-Length: 0\r\n\r\n"
    headers = get(prober, OK + lines)["response"]["headers"]
    assert headers == {"x-a": "1, 2", "long": "a b", "empty": "", "latin": "é", "content-length": "0"}


# ------------------------------------------------------------------------------------------------------- what is none
INVALID: dict[str, tuple[bytes, str]] = {
    "garbage": (b"\x15\x03\x01\x00\x02\x02\x0a", "no HTTP response: \x15"),
    "another protocol": (b"SSH-2.0-OpenSSH\r\n", "no HTTP response: SSH"),
    "HTTP/2": (b"HTTP/2 200\r\n\r\n", "no HTTP response: HTTP/2"),
    "an empty line first": (b"\r\n\r\n" + LENGTH % 0, "no HTTP response: "),
    "only a beginning": (b"HTTP/1.1 20", "no HTTP response: HTTP/1.1 20"),
    "a bad status": (b"HTTP/1.1 2OO OK\r\n\r\n", "no HTTP response: "),
    "a long status": (b"HTTP/1.1 2000 OK\r\n\r\n", "no HTTP response: "),
    "a low status": (b"HTTP/1.1 099 OK\r\n\r\n", "no HTTP response: "),
    "a strange version": (b"HTTP/1.\xb2 200 OK\r\n\r\n", "no HTTP response: "),
    "line feeds": (b"HTTP/1.1 200 OK\n\nok", "no HTTP response: "),
    "no colon": (OK + b"Server\r\n\r\n", "HTTP response with a bad header: "),
    "no name": (OK + b": x\r\n\r\n", "HTTP response with a bad header: "),
    "a bad length": (OK + b"Content-Length: -1\r\n\r\n", "HTTP response with a bad length: "),
    "an empty length": (OK + b"Content-Length:\r\n\r\n", "HTTP response with a bad length: "),
    "an endless length": (OK + b"Content-Length: " + b"9" * 5000 + b"\r\n\r\n", "HTTP response with a bad length: "),
    "two lengths": (OK + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab", "HTTP response with a bad length: "),
    "too short": (LENGTH % 9 + b"hello", "HTTP response cut short: "),
    "a bad chunk": (CHUNKED + b"0x5\r\nhello\r\n0\r\n\r\n", "HTTP response with a bad length: "),
    "a chunk that is longer": (CHUNKED + b"2\r\nhello\r\n0\r\n\r\n", "HTTP response with a bad length: "),
    "a long line of a chunk": (CHUNKED + b"5;" + b"x" * 2000, "HTTP response with a bad length: "),
    "a chunk cut short": (CHUNKED + b"5\r\nhel", "HTTP response cut short: "),
    "no last chunk": (CHUNKED + b"5\r\nhello\r\n", "HTTP response cut short: "),
    "no end of trailers": (CHUNKED + b"0\r\nA: b\r\n", "HTTP response cut short: "),
    "only 100": (b"HTTP/1.1 100 Continue\r\n\r\n", "no HTTP response: "),
    "a huge head": (OK + b"X: " + b"x" * 20_000 + b"\r\n\r\n", "HTTP head longer than 16384 bytes: "),
    "an endless head": (OK + b"X: y\r\n" * 20_000, "HTTP head longer than 16384 bytes: "),
    "endless 100s": (b"HTTP/1.1 100 Continue\r\n\r\n" * 50_000, "HTTP response longer than 1048576 bytes: "),
    "an endless trailer": (CHUNKED + b"0\r\n" + b"A: b\r\n" * 200_000, "HTTP response longer than 1048576 bytes: "),
    "an endless body": (OK + b"\r\n" + b"x" * 1_200_000, "HTTP response longer than 1048576 bytes: "),
}


@pytest.mark.parametrize("kind", INVALID)
def test_invalid(prober: Prober, kind: str) -> None:
    answer, detail = INVALID[kind]
    result = get(prober, answer)
    assert (result["outcome"], result["response"], result["echo"]) == ("invalid", None, None)
    assert result["detail"].startswith(detail)
    assert len(result["detail"]) < 900


def test_garbage_is_reported_at_once(prober: Prober) -> None:
    result = get(prober, b"SSH-2.0-OpenSSH\r\n", hold=True)
    assert result["outcome"] == "invalid"
    assert result["ended"] - result["started"] < 5


def drip(sock: socket.socket) -> None:
    request_of(sock)
    sock.sendall(OK)
    for byte in itertools.cycle(b"X: y\r\n"):
        sock.sendall(bytes([byte]))
        time.sleep(0.01)


def stuck(answer: bytes) -> Callable[[socket.socket], None]:
    return replying(answer, wait_for_the_end=True)


@pytest.mark.parametrize(
    ("serve", "outcome", "detail"),
    [
        (stuck(b""), "timeout", "connected, no answer"),
        (stuck(b"H"), "invalid", "incomplete: H"),
        (stuck(LENGTH % 9 + b"x"), "invalid", "incomplete: HTTP/1.1 200 OK"),
        (stuck(OK + b"\r\nbody"), "invalid", "incomplete: HTTP/1.1 200 OK"),
        (stuck(CHUNKED + b"1\r\nx\r\n"), "invalid", "incomplete: HTTP/1.1 200 OK"),
        (drip, "invalid", "incomplete: HTTP/1.1 200 OK"),
    ],
    ids=["silent", "a byte", "length", "until close", "chunked", "byte by byte"],
)
def test_nothing_lasts_longer_than_its_timeout(
    prober: Prober, serve: Callable[[socket.socket], None], outcome: str, detail: str
) -> None:
    with tcp_server(serve) as port:
        result = prober.probe("get", "127.0.0.1", port, timeout=0.3)
    assert (result["outcome"], result["response"]) == (outcome, None)
    assert result["detail"].startswith(detail)
    assert 0.3 <= result["ended"] - result["started"] < 2


def test_a_server_that_never_stops_talking_is_left(prober: Prober) -> None:
    def pour(sock: socket.socket) -> None:
        request_of(sock)
        sock.sendall(CHUNKED)
        while True:
            sock.sendall(b"4000\r\n" + b"x" * 0x4000 + b"\r\n")

    with tcp_server(pour) as port:
        result = prober.probe("get", "127.0.0.1", port, timeout=3)
        assert result["detail"].startswith("HTTP response longer than")
        assert result["ended"] - result["started"] < 2


def reset_after(answer: bytes) -> Callable[[socket.socket], None]:
    def serve(sock: socket.socket) -> None:
        request_of(sock)
        sock.sendall(answer)
        time.sleep(0.1 if answer else 0)  # a reset that overtakes data destroys it
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    return serve


@pytest.mark.parametrize("answer", [b"", OK, LENGTH % 9 + b"x", OK + b"\r\nbody"])
def test_reset(prober: Prober, answer: bytes) -> None:
    with tcp_server(reset_after(answer)) as port:
        result = prober.probe("get", "127.0.0.1", port)
    assert (result["outcome"], result["response"]) == ("reset", None)
    assert result["detail"].startswith("ECONNRESET")


def test_refused_and_closed(prober: Prober) -> None:
    result = prober.probe("get", "127.0.0.1", closed_port())
    assert (result["outcome"], result["response"], result["connected"]) == ("refused", None, None)
    with tcp_server(request_of) as port:
        result = prober.probe("get", "127.0.0.1", port)
    assert (result["outcome"], result["detail"]) == ("reset", "closed without an answer")


def test_other_protocols_have_no_response(prober: Prober) -> None:
    assert "response" not in prober.probe("http", "127.0.0.1", closed_port())


# ---------------------------------------------------------------------------------------------------------- many of it
def test_equal_answers_are_reported_once(prober: Prober) -> None:
    count = itertools.count()

    def serve(sock: socket.socket) -> None:
        request_of(sock)
        n = next(count)
        head = b"HTTP/1.1 %d X\r\nDate: %d\r\nContent-Length: 2\r\n\r\n" % (503 if n % 10 == 3 else 200, n)
        sock.sendall(head + (b"no" if n % 10 == 7 else b"ok"))

    with tcp_server(serve) as port:
        job = prober.give("get", "127.0.0.1", port, count=50, brief=True, parallel=4)
        done = prober.wait_for(lambda line: line.get("id") == job and "done" in line)
    assert done["probes"] == 50
    groups = [line for line in prober.lines if line.get("id") == job and "outcome" in line]
    assert all(group["brief"] and group["echo"] is None for group in groups)
    counts = {(g["response"]["status"], g["response"]["body"]): (g["count"], len(g["ports"])) for g in groups}
    assert counts == {(200, "ok"): (40, 40), (503, "ok"): (5, 5), (200, "no"): (5, 5)}


def test_a_brief_job_of_refusals(prober: Prober) -> None:
    job = prober.give("get", "127.0.0.1", closed_port(), count=9, brief=True)
    prober.wait_for(lambda line: line.get("id") == job and "done" in line)
    (group,) = [line for line in prober.lines if line.get("id") == job and "outcome" in line]
    assert (group["outcome"], group["count"], group["response"]) == ("refused", 9, None)


def test_it_keeps_the_pace(prober: Prober, kube_proxy: int) -> None:
    results = prober.take(prober.give("get", "127.0.0.1", kube_proxy, count=100, spacing=0.02, timeout=10))
    assert {result["response"]["status"] for result in results} == {503}
    assert len({result["source_port"] for result in results}) == 100
    starts = sorted(result["started"] for result in results)
    gaps = [after - before for before, after in itertools.pairwise(starts)]
    print(f"99 gaps: {statistics.median(gaps) * 1000:.1f} ms in the middle, {starts[-1] - starts[0]:.2f} s in all")
    assert statistics.median(gaps) > 0.019
    assert starts[-1] - starts[0] > 1.9, "a busy machine may be late, but nobody is early"


def test_the_pace_is_kept_when_all_go_silent(prober: Prober) -> None:
    """What is in flight of twelve jobs is then far more than the bound on bursts, which allows 256 a second of 600."""
    count = itertools.count()

    with ExitStack() as kept:

        def serve(sock: socket.socket) -> None:
            if next(count) < 120:
                replying(OK + b"Content-Length: 0\r\n\r\n")(sock)
            else:
                kept.enter_context(sock.dup())

        with tcp_server(serve) as port:
            more = {"count": 60, "spacing": 0.02, "timeout": 0.5}
            jobs = [prober.give("get", "127.0.0.1", port, **more) for _ in range(12)]
            burst = prober.give("get", "127.0.0.1", port, count=100, timeout=0.5)
            starts = sorted(result["started"] for job in jobs for result in prober.take(job))
            prober.take(burst)
    quarters = [bisect.bisect_left(starts, start + 0.25) - number for number, start in enumerate(starts)]
    assert max(quarters) > 1.25 * 64, "never more in a quarter of a second than a burst may have"


def cpu_seconds(pid: int) -> float:
    """User and system time of a process so far, to the hundredth."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / 100


def test_it_costs_little(kube_proxy: int) -> None:
    with Prober() as prober:
        before = cpu_seconds(prober.process.pid)
        prober.take(prober.give("get", "127.0.0.1", kube_proxy, count=400, spacing=0.005))
        each = (cpu_seconds(prober.process.pid) - before) / 400
    print(f"{each * 1e6:.0f} µs of CPU a probe")
    assert each < 0.005, "200 a second would take a whole core"
