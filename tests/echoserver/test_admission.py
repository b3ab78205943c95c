"""With a token, the echo server answers those who send it, and tells strangers nothing."""

from __future__ import annotations

import importlib
import json
import socket
import struct
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from images.echoserver import prober as prober_module
from tests.echoserver.harness import IMAGE, LOOPBACK, EchoServer, Prober, ask, exchange, http

sys.path.append(str(IMAGE))  # the server's modules know each other as they lie in the image
admission: Any = importlib.import_module("admission")
sctp: Any = importlib.import_module("sctp")

TOKEN = "0f8fad5b:d9cb.469f_a165-70867728950e"  # noqa: S105 - a made-up one
FAMILIES = ("ipv4", "ipv6")
STRANGERS = ("n1", "wrong/n1", f"{TOKEN}n1", f"{TOKEN}/", f"{TOKEN}/a b", f"{TOKEN.upper()}/n1", f"x{TOKEN}/n1", "/n1")


@pytest.fixture(scope="module")
def server() -> Iterator[EchoServer]:
    with EchoServer(env={"ESIPP_TOKEN": TOKEN, "POD_NAME": "echo-1"}) as running:
        yield running
        for protocol in ("tcp", "http", "udp"):
            assert ask(running, protocol, "ipv4", f"{TOKEN}/last-{protocol}")[0]["nonce"] == f"last-{protocol}"
        assert not any(TOKEN in line for line in running.raw), "the log must not have it"


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("protocol", ["tcp", "http", "udp"])
def test_who_sends_the_token_gets_the_document_of_the_nonce(server: EchoServer, protocol: str, family: str) -> None:
    document, text, _ = ask(server, protocol, family, f"{TOKEN}/n:1")
    assert document["nonce"] == "n:1"
    assert TOKEN not in text


@pytest.mark.parametrize("asked", STRANGERS)
def test_strangers_get_no_byte_over_tcp(server: EchoServer, asked: str) -> None:
    assert exchange("ipv4", server.ports["tcp"], f"{asked}\n".encode()) == b""
    assert exchange("ipv4", server.ports["tcp"], f"keep {asked}\n".encode()) == b""


def test_strangers_get_silence_over_udp(server: EchoServer) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(20)
        sock.connect((LOOPBACK["ipv4"], server.ports["udp"]))
        for asked in STRANGERS:
            sock.send(asked.encode())
        sock.send(f"{TOKEN}/after".encode())  # datagrams of one socket are read in their order
        assert json.loads(sock.recv(65536))["nonce"] == "after"


@pytest.mark.parametrize("asked", [*STRANGERS[:4], *STRANGERS[5:], None])
def test_strangers_learn_nothing_over_http(server: EchoServer, asked: str | None) -> None:
    headers = [] if asked is None else [f"X-Esipp-Nonce: {asked}"]
    plain = http(server.ports["http"], "/", *headers)
    if asked == f"{TOKEN}/":
        assert plain.status == 400, "it has the token, and a nonce of a wrong form"
        return
    assert (plain.status, plain.text) == (200, "ok\n"), "what checks the health of a port by it"
    for path in ("/clientip", "/hostname"):
        answer = http(server.ports["http"], path, *headers)
        assert (answer.status, answer.text) == (403, "403 Forbidden\n")


def test_the_query_may_have_the_token_too(server: EchoServer) -> None:
    for slash in ("/", "%2F", "%2f"):
        assert json.loads(http(server.ports["http"], f"/?nonce={TOKEN}{slash}n1").text)["nonce"] == "n1"


def test_the_kubelet_needs_no_token(server: EchoServer) -> None:
    assert http(server.ports["http"], "/readyz").text == "ready\n"
    assert http(server.ports["http"], "/healthz").text == "ok\n"


def init(nonce: bytes) -> bytes:
    parameter = struct.pack("!HH", sctp.NONCE, 4 + len(nonce)) + nonce
    chunk = sctp.CHUNK.pack(sctp.INIT, 0, sctp.CHUNK.size + len(parameter), 77, 65536, 1, 1, 77) + parameter
    return sctp.sealed(struct.pack("!HHI", 40000, 7000, 0), chunk + bytes(-len(chunk) % 4))


@pytest.mark.parametrize("asked", STRANGERS)
def test_strangers_are_no_question_over_sctp(asked: str) -> None:
    assert sctp.question(init(asked.encode()), 7000, admission.Admission(TOKEN)) is None


def test_who_sends_the_token_asks_over_sctp() -> None:
    packet = prober_module.sctp_init(40000, 7000, 77, f"{TOKEN}/n1".encode())
    assert sctp.question(packet, 7000, admission.Admission(TOKEN)) == (40000, 77, "n1")


def test_without_a_token_all_are_admitted_and_none_is_taken() -> None:
    assert admission.EVERYBODY.nonce(b"n1") == b"n1"
    assert admission.EVERYBODY.nonce(f"{TOKEN}/n1".encode()) is None


@pytest.mark.parametrize("token", ["a b", "é", "a/b", "x" * 65])
def test_a_token_of_a_wrong_form_is_refused_and_not_shown(token: str) -> None:
    with pytest.raises(AssertionError, match="ESIPP_TOKEN is 1 to 64 letters") as refused:
        EchoServer(env={"ESIPP_TOKEN": token})
    assert token not in str(refused.value)


@pytest.mark.parametrize("protocol", ["tcp", "http", "udp", "lasting"])
def test_a_prober_with_the_token_is_answered_and_one_without_is_not(server: EchoServer, protocol: str) -> None:
    port = server.ports["tcp" if protocol == "lasting" else protocol]
    pace: dict[str, Any] = {"spacing": 0.005} if protocol == "lasting" else {}
    with Prober() as prober:
        answer = prober.take(prober.give(protocol, "127.0.0.1", port, token=TOKEN, count=3, **pace))
        assert [each["outcome"] for each in answer] == ["answered"] * 3
        assert all(each["nonce"] == each["echo"]["nonce"] and TOKEN not in json.dumps(each) for each in answer)
        for more in ({}, {"token": "wrong"}):
            stranger = prober.probe(protocol, "127.0.0.1", port, timeout=0.5, **more, **pace)
            expected = {"udp": "timeout", "http": "invalid"}.get(protocol, "reset")
            assert (stranger["outcome"], stranger["echo"]) == (expected, None)


def test_an_icmp_error_still_finds_its_probe(server: EchoServer) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    with Prober() as prober:
        answer = prober.take(prober.give("udp", "127.0.0.1", port, token=TOKEN, one_socket=True, count=2))
        assert [each["outcome"] for each in answer] == ["refused"] * 2


@pytest.mark.parametrize(
    ("protocol", "token", "why"),
    [("get", TOKEN, "not for get: token"), ("resolve", TOKEN, "not for resolve: token"), ("tcp", "a b", "token is a")],
)
def test_a_job_with_a_token_that_makes_no_sense_is_refused(protocol: str, token: str, why: str) -> None:
    where = {"host": "a.test", "family": "ipv4"} if protocol == "resolve" else {"host": "127.0.0.1", "port": 1}
    with Prober() as prober:
        prober.send({"id": "x", "protocol": protocol, "token": token, **where})
        assert why in prober.wait_for(lambda line: line.get("id") == "x")["error"]
