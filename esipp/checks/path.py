"""``OnPath``: the address that a backend must see on a path, with controls. No I/O."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from esipp.checks.check import Check, Profile, Subject
from esipp.checks.model import NO_ANSWER, OF_NODES, AddressClass, Claim, EntryKind, Path, Vantage
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
        """Return whether a client outside dials a node for it; its reference listeners do not count."""
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


PathCheck = Check[OnPath]
"""A check of the address that a backend sees."""
