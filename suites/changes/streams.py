"""What clients send while Services change, and where they send it."""

from dataclasses import replace

from esipp.checks.model import Protocol
from esipp.checks.stream import Reuse, StreamKind
from esipp.scenarios.service_change.subject import MINUTE, At, Health
from suites import streams

SILENCES = (("idle", "a minute", float(MINUTE)), ("idle-3-min", "3 min", 180.0), ("idle-16-min", "16 min", 960.0))
"""Events in which a connection is idle, and for how many seconds. A service proxy once forgot connections of pods after
131 s; IPVS does after 15 min by default."""

EXPIRED = 150.0
"""Seconds after which Linux has forgotten a UDP flow without packets: 120, or 30 if it has seen only a few."""

EVERY, VARIES = 0.4, 0.15
OFTEN = f"every {1000 * EVERY * (1 - VARIES):.0f} to {1000 * EVERY:.0f} ms"


def _often(kind: StreamKind, sent: str, timeout: float = 0.0) -> StreamKind:
    """The kind, less often than in continuity: streams of many events run at the same time."""
    return replace(kind, sent=sent, every=EVERY, varies=VARIES, timeout=timeout or kind.timeout)


TCP_NEW = _often(streams.TCP_NEW, f"a new TCP connection {OFTEN}")
TCP_PORT = _often(streams.TCP_PORT, f"a new TCP connection {OFTEN}, from eight source ports in turn", 2.0)
"""A source port is used again only when its last connection has ended, also if that got no answer."""
UDP_NEW = _often(streams.UDP_NEW, f"a datagram {OFTEN}, each from a new socket", 1.0)
UDP_SOCKET = _often(streams.UDP_SOCKET, f"a datagram {OFTEN}, all from one socket", 1.0)
UDP_ONE_WAY = _often(
    streams.UDP_ONE_WAY, f"a datagram {OFTEN}, all from one socket, which pods count but do not answer"
)
TCP_ONE_PORT = replace(
    streams.ONE_PORT,
    sent=f"a request {OFTEN}, all on one TCP connection from a certain source port",
    every=EVERY,
    varies=VARIES,
    timeout=2.0,  # a client that waits for longer sends nothing meanwhile, as if its machine had stalled
    count=0,
)
UDP_ONE_PORT = replace(
    UDP_SOCKET,
    name="udp-one-port",
    ports=1,
    sent=f"a datagram {OFTEN}, all from one socket with a certain source port",
)
SCTP_NEW, SCTP_PORT = (replace(each, timeout=1.0) for each in (streams.SCTP_NEW, streams.SCTP_PORT))

TCP_RARE = replace(streams.TCP_NEW, name="tcp-rare", sent="a new TCP connection every 3 s", every=3.0)

UDP_IDLE = replace(
    streams.UDP_SOCKET, name="udp-idle", sent=f"two datagrams from one socket, {EXPIRED:.0f} s apart", every=EXPIRED,
    count=2,
)  # fmt: skip

HEALTH_CHECKS = tuple(
    StreamKind(
        name=health.value, sent=f"a request every 500 ms for {asked}", protocol=Protocol.TCP, reuse=Reuse.NEW,
        every=0.5, timeout=1.0,
    )
    for health, asked in (
        (Health.PROXY, "/healthz at port 10256 of the node"),
        (Health.SERVICE, "the health check of the Service at the node"),
    )
)  # fmt: skip

LARGE = streams.BULK_STEADY
TCP_FAST = replace(TCP_NEW, name="tcp-fast", sent="a new TCP connection every 50 ms", every=0.05)
"""It meets fifty pods in time. And a node sends each client one ICMP error a second: of 88 slow connections, no error
reached one in 34 s, while 600 datagrams of other streams had no Service at that node (kind-iptables, 2026-11-28)."""

IDLE = tuple(
    replace(
        streams.TCP_LASTING,
        name=f"tcp-{name}",
        sent=f"two requests on one TCP connection, {words} apart",
        every=seconds,
        count=2,
    )
    for name, words, seconds in SILENCES
)
"""Streams that are silent for long, one for each of ``SILENCES``."""

STREAMS = (
    TCP_NEW, TCP_PORT, TCP_ONE_PORT, LARGE, TCP_FAST, UDP_NEW, UDP_SOCKET, UDP_ONE_PORT, UDP_ONE_WAY, SCTP_NEW,
    SCTP_PORT, TCP_RARE, *IDLE, UDP_IDLE, *HEALTH_CHECKS,
)  # fmt: skip
"""What clients send, through all stages of an event. Many events happen at once, so the pace is slow."""


def all_but(*seen: StreamKind) -> tuple[StreamKind, ...]:
    """Return all other streams."""
    return tuple(stream for stream in STREAMS if stream not in seen)


KEEPING = {
    **dict.fromkeys((TCP_PORT, TCP_ONE_PORT, *IDLE), TCP_NEW),
    **dict.fromkeys((UDP_SOCKET, UDP_ONE_PORT, UDP_ONE_WAY), UDP_NEW),
    SCTP_PORT: SCTP_NEW,
}
"""Streams that keep their port through all stages, and the same kind from new ports."""

ONE_FLOW = (UDP_SOCKET, UDP_ONE_WAY, SCTP_PORT)
"""Streams that are one flow."""

COMPARED = {**KEEPING, LARGE: TCP_NEW}
"""Streams, and those of the same client that show which of two things fails."""

ENTRIES = {
    At.ENDPOINT_NODE: "the nodePort of the endpoint node",
    At.BARE_NODE: "the nodePort of a node without local endpoints",
    At.OTHER_NODE: "the nodePort of a third node",
    At.CONTROL_PLANE: "the nodePort of a control plane node",
    At.SHARED_PORT: "the nodePort of the Service's TCP port",
    At.CLUSTER_IP: "the ClusterIP",
    At.OWN_CLUSTER_IP: "the ClusterIP from the endpoint's node",
    At.CLUSTER_IP_FROM_NODE: "the ClusterIP, from a host process",
    At.CLUSTER_IP_LATER: "port 90 of the ClusterIP",
    At.VIP: "the VIP",
    At.VIP_LATER: "port 90 of the VIP",
    At.EXTERNAL_IP: "the externalIP, an address of a node without local endpoints",
    At.VIP_FROM_NODE: "the VIP from a node",
    At.SMALL_MTU: "the nodePort of a node without local endpoints, from behind a route with an MTU of 1,300",
    At.OUT: "another node, from a pod",
    At.NEW_ADDRESS: "the nodePort of the endpoint node, at an address that it has for a while",
    At.NEW_ADDRESS_ELSEWHERE: "the nodePort of a third node, at the InternalIP that it has for a while",
    At.FROM_POD: "the nodePort of the endpoint node, from a pod of another node",
    At.FROM_SECOND_POD: "the nodePort of the endpoint node, from a second pod with the source ports of the first",
    At.CLUSTER_IP_FROM_SECOND_POD: "the ClusterIP, from a second pod with the source ports of the first",
    At.ANOTHER_SERVICE: "the nodePort of that other Service",
    At.ANOTHER_CLUSTER_IP: "the ClusterIP of that other Service",
}
"""What is dialled."""

MORE_NODES = (At.OTHER_NODE, At.CONTROL_PLANE)
"""Entries that are dialled only where a change frees an address or a port: every node must then stop serving it."""

OF_TWO_PODS = (At.CLUSTER_IP, At.CLUSTER_IP_FROM_SECOND_POD, At.FROM_POD, At.FROM_SECOND_POD)
"""Entries that two pods of one node dial, with the same source ports at the same time."""
