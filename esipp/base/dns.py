"""Resolution of load balancers' hostnames, by this machine's resolver or by a given DNS server.

``$ESIPP_RESOLVER`` is the address of that server, for a zone that this machine's own resolver does not know.
"""

import contextlib
import ipaddress
import os
import secrets
import socket
import struct
from collections.abc import Iterator

RESOLVER = "ESIPP_RESOLVER"
PORT = 53
SECONDS = 2.0
LONGEST = 4096
TYPES = {1: 4, 28: 16}
"""The DNS types A and AAAA, with the length of their addresses."""


def addresses_of(hostname: str) -> list[str]:
    """The addresses of a hostname; empty if it does not resolve (yet)."""
    if server := os.environ.get(RESOLVER, ""):
        return [address for kind in TYPES for address in _asked(server, hostname, kind)]
    with contextlib.suppress(OSError):
        answers = socket.getaddrinfo(hostname, None, type=socket.SOCK_STREAM)
        return [str(answer[4][0]) for answer in answers]
    return []


def _asked(server: str, hostname: str, kind: int) -> list[str]:
    """The addresses of one type; empty if the server does not answer."""
    number = secrets.randbelow(1 << 16)
    try:
        question = query(number, hostname, kind)
        with socket.socket(socket.AF_INET6 if ":" in server else socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.settimeout(SECONDS)
            sock.connect((server, PORT))
            sock.send(question)
            return list(read(sock.recv(LONGEST), number, kind))
    except (OSError, ValueError, IndexError, struct.error):
        return []


def query(number: int, hostname: str, kind: int) -> bytes:
    """A DNS query for a name.

    Raises:
        ValueError: the name is invalid.
    """
    labels = hostname.rstrip(".").encode("ascii").split(b".")
    if not all(0 < len(label) < 64 for label in labels):
        raise ValueError(hostname)
    name = b"".join(bytes([len(label)]) + label for label in labels) + b"\0"
    return struct.pack("!HHHHHH", number, 0x0100, 1, 0, 0, 0) + name + struct.pack("!HH", kind, 1)


def read(answer: bytes, number: int, kind: int) -> Iterator[str]:
    """The addresses in the answer to a query.

    Raises:
        ValueError: it answers another query.
        IndexError, struct.error: it is truncated.
    """
    identity, _, questions, records, _, _ = struct.unpack("!HHHHHH", answer[:12])
    if identity != number:
        raise ValueError(identity)
    at = 12
    for _ in range(questions):
        at = _past_name(answer, at) + 4
    for _ in range(records):
        at = _past_name(answer, at)
        found, _, _, length = struct.unpack("!HHIH", answer[at : at + 10])
        at += 10
        if found == kind and length == TYPES[kind]:
            yield str(ipaddress.ip_address(answer[at : at + length]))
        at += length


def _past_name(answer: bytes, at: int) -> int:
    """The position after the name at ``at``; a name may end with a pointer to another one."""
    while (length := answer[at]) and length < 0xC0:
        at += 1 + length
    return at + (2 if length else 1)
