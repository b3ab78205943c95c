"""``OnPath``: the address that a backend must see on a path, with controls. No I/O."""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from esipp.checks.check import Check, Profile, Subject
from esipp.checks.model import (
    NO_ANSWER,
    OF_NODES,
    POD_BACKEND,
    AddressClass,
    Backends,
    Balancer,
    Claim,
    EntryKind,
    Path,
    Role,
    ServiceType,
    TrafficPolicy,
    Vantage,
)
from esipp.checks.profile import Limit


class Spread(StrEnum):
    """How many backends must answer: ``one`` all connections, or ``several``."""

    ANY = "any"
    ONE = "one"
    SEVERAL = "several"


@dataclass(frozen=True)
class Control:
    """What must hold at the same time for a check to be valid (docs/architecture.md, law 4).

    ``accept`` are the address classes that prove it; empty accepts any answer from the echo server. ``unjudged`` marks
    a path through a Service that no check is about, so no check judges its losses.
    """

    path: Path
    accept: frozenset[AddressClass] = frozenset()
    why: str = ""
    spread: Spread = Spread.ANY
    unjudged: bool = False


@dataclass(frozen=True)
class OnPath(Subject):
    """The address that a backend sees on a path.

    A check passes only if every observation has a class in ``accept``. ``reported`` is the header in which a proxy must
    send the client's address. ``spread`` says which backends may answer. ``controls`` must hold, or the check is
    inconclusive.
    """

    path: Path
    accept: frozenset[AddressClass]
    controls: tuple[Control, ...] = ()
    reported: Claim = Claim.NOTHING
    spread: Spread = Spread.ANY

    @property
    def expected(self) -> str:
        """Return the accepted classes."""
        return "|".join(sorted(self.accept))

    @property
    def paths(self) -> tuple[Path, ...]:
        """Return every path that the verdict needs: its own and those of its controls."""
        return (self.path, *(control.path for control in self.controls))

    @property
    def judged(self) -> tuple[Path, ...]:
        """Return its own path."""
        return (self.path,)

    @property
    def window(self) -> tuple[Path, ...]:
        """Return all of them."""
        return self.paths

    @property
    def on_host_network(self) -> bool:
        """Return whether a client, listener or backend is on the host network, or the verdict needs node addresses
        that only the agents know.
        """
        seen = self.accept.union(*(control.accept for control in self.controls))
        return bool(seen & OF_NODES) or any(path.on_host_network for path in self.paths)

    @property
    def balanced(self) -> frozenset[str]:
        """Return what the load balancer must carry for its path."""
        return self.path.balanced

    @property
    def own_service(self) -> str:
        """Return the Service of its path, if the client dials such a VIP."""
        return self.path.object_name if self.path.balanced else ""

    @property
    def source_at_vips(self) -> frozenset[str]:
        """Return the family of its path, if a client outside dials such a VIP."""
        own = self.path.balanced and self.path.client.vantage is Vantage.OUTSIDE
        return frozenset({self.path.family.value.lower()}) if own else frozenset()

    @property
    def dials_nodes(self) -> bool:
        """Return whether a client outside dials a node for it; its control listeners do not count."""
        ways = (path for path in self.paths if path.client.vantage is Vantage.OUTSIDE)
        return any(path.entry.role is not None and path.entry.kind is not EntryKind.NODE_LISTENER for path in ways)

    @property
    def profile(self) -> Profile:
        """Return the type of its Service; without a Service it is ClusterIP, which needs direct pod traffic."""
        return Profile(self.path.service.type) if self.path.service else Profile.CLUSTER_IP

    @property
    def is_negative(self) -> bool:
        """Return whether the check requires that nothing answers."""
        return bool(self.accept) and self.accept <= NO_ANSWER

    @property
    def wants_client(self) -> bool:
        """Return whether the backend must see an outside client's address."""
        return self.accept == {AddressClass.CLIENT} and self.path.client.vantage is Vantage.OUTSIDE

    def limited_by(self, limit: Limit) -> bool:
        """Return whether the limit is one of its path; one of a proxy affects checks of the client's address."""
        policy = self.path.service.policy.value if self.path.service and self.path.service.policy else "unset"
        return (
            bool(self.balanced)
            and not limit.what
            and (not limit.hides_clients or self.wants_client)
            and (not limit.protocols or self.path.protocol.value in limit.protocols)
            and limit.fits(self.path.family)
            and (not limit.policies or policy in limit.policies)
            and (not limit.clients or self.path.client.vantage.value in limit.clients)
        )

    def as_json(self) -> dict[str, Any]:
        """Return the path, its Service, and what must be seen."""
        service = self.path.service
        return {
            "path": self.path.key,
            "service": service.type.value if service else None,
            "policy": service.policy.value if service and service.policy else None,
            "internal_policy": service.internal.value if service and service.internal else None,
            "protocol": self.path.protocol.value,
            "family": self.path.family.value,
            "client": self.path.client.name,
            "entry": self.path.entry.slug,
            "expect": sorted(self.accept),
            "told": self.reported.value if self.reported is not Claim.NOTHING else None,
            "spread": self.spread.value,
        }

    def recorded(self) -> dict[str, Any]:
        """Return its controls, its place in the matrix, and what its siblings share."""
        return {"controls": [{"path": each.path.key, "why": each.why} for each in self.controls], **_in_matrix(self)}


