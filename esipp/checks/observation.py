"""What was seen of a path, by two witnesses, and what the judge says of a check: frozen, typed, without any I/O."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from esipp.checks.check import Level, Status
from esipp.checks.model import AddressClass
from esipp.checks.reference import Reference, read_reference


class Outcome(StrEnum):
    """How a probe ended, in the prober's words (images/echoserver/README.md)."""

    ANSWERED = "answered"
    REFUSED = "refused"
    TIMEOUT = "timeout"
    UNREACHABLE = "unreachable"
    RESET = "reset"
    INVALID = "invalid"
    MISDIRECTED = "misdirected"
    ERROR = "error"
    UNRESOLVED = "unresolved"


@dataclass(frozen=True)
class Observation:
    """One probe on one path, or ``count`` of them that all showed the same, as the prober and the echo server told it.

    ``source`` is the client's own view of its address and port, ``seen`` the backend's, ``local`` the backend's own
    side. Of several probes, ``source``, ``seen`` and times are the first's, and ``ports`` are all pairs of source
    ports, the client's and the one the backend saw; ``moments`` are then when each began and ended, in the same order,
    where that was kept. ``connected`` is when the connection was accepted, None where it
    never was. Times are the prober's monotonic seconds. ``tag`` is an SCTP INIT's initiate tag.
    ``connection`` counts the connections of a lasting job, from 0; ``addresses`` are what a name resolved to.
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

    @property
    def spans(self) -> tuple[tuple[float, float], ...]:
        """When each probe began and ended, in the order of ``port_pairs``; none where only the first's is known."""
        if self.moments or self.count > 1:
            return self.moments
        return ((self.started, self.ended),)

    @property
    def backend(self) -> str | None:
        """The pod that answered, by its own word."""
        return str(self.echo["pod"]) if self.echo and self.echo.get("pod") else None

    @property
    def node(self) -> str | None:
        """The node of the pod that answered, by its own word."""
        return str(self.echo["node"]) if self.echo and self.echo.get("node") else None

    @property
    def local(self) -> tuple[str, int] | None:
        """The address and port at which the backend was reached, by its own word."""
        if not self.echo or not self.echo.get("local_address"):
            return None
        return str(self.echo["local_address"]), int(self.echo.get("local_port") or 0)

    @property
    def port_pairs(self) -> tuple[tuple[int, int | None], ...]:
        """The source port of each probe, the client's own and the one the backend saw."""
        if self.ports or self.source is None:
            return self.ports
        return ((self.source[1], self.seen[1] if self.seen else None),)

    def as_json(self) -> dict[str, Any]:
        """The observation as the ledger keeps it, with a connection or addresses only where they tell something."""
        told: dict[str, Any] = {
            "path": self.path,
            "seq": self.seq,
            "count": self.count,
            "outcome": self.outcome.value,
            "source": list(self.source) if self.source else None,
            "dialled": list(self.dialled) if self.dialled else None,
            "seen": list(self.seen) if self.seen else None,
            "ports": [list(pair) for pair in self.ports],
            "backend": self.backend,
            "observer": self.observer,
            "nonce": self.nonce,
            "tag": self.tag,
            "started": self.started,
            "connected": self.connected,
            "ended": self.ended,
            "time": self.time,
            "detail": self.detail,
            "echo": dict(self.echo) if self.echo else None,
        }
        if self.connection:
            told["connection"] = self.connection
        if self.addresses:
            told["addresses"] = list(self.addresses)
        if self.moments:
            told["moments"] = [list(each) for each in self.moments]
        return told


@dataclass(frozen=True)
class Witness:
    """What packets tell of one sampled connection.

    Args:
        path, seq: the observation it belongs to.
        seen: whether the connection was found among the packets at all.
        words: the connection in the packet view: who sent what to whom, on which node and interface.
        delivered: the source with which its request went to a backend; None where it went to none.
        change: where the source changed, as ``node esipp-worker, between eth0 and veth1: A became B``; else empty.
        contradiction: where packets and the echo server cannot both be right, in words; else empty.
        doubt: why its packets were not told apart from another connection's, in words; else empty.
    """

    path: str
    seq: int
    seen: bool
    words: str = ""
    delivered: tuple[str, int] | None = None
    change: str = ""
    contradiction: str = ""
    doubt: str = ""

    def as_json(self) -> dict[str, Any]:
        """The witness as the ledger keeps it."""
        return {
            "path": self.path,
            "seq": self.seq,
            "seen": self.seen,
            "words": self.words,
            "delivered": list(self.delivered) if self.delivered else None,
            "change": self.change,
            "contradiction": self.contradiction,
            "doubt": self.doubt,
        }


@dataclass(frozen=True)
class Verdict:
    """The judge's word on one check.

    ``expected`` and ``observed`` are sentences for people; ``tally`` counts the observations by what they showed, and
    ``shown`` are the address classes among them. ``left_out`` marks an unsupported check that the cluster itself would
    have supported. ``ports`` tells whether source ports were kept, ``change`` where packets saw the source change,
    ``witnesses`` on whose word it rests, ``likely`` where to look first if it is not fine. ``sees`` is what the check
    can and cannot see: its power, and the resolution that was reached. ``nature`` is what a known difference is (a
    ``Nature``'s value), ``missing`` the features for want of which a check was not asked. ``instrument`` marks a check
    about our own reference load balancer, which counts neither for nor against the cluster.
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

    def as_json(self) -> dict[str, Any]:
        """The verdict as the ledger keeps it."""
        return {
            "id": self.check_id,
            "level": self.level.value,
            "status": self.status.value,
            "expected": self.expected,
            "observed": self.observed,
            "reason": self.reason,
            "tally": dict(sorted(self.tally.items())),
            "references": [each.as_json() for each in self.references],
            "shown": [each.value for each in self.shown],
            "left_out": self.left_out,
            "ports": self.ports,
            "change": self.change,
            "witnesses": self.witnesses,
            "likely": self.likely,
            "sees": self.sees,
            "nature": self.nature,
            "missing": list(self.missing),
            "instrument": self.instrument,
        }

    @staticmethod
    def from_json(told: Mapping[str, Any]) -> "Verdict":
        """The verdict as the ledger has it. Older ledgers have one text, ``reference``, instead of ``references``.

        Raises:
            KeyError, ValueError, TypeError: it is none.
        """
        kept = {
            name: told[name] for name in Verdict.__dataclass_fields__ if name not in ("check_id", "shown", "references")
        }
        kept |= {"level": Level(told["level"]), "status": Status(told["status"]), "missing": tuple(told["missing"])}
        cited = told["references"] if "references" in told else list(filter(None, [told["reference"]]))
        kept["references"] = tuple(map(read_reference, cited))
        return Verdict(check_id=told["id"], shown=tuple(AddressClass(each) for each in told["shown"]), **kept)
