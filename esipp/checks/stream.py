"""``StreamKind``: one kind of steady traffic, as data. No I/O."""

from dataclasses import dataclass
from enum import StrEnum

from esipp.checks.model import Protocol

MTU = -1
"""The size of a datagram that fills a packet of the route's MTU."""

TIMEOUT = 3.0
"""Seconds until a probe counts as lost: with two SYNs sent again meanwhile, no busy machine is that late."""


RECOVERS = 5.0
"""Seconds within which a stream follows a change of pods or Services: nodes write rules in a second or two."""

CLEANED = 10.0
"""The same for UDP: where sockets reached a pod that has gone, nodes have to clean connection tracking, too. kube-proxy
took up to 5.2 s from the EndpointSlice on, with 18 tasks for each of two cores (2026-11-27, kind-iptables). An entry
that it forgets lives for as long as its client sends."""

STEADY = 1.0
"""The same while nothing changes."""


class Reuse(StrEnum):
    """What the probes of a stream share.

    ``new``: nothing; each has a connection, or a socket and source port, of its own. ``lasting``: one connection, on
    which one exchange follows the other. ``one-socket``: one source port, from which probes go on whether or not
    answers come. ``one-way``: the same, and nothing is answered: the backend counts what arrives.
    """

    NEW = "new"
    LASTING = "lasting"
    ONE_SOCKET = "one-socket"
    ONE_WAY = "one-way"


@dataclass(frozen=True, kw_only=True)
class StreamKind:
    """A kind of steady traffic.

    Args:
        name: its name in ids and reports.
        sent: what the client sends, as text: ``a datagram every 100 ms from one socket``.
        protocol: of the Service's port.
        reuse: what its probes share.
        every: seconds from the start of a probe to that of the next one.
        varies: by which share of this a single stream's period may be shorter, so that streams do not keep step.
        timeout: seconds until a probe counts as lost.
        size: bytes of a datagram and of its answer, or of a transfer each way; 0 for no more than a request needs,
            ``MTU`` for a full packet.
        count: how many probes are made; 0 if they go on.
        ports: how many source ports the probes take in turn, the same ones on each way; 0 for any. For a lasting stream
            it is that of its connection.
    """

    name: str
    sent: str
    protocol: Protocol
    reuse: Reuse
    every: float
    varies: float = 0.0
    timeout: float = TIMEOUT
    size: int = 0
    count: int = 0
    ports: int = 0

    @property
    def keeps_port(self) -> bool:
        """Whether all probes come from one source port, without a connection."""
        return self.reuse in (Reuse.ONE_SOCKET, Reuse.ONE_WAY)

    @property
    def recovers(self) -> float:
        """Seconds for which it may be silent after a change, and for which an unready pod may answer it."""
        return CLEANED if self.protocol is Protocol.UDP else RECOVERS

    @property
    def is_fresh(self) -> bool:
        """Whether each probe has a source port of its own, so that any pod may get it."""
        return self.reuse is Reuse.NEW and not self.ports

    @property
    def job_protocol(self) -> str:
        """The protocol of the prober's job."""
        if self.protocol is not Protocol.TCP:
            return self.protocol.value.lower()
        if self.reuse is Reuse.LASTING:
            return "lasting"
        return "bulk" if self.size else "tcp"
