"""Hostnames of VIPs, and a DNS server that knows these and no other name (RFC 1035): A and AAAA over UDP."""

from __future__ import annotations

import contextlib
import ipaddress
import socket
import struct
import threading
from collections.abc import Callable, Collection, Mapping, Sequence

from .objects import Key, family_of

ZONE = "lb.esipp.example"  # RFC 2606: nobody's
PORT = 53
TTL = 1
LONGEST = 512
A, AAAA, ANY, IN = 1, 28, 255, 1
TYPES = {"IPv4": A, "IPv6": AAAA}
NO_ERROR, FORMAT_ERROR, NO_SUCH_NAME, NOT_IMPLEMENTED = 0, 1, 3, 4
AUTHORITATIVE_ANSWER = 0x8400

Names = Mapping[str, Sequence[str]]
"""The VIPs of each hostname."""


def hostname(service: Key) -> str:
    """By what name a Service's load balancer is announced."""
    namespace, name = service
    return f"{name}.{namespace}.{ZONE}"


def answer(query: bytes, names: Names) -> bytes:
    """The answer to one query; nothing to what is none."""
    if len(query) < 12:
        return b""
    number, flags, questions = struct.unpack("!HHH", query[:6])
    if flags & 0x8000:  # an answer itself
        return b""

    def said(code: int, question: bytes = b"", records: Collection[bytes] = ()) -> bytes:
        flags_back = AUTHORITATIVE_ANSWER | (flags & 0x0100) | code
        head = struct.pack("!HHHHHH", number, flags_back, 1 if question else 0, len(records), 0, 0)
        return head + question + b"".join(records)

    if flags & 0x7800:
        return said(NOT_IMPLEMENTED)
    try:
        name, end = _name(query, 12)
        kind, class_ = struct.unpack("!HH", query[end : end + 4])
    except (IndexError, ValueError, struct.error):
        return said(FORMAT_ERROR)
    if questions != 1:
        return said(FORMAT_ERROR)
    question = query[12 : end + 4]
    vips = names.get(name)
    if vips is None or class_ not in (IN, ANY):
        return said(NO_SUCH_NAME, question)
    wanted = [(TYPES[family_of(vip)], ipaddress.ip_address(vip).packed) for vip in vips]
    records = [
        struct.pack("!HHHIH", 0xC00C, each, IN, TTL, len(data)) + data for each, data in wanted if kind in (each, ANY)
    ]
    return said(NO_ERROR, question, records)


def _name(query: bytes, at: int) -> tuple[str, int]:
    """The name that begins there, in small letters, and where it ends. A question's name is never compressed."""
    labels = []
    while length := query[at]:
        if length > 63 or at + 1 + length >= len(query):
            raise ValueError(length)
        labels.append(query[at + 1 : at + 1 + length].decode("ascii"))
        at += 1 + length
    return ".".join(labels).lower(), at + 1


class Resolver:
    """Answers on each of some addresses, so that VIPs keep the port for their Services."""

    def __init__(self, addresses: Collection[str], names: Callable[[], Names], port: int = PORT) -> None:
        self._names = names
        self._sockets = [self._open(address, port) for address in addresses]
        self.ports = [each.getsockname()[1] for each in self._sockets]

    @staticmethod
    def _open(address: str, port: int) -> socket.socket:
        made = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_DGRAM)
        made.bind((address, port))
        return made

    def start(self) -> None:
        """Answer in threads."""
        for each in self._sockets:
            threading.Thread(target=self._serve, args=(each,), name="names", daemon=True).start()

    def _serve(self, sock: socket.socket) -> None:
        with contextlib.suppress(OSError):  # it was closed
            while True:
                query, sender = sock.recvfrom(LONGEST)
                if reply := answer(query, self._names()):
                    with contextlib.suppress(OSError):  # that one went away
                        sock.sendto(reply, sender)

    def close(self) -> None:
        """Answer no more."""
        for each in self._sockets:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
