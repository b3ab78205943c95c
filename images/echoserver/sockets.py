"""Sockets as the echo server opens them, and where a datagram was addressed to."""

from __future__ import annotations

import socket
import struct

TYPE_CHECKING = False  # as typing has it, without importing typing
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

IP_PKTINFO = 8  # the socket module names it only from Python 3.14 on
BUFFER = 4 << 20  # bytes wanted; the kernel gives what it allows, and a burst that does not fit would look like loss


def bound(address: str, port: int, kind: int) -> socket.socket:
    """A non-blocking socket on that address, listening if it is of a stream; [::] takes both families."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    sock = socket.socket(family, kind)
    try:
        sock.setblocking(False)
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, address != "::")
        if kind == socket.SOCK_DGRAM:
            tell_destinations(sock)
        else:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((address, port))
        if kind == socket.SOCK_STREAM:
            sock.listen(4096)
    except OSError:
        sock.close()
        raise
    return sock


def raw(family: int, protocol: int) -> socket.socket:
    """A non-blocking raw socket; an IPv6 one takes no IPv4."""
    sock = socket.socket(family, socket.SOCK_RAW | socket.SOCK_NONBLOCK, protocol)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, BUFFER)
        tell_destinations(sock)
    except OSError:
        sock.close()
        raise
    return sock


def tell_destinations(sock: socket.socket) -> None:
    """Have the kernel say of each datagram which address it was sent to, and keep many of them."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
    if sock.family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVPKTINFO, 1)
    else:
        sock.setsockopt(socket.IPPROTO_IP, IP_PKTINFO, 1)


def destination(
    ancillary: Iterable[tuple[int, int, bytes]], port: int
) -> tuple[tuple[Any, ...], tuple[int, int, bytes]] | None:
    """Where a datagram was sent to, and the control message that has the answer come from there."""
    for level, kind, value in ancillary:
        if level == socket.IPPROTO_IPV6 and kind == socket.IPV6_PKTINFO:
            reached, index = socket.inet_ntop(socket.AF_INET6, value[:16]), struct.unpack("@I", value[16:20])[0]
            scope = index if reached.startswith("fe80:") else 0
            return (reached, port, 0, scope), (level, kind, value[:16] + struct.pack("@I", scope))
        if level == socket.IPPROTO_IP and kind == IP_PKTINFO:
            local = (socket.inet_ntop(socket.AF_INET, value[8:12]), port)
            return local, (level, kind, struct.pack("@I", 0) + value[8:12] + bytes(4))
    return None
