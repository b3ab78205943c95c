"""What happens to Services and pods, stage by stage. Each event is crossed with each stream: see checks.py.

A new event is an entry here, its usual seconds in scenarios/service_change/scenario.py, and, for a new kind of change,
its ``Do`` and how run.py does it.
"""

from dataclasses import replace

from esipp.checks.model import Protocol
from esipp.checks.stream import Reuse, StreamKind
from esipp.scenarios.service_change.subject import At, Change, Do, Event, Pods
from suites import streams

EVENTS = (
    Event(
        "scaled-to-zero",
        "While a Service loses all its endpoints and gets another one",
        (
            Change(Do.CREATE, Pods.FIRST),
            Change(Do.SELECT, Pods.NONE),
            Change(Do.SELECT, Pods.SECOND),
        ),
    ),
    Event(
        "replaced",
        "While a Service's only endpoint is replaced by another one",
        (
            Change(Do.CREATE, Pods.FIRST),
            Change(Do.SELECT, Pods.SECOND),
            Change(Do.SELECT, Pods.FIRST),
        ),
    ),
    Event(
        "deleted",
        "While a Service is deleted, and created again with its nodePorts and ClusterIPs over another pod",
        (
            Change(Do.CREATE, Pods.FIRST),
            Change(Do.DELETE),
            Change(Do.CREATE_AGAIN, Pods.SECOND),
        ),
    ),
    Event(
        "taken-over",
        "While a Service is deleted, and another one over another pod gets its nodePorts and ClusterIPs",
        (
            Change(Do.CREATE, Pods.FIRST),
            Change(Do.TAKE_OVER, Pods.SECOND),
        ),
    ),
)

TCP_NEW = replace(streams.TCP_NEW, sent="a new TCP connection every 250 ms", every=0.25)
UDP_NEW = replace(streams.UDP_NEW, sent="a datagram every 250 ms, each from a new socket", every=0.25, timeout=1.0)
UDP_SOCKET = replace(streams.UDP_SOCKET, sent="a datagram every 250 ms, all from one socket", every=0.25, timeout=1.0)
UDP_ONE_WAY = replace(
    streams.UDP_ONE_WAY, sent="a datagram every 250 ms, all from one socket, which nobody answers", every=0.25
)
SCTP_NEW, SCTP_PORT = (replace(each, timeout=1.0) for each in (streams.SCTP_NEW, streams.SCTP_PORT))

STREAMS = (TCP_NEW, UDP_NEW, UDP_SOCKET, UDP_ONE_WAY, SCTP_NEW, SCTP_PORT)
"""What clients send, through all stages of an event. Many events happen at once, so the pace is slow."""

FRESH = {UDP_SOCKET: UDP_NEW, UDP_ONE_WAY: UDP_NEW, SCTP_PORT: SCTP_NEW}
"""Streams whose flows have a past, and the same without."""

ENTRIES = {
    At.ENDPOINT_NODE: "the nodePort of the endpoint node",
    At.BARE_NODE: "the nodePort of a node without local endpoints",
    At.CLUSTER_IP: "the ClusterIP",
}
"""What is dialled in every event."""

EVERY_NODE = {
    At.OTHER_NODE: "the nodePort of a third node",
    At.CONTROL_PLANE: "the nodePort of a control plane node",
}
"""What is dialled besides, where something is freed: what is gone is gone on every node."""


def why_not(event: Event, at: At, stream: StreamKind) -> str:
    """Return why a stream is not sent during an event; empty if it is."""
    if at in EVERY_NODE and event not in FREED:
        return "only where something is freed: other changes of endpoints are the same on all nodes without any"
    if stream.protocol is Protocol.SCTP:
        if at is At.CLUSTER_IP:
            return "SCTP needs raw sockets, which pods of clients do not get"
        if at in EVERY_NODE:
            return "as on the other nodes; four of them would be asked for one proxy"
    if stream.reuse is Reuse.ONE_WAY and at in EVERY_NODE:
        return "the socket that is answered sees the same entries of connection tracking"
    return ""


FREED = tuple(event for event in EVENTS if {Do.DELETE, Do.TAKE_OVER}.intersection(each.do for each in event.changes))
"""The events in which addresses and ports are freed."""
