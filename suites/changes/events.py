"""What happens to Services and pods, stage by stage. Each event is crossed with each stream: see checks.py.

A new event is an entry here, its usual seconds in scenarios/service_change/scenario.py, and, for a new kind of change,
its ``Do`` and how run.py does it.
"""

from esipp.scenarios.service_change.subject import At, Change, Do, Event, Pods, Sent

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

STREAMS = {
    Sent.TCP: "a new TCP connection every 250 ms",
    Sent.UDP: "a datagram every 250 ms, each from a new socket",
    Sent.UDP_SOCKET: "a datagram every 250 ms, all from one socket",
}
"""What each client sends, through all stages of an event."""

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
