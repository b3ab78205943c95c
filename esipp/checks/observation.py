"""Observations of paths by two witnesses, and verdicts on checks. No I/O."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, NamedTuple

from esipp.checks.check import Level, Status
from esipp.checks.model import AddressClass
from esipp.checks.reference import Reference


class Outcome(StrEnum):
    """The outcome of a probe, as the prober reports it (images/echoserver/README.md)."""

    ANSWERED = "answered"
    REFUSED = "refused"
    TIMEOUT = "timeout"
    UNREACHABLE = "unreachable"
    RESET = "reset"
    INVALID = "invalid"
    MISDIRECTED = "misdirected"
    ERROR = "error"
    UNRESOLVED = "unresolved"


class Irregular(NamedTuple):
    """An answered probe whose answer came late or more than once, or for which the SYN was sent again.

    ``started``, ``connected`` (None for datagrams) and ``ended`` are the prober's monotonic seconds. ``again``
    counts the SYNs after the first, ``copies`` the further copies of the answer.
    """

    started: float
    connected: float | None
    ended: float
    again: int
    copies: int


@dataclass(frozen=True)
class Observation:
    """One probe of one path, or ``count`` probes with the same result, as prober and echo server report it.

    ``source`` is the client's view of its address and port, ``seen`` the backend's view, ``local`` the backend's own
    end. For several probes, ``source``, ``seen`` and times are those of the first. ``ports`` has all pairs of source
    ports, at the client and at the backend. ``moments`` has the start and end of each probe in the same order, if they
    were recorded. ``connected`` is the time at which the connection was accepted, or None. Times are the prober's
    monotonic seconds. ``tag`` is an SCTP INIT's initiate tag. ``connection`` numbers the established connections of a
    job, from 0. ``addresses`` are the results of a name lookup. ``irregular`` are those of its probes that did not go
    smoothly.
    """

    path: str
    seq: int
    outcome: Outcome
    source: tuple[str, int] | None = None
    dialled: tuple[str, int] | None = None
    seen: tuple[str, int] | None = None
    echo: Mapping[str, Any] | None = None
    started: float = 0.0
    connected: float | None = None
    ended: float = 0.0
    time: float = 0.0
    detail: str = ""
    observer: str = "echo"
    nonce: str = ""
    tag: int | None = None
    count: int = 1
    ports: tuple[tuple[int, int | None], ...] = ()
    connection: int = 0
    addresses: tuple[str, ...] = ()
    moments: tuple[tuple[float, float], ...] = ()
    irregular: tuple[Irregular, ...] = ()

    @property
    def spans(self) -> tuple[tuple[float, float], ...]:
        """Return start and end of each probe, in the order of ``port_pairs``; empty if only the first is known."""
        if self.moments or self.count > 1:
            return self.moments
        return ((self.started, self.ended),)

    @property
    def took(self) -> tuple[float, ...]:
        """Return the seconds of each probe, to the millisecond; empty if only the first is known."""
        return tuple(round(ended - started, 3) for started, ended in self.spans)

    @property
    def backend(self) -> str | None:
        """Return the pod that answered, as it reports itself."""
        return str(self.echo["pod"]) if self.echo and self.echo.get("pod") else None

    @property
    def node(self) -> str | None:
        """Return the node of the pod that answered, as the pod reports it."""
        return str(self.echo["node"]) if self.echo and self.echo.get("node") else None

    @property
    def local(self) -> tuple[str, int] | None:
        """Return the address and port at which the client reached the backend, as the backend reports it."""
        if not self.echo or not self.echo.get("local_address"):
            return None
        return str(self.echo["local_address"]), int(self.echo.get("local_port") or 0)

    @property
    def port_pairs(self) -> tuple[tuple[int, int | None], ...]:
        """Return the source port of each probe, at the client and at the backend."""
        if self.ports or self.source is None:
            return self.ports
        return ((self.source[1], self.seen[1] if self.seen else None),)


@dataclass(frozen=True)
class Witness:
    """The evidence of packets about one sampled connection.

    Args:
        path, seq: the observation of the connection.
        seen: whether the packets include the connection.
        words: the connection in packets: sender, receiver, node and interface.
        delivered: the source with which its request reached a backend, or None.
        change: where the source changed: ``node esipp-worker, between eth0 and veth1: A became B``; else empty.
        contradiction: why packets and echo server cannot both be right; else empty.
        doubt: why its packets could not be distinguished from another connection's; else empty.
        turned_back: the client's node, if the request left it and came back for another address; else empty.
    """

    path: str
    seq: int
    seen: bool
    words: str = ""
    delivered: tuple[str, int] | None = None
    change: str = ""
    contradiction: str = ""
    doubt: str = ""
    turned_back: str = ""


@dataclass(frozen=True)
class Tracked:
    """What the nodes' connection tracking says of the connections of one path.

    Args:
        agreed: how many have the source there that the backend reported.
        contradicted: how many have another one.
        words: the first of these, as a sentence; empty if there is none.
    """

    agreed: int
    contradicted: int = 0
    words: str = ""


@dataclass(frozen=True)
class Verdict:
    """The verdict on one check.

    ``expected`` and ``observed`` are texts for people. ``tally`` counts observations by result, and ``shown`` has the
    address classes among them. ``left_out`` marks an unsupported check that the cluster itself would support.
    ``ports`` says whether source ports were kept, ``change`` where packets saw the source change, ``witnesses`` which
    evidence the verdict rests on, ``likely`` where to look first after a failure. ``sees`` is the power of the check
    and the resolution of its measurement. ``nature`` is the nature of a known difference (a value of ``Nature``),
    ``missing`` has the missing features of an unsupported check. ``instrument`` marks a check of the reference load
    balancer, which counts neither for nor against the cluster.
    """

    check_id: str
    level: Level
    status: Status
    expected: str
    observed: str
    reason: str = ""
    tally: Mapping[str, int] = field(default_factory=dict)
    references: tuple[Reference, ...] = ()
    shown: tuple[AddressClass, ...] = ()
    left_out: bool = False
    ports: str = ""
    change: str = ""
    witnesses: str = ""
    likely: str = ""
    sees: str = ""
    nature: str = ""
    missing: tuple[str, ...] = ()
    instrument: bool = False
