"""Lasting jobs of the prober: exchanges on one connection, how it is lost, and that another one follows."""

from __future__ import annotations

import contextlib
import itertools
import json
import signal
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.echoserver.harness import (
    LOOPBACK,
    PATIENCE,
    EchoServer,
    Line,
    Prober,
    closed_port,
    document,
    tcp_server,
    udp_server,
)


def lasting(prober: Prober, port: int, count: int, spacing: float = 0.01, **more: Any) -> list[Line]:
    """The results of a lasting job, once it is done."""
    return prober.take(
        prober.give("lasting", more.pop("host", "127.0.0.1"), port, count=count, spacing=spacing, **more)
    )


def outcomes(results: list[Line]) -> list[tuple[int, str, str | None]]:
    return [(result["connection"], result["outcome"], result["detail"]) for result in results]


class Client:
    """What a lying server has of a connection."""

    def __init__(self, sock: socket.socket, number: int) -> None:
        self.sock, self.number = sock, number
        self.lines = sock.makefile("rb")

    def nonce(self) -> str:
        """That of the next request; a connection that ends has none."""
        line = self.lines.readline()
        if not line:
            raise ConnectionResetError
        word, nonce = line.decode().split()
        assert word == "keep"
        return nonce

    def answer(self, **more: Any) -> None:
        self.send(json.dumps(document(self.nonce(), **more)).encode() + b"\n")

    def send(self, data: bytes) -> None:
        self.sock.sendall(data)

    def reset(self) -> None:
        self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

    def rest(self) -> None:
        """Wait for the other side's end."""
        while self.lines.readline():
            pass


@contextlib.contextmanager
def liar(*parts: Callable[[Client], object]) -> Iterator[int]:
    """A server that plays these parts, one a connection, and on further ones answers; gives its port."""
    taken: list[Client] = []

    def serve(sock: socket.socket) -> None:
        client = Client(sock, len(taken))
        taken.append(client)
        with client.lines:
            if client.number < len(parts):
                parts[client.number](client)
            else:
                while True:
                    client.answer()

    with tcp_server(serve) as port:
        yield port


@pytest.mark.parametrize("family", LOOPBACK)
def test_exchanges_on_one_connection(server: EchoServer, prober: Prober, family: str) -> None:
    results = lasting(prober, server.ports["tcp"], 20, host=LOOPBACK[family])
    assert [result["seq"] for result in results] == list(range(20))
    assert outcomes(results) == [(0, "answered", None)] * 20
    assert {(result["source_address"], result["source_port"]) for result in results} == {
        (result["echo"]["peer_address"], result["echo"]["peer_port"]) for result in results
    }
    assert len({result["source_port"] for result in results}) == len({result["connected"] for result in results}) == 1
    assert [result["nonce"] for result in results] == [result["echo"]["nonce"] for result in results]
    assert len({result["nonce"] for result in results}) == 20
    assert all("lost" not in result for result in results)
    assert results[0]["started"] < results[0]["connected"] < results[0]["ended"]
    assert all(before["ended"] < after["started"] for before, after in itertools.pairwise(results))


def test_exchanges_are_paced(server: EchoServer, prober: Prober) -> None:
    results = lasting(prober, server.ports["tcp"], 11, spacing=0.05)
    assert results[-1]["started"] - results[0]["started"] > 0.49


def test_jobs_have_connections_of_their_own(server: EchoServer, prober: Prober) -> None:
    jobs = [prober.give("lasting", "127.0.0.1", server.ports["tcp"], count=20, spacing=0.1) for _ in range(200)]
    results = [prober.take(job) for job in jobs]
    assert {outcome for each in results for outcome in outcomes(each)} == {(0, "answered", None)}
    assert len({result["source_port"] for each in results for result in each}) == 200
    assert max(each[0]["started"] for each in results) < min(each[-1]["ended"] for each in results), "all at once"


def test_the_preamble_comes_first_on_every_connection(prober: Prober, server: EchoServer) -> None:
    preamble = b"PROXY TCP4 203.0.113.7 192.0.2.1 1111 80\r\n"
    results = lasting(prober, server.ports["tcp"], 3, preamble=preamble.hex())
    assert [each["echo"]["proxy_protocol"]["source_address"] for each in results] == ["203.0.113.7"] * 3

    def lying(client: Client) -> None:
        assert client.lines.readline() == b"hello\n"
        client.answer()

    with liar(lying, lying, lying) as port:
        results = lasting(prober, port, 5, preamble=b"hello\n".hex())
    assert [result["outcome"] for result in results] == ["answered", "reset"] * 2 + ["answered"]


