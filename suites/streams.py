"""Kinds of steady traffic: each is crossed with the events of a suite, which says what is required there."""

from esipp.checks.model import Protocol
from esipp.checks.stream import MTU, Reuse, StreamKind

TCP_NEW = StreamKind(
    name="tcp-new", sent="a new TCP connection every 100 ms", protocol=Protocol.TCP, reuse=Reuse.NEW, every=0.1
)
TCP_LASTING = StreamKind(
    name="tcp-lasting",
    sent="an exchange every 300 ms on a TCP connection that lasts",
    protocol=Protocol.TCP,
    reuse=Reuse.LASTING,
    every=0.3,
)
UDP_NEW = StreamKind(
    name="udp-new", sent="a datagram every 200 ms, each from a new socket", protocol=Protocol.UDP, reuse=Reuse.NEW,
    every=0.2,
)  # fmt: skip
UDP_SOCKET = StreamKind(
    name="udp-socket", sent="a datagram every 100 ms, all from one socket", protocol=Protocol.UDP,
    reuse=Reuse.ONE_SOCKET, every=0.1,
)  # fmt: skip
UDP_ONE_WAY = StreamKind(
    name="udp-one-way", sent="a datagram every 100 ms, all from one socket, which nobody answers",
    protocol=Protocol.UDP, reuse=Reuse.ONE_WAY, every=0.1,
)  # fmt: skip
SCTP_NEW = StreamKind(
    name="sctp-new", sent="an INIT every 500 ms, each from a new source port", protocol=Protocol.SCTP,
    reuse=Reuse.NEW, every=0.5,
)  # fmt: skip
SCTP_PORT = StreamKind(
    name="sctp-port", sent="an INIT every 500 ms, all from one source port", protocol=Protocol.SCTP,
    reuse=Reuse.ONE_SOCKET, every=0.5,
)  # fmt: skip
BULK = tuple(
    StreamKind(
        name=f"bulk-{size}mb", sent=f"{size} MB there and back on one TCP connection, with checksums",
        protocol=Protocol.TCP, reuse=Reuse.NEW, every=every, timeout=20.0, size=size * 1_000_000,
    )
    for size, every in ((1, 2.0), (10, 60.0))
)  # fmt: skip
DATAGRAMS = tuple(
    StreamKind(
        name=f"udp-{name}", sent=f"a datagram of {text} every 500 ms, all from one socket, and as much back",
        protocol=Protocol.UDP, reuse=Reuse.ONE_SOCKET, every=0.5, size=size,
    )
    for name, text, size in (
        ("1400", "1,400 bytes", 1400),
        ("mtu", "the path MTU", MTU),
        ("4000", "4,000 bytes, in fragments", 4000),
    )
)  # fmt: skip
