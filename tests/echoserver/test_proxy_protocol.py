"""The PROXY protocol in front of a request: reported, never believed, and broken ones refused."""

from __future__ import annotations

import importlib
import json
import socket
import struct
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.echoserver.harness import IMAGE, LOOPBACK, EchoServer, Prober, Response, connect, exchange, read_all

sys.path.append(str(IMAGE))  # the server's modules know each other as they lie in the image
proxy_protocol: Any = importlib.import_module("proxy_protocol")

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
V4 = socket.inet_aton("192.0.2.7") + socket.inet_aton("198.51.100.1") + struct.pack("!HH", 40000, 443)
V6 = socket.inet_pton(socket.AF_INET6, "2001:db8::7") + socket.inet_pton(socket.AF_INET6, "2001:db8::1")
V6 += struct.pack("!HH", 40000, 443)


def version_2(command: int, transport: int, rest: bytes, length: int | None = None) -> bytes:
    return SIGNATURE + struct.pack("!BBH", command, transport, len(rest) if length is None else length) + rest


def said(version: int, command: str, *words: Any) -> dict[str, Any]:
    source, source_port, destination, destination_port = words or (None,) * 4
    return {
        "version": version, "command": command, "source_address": source, "source_port": source_port,
        "destination_address": destination, "destination_port": destination_port,
    }  # fmt: skip


TLVS = struct.pack("!BH", 0xEA, 200) + bytes(200)
OVER_V4, OVER_V6 = ("192.0.2.7", 40000, "198.51.100.1", 443), ("2001:db8::7", 40000, "2001:db8::1", 443)
GOOD = {
    "1 TCP4": (b"PROXY TCP4 192.0.2.7 198.51.100.1 40000 443\r\n", said(1, "PROXY", *OVER_V4)),
    "1 TCP6": (b"PROXY TCP6 2001:db8:0::7 2001:DB8::1 40000 443\r\n", said(1, "PROXY", *OVER_V6)),
    "1 port 0": (
        b"PROXY TCP4 192.0.2.7 198.51.100.1 0 65535\r\n",
        said(1, "PROXY", "192.0.2.7", 0, "198.51.100.1", 65535),
    ),
    "1 UNKNOWN": (b"PROXY UNKNOWN\r\n", said(1, "UNKNOWN")),
    "1 UNKNOWN with more": (b"PROXY UNKNOWN ffff::1 any thing\r\n", said(1, "UNKNOWN")),
    "1 longest": (b"PROXY UNKNOWN " + b"f" * 91 + b"\r\n", said(1, "UNKNOWN")),
    "2 TCP4": (version_2(0x21, 0x11, V4), said(2, "PROXY", *OVER_V4)),
    "2 TCP6": (version_2(0x21, 0x21, V6), said(2, "PROXY", *OVER_V6)),
    "2 TCP4 with TLVs": (version_2(0x21, 0x11, V4 + TLVS), said(2, "PROXY", *OVER_V4)),
    "2 TCP6 with TLVs": (version_2(0x21, 0x21, V6 + TLVS), said(2, "PROXY", *OVER_V6)),
    "2 LOCAL": (version_2(0x20, 0x00, b""), said(2, "LOCAL")),
    "2 LOCAL with addresses": (version_2(0x20, 0x11, V4), said(2, "LOCAL")),
    "2 unspecified": (version_2(0x21, 0x00, TLVS), said(2, "UNKNOWN")),
    "2 longest": (version_2(0x21, 0x11, V4 + bytes(4096 - 16 - 12)), said(2, "PROXY", *OVER_V4)),
}
BAD = {
    "1 other transport": b"PROXY UDP4 192.0.2.7 198.51.100.1 40000 443\r\n",
    "1 too few words": b"PROXY TCP4 192.0.2.7 198.51.100.1 40000\r\n",
    "1 too many words": b"PROXY TCP4 192.0.2.7 198.51.100.1 40000 443 1\r\n",
    "1 two spaces": b"PROXY TCP4  192.0.2.7 198.51.100.1 40000 443\r\n",
    "1 nothing": b"PROXY \r\n",
    "1 wrong family": b"PROXY TCP6 192.0.2.7 198.51.100.1 40000 443\r\n",
    "1 short address": b"PROXY TCP4 192.0.2 198.51.100.1 40000 443\r\n",
    "1 no address": b"PROXY TCP4 a\0b 198.51.100.1 40000 443\r\n",
    "1 port too large": b"PROXY TCP4 192.0.2.7 198.51.100.1 65536 443\r\n",
    "1 port with a zero": b"PROXY TCP4 192.0.2.7 198.51.100.1 040 443\r\n",
    "1 port with a sign": b"PROXY TCP4 192.0.2.7 198.51.100.1 -1 443\r\n",
    "1 odd digits": "PROXY TCP4 192.0.2.7 198.51.100.1 ² 443\r\n".encode("latin-1"),
    "1 newline only": b"PROXY TCP4 192.0.2.7 198.51.100.1 40000 443\n",
    "1 too long": b"PROXY UNKNOWN " + b"f" * 92 + b"\r\n",
    "1 endless": b"PROXY UNKNOWN " + b"f" * 500,
    "2 version 1": version_2(0x11, 0x11, V4),
    "2 command 2": version_2(0x22, 0x11, V4),
    "2 UDP": version_2(0x21, 0x12, V4),
    "2 UNIX": version_2(0x21, 0x31, bytes(216)),
    "2 too short for IPv4": version_2(0x21, 0x11, V4[:-1]),
    "2 too short for IPv6": version_2(0x21, 0x21, V4),
    "2 too long": version_2(0x21, 0x11, V4, 4081),
}


