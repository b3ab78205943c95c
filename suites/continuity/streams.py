"""The streams of continuity, and why some fields of the table of events and streams are empty."""

from esipp.checks.continuity import NODEPORT, Event, Phase, Way
from esipp.checks.model import Balancer, Protocol
from esipp.checks.stream import StreamKind
from suites.streams import (
    BULK,
    DATAGRAMS,
    ONE_PORT,
    SCTP_NEW,
    SCTP_PORT,
    STORM,
    UDP_NEW,
    UDP_ONE_WAY,
    UDP_SOCKET,
)

STREAMS = (UDP_SOCKET, UDP_NEW, UDP_ONE_WAY, SCTP_PORT, SCTP_NEW, *BULK, *DATAGRAMS, ONE_PORT, STORM)
"""All streams but the two of TCP, which have claims of their own."""

SIZES = (
    "A large packet goes where the small ones of `tcp-lasting` and `udp-socket` go; what it meets on its way does not "
    "depend on the event."
)
AT_VIPS = (
    "The VIP leads to the rules of a node that its nodePort shows; which node it leads to is what `tcp-new` shows. "
    "Many load balancers carry one protocol a Service, or no SCTP."
)
BY_HASH = "This forwarder hashes each packet anew and knows no socket; the node behind it shows at its nodePort."
PORTS = "Which source port a connection has does not depend on the event; those that last show that they live on."
OWN_PORTS = "This proxy chooses the source ports of its own connections."
LOAD = "A storm at two ways is enough load for a cluster that others use; it meets the same rules at each."
TCP_ONLY = "This proxy carries TCP alone."


def why_empty(event: Event, way: Way, stream: StreamKind) -> str:
    """Return why there is no check; empty if there is one."""
    if stream.count and event.phase is not Phase.QUIET:
        return SIZES if stream.size else PORTS
    if stream == ONE_PORT and way.by == Balancer.PROXY.value:
        return OWN_PORTS
    if stream == STORM and way.by != NODEPORT:
        return LOAD
    if stream.protocol is Protocol.TCP or way.by == NODEPORT:
        return ""
    return {Balancer.ECMP.value: BY_HASH, Balancer.PROXY.value: TCP_ONLY}.get(way.by, AT_VIPS)
