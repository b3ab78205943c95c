"""SCTP by hand, over raw sockets: many kernels have none. An INIT is answered with an INIT-ACK, and no more.

That is a legal beginning of an association (RFC 9260), so connection tracking and NAT treat it as one. The client's
nonce is a parameter of the INIT, the document is the state cookie of the INIT-ACK. prober.py has the other side; it is
copied alone, so the packet format stands in both.
"""

from __future__ import annotations

import os
import socket
import struct

TYPE_CHECKING = False  # as typing has it, without importing typing
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from images.echoserver.admission import EVERYBODY, Admission
    from images.echoserver.sockets import destination, raw
else:  # in the image these files lie side by side and are no package
    from admission import EVERYBODY, Admission
    from sockets import destination, raw

PROTOCOL = 132
MAX_PACKET = 1200  # fits into one packet wherever IPv6 does
INIT, INIT_ACK = 1, 2
STATE_COOKIE = 7
NONCE = 0xBE51  # a parameter of our own; its upper bits "10" tell others to skip it and not to report it
HEADER = struct.Struct("!HHI")  # ports and verification tag; the checksum follows, least significant byte first
CHUNK = struct.Struct("!BBHIIHHI")  # of INIT and INIT-ACK: type, flags, length, tag, window, streams out and in, TSN
PARAMETER = struct.Struct("!HH")
ROOM = MAX_PACKET - 12 - CHUNK.size - PARAMETER.size


def _table() -> list[int]:
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ 0x82F63B78 if value & 1 else value >> 1
        table.append(value)
    return table


TABLE = _table()


def crc32c(data: bytes) -> int:
    """The checksum of SCTP packets; connection tracking verifies it."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = TABLE[crc & 0xFF ^ byte] ^ crc >> 8
    return crc ^ 0xFFFFFFFF


def sealed(header: bytes, chunk: bytes) -> bytes:
    """A packet with its checksum."""
    return header + struct.pack("<I", crc32c(header + bytes(4) + chunk)) + chunk


def question(packet: bytes, port: int, admission: Admission = EVERYBODY) -> tuple[int, int, str] | None:
    """Source port, initiate tag and nonce of an INIT to that port that is admitted; None for anything else."""
    if len(packet) < 12 + CHUNK.size:
        return None
    source, target, verification = HEADER.unpack_from(packet)
    kind, _flags, length, tag, _window, out, into, _tsn = CHUNK.unpack_from(packet, 12)
    if (target, verification, kind) != (port, 0, INIT) or not (source and tag and out and into):
        return None
    chunk = packet[12:]
    if not CHUNK.size <= length <= len(chunk) <= length + 3:  # an INIT is alone in its packet
        return None
    if struct.unpack_from("<I", packet, 8)[0] != crc32c(packet[:8] + bytes(4) + chunk):
        return None
    at = CHUNK.size
    while at + PARAMETER.size <= length:
        kind, size = PARAMETER.unpack_from(chunk, at)
        if size < PARAMETER.size or at + size > length:
            return None
        if kind == NONCE:
            nonce = admission.nonce(chunk[at + PARAMETER.size : at + size])
            return None if nonce is None else (source, tag, nonce.decode())
        at += size + -size % 4
    return None


def answer(port: int, source: int, tag: int, document: bytes) -> bytes:
    """The INIT-ACK that brings the document."""
    cookie = PARAMETER.pack(STATE_COOKIE, PARAMETER.size + len(document)) + document
    own_tag = int.from_bytes(os.urandom(4), "big") or 1
    chunk = CHUNK.pack(INIT_ACK, 0, CHUNK.size + len(cookie), own_tag, 65536, 1, 1, own_tag) + cookie
    return sealed(HEADER.pack(port, source, tag), chunk + bytes(-len(chunk) % 4))


class Listener:
    """The SCTP port of one family; `exchange` makes and logs the document."""

    def __init__(self, family: int, port: int, exchange: Callable[..., str], admission: Admission = EVERYBODY) -> None:
        self.sock, self.port, self.exchange, self.admission = raw(family, PROTOCOL), port, exchange, admission

    def ready(self, _mask: int) -> None:
        """Answer what has arrived, and say nothing to what is no question: also answers arrive here."""
        for _ in range(256):
            try:
                packet, ancillary, _flags, peer = self.sock.recvmsg(2048, 256)
            except OSError:
                return
            if self.sock.family == socket.AF_INET:  # only there the IP header comes with it
                packet = packet[(packet[0] & 15) * 4 :]
            asked, reached = question(packet, self.port, self.admission), destination(ancillary, self.port)
            if asked is None or reached is None:
                continue
            source, tag, nonce = asked
            local, control = reached
            seen: tuple[Any, ...] = (peer[0], source, *peer[2:])
            document = self.exchange("sctp", nonce, seen, local, room=ROOM).encode()
            try:
                self.sock.sendmsg([answer(self.port, source, tag, document)], [control], 0, peer)
            except OSError:  # no way back
                continue