def ask(server: EchoServer, protocol: str, preamble: bytes) -> bytes:
    request = (
        b"n1\n" if protocol == "tcp" else b"GET /?nonce=n1 HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 1.2.3.4\r\n\r\n"
    )
    return exchange("ipv4", server.ports[protocol], preamble + request)


@pytest.mark.parametrize("protocol", ["tcp", "http"])
@pytest.mark.parametrize("kind", GOOD)
def test_it_is_reported(server: EchoServer, protocol: str, kind: str) -> None:
    preamble, wanted = GOOD[kind]
    answer = ask(server, protocol, preamble)
    document = json.loads(answer if protocol == "tcp" else Response(answer).text)
    assert document["proxy_protocol"] == wanted
    assert (document["nonce"], document["peer_address"], document["family"]) == ("n1", "127.0.0.1", "ipv4")
    assert document["x_forwarded_for"] == (None if protocol == "tcp" else ["1.2.3.4"])


@pytest.mark.parametrize("protocol", ["tcp", "http"])
@pytest.mark.parametrize("claimed", ["1 TCP6", "2 TCP6", "2 LOCAL"])
def test_what_a_client_claims_to_a_proxy_comes_second_and_is_skipped(
    server: EchoServer, protocol: str, claimed: str
) -> None:
    for proxys in ("1 TCP4", "2 TCP4"):
        answer = ask(server, protocol, GOOD[proxys][0] + GOOD[claimed][0])
        document = json.loads(answer if protocol == "tcp" else Response(answer).text)
        assert document["proxy_protocol"] == GOOD[proxys][1]


@pytest.mark.parametrize("kind", BAD)
def test_a_broken_one_is_refused(server: EchoServer, kind: str) -> None:
    assert ask(server, "tcp", BAD[kind]) == b""
    assert Response(ask(server, "http", BAD[kind])).status == 400


@pytest.mark.parametrize("protocol", ["tcp", "http"])
@pytest.mark.parametrize("kind", ["1 TCP6", "2 TCP6 with TLVs"])
def test_in_pieces(server: EchoServer, protocol: str, kind: str) -> None:
    preamble, wanted = GOOD[kind]
    request = b"n1\n" if protocol == "tcp" else b"GET / HTTP/1.1\r\nHost: h\r\n\r\n"
    with connect("ipv6", server.ports[protocol]) as sock:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for byte in preamble + request:
            sock.sendall(bytes([byte]))
        answer = read_all(sock)
    assert json.loads(answer if protocol == "tcp" else Response(answer).text)["proxy_protocol"] == wanted


@given(st.sampled_from([header for header, _ in GOOD.values()]), st.integers(0, 4096))
def test_incomplete_ones_are_waited_for(header: bytes, at: int) -> None:
    if at < len(header):
        assert proxy_protocol.take(header[:at]) is None
    whole = proxy_protocol.take(header + b"more")
    assert whole[1] == len(header)


@given(st.binary(max_size=64))
def test_garbage(rest: bytes) -> None:
    for start in (b"", b"PROXY ", SIGNATURE, SIGNATURE + b"\x21\x11"):
        try:
            taken = proxy_protocol.take(start + rest)
        except proxy_protocol.ProxyError:
            continue
        if taken is not None:
            assert taken[1] <= len(start + rest)


@pytest.mark.parametrize("nonce", ["P", "PROX", "PROXY", "PROXYx"])
def test_a_nonce_that_looks_like_its_beginning(server: EchoServer, nonce: str) -> None:
    document = json.loads(exchange("ipv4", server.ports["tcp"], f"{nonce}\n".encode()))
    assert (document["nonce"], document["proxy_protocol"]) == (nonce, None)


def test_it_is_taken_in_front_only(server: EchoServer) -> None:
    header = GOOD["1 TCP4"][0]
    late = exchange("ipv4", server.ports["http"], b"GET / HTTP/1.1\r\n" + header + b"Host: h\r\n\r\n")
    assert Response(late).status == 400


def test_the_control_port_takes_none(server: EchoServer) -> None:
    request = GOOD["1 TCP4"][0] + b"GET /ready HTTP/1.1\r\nHost: h\r\n\r\n"
    assert Response(exchange("ipv4", server.ports["control"], request)).status == 400


def test_the_tutorials_form_does_not_repeat_it(server: EchoServer) -> None:
    request = b"GET / HTTP/1.1\r\nHost: h\r\nAccept: text/plain\r\n\r\n"
    text = Response(exchange("ipv4", server.ports["http"], GOOD["1 TCP4"][0] + request)).text
    assert "client_address=127.0.0.1" in text
    assert "192.0.2.7" not in text


@pytest.mark.parametrize("kind", ["1 TCP4", "2 TCP6 with TLVs"])
@pytest.mark.parametrize("protocol", ["tcp", "http"])
def test_a_client_that_forges_one(server: EchoServer, prober: Prober, protocol: str, kind: str) -> None:
    for host in LOOPBACK.values():
        result = prober.probe(protocol, host, server.ports[protocol], preamble=GOOD[kind][0].hex())
        assert result["outcome"] == "answered", result
        assert result["echo"]["proxy_protocol"] == GOOD[kind][1]
        assert result["echo"]["peer_address"] == result["source_address"] == host


def test_a_brief_job_counts_proxied_connections_together(server: EchoServer, prober: Prober) -> None:
    job = prober.give("tcp", "::1", server.ports["tcp"], preamble=GOOD["1 TCP4"][0].hex(), brief=True, count=9)
    prober.wait_for(lambda line: line.get("id") == job and "done" in line)
    (group,) = [line for line in prober.lines if line.get("id") == job and "outcome" in line]
    wanted = {key: value for key, value in GOOD["1 TCP4"][1].items() if key != "source_port"}
    assert (group["count"], group["echo"]["proxy_protocol"]) == (9, wanted)
