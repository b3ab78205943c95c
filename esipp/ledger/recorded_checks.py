"""Recorded checks: checks as the ledger describes them, so that an old ledger needs no current check.

What a report says of a check is found here once, when a run begins: where it stands in the matrix, and which others are
its siblings.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from esipp.checks.check import REFERENCE, Check, Level, is_about
from esipp.checks.model import (
    POD_BACKEND,
    Backends,
    Balancer,
    EntryKind,
    Path,
    Role,
    ServiceType,
    TrafficPolicy,
    Vantage,
)
from esipp.checks.path import OnPath, PathCheck
from esipp.checks.reference import Reference, read_reference


def service_name(path: Path) -> str:
    """The Service as a line names it, by its slug."""
    return path.service.slug if path.service else "pod IP"


def entry_name(path: Path) -> str:
    """The entry as a line names it: nothing where the service says it, a node's part where one is dialled."""
    entry, service = path.entry, path.service
    if entry.kind is EntryKind.SECOND_ADDRESS and entry.role:
        return f"{entry.role.value} (2nd)"
    if entry.role:
        return entry.role.value
    own = {EntryKind.POD_IP: None, EntryKind.CLUSTER_IP: "clusterip", EntryKind.VIP: "loadbalancer"}[entry.kind]
    return "" if own is None or (service and service.slug.startswith(own)) else entry.slug


def kind_of(path: Path) -> tuple[object, ...]:
    """The kind of a line: the entry, and the Service without its traits; all ClusterIPs are alike."""
    service = path.service
    if service is None:
        return (path.entry,)
    if path.entry.kind is EntryKind.CLUSTER_IP:
        return (path.entry, service.internal)
    policy = service.policy.value if service.policy else "Cluster"  # the default, where it is left unset
    return (path.entry, service.type, policy, service.balancer, service.external_ips)


def place_of(path: Path) -> tuple[object, ...]:
    """The order of lines: by kind of Service, then by entry, then the plain Service before the others."""
    service, entry = path.service, path.entry
    kind = -1 if entry.kind is EntryKind.VIP else list(EntryKind).index(entry.kind)
    role = list(Role).index(entry.role) if entry.role else -1
    if service is None or entry.kind is EntryKind.CLUSTER_IP:
        return (0, kind, "", 0, 0, service.internal is not None if service else False, len(service_name(path)))
    types = [*ServiceType].index(service.type), list(Balancer).index(service.balancer)
    policy = (service.policy or TrafficPolicy.CLUSTER).value
    return (1, *types, policy, kind, role, service.policy is None, len(service.slug))


AXES: Mapping[str, Callable[[Path], str]] = {
    "over": lambda path: path.protocol.value,
    "over family": lambda path: path.family.value,
    "for": lambda path: path.client.name,
    "at": lambda path: path.entry.slug,
    "at port": lambda path: path.port.label,
    "where the client claims": lambda path: path.claim.value,
    "with backend": lambda path: path.service.backends.value if path.service else "pod",
}
"""The axes, and the value that a path has on each."""


def but_for(axis: str, path_check: PathCheck) -> str:
    """All that makes a check but for its value on one axis, as a short digest: equal for siblings on that axis."""
    path = path_check.subject.path
    service = replace(path.service, backends=Backends.POD) if path.service else None
    values = tuple(value(path) for name, value in AXES.items() if name != axis)
    whole = repr(
        (
            *values,
            service,
            path.one_socket,
            sorted(path_check.subject.accept),
            path_check.subject.reported,
            path_check.subject.spread,
        )
    )
    return hashlib.blake2s(whole.encode(), digest_size=6).hexdigest()


def check_record(check: Check) -> dict[str, Any]:
    """A check as the ledger's header has it: all that reports say of it."""
    told = check.as_json() | {"profile": check.subject.profile.value, "fails_if": check.fails_if, "asked": check.asked}
    if not is_about(check, OnPath):
        return told
    path = check.subject.path
    return told | {
        "controls": [{"path": each.path.key, "why": each.why} for each in check.subject.controls],
        "place": {
            "service": service_name(path),
            "entry": entry_name(path),
            "kind": repr(kind_of(path)),
            "order": list(place_of(path)),
            "client": [path.client.name == POD_BACKEND, list(Vantage).index(path.client.vantage)],
        },
        "axes": {name: value(path) for name, value in AXES.items()},
        "siblings": {name: but_for(name, check) for name in AXES},
    }


@dataclass(frozen=True)
class Place:
    """The place of a path check in the matrix.

    Args:
        service, entry: the line's words; ``kind``: only lines of one kind may be told as one; ``order`` sorts them.
        client, family: the column; ``client_order`` sorts columns. ``protocol`` is told where it makes a difference.
        axes: its value on each axis on which checks are siblings; ``siblings``: what all those have in common that
            differ from it on that axis only.
    """

    service: str
    entry: str
    kind: str
    order: tuple[Any, ...]
    client: str
    client_order: tuple[Any, ...]
    family: str
    protocol: str
    axes: Mapping[str, str] = field(default_factory=dict)
    siblings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RecordedCheck:
    """A check as a ledger describes it.

    ``path`` is the path of its observations, empty for checks other than paths; ``place`` is None then. ``expect`` is
    the expectation in a word or two. ``data`` is the whole record.
    """

    id: str
    suite: str
    level: Level
    requirement: str
    references: tuple[Reference, ...]
    profile: str
    expect: str
    fails_if: str = ""
    asked: str = ""
    features: tuple[str, ...] = ()
    path: str = ""
    accept: frozenset[str] = frozenset()
    place: Place | None = None
    data: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def instrument(self) -> bool:
        """Whether it asks by way of the reference load balancer, as ``Check.instrument``."""
        return any(name.startswith(REFERENCE) for name in self.features)

    @property
    def way_in(self) -> str:
        """Service and entry, as a line of the matrix names them; of a check that is no path's, its suite."""
        return f"{self.place.service}  {self.place.entry}".rstrip() if self.place else self.suite


def read_check(told: Mapping[str, Any]) -> RecordedCheck:
    """A check of a ledger's header.

    Raises:
        KeyError, ValueError, TypeError: it is none.
    """
    expect = told.get("expect", "")
    classes = frozenset(expect) if isinstance(expect, list) else frozenset()
    place = None
    if "place" in told:
        where = told["place"]
        place = Place(
            where["service"], where["entry"], where["kind"], tuple(where["order"]), told["client"],
            (*where["client"], told["client"]), told["family"], told["protocol"], told["axes"], told["siblings"],
        )  # fmt: skip
    return RecordedCheck(
        told["id"],
        told["suite"],
        Level(told["level"]),
        told["requirement"],
        tuple(map(read_reference, told["references"])),
        told["profile"],
        "|".join(sorted(classes)) if classes else str(expect),
        told["fails_if"],
        told["asked"],
        tuple(told["features"]),
        told["path"] if "entry" in told else "",
        classes,
        place,
        told,
    )
