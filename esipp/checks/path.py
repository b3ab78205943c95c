"""``PathCheck``: the address that a backend must see on a path, with controls and known differences. No I/O."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from esipp.checks.check import Check, Nature, Profile
from esipp.checks.model import NO_ANSWER, OF_NODES, AddressClass, Claim, Path, Vantage
from esipp.checks.reference import Reference


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


class Proof(StrEnum):
    """What a known difference requires of the source address of a connection.

    ``class``: a class that the difference accepts. ``own-node``: an address of the client's own node. ``fact``: exactly
    the address in a fact (``Override.names``). ``balancer``: an address of the Service's load balancer
    (loadbalancers/ingress.py), or a class that the difference accepts.
    """

    CLASS = "class"
    OWN_NODE = "own-node"
    FACT = "fact"
    BALANCER = "balancer"


@dataclass(frozen=True)
class Override:
    """A known difference of a path check: if all facts in ``when`` hold, ``accept`` gives the verdict ``known``.

    Args:
        when: the facts under which it holds.
        accept: the additional address classes.
        reason: why the data plane differs.
        references: the documents that it rests on.
        before: limits it to older versions (``1.34`` of Kubernetes, ``cilium.version 1.19``).
        proof: what it requires of the source address.
        names: the fact with the address; the family follows after a dot.
        forwarded: also covers packets that reach a backend although the client gets no answer.
        resets: covers connections that were reset while the routes of their Service changed.
        hangs: covers connections without any data, if another one had the same address and port at that time.
        collides: covers connections without an answer, under the same condition.
        by_chance: whether a run may miss it although it holds.
        nature: whether it is allowed, a defect or a finding.
        evidence: the required evidence.
        hides: what it can still hide (docs/excuses.md).
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
        """Return whether it covers single connections, and not a whole path."""
        return self.resets or self.hangs or self.collides


@dataclass(frozen=True, kw_only=True)
class PathCheck(Check):
    """A check of the address that a backend sees on a path.

    It passes only if every observation has a class in ``accept``. ``told`` is the header in which a proxy must send
    the client's address. ``spread`` says which backends may answer. ``controls`` must hold, or the check is
    inconclusive.
    """

    path: Path
    accept: frozenset[AddressClass]
    controls: tuple[Control, ...] = ()
    overrides: tuple[Override, ...] = ()
    told: Claim = Claim.NOTHING
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
    def on_host_network(self) -> bool:
        """Return whether a client, listener or backend is on the host network, or the verdict needs node addresses
        that only the agents know.
        """
        controls = (control.accept for control in self.controls)
        seen = self.accept.union(*controls, *(override.accept for override in self.overrides))
        told_apart = any(override.proof is Proof.BALANCER for override in self.overrides)
        return told_apart or bool(seen & OF_NODES) or any(path.on_host_network for path in self.paths)

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
    def profile(self) -> Profile:
        """Return the type of its Service; without a Service it is ClusterIP, which needs direct pod traffic."""
        return Profile(self.path.service.type) if self.path.service else Profile.CLUSTER_IP

    @property
    def is_negative(self) -> bool:
        """Return whether the check requires that nothing answers."""
        return bool(self.accept) and self.accept <= NO_ANSWER

    def as_json(self) -> dict[str, Any]:
        """Return the check as a JSON object."""
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
    """Return every path of a check; the testbed must have the Service of each."""
    paths: tuple[Path, ...] = getattr(check, "paths", ())
    return paths
