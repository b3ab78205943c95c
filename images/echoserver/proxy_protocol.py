"""The PROXY protocol, versions 1 and 2: what a proxy says in front of a request about the connection it took.

It is reported, never believed: anybody can write such a header.
"""

from __future__ import annotations

import socket
import struct

TYPE_CHECKING = False  # as typing has it, without importing typing
if TYPE_CHECKING:
    from typing import Any

SIGNATURE_1 = b"PROXY "
SIGNATURE_2 = b"\r\n\r\n\0\r\nQUIT\n"
MAX_LINE = 107  # of version 1, with its end
MAX_HEADER = 4096  # of version 2: addresses take 52 bytes, the rest are TLVs, which are skipped
FAMILIES_1 = {"TCP4": socket.AF_INET, "TCP6": socket.AF_INET6}
FAMILIES_2 = {0x11: socket.AF_INET, 0x21: socket.AF_INET6}
UNSPECIFIED = 0x00
LOCAL, PROXY = 0x20, 0x21


class ProxyError(Exception):
    """It begins as a PROXY protocol header and is none."""


def take(data: bytes) -> tuple[dict[str, Any] | None, int] | None:
    """What the header before a request says and how long it is; (None, 0) without one, None while it is incomplete."""
    for signature, read in ((SIGNATURE_1, _version_1), (SIGNATURE_2, _version_2)):
        if data.startswith(signature):
            return read(data)
        if signature.startswith(data):
            return None
    return None, 0


def _version_1(data: bytes) -> tuple[dict[str, Any] | None, int] | None:
    line, end, _ = data[:MAX_LINE].partition(b"\r\n")
    if not end:
        if len(data) >= MAX_LINE or b"\n" in data:
            raise ProxyError
        return None
    size = len(line) + len(end)
    words = line.decode("latin-1").split(" ")
    if words[1] == "UNKNOWN":  # what follows says nothing
        return _header(1, "UNKNOWN"), size
    if words[1] not in FAMILIES_1 or len(words) != 6:
        raise ProxyError
    ports = []
    for word in words[4:]:
        if not (word.isascii() and word.isdigit()) or len(word) > 5 or int(word) > 65535 or word != str(int(word)):
            raise ProxyError
        ports.append(int(word))
    try:
        packed = [socket.inet_pton(FAMILIES_1[words[1]], word) for word in words[2:4]]
    except (OSError, ValueError):
        raise ProxyError from None
    return _header(1, "PROXY", FAMILIES_1[words[1]], packed, ports), size


def _version_2(data: bytes) -> tuple[dict[str, Any] | None, int] | None:
    if len(data) < 16:
        return None
    command, transport, length = struct.unpack_from("!BBH", data, 12)
    size = 16 + length
    if command not in (LOCAL, PROXY) or size > MAX_HEADER:
        raise ProxyError
    family = FAMILIES_2.get(transport)
    width = 4 if family == socket.AF_INET else 16
    if command == PROXY and transport != UNSPECIFIED and (family is None or length < 2 * width + 4):
        raise ProxyError
    if len(data) < size:
        return None
    if command == LOCAL:
        return _header(2, "LOCAL"), size
    if family is None:
        return _header(2, "UNKNOWN"), size
    packed = [data[16 : 16 + width], data[16 + width : 16 + 2 * width]]
    return _header(2, "PROXY", family, packed, list(struct.unpack_from("!HH", data, 16 + 2 * width))), size


def _header(version: int, command: str, family: int = 0, packed: list[bytes] | None = None,
            ports: list[int] | None = None) -> dict[str, Any]:  # fmt: skip
    source, destination = [socket.inet_ntop(family, one) for one in packed] if packed else (None, None)
    source_port, destination_port = ports or (None, None)
    return {
        "version": version, "command": command, "source_address": source, "source_port": source_port,
        "destination_address": destination, "destination_port": destination_port,
    }  # fmt: skip
