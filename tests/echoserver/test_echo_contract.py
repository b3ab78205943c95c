"""What the echo server says, on every protocol and both families."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.echoserver.harness import LOOPBACK, PATIENCE, EchoServer, Response, ask, connect, exchange, http, read_all

FAMILIES = ("ipv4", "ipv6")
PROTOCOLS = ("tcp", "http", "udp")
IDENTITY = {
    "POD_NAME": "echo-1",
    "POD_NAMESPACE": "esipp",
    "NODE_NAME": "worker",
    "POD_IP": "10.244.1.5",
    "POD_IPS": "10.244.1.5,fd00:10:244:1::5",
    "SECRET": "do-not-tell",
}


@pytest.fixture(scope="module")
def server() -> Iterator[EchoServer]:
    with EchoServer(env=IDENTITY) as running:
        yield running
        running.check()


@pytest.mark.parametrize("family", FAMILIES)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_document(server: EchoServer, protocol: str, family: str) -> None:
    nonce = f"N.{protocol}_{family}:1-2"
    before = time.time()
    document, text, client = ask(server, protocol, family, nonce)
    mapped = "::ffff:" if family == "ipv4" else ""
    assert before - 0.1 <= document.pop("time") <= time.time() + 0.1
    assert document == {
        "schema": 1,
        "version": server.listening["version"],
        "nonce": nonce,
        "protocol": protocol,
        "family": family,
        "peer_address": client[0],
        "peer_address_raw": mapped + client[0],
        "peer_scope": None,
        "peer_port": client[1],
        "local_address": LOOPBACK[family],
        "local_address_raw": mapped + LOOPBACK[family],
        "local_port": server.ports[protocol],
        "pod": "echo-1",
        "namespace": "esipp",
        "node": "worker",
        "pod_ip": "10.244.1.5",
        "pod_ips": ["10.244.1.5", "fd00:10:244:1::5"],
        "x_forwarded_for": None,
        "proxy_protocol": None,
    }
    assert "\n" not in text
    server.wait_for(lambda line: line.get("nonce") == nonce)
    assert text in server.raw  # the log has the very line


def test_the_first_line_says_what_is_listening(server: EchoServer) -> None:
    assert json.loads(server.raw[0]) == server.listening
    assert server.listening.keys() == {"event", "version", "http", "tcp", "udp", "sctp", "control", "pod", "node"}
    assert (server.listening["pod"], server.listening["node"]) == ("echo-1", "worker")
    assert all(isinstance(port, int) and port > 0 for port in server.ports.values())
    assert server.listening["sctp"] is None


def test_the_source_address_is_the_one_the_client_chose(server: EchoServer) -> None:
    with connect("ipv4", server.ports["tcp"], source="127.0.0.77") as sock:
        sock.sendall(b"chosen\n")
        document = json.loads(read_all(sock))
    assert (document["peer_address"], document["peer_address_raw"]) == ("127.0.0.77", "::ffff:127.0.0.77")


@pytest.mark.parametrize("reached", ["127.0.0.1", "127.0.0.2", "127.99.0.3"])
def test_udp_answers_from_the_address_it_was_reached_at(server: EchoServer, reached: str) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(PATIENCE)
        sock.sendto(b"from-where\n", (reached, server.ports["udp"]))
        data, peer = sock.recvfrom(65536)
    assert peer == (reached, server.ports["udp"])
    assert json.loads(data)["local_address"] == reached
    assert json.loads(data)["nonce"] == "from-where"


@pytest.mark.parametrize("garbage", [b"", b"\n", b" x", b"a b", b"x" * 129, b"\xff", b"n\n\n", b"{}", b"n" * 60000])
def test_udp_keeps_silent_to_garbage(server: EchoServer, garbage: bytes) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.settimeout(PATIENCE)
        sock.connect(("127.0.0.1", server.ports["udp"]))
        sock.send(garbage)
        sock.send(b"after")
        assert json.loads(sock.recv(65536))["nonce"] == "after"


@pytest.mark.parametrize("line", [b"x" * 128 + b"\n", b"a\r\n", b"A-z0.9_:\nmore that is ignored"])
def test_tcp_takes_one_line(server: EchoServer, line: bytes) -> None:
    answer = exchange("ipv4", server.ports["tcp"], line)
    assert json.loads(answer)["nonce"] == line.split(b"\n")[0].strip().decode()
    assert answer.endswith(b"}\n")


def test_tcp_line_in_pieces(server: EchoServer) -> None:
    with connect("ipv6", server.ports["tcp"]) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for piece in (b"pie", b"ce", b"s\n"):
            sock.sendall(piece)
        assert json.loads(read_all(sock))["nonce"] == "pieces"


@pytest.mark.parametrize("line", [b"\n", b"x" * 129 + b"\n", b"two words\n", b"GET / HTTP/1.1\r\n\r\n", b"\xc3\xa9\n"])
def test_tcp_drops_what_is_no_nonce(server: EchoServer, line: bytes) -> None:
    assert exchange("ipv4", server.ports["tcp"], line) == b""


def test_http_response(server: EchoServer) -> None:
    response = http(server.ports["http"])
    assert response.status == 200
    assert response.headers["connection"] == "close"
    assert response.headers["content-type"] == "application/json"
    assert int(response.headers["content-length"]) == len(response.body)
    assert json.loads(response.text)["nonce"] is None


def test_http_head_has_the_headers_only(server: EchoServer) -> None:
    response = http(server.ports["http"], "/hostname", method="HEAD")
    assert (response.status, response.body) == (200, b"")
    assert response.headers["content-length"] == str(len("echo-1"))


def test_forwarded_headers_are_a_field_of_their_own(server: EchoServer) -> None:
    values = ["203.0.113.7, 10.0.0.1", 'not an "address" \xe9']
    lines = "".join(f"X-Forwarded-For: {value}\r\n" for value in values)
    data = exchange("ipv4", server.ports["http"], f"GET / HTTP/1.1\r\nHost: h\r\n{lines}\r\n".encode("latin-1"))
    document = json.loads(Response(data).text)
    assert document["x_forwarded_for"] == values
    assert document["peer_address"] == "127.0.0.1"


@pytest.mark.parametrize(
    ("path", "header", "nonce"),
    [
        ("/?nonce=a:b", None, "a:b"),
        ("/?x=1&nonce=a%3Ab&y", None, "a:b"),
        ("/?nonce=query", "X-Esipp-Nonce: header", "header"),
        ("/clientip?nonce=q", "x-esipp-nonce: of-clientip", "of-clientip"),
        ("/?other=1", None, None),
    ],
)
def test_http_nonce(server: EchoServer, path: str, header: str | None, nonce: str | None) -> None:
    response = http(server.ports["http"], path, *([header] if header else []))
    assert response.status == 200
    if path.startswith("/clientip"):  # only the log has the document
        assert server.wait_for(lambda line: line.get("nonce") == nonce)["protocol"] == "http"
    else:
        assert json.loads(response.text)["nonce"] == nonce


@pytest.mark.parametrize("family", FAMILIES)
def test_the_tutorials_form(server: EchoServer, family: str) -> None:
    lying = ("Accept: text/plain", "client_address: 1.2.3.4", "X-Forwarded-For: client_address=1.2.3.4")
    response = http(server.ports["http"], "/?client_address=1.2.3.4", *lying, family=family)
    lines = response.text.splitlines()
    assert lines[:3] == ["CLIENT VALUES:", f"client_address={LOOPBACK[family]}", "command=GET"]
    assert [line for line in lines if "client_address" in line] == lines[1:2]
    assert {"pod=echo-1", "node=worker"} <= set(lines)
    assert response.headers["content-type"].startswith("text/plain")


@pytest.mark.parametrize("accept", ["*/*", "text/html, */*;q=0.8", "application/json", "application/json, text/plain"])
def test_json_unless_text_is_asked_for(server: EchoServer, accept: str) -> None:
    assert json.loads(http(server.ports["http"], "/", f"Accept: {accept}").text)["schema"] == 1


@pytest.mark.parametrize(("family", "form"), [("ipv4", "127.0.0.1:{}"), ("ipv6", "[::1]:{}")])
def test_clientip_as_agnhost_says_it(server: EchoServer, family: str, form: str) -> None:
    with connect(family, server.ports["http"]) as sock:
        sock.sendall(b"GET /clientip HTTP/1.1\r\nHost: h\r\n\r\n")
        assert Response(read_all(sock)).text == form.format(sock.getsockname()[1])


@pytest.mark.parametrize(
    ("path", "status", "text"),
    [("/hostname", 200, "echo-1"), ("/healthz", 200, "ok\n"), ("/readyz", 200, "ready\n"), ("/shell", 404, None)],
)
def test_small_pages(server: EchoServer, path: str, status: int, text: str | None) -> None:
    response = http(server.ports["http"], path)
    assert response.status == status
    assert text is None or response.text == text


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "CONNECT", "PATCH", "BREW"])
def test_other_methods(server: EchoServer, method: str) -> None:
    response = http(server.ports["http"], "/", method=method)
    assert (response.status, response.headers["allow"]) == (405, "GET, HEAD")


@pytest.mark.parametrize(
    ("request_bytes", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: h\r\n\r\n", 200),
        (b"\r\nGET / HTTP/1.1\r\nHost: h\r\n\r\n", 200),
        (b"GET / HTTP/1.1\nHost: h\n\n", 200),
        (b"GET / HTTP/1.0\r\n\r\n", 200),
        (b"GET http://other/ HTTP/1.1\r\nHost: h\r\n\r\n", 200),
        (b"GET http://other HTTP/1.1\r\nHost: h\r\n\r\n", 200),
        (b"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc", 200),
        (b"GET / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 200),
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
        (b"GET /\r\n\r\n", 400),
        (b"GET / HTTP/1.1 x\r\nHost: h\r\n\r\n", 400),
        (b"GET  / HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        (b"GET x HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        (b"GET /\xe9 HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        (b"G\x00T / HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost : h\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: h\r\n folded\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: h\r\nA: b\rc\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: h\r\nA: \x00\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: h\r\nno colon\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: h\r\nX-Esipp-Nonce: not valid\r\n\r\n", 400),
        (b"GET /?nonce=a%20b HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        (b"GET /?nonce=a&nonce=b HTTP/1.1\r\nHost: h\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: 99999999\r\n\r\n", 413),
        (b"GET / HTTP/1.1\r\nHost: h\r\nContent-Length: " + b"9" * 5000 + b"\r\n\r\n", 413),
        (b"GET / HTTP/1.1\r\nHost: h\r\nA: " + b"a" * 9000 + b"\r\n\r\n", 431),
        (b"GET /" + b"a" * 100_000, 431),
        (b"GET / HTTP/2.0\r\nHost: h\r\n\r\n", 505),
        (b"GET / HTPP/1.1\r\nHost: h\r\n\r\n", 400),
        (b"\x16\x03\x01\x02\x00\x01\n\n", 400),
    ],
)
def test_http_strictness(server: EchoServer, request_bytes: bytes, status: int) -> None:
    assert Response(exchange("ipv4", server.ports["http"], request_bytes)).status == status


def test_a_request_in_pieces(server: EchoServer) -> None:
    with connect("ipv4", server.ports["http"]) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in b"GET /hostname HTTP/1.1\r\nHost: h\r\n\r\n":
            sock.sendall(bytes([byte]))
        assert Response(read_all(sock)).text == "echo-1"


def test_a_client_that_shuts_its_side_is_answered(server: EchoServer) -> None:
    whole = b"GET /hostname HTTP/1.1\r\nHost: h\r\n\r\n"
    assert Response(exchange("ipv4", server.ports["http"], whole, shut=True)).text == "echo-1"
    assert json.loads(exchange("ipv4", server.ports["tcp"], b"n\n", shut=True))["nonce"] == "n"
    assert exchange("ipv4", server.ports["tcp"], b"n", shut=True) == b""
    assert exchange("ipv4", server.ports["http"], whole[:-2], shut=True) == b""


def test_no_environment_leaks(server: EchoServer) -> None:
    paths = ("/", "/clientip", "/hostname", "/readyz", "/healthz", "/env", "/?env=true")
    answers = [
        http(server.ports["http"], path, accept).text for path in paths for accept in ("A: b", "Accept: text/plain")
    ]
    assert not [text for text in [*answers, *server.raw] if "do-not-tell" in text or "SECRET" in text]


def test_without_an_identity() -> None:
    with EchoServer() as server:
        document: dict[str, Any] = ask(server, "tcp", "ipv4", "n")[0]
        assert {document[key] for key in ("pod", "node", "namespace", "pod_ip", "pod_ips")} == {None}
        assert http(server.ports["http"], "/hostname").text == socket.gethostname()
