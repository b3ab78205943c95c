"""A check of a path: whose address a backend must see there, and what proves it. Frozen, no I/O."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from esipp.checks.check import Check, Nature, Profile
from esipp.checks.model import NO_ANSWER, OF_NODES, AddressClass, Claim, Path, Vantage
from esipp.checks.reference import Reference


class Spread(StrEnum):
    """Which of several backends answered: all connections by ``one``, or ``several`` of them."""

    ANY = "any"
    ONE = "one"
    SEVERAL = "several"


@dataclass(frozen=True)
class Control:
    """What must hold in the same window before a check is believed (docs/architecture.md, law 4).

    ``accept`` are the classes of source that prove it; empty means: any answer from our own echo server. ``unjudged``
    marks a path by way of a Service that is no check's own, so that no check judges what is lost there.
    """

    path: Path
    accept: frozenset[AddressClass] = frozenset()
    why: str = ""
    spread: Spread = Spread.ANY
    unjudged: bool = False


class Proof(StrEnum):
    """What the source of a connection must be shown to be before a known difference covers it.

    ``class``: of a class that it accepts. ``own-node``: an address of the client's own node. ``fact``: the very address
    that a fact names (``Override.names``). ``balancer``: an address of the Service's load balancer, by
    loadbalancers/ingress.py; classes that it accepts are fine beside these.
    """

    CLASS = "class"
    OWN_NODE = "own-node"
    FACT = "fact"
    BALANCER = "balancer"


@dataclass(frozen=True)
class Override:
    """A legitimate difference: where all facts in ``when`` hold, ``accept`` is fine too, and the check is ``known``.

    ``before`` limits it to versions older than that (``1.34``: Kubernetes; ``cilium.version 1.19``). ``proof`` is what
    must be shown of a source, ``names`` the fact that names its address, with the family behind a dot. ``forwarded``
    excuses that packets reach a backend whose answer the client cannot use. ``resets`` covers connections that were
    reset while the routes of their Service changed. ``hangs`` covers those on which nothing was said, ``collides``
    those without an answer: both only where another connection had their address and port at that time
    (collisions.py). ``nature`` says what it is, ``by_chance`` that a run need not see it where it holds, ``evidence``
    what must have been seen, ``hides`` what it can still hide (docs/excuses.md).
    """

    when: tuple[tuple[str, str], ...]
    accept: frozenset[AddressClass]
    reason: str
    references: tuple[Reference, ...]
    before: str = ""
    proof: Proof = Proof.CLASS
    names: str = ""
    forwarded: bool = False
    resets: bool = False
    hangs: bool = False
    collides: bool = False
    by_chance: bool = False
    nature: Nature = Nature.ALLOWED
    evidence: str = ""
    hides: str = ""

    @property
    def of_single_connections(self) -> bool:
        """Whether it covers single connections by what happened to them, and not all of a path."""
        return self.resets or self.hangs or self.collides


@dataclass(frozen=True, kw_only=True)
class PathCheck(Check):
    """A check of a path: whose address must a backend see there.

    ``accept`` are the address classes that fulfil it; it is fulfilled only if every single observation falls in one.
    ``told`` is for proxies: the header in which the client's own address must come out of band. ``spread`` says which
    backends may answer. ``controls`` must hold or the check is inconclusive.
    """

    path: Path
    accept: frozenset[AddressClass]
    controls: tuple[Control, ...] = ()
    overrides: tuple[Override, ...] = ()
    told: Claim = Claim.NOTHING
    spread: Spread = Spread.ANY

    @property
    def expected(self) -> str:
        """The accepted classes."""
        return "|".join(sorted(self.accept))

    @property
    def paths(self) -> tuple[Path, ...]:
        """Every path that has to be observed to judge this check: its own and its controls'."""
        return (self.path, *(control.path for control in self.controls))

    @property
    def on_host_network(self) -> bool:
        """Where a client, a listener or a backend stands there; or an address may be seen that only agents know of, or
        is to be told from these.
        """
        controls = (control.accept for control in self.controls)
        seen = self.accept.union(*controls, *(override.accept for override in self.overrides))
        told_apart = any(override.proof is Proof.BALANCER for override in self.overrides)
        return told_apart or bool(seen & OF_NODES) or any(path.on_host_network for path in self.paths)

    @property
    def balanced(self) -> frozenset[str]:
        """Its path's."""
        return self.path.balanced

    @property
    def own_service(self) -> str:
        """Its path's Service object, where such a VIP is dialled."""
        return self.path.object_name if self.path.balanced else ""

    @property
    def source_at_vips(self) -> frozenset[str]:
        """Its path's family, where a client outside dials such a VIP."""
        own = self.path.balanced and self.path.client.vantage is Vantage.OUTSIDE
        return frozenset({self.path.family.value.lower()}) if own else frozenset()

    @property
    def profile(self) -> Profile:
        """The type of its Service; without one, a pod's own address, it is what ClusterIP rests on."""
        return Profile(self.path.service.type) if self.path.service else Profile.CLUSTER_IP

    @property
    def is_negative(self) -> bool:
        """Whether the check claims that nothing answers."""
        return bool(self.accept) and self.accept <= NO_ANSWER

    def as_json(self) -> dict[str, Any]:
        """The check as one JSON object."""
        service = self.path.service
        return super().as_json() | {
            "path": self.path.key,
            "service": service.type.value if service else None,
            "policy": service.policy.value if service and service.policy else None,
            "internal_policy": service.internal.value if service and service.internal else None,
            "protocol": self.path.protocol.value,
            "family": self.path.family.value,
            "client": self.path.client.name,
            "entry": self.path.entry.slug,
            "expect": sorted(self.accept),
            "told": self.told.value if self.told is not Claim.NOTHING else None,
            "spread": self.spread.value,
        }


def paths_of(check: Check) -> tuple[Path, ...]:
    """Every path that a check names: its Service must be on the testbed."""
    paths: tuple[Path, ...] = getattr(check, "paths", ())
    return paths
