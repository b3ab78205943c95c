"""Kinds of steady traffic: each is crossed with the events of a suite, which says what is required there."""

from esipp.checks.model import Protocol
from esipp.checks.stream import MTU, Reuse, StreamKind

UNANSWERED = 1.0
"""Seconds until a datagram or an INIT counts as lost: nothing sends it again."""

TCP_NEW = StreamKind(
    name="tcp-new", sent="a new TCP connection every 100 ms", protocol=Protocol.TCP, reuse=Reuse.NEW, every=0.1
)
TCP_LASTING = StreamKind(
    name="tcp-lasting",
    sent="an exchange every 300 ms on an established TCP connection",
    protocol=Protocol.TCP,
    reuse=Reuse.LASTING,
    every=0.3,
)
UDP_NEW = StreamKind(
    name="udp-new", sent="a datagram every 200 ms, each from a new socket", protocol=Protocol.UDP, reuse=Reuse.NEW,
    every=0.2, timeout=UNANSWERED,
)  # fmt: skip
UDP_SOCKET = StreamKind(
    name="udp-socket", sent="a datagram every 100 ms, all from one socket", protocol=Protocol.UDP,
    reuse=Reuse.ONE_SOCKET, every=0.1, timeout=UNANSWERED,
)  # fmt: skip
UDP_ONE_WAY = StreamKind(
    name="udp-one-way", sent="a datagram every 100 ms, all from one socket, which pods count but do not answer",
    protocol=Protocol.UDP, reuse=Reuse.ONE_WAY, every=0.1, timeout=UNANSWERED,
)  # fmt: skip
SCTP_NEW = StreamKind(
    name="sctp-new", sent="an INIT every 500 ms, each from a new source port", protocol=Protocol.SCTP,
    reuse=Reuse.NEW, every=0.5, timeout=UNANSWERED,
)  # fmt: skip
SCTP_PORT = StreamKind(
    name="sctp-port", sent="an INIT every 500 ms, all from one source port", protocol=Protocol.SCTP,
    reuse=Reuse.ONE_SOCKET, every=0.5, timeout=UNANSWERED,
)  # fmt: skip
TCP_PORT = StreamKind(
    name="tcp-port", sent="a new TCP connection every 100 ms, from eight source ports in turn", protocol=Protocol.TCP,
    reuse=Reuse.NEW, every=0.1, ports=8,
)  # fmt: skip
BULK = tuple(
    StreamKind(
        name=f"bulk-{size}mb", sent=f"{size} MB there and back on one TCP connection, with checksums",
        protocol=Protocol.TCP, reuse=Reuse.NEW, every=0.0, timeout=10.0, count=1, size=size * 1_000_000,
    )
    for size in (1, 10)
)  # fmt: skip
BULK_STEADY = StreamKind(
    name="tcp-100kb", sent="100 kB there and back every second, each on a new TCP connection, with checksums",
    protocol=Protocol.TCP, reuse=Reuse.NEW, every=1.0, timeout=5.0, size=100_000,
)  # fmt: skip
DATAGRAMS = tuple(
    StreamKind(
        name=f"udp-{name}", sent=f"a datagram of {text} every 500 ms, all from one socket, and gets as many bytes back",
        protocol=Protocol.UDP, reuse=Reuse.ONE_SOCKET, every=0.5, timeout=UNANSWERED, count=8, size=size,
    )
    for name, text, size in (
        ("1400", "1,400 bytes", 1400),
        ("mtu", "the path MTU", MTU),
        ("4000", "4,000 bytes (in fragments)", 4000),
    )
)  # fmt: skip
ONE_PORT = StreamKind(
    name="tcp-one-port",
    sent="a request every 300 ms on one TCP connection for each way, all with the same source port",
    protocol=Protocol.TCP, reuse=Reuse.LASTING, every=0.3, count=10, ports=1,
)  # fmt: skip
STORM = StreamKind(
    name="tcp-storm",
    sent="1,000 TCP connections as fast as it can, at most 2,000 a second, from 250 source ports",
    protocol=Protocol.TCP, reuse=Reuse.NEW, every=0.0005, count=1000, ports=250,
)  # fmt: skip


def client_does(stream: StreamKind) -> str:
    """Return what the client does, as text: it opens connections and sends all else."""
    opens = stream.protocol is Protocol.TCP and stream.reuse is Reuse.NEW and not stream.size
    return f"{'opens' if opens else 'sends'} {stream.sent}"
