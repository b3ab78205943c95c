"""The words of the suite as types: frozen, typed, without any I/O.

Names follow design.md ("Words") and the Kubernetes API.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


class Level(StrEnum):
    """How binding a row is.

    ``core``: the API contract and its documentation. ``extended``: kube-proxy's documented behaviour, where other
    data planes may differ. ``record``: written down, never failed.
    """

    CORE = "core"
    EXTENDED = "extended"
    RECORD = "record"


class Status(StrEnum):
    """What the judge says of a row (design.md, "verdict")."""

    PASS = "pass"  # noqa: S105 - a verdict, not a password
    FAIL = "fail"
    FLAKY = "flaky"
    KNOWN = "known"
    UNSUPPORTED = "unsupported"
    INCONCLUSIVE = "inconclusive"
    ERROR = "error"


class AddressClass(StrEnum):
    """Whose address a backend sees as the source, or how the client was not answered."""

    CLIENT = "client"
    NODE = "node"
    POD = "pod"
    LOAD_BALANCER = "load_balancer"
    HAIRPIN = "hairpin"
    OTHER = "other"
    DROPPED = "dropped"
    REFUSED = "refused"


NO_ANSWER = frozenset({AddressClass.DROPPED, AddressClass.REFUSED})


class Family(StrEnum):
    """``spec.ipFamilies`` of the Service API."""

    IPV4 = "IPv4"
    IPV6 = "IPv6"


class Protocol(StrEnum):
    """``spec.ports[].protocol`` of the Service API."""

    TCP = "TCP"
    UDP = "UDP"


class Vantage(StrEnum):
    """Where a client stands."""

    OUTSIDE = "outside"
    POD = "pod"
    NODE = "node"


class Role(StrEnum):
    """What a node is to the stage.

    ``endpoint-node`` has a ready local backend; ``bare-node`` has none and is dialled; ``other-node`` has none either
    and is where in-cluster clients stand, so that a client never dials its own node by accident.
    """

    ENDPOINT_NODE = "endpoint-node"
    BARE_NODE = "bare-node"
    OTHER_NODE = "other-node"


@dataclass(frozen=True, order=True)
class Client:
    """Who dials. ``role`` is the node it stands on, None for a client outside the cluster."""

    name: str
    vantage: Vantage
    role: Role | None = None


class EntryKind(StrEnum):
    """What kind of address is dialled."""

    POD_IP = "pod-ip"
    CLUSTER_IP = "clusterip"
    NODE_PORT = "node-port"
    VIP = "vip"
    NODE_LISTENER = "node-listener"


@dataclass(frozen=True, order=True)
class Entry:
    """What is dialled; ``role`` names the node for a nodePort and for the reference listener on a node."""

    kind: EntryKind
    role: Role | None = None

    @property
    def slug(self) -> str:
        """The entry as it stands in a row's id."""
        return self.role.value if self.role else self.kind.value


class ServiceType(StrEnum):
    """``spec.type`` of the Service API."""

    CLUSTER_IP = "ClusterIP"
    NODE_PORT = "NodePort"
    LOAD_BALANCER = "LoadBalancer"


class TrafficPolicy(StrEnum):
    """``spec.externalTrafficPolicy`` of the Service API."""

    CLUSTER = "Cluster"
    LOCAL = "Local"


@dataclass(frozen=True, order=True)
class Service:
    """A Service the stage has to create; equal shapes are one object, shared by all rows that need it."""

    type: ServiceType
    policy: TrafficPolicy | None = None

    @property
    def slug(self) -> str:
        """The service as it stands in a row's id: ``nodeport.local``."""
        return self.type.value.lower() + (f".{self.policy.value.lower()}" if self.policy else "")

    @property
    def name(self) -> str:
        """The object's name in the cluster."""
        return self.slug.replace(".", "-")


@dataclass(frozen=True, order=True)
class Path:
    """One way to dial: who, which service, at what entry. The unit of observation; several rows may share one.

    ``service`` is None where no Service is between: a pod's own address, or the reference listener on a node.
    """

    client: Client
    entry: Entry
    protocol: Protocol
    family: Family
    service: Service | None = None

    @property
    def key(self) -> str:
        """Stable text form, the stem of row ids: ``nodeport.local.tcp.ipv4.outside-1-to-endpoint-node``."""
        what = self.service.slug if self.service else self.entry.kind.value
        return (
            f"{what}.{self.protocol.value.lower()}.{self.family.value.lower()}.{self.client.name}-to-{self.entry.slug}"
        )


@dataclass(frozen=True)
class Control:
    """What must hold in the same window before a row is believed (design.md, law 4).

    ``accept`` are the classes of source that prove it; empty means: any answer from our own echo server.
    """

    path: Path
    accept: frozenset[AddressClass] = frozenset()
    why: str = ""