def test_source_address_and_ports(server: EchoServer, prober: Prober) -> None:
    with socket.socket() as scout:
        scout.bind(("127.0.0.3", 0))
        port = scout.getsockname()[1]
    with liar(Client.answer) as lying:
        results = lasting(prober, lying, 4, source_address="127.0.0.3", source_port=port)
    assert [result["outcome"] for result in results] == ["answered", "reset", "answered", "answered"]
    assert {(result["source_address"], result["source_port"]) for result in results} == {("127.0.0.3", port)}


def closed_at_once(client: Client) -> None:
    client.nonce()


def reset_at_once(client: Client) -> None:
    client.nonce()
    client.reset()


def half_an_answer(client: Client) -> None:
    client.nonce()
    client.send(b'{"schema"')


def another_nonce(client: Client) -> None:
    client.nonce()
    client.send(json.dumps(document("another")).encode() + b"\n")
    client.rest()


def no_json(client: Client) -> None:
    client.nonce()
    client.send(b"hello\n")
    client.rest()


LOSSES = [
    (closed_at_once, "reset", "closed without an answer"),
    (reset_at_once, "reset", "ECONNRESET: Connection reset by peer"),
    (half_an_answer, "invalid", 'cut short: {"schema"'),
    (another_nonce, "invalid", "another nonce: {"),
    (no_json, "invalid", "not JSON: hello"),
]


@pytest.mark.parametrize(("part", "outcome", "detail"), LOSSES, ids=lambda each: getattr(each, "__name__", None))
@pytest.mark.parametrize("before", [0, 2])
def test_a_lost_connection_is_followed_by_another(
    prober: Prober, part: Callable[[Client], None], outcome: str, detail: str, before: int
) -> None:
    def play(client: Client) -> None:
        for _ in range(before):
            client.answer()
        part(client)

    with liar(play) as port:
        results = lasting(prober, port, before + 3)
    assert [(each["connection"], each["outcome"]) for each in results] == [
        *[(0, "answered")] * before,
        (0, outcome),
        *[(1, "answered")] * 2,
    ]
    lost = results[before]
    assert lost["detail"].startswith(detail)
    assert lost["echo"] is None
    assert lost["connected"] is not None
    assert "lost" not in lost, "it was not idle"
    assert len({each["source_port"] for each in results}) == 2
    assert lost["source_port"] != results[-1]["source_port"]


@pytest.mark.parametrize(
    ("part", "outcome", "detail"),
    [
        (lambda client: None, "reset", "closed while idle"),
        (Client.reset, "reset", "ECONNRESET: Connection reset by peer, while idle"),
        (lambda client: (client.send(b"by the way\n"), client.rest()), "invalid", "unasked: by the way\\x0a"),
    ],
    ids=["closed", "reset", "unasked"],
)
def test_a_loss_between_two_exchanges_is_known_by_the_next(
    prober: Prober, part: Callable[[Client], object], outcome: str, detail: str
) -> None:
    def play(client: Client) -> None:
        client.answer()
        part(client)

    with liar(play) as port:
        results = lasting(prober, port, 3, spacing=0.5)
    assert [(each["connection"], each["outcome"]) for each in results] == [
        (0, "answered"),
        (0, outcome),
        (1, "answered"),
    ]
    first, lost, _ = results
    assert lost["detail"] == detail.encode().decode("unicode_escape")
    assert first["ended"] <= lost["lost"] <= lost["started"], "with the time it came, not only that it was noticed"
    assert (lost["source_port"], lost["connected"]) == (first["source_port"], first["connected"])
    assert lost["nonce"] != first["nonce"]


def test_what_comes_behind_the_answer_is_unasked_too(prober: Prober) -> None:
    def play(client: Client) -> None:
        nonce = client.nonce()
        client.send(json.dumps(document(nonce)).encode() + b"\nand more")
        client.rest()

    with liar(play) as port:
        results = lasting(prober, port, 3)
    assert outcomes(results) == [(0, "answered", None), (0, "invalid", "unasked: and more"), (1, "answered", None)]