# -------------------------------------------------------------------------------------------------- in the matrix
def _service_name(path: Path) -> str:
    """The Service as a line names it, by its slug."""
    return path.service.slug if path.service else "pod IP"


def _entry_name(path: Path) -> str:
    """The entry as a line names it: nothing where the service says it, a node's part where one is dialled."""
    entry, service = path.entry, path.service
    if entry.kind is EntryKind.SECOND_ADDRESS and entry.role:
        return f"{entry.role.value} (2nd)"
    if entry.role:
        return entry.role.value
    own = {EntryKind.POD_IP: None, EntryKind.CLUSTER_IP: "clusterip", EntryKind.VIP: "loadbalancer"}[entry.kind]
    return "" if own is None or (service and service.slug.startswith(own)) else entry.slug


def _kind_of(path: Path) -> tuple[object, ...]:
    """The kind of a line: the entry, and the Service without its traits; all ClusterIPs are alike."""
    service = path.service
    if service is None:
        return (path.entry,)
    if path.entry.kind is EntryKind.CLUSTER_IP:
        return (path.entry, service.internal)
    policy = service.policy.value if service.policy else "Cluster"  # the default, where it is left unset
    return (path.entry, service.type, policy, service.balancer, service.external_ips)


def _place_of(path: Path) -> tuple[object, ...]:
    """The order of lines: by kind of Service, then by entry, then the plain Service before the others."""
    service, entry = path.service, path.entry
    kind = -1 if entry.kind is EntryKind.VIP else list(EntryKind).index(entry.kind)
    role = list(Role).index(entry.role) if entry.role else -1
    if service is None or entry.kind is EntryKind.CLUSTER_IP:
        return (0, kind, "", 0, 0, service.internal is not None if service else False, len(_service_name(path)))
    types = [*ServiceType].index(service.type), list(Balancer).index(service.balancer)
    policy = (service.policy or TrafficPolicy.CLUSTER).value
    return (1, *types, policy, kind, role, service.policy is None, len(service.slug))


_AXES: Mapping[str, Callable[[Path], str]] = {
    "over": lambda path: path.protocol.value,
    "over family": lambda path: path.family.value,
    "for": lambda path: path.client.name,
    "at": lambda path: path.entry.slug,
    "at port": lambda path: path.port.label,
    "where the client claims": lambda path: path.claim.value,
    "with backend": lambda path: path.service.backends.value if path.service else "pod",
}
"""The axes, and the value that a path has on each."""


def _but_for(axis: str, subject: OnPath) -> str:
    """All that makes a check but for its value on one axis, as a short digest: equal for siblings on that axis."""
    path = subject.path
    service = replace(path.service, backends=Backends.POD) if path.service else None
    values = tuple(value(path) for name, value in _AXES.items() if name != axis)
    whole = repr(
        (
            *values,
            service,
            path.one_socket,
            sorted(subject.accept),
            subject.reported,
            subject.spread,
        )
    )
    return hashlib.blake2s(whole.encode(), digest_size=6).hexdigest()


def _in_matrix(subject: OnPath) -> dict[str, Any]:
    """What a report needs to place the check in its matrix, and to find its siblings."""
    path = subject.path
    return {
        "place": {
            "service": _service_name(path),
            "entry": _entry_name(path),
            "kind": repr(_kind_of(path)),
            "order": list(_place_of(path)),
            "client": [path.client.name == POD_BACKEND, list(Vantage).index(path.client.vantage)],
        },
        "axes": {name: value(path) for name, value in _AXES.items()},
        "siblings": {name: _but_for(name, subject) for name in _AXES},
    }


PathCheck = Check[OnPath]
"""A check of the address that a backend sees."""
