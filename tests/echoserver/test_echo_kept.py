"""The echo server's kept connections: one exchange after the other, until one side has enough."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator

import pytest

from tests.echoserver.harness import IMAGE, LOOPBACK, EchoServer, Line, Process, ask, connect, exchange, read_all


@pytest.fixture(scope="module", name="server")
def one_server() -> Iterator[EchoServer]:
    with EchoServer() as running:
        yield running
        running.check()


class Connection:
    """A client with one connection."""

    def __init__(self, port: int, family: str = "ipv4") -> None:
        self.sock = connect(family, port)
        self.lines = self.sock.makefile("rb")

    def ask(self, nonce: str) -> Line:
        self.sock.sendall(f"keep {nonce}\n".encode())
        return self.answer()

    def answer(self) -> Line:
        line = self.lines.readline()
        assert line.endswith(b"\n"), line
        parsed: Line = json.loads(line)
        return parsed

    def close(self) -> None:
        self.lines.close()
        self.sock.close()


@contextlib.contextmanager
def kept(port: int, family: str = "ipv4") -> Iterator[Connection]:
    client = Connection(port, family)
    try:
        yield client
    finally:
        client.close()


@pytest.mark.parametrize("family", LOOPBACK)
def test_exchanges_on_one_connection(server: EchoServer, family: str) -> None:
    with kept(server.ports["tcp"], family) as client:
        answers = [client.ask(f"{family}-{number}") for number in range(20)]
        own = client.sock.getsockname()
    assert [answer["nonce"] for answer in answers] == [f"{family}-{number}" for number in range(20)]
    assert {(answer["peer_address"], answer["peer_port"]) for answer in answers} == {own[:2]}
    assert {answer["protocol"] for answer in answers} == {"tcp"}
    server.wait_for(lambda line: line.get("nonce") == f"{family}-19")
    logged = [line for line in server.documents() if str(line["nonce"]).startswith(f"{family}-")]
    assert logged == answers, "one document, one line"


def test_it_outlives_the_exchange_of_others(server: EchoServer) -> None:
    """A stalled client is dropped after 12 s, and that is when a kept one must still be there."""
    with kept(server.ports["tcp"]) as client, connect("ipv4", server.ports["tcp"]) as stalled:
        client.ask("outlives-0")
        assert read_all(stalled) == b""
        assert client.ask("outlives-1")["nonce"] == "outlives-1"


def test_requests_may_come_in_pieces_and_together(server: EchoServer) -> None:
    with kept(server.ports["tcp"]) as client:
        for piece in (b"ke", b"ep pi", b"ece\r", b"\nkeep two\nkeep three\nkee"):
            client.sock.sendall(piece)
        assert [client.answer()["nonce"] for _ in range(3)] == ["piece", "two", "three"]
        client.sock.sendall(b"p four\n")
        assert client.answer()["nonce"] == "four"


def test_thousands_of_requests_whose_answers_nobody_reads_yet(server: EchoServer) -> None:
    requests = b"".join(b"keep many-%d\n" % number for number in range(12_000))  # answers of more than buffers take
    with kept(server.ports["tcp"]) as client:
        client.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
        sender = threading.Thread(target=client.sock.sendall, args=(requests,))
        sender.start()
        server.wait_for(lambda line: line.get("nonce") == "many-1000")
        assert ask(server, "udp", "ipv4", "meanwhile")[0]["nonce"] == "meanwhile"
        assert [client.answer()["nonce"] for _ in range(12_000)] == [f"many-{number}" for number in range(12_000)]
        sender.join()


def test_the_proxy_s_words_hold_for_every_exchange(server: EchoServer) -> None:
    with kept(server.ports["tcp"]) as client:
        client.sock.sendall(b"PROXY TCP4 203.0.113.7 192.0.2.1 1111 80\r\n")
        said = [client.ask(f"proxied-{number}")["proxy_protocol"] for number in range(2)]
    assert [each["source_address"] for each in said] == ["203.0.113.7"] * 2


def test_a_plain_request_is_the_last(server: EchoServer) -> None:
    with kept(server.ports["tcp"]) as client:
        client.ask("last-0")
        client.sock.sendall(b"last-1\nkeep last-2\n")
        assert client.answer()["nonce"] == "last-1"
        assert read_all(client.sock) == b""


@pytest.mark.parametrize("data", [b"keep ", b"keep a b", b"keep  a", b"KEEP a", b" keep a", b"keep " + b"x" * 129])
def test_what_is_no_request_ends_it(server: EchoServer, data: bytes) -> None:
    with kept(server.ports["tcp"]) as client:
        client.ask("right")
        client.sock.sendall(data + b"\n")
        assert read_all(client.sock) == b""


def test_keep_alone_is_a_nonce_like_another(server: EchoServer) -> None:
    assert json.loads(exchange("ipv4", server.ports["tcp"], b"keep\n"))["nonce"] == "keep"


def test_a_request_without_an_end_ends_it(server: EchoServer) -> None:
    with kept(server.ports["tcp"]) as client:
        client.ask("right")
        client.sock.sendall(b"keep " + b"x" * 2000)
        assert read_all(client.sock) == b""


def test_a_client_that_has_enough_gets_its_answers(server: EchoServer) -> None:
    answers = exchange("ipv4", server.ports["tcp"], b"keep half-0\nkeep half-1\n", shut=True).splitlines()
    assert [json.loads(answer)["nonce"] for answer in answers] == ["half-0", "half-1"]


SHORT = """
import sys
sys.path.insert(0, sys.argv.pop(1))
import echoserver, serving
serving.KEEP_SECONDS, serving.MAX_KEPT, serving.MAX_CONNECTIONS = float(sys.argv.pop(1)), 3, 6
sys.exit(echoserver.main())
"""


@contextlib.contextmanager
def impatient(seconds: float) -> Iterator[tuple[Process, int]]:
    """A server whose kept connections may be idle for so long, three of six; gives its raw TCP port."""
    ports = [word for name in ("http", "tcp", "udp", "control") for word in (f"--{name}", "0")]
    command = [sys.executable, "-B", "-c", SHORT, str(IMAGE), str(seconds), *ports]
    with Process(command, {"PATH": os.environ["PATH"]}) as server:
        yield server, int(server.wait_for(lambda _: True)["tcp"])
        assert not [line for line in server.lines if "not json" in line or line.get("event") == "error"]


def test_an_idle_one_is_closed() -> None:
    with impatient(0.5) as (_, port), kept(port) as client:
        began = time.monotonic()
        asked = began
        while asked < began + 1:  # in use for longer than it may be idle
            asked = time.monotonic()
            client.ask("busy")
        client.sock.sendall(b"keep half")  # that is no request, and does not keep it
        assert read_all(client.sock) == b""
        assert time.monotonic() - asked > 0.4


def test_the_longest_idle_has_to_go_for_the_newest() -> None:
    with impatient(60) as (_, port), contextlib.ExitStack() as stack:
        clients = [stack.enter_context(kept(port)) for _ in range(4)]
        for number in (0, 1, 2, 0, 3):
            clients[number].ask(f"n{number}")
        assert read_all(clients[1].sock) == b""
        for number in (0, 2, 3):
            assert clients[number].ask("still")["nonce"] == "still"


def test_others_do_not_drive_them_out() -> None:
    with impatient(60) as (_, port), contextlib.ExitStack() as stack:
        clients = [stack.enter_context(kept(port)) for _ in range(3)]
        for client in clients:
            client.ask("mine")
        stalled = [stack.enter_context(connect("ipv4", port)) for _ in range(10)]
        assert json.loads(exchange("ipv4", port, b"another\n"))["nonce"] == "another"
        assert read_all(stalled[0]) == b""
        assert [client.ask("still")["nonce"] for client in clients] == ["still"] * 3


def test_where_all_descriptors_are_kept_the_longest_idle_goes() -> None:
    with EchoServer(prefix=["prlimit", "--nofile=64"]) as server, contextlib.ExitStack() as stack:
        clients = [stack.enter_context(kept(server.ports["tcp"])) for _ in range(100)]
        for client in clients[-40:]:
            assert client.ask("newest")["nonce"] == "newest"
        assert ask(server, "http", "ipv4", "another")[0]["nonce"] == "another"
        server.check()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_stopping_ends_it_at_once(number: int) -> None:
    with EchoServer() as server, kept(server.ports["tcp"]) as client:
        client.ask("before")
        server.signal(number)
        assert read_all(client.sock) == b""
        assert server.exit_code() == 0


def test_serving_on_serves_it_on() -> None:
    with EchoServer("--on-sigterm", "serve:1") as server, kept(server.ports["tcp"]) as client:
        client.ask("before")
        began = time.monotonic()
        server.signal(signal.SIGTERM)
        count = 0
        with contextlib.suppress(AssertionError, ConnectionError):  # until the answer is empty
            while True:
                client.ask(f"ending-{count}")
                count += 1
        assert time.monotonic() - began > 0.9
        assert count > 1
        assert server.exit_code() == 0