def test_an_unanswered_exchange_loses_the_connection(prober: Prober) -> None:
    ended = threading.Event()

    def mute(client: Client) -> None:
        client.answer()
        client.nonce()
        with contextlib.suppress(ConnectionResetError):
            client.rest()
        ended.set()

    def halting(client: Client) -> None:
        client.answer()
        client.nonce()
        client.send(b"{")
        client.rest()

    with liar(mute, halting) as port:
        results = lasting(prober, port, 5, timeout=0.4)
        assert ended.wait(PATIENCE)
    assert outcomes(results) == [
        (0, "answered", None),
        (0, "timeout", "connected, no answer"),
        (1, "answered", None),
        (1, "invalid", "incomplete: {"),
        (2, "answered", None),
    ]
    assert all(result["ended"] - result["started"] >= 0.39 for result in (results[1], results[3]))
    assert results[2]["started"] >= results[1]["ended"], "one exchange at a time"


def test_where_nobody_listens_every_exchange_dials(prober: Prober) -> None:
    results = lasting(prober, closed_port(), 3)
    assert [(each["connection"], each["outcome"], each["connected"]) for each in results] == [
        (number, "refused", None) for number in range(3)
    ]
    assert len({each["source_port"] for each in results}) == 3


def test_what_cannot_be_dialled_is_reported(prober: Prober) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        port = held.getsockname()[1]
        held.listen()
        results = lasting(prober, closed_port(), 2, source_port=port)
    assert [(each["connection"], each["outcome"]) for each in results] == [(0, "error"), (1, "error")]
    (result,) = lasting(prober, 9, 1, host="127.0.0.1", source_address="192.0.2.1")
    assert (result["outcome"], result["connection"]) == ("error", 0)


def test_a_server_that_never_answers_the_dialling_is_a_timeout(prober: Prober) -> None:
    with socket.socket() as full, contextlib.ExitStack() as stack:
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        for _ in range(3):  # more than its queue takes: further SYNs are dropped
            other = stack.enter_context(socket.socket())
            other.setblocking(False)
            other.connect_ex(full.getsockname())
        results = lasting(prober, full.getsockname()[1], 2, timeout=0.2)
    assert outcomes(results) == [(0, "timeout", "not connected"), (1, "timeout", "not connected")]


def test_after_a_stall_there_is_no_burst(prober: Prober) -> None:
    def mute(client: Client) -> None:
        client.nonce()
        client.rest()

    with liar(mute) as port:
        results = lasting(prober, port, 5, spacing=0.1, timeout=0.7)
    starts = [result["started"] for result in results]
    assert results[0]["outcome"] == "timeout"
    assert starts[1] >= results[0]["ended"]
    assert starts[-1] - starts[1] > 0.2, "three gaps; what was missed would have come in none"


def test_the_end_is_a_reset(prober: Prober) -> None:
    ends: list[object] = []

    def play(client: Client) -> None:
        client.answer()
        try:
            ends.append(client.sock.recv(1))
        except ConnectionResetError as error:
            ends.append(type(error))

    with liar(play) as port:
        lasting(prober, port, 1)
        prober.take(prober.give("tcp", "127.0.0.1", closed_port()))
    assert ends == [ConnectionResetError]


@pytest.mark.parametrize("under_way", [False, True], ids=["idle", "under way"])
def test_cancel_closes_the_connection(prober: Prober, under_way: bool) -> None:
    ready, ended = threading.Event(), threading.Event()

    def play(client: Client) -> None:
        client.answer()
        if under_way:
            client.nonce()
            ready.set()
        with contextlib.suppress(ConnectionResetError):
            client.rest()
        ended.set()

    with liar(play) as port:
        spacing = 0.01 if under_way else 100
        job = prober.give("lasting", "127.0.0.1", port, count=9, spacing=spacing)
        prober.wait_for(lambda line: line.get("id") == job)
        assert not under_way or ready.wait(PATIENCE)
        prober.send({"cancel": job})
        done = prober.wait_for(lambda line: line.get("id") == job and "done" in line)
        assert done == {"id": job, "done": True, "probes": 1, "cancelled": True}
        assert ended.wait(PATIENCE)