@dataclass(frozen=True)
class Override:
    """A legitimate difference: where all facts in ``when`` hold, ``accept`` is fine too, and the row is ``known``."""

    when: tuple[tuple[str, str], ...]
    accept: frozenset[AddressClass]
    reason: str
    reference: str


@dataclass(frozen=True)
class Cell:
    """A row: one behaviour, one requirement, one verdict (design.md, law 1).

    ``accept`` are the address classes that fulfil it; it is fulfilled only if every single observation falls in one.
    ``controls`` must hold or the row is inconclusive. ``features`` that the cluster lacks make it unsupported.
    """

    id: str
    requirement: str
    level: Level
    suite: str
    path: Path
    accept: frozenset[AddressClass]
    references: tuple[str, ...]
    features: frozenset[str] = frozenset()
    controls: tuple[Control, ...] = ()
    overrides: tuple[Override, ...] = ()

    @property
    def paths(self) -> tuple[Path, ...]:
        """Every path that has to be observed to judge this row: its own and its controls'."""
        return (self.path, *(control.path for control in self.controls))

    @property
    def is_negative(self) -> bool:
        """Whether the row claims that nothing answers."""
        return bool(self.accept) and self.accept <= NO_ANSWER

    def as_json(self) -> dict[str, Any]:
        """The row as one JSON object, as ``esipp list --format json`` prints it and the ledger keeps it."""
        service = self.path.service
        return {
            "id": self.id,
            "requirement": self.requirement,
            "level": self.level.value,
            "suite": self.suite,
            "service": service.type.value if service else None,
            "policy": service.policy.value if service and service.policy else None,
            "protocol": self.path.protocol.value,
            "family": self.path.family.value,
            "client": self.path.client.name,
            "entry": self.path.entry.slug,
            "expect": sorted(self.accept),
            "features": sorted(self.features),
            "references": list(self.references),
        }


@dataclass(frozen=True)
class Feature:
    """Something rows may need: whether it is there, and how that was decided.

    ``ours`` marks what is missing through our own doing (left out by the user, no client outside at hand) and not
    because the cluster lacks it: its core rows then count as left out, and the result is at best ``partial``.
    """

    present: bool
    why: str
    ours: bool = False


def missing_features(cell: Cell, features: Mapping[str, Feature]) -> dict[str, Feature]:
    """What a row needs and is not there, by name; a feature that nobody looked for counts as missing."""
    unknown = Feature(False, "nobody looked for it")
    found = {name: features.get(name, unknown) for name in sorted(cell.features)}
    return {name: feature for name, feature in found.items() if not feature.present}


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


@dataclass(frozen=True)
class Observation:
    """One probe on one path, as the prober and the echo server told it. Times are the prober's monotonic seconds.

    ``source`` is the client's own view of its address and port, ``seen`` the backend's; ``connected`` is when the
    connection was accepted, None where it never was.
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

    @property
    def backend(self) -> str | None:
        """The pod that answered, by its own word."""
        return str(self.echo["pod"]) if self.echo and self.echo.get("pod") else None

    @property
    def node(self) -> str | None:
        """The node of the pod that answered, by its own word."""
        return str(self.echo["node"]) if self.echo and self.echo.get("node") else None

    def as_json(self) -> dict[str, Any]:
        """The observation as the ledger keeps it."""
        return {
            "path": self.path,
            "seq": self.seq,
            "outcome": self.outcome.value,
            "source": list(self.source) if self.source else None,
            "dialled": list(self.dialled) if self.dialled else None,
            "seen": list(self.seen) if self.seen else None,
            "backend": self.backend,
            "observer": self.observer,
            "nonce": self.nonce,
            "started": self.started,
            "connected": self.connected,
            "ended": self.ended,
            "time": self.time,
            "detail": self.detail,
            "echo": dict(self.echo) if self.echo else None,
        }


@dataclass(frozen=True)
class Verdict:
    """The judge's word on one row.

    ``expected`` and ``observed`` are sentences for people; ``tally`` counts the observations by what they showed, and
    ``shown`` are the address classes among them. ``left_out`` marks an unsupported row that the cluster itself would
    have supported.
    """

    cell: str
    level: Level
    status: Status
    expected: str
    observed: str
    reason: str = ""
    tally: Mapping[str, int] = field(default_factory=dict)
    reference: str = ""
    shown: tuple[AddressClass, ...] = ()
    left_out: bool = False

    def as_json(self) -> dict[str, Any]:
        """The verdict as the ledger keeps it."""
        return {
            "id": self.cell,
            "level": self.level.value,
            "status": self.status.value,
            "expected": self.expected,
            "observed": self.observed,
            "reason": self.reason,
            "tally": dict(sorted(self.tally.items())),
            "reference": self.reference,
            "shown": [each.value for each in self.shown],
            "left_out": self.left_out,
        }