def test_the_room_that_connections_take(server: EchoServer) -> None:
    """Of two places one is the lasting connection's, until it is closed; the other serves everybody else."""
    with udp_server(lambda *_: None) as silent, Prober("--limit", "2") as prober:
        port = server.ports["tcp"]
        first = prober.give("lasting", "127.0.0.1", port, count=10_000, spacing=0.02)
        prober.wait_for(lambda line: line.get("id") == first)
        results = prober.take(prober.give("udp", "127.0.0.1", silent, count=3, timeout=0.2))
        starts = sorted(result["started"] for result in results)
        ends = sorted(result["ended"] for result in results)
        assert all(starts[n + 1] >= ends[n] for n in range(2)), "one at a time"
        second = prober.give("lasting", "127.0.0.1", port, count=10_000, spacing=0.02)
        prober.wait_for(lambda line: line.get("id") == second)
        waits = prober.give("tcp", "127.0.0.1", port)
        since = len(prober.lines)
        for job in (first, second, first, second):  # exchanges need no further room
            prober.wait_for(lambda line, job=job: line.get("id") == job, since)
        assert not [line for line in prober.lines if line.get("id") == waits], "there is no room"
        prober.send({"cancel": first})
        assert [result["outcome"] for result in prober.take(waits)] == ["answered"]
        prober.send({"cancel": second})
        results = prober.take(prober.give("tcp", "127.0.0.1", port, count=50))
        assert {result["outcome"] for result in results} == {"answered"}


def test_more_jobs_than_room_take_turns(server: EchoServer) -> None:
    with Prober("--limit", "3") as prober:
        jobs = [prober.give("lasting", "127.0.0.1", server.ports["tcp"], count=3, spacing=0.01) for _ in range(9)]
        for job in jobs:
            assert outcomes(prober.take(job)) == [(0, "answered", None)] * 3


def test_they_leave_no_sockets() -> None:
    with liar(*[Client.answer] * 300) as port, Prober() as prober:
        for _ in range(2):
            assert len(lasting(prober, port, 200, spacing=0.005)) == 200
        prober.send({"describe": True, "id": "over"})
        prober.wait_for(lambda line: line.get("id") == "over")
        left = [str(each.readlink()) for each in Path(f"/proc/{prober.process.pid}/fd").iterdir()]
    assert not [each for each in left if each.startswith("socket:")]


@pytest.mark.parametrize("mode", ["stop", "serve:0.5"])
def test_a_server_that_stops(prober: Prober, mode: str) -> None:
    with EchoServer("--on-sigterm", mode, "--tcp", str(closed_port())) as server:  # nobody takes it after the server
        job = prober.give("lasting", "127.0.0.1", server.ports["tcp"], count=200, spacing=0.01)
        prober.wait_for(lambda line: line.get("id") == job)
        asked_at = time.monotonic()
        server.signal(signal.SIGTERM)
        assert server.exit_code() == 0
        results = prober.take(job)
    answered = [each for each in results if each["outcome"] == "answered"]
    lost, *after = results[len(answered) :]
    assert {each["connection"] for each in answered} == {lost["connection"]} == {0}
    assert lost["outcome"] == "reset"
    assert {each["outcome"] for each in after} == {"refused"}
    assert [each["connection"] for each in after] == list(range(1, len(after) + 1))
    if mode != "stop":
        assert answered[-1]["ended"] - asked_at > 0.3, "served for as long as was promised"


@pytest.mark.parametrize(
    ("change", "complaint"),
    [
        ({"brief": True}, "not for lasting: brief"),
        ({"brief": False, "parallel": 2}, "not for lasting: brief, parallel"),
        ({"family": "ipv4"}, "not for lasting: family"),
        ({"spacing": 0}, "spacing is a number from 0.005"),
        ({"one_socket": True}, "for udp and sctp only"),
        ({"path": "/"}, "for http and get only"),
    ],
)
def test_malformed_jobs(prober: Prober, change: dict[str, Any], complaint: str) -> None:
    job = {"id": "bad", "protocol": "lasting", "host": "127.0.0.1", "port": 9, "spacing": 1, **change}
    since = len(prober.lines)
    prober.send(job)
    assert complaint in prober.wait_for(lambda line: line.get("id") == "bad", since)["error"]
