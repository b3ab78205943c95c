"""``PolicyChange`` and ``Isolated``: traffic while Services change externalTrafficPolicy. No I/O."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from esipp.checks.check import Check, Profile, Subject
from esipp.checks.connections import OnConnections
from esipp.checks.model import ANYTHING, Balancer, Family, Path, Role, TrafficPolicy
from esipp.checks.path import OnPath
from esipp.checks.profile import Limit


class ChangingService(StrEnum):
    """The Services that change their own policy while clients dial them."""

    NODE_PORT = "nodeport"
    DEFAULT = "loadbalancer"
    ECMP = "loadbalancer-ecmp"

    @property
    def balancer(self) -> Balancer | None:
        """Return the load balancer that it requests."""
        return {ChangingService.DEFAULT: Balancer.DEFAULT, ChangingService.ECMP: Balancer.ECMP}.get(self)

    @property
    def object_name(self) -> str:
        """Return the name of the Service."""
        return f"policy-change-{self.value}"


class At(StrEnum):
    """The dialled entry: the nodePort on one of two nodes, or the VIP."""

    ENDPOINT_NODE = "endpoint-node"
    BARE_NODE = "bare-node"
    VIP = "vip"

    @property
    def role(self) -> Role | None:
        """Return the dialled node; None for a VIP, which may lead to any node."""
        return None if self is At.VIP else Role(self.value)


PLACES = (Role.ENDPOINT_NODE, Role.BARE_NODE, Role.OTHER_NODE)
"""The nodes with probed health checks."""


class PolicyClaim(StrEnum):
    """A claim about one Service that changes its policy, at one entry and in one family."""

    SETTLES = "settles"
    REWRITES = "rewrites"
    OTHERWISE = "never-otherwise"
    TIME = "time"
    NO_LOSS = "no-loss"
    PROMPT = "prompt"
    HEALTH_PROMPT = "health-prompt"
    HEALTH_CLOSED = "closed"
    HEALTH_AGAIN = "open-again"
    KEPT = "kept"


def judges(claim: PolicyClaim, policy: TrafficPolicy) -> bool:
    """Return whether a claim is judged over changes to this policy."""
    if claim in (PolicyClaim.REWRITES, PolicyClaim.HEALTH_CLOSED):
        return policy is TrafficPolicy.CLUSTER
    return claim is not PolicyClaim.HEALTH_AGAIN or policy is TrafficPolicy.LOCAL


BESIDE = "beside"
"""The part of the experiment in which other Services are dialled while some change their policy."""


@dataclass(frozen=True)
class WhilePoliciesChange(Subject):
    """What traffic shows while Services change their policy."""

    @property
    def part(self) -> str:
        """Return the part of the experiment."""
        return BESIDE


@dataclass(frozen=True)
class Isolated(WhilePoliciesChange):
    """The address that a backend sees on a path, while other Services over the same pods change policy."""

    on_path: OnPath

    @property
    def paths(self) -> tuple[Path, ...]:
        """Return every path that the verdict needs: its own and those of its controls."""
        return self.on_path.paths

    @property
    def balanced(self) -> frozenset[str]:
        """Return what the load balancer must carry for its path."""
        return self.on_path.balanced

    @property
    def own_service(self) -> str:
        """Return the Service of its path, if the client dials such a VIP."""
        return self.on_path.own_service

    @property
    def source_at_vips(self) -> frozenset[str]:
        """Return the family of its path, if a client outside dials such a VIP."""
        return self.on_path.source_at_vips

    @property
    def profile(self) -> Profile:
        """Return the type of its Service."""
        return self.on_path.profile

    def limited_by(self, limit: Limit) -> bool:
        """Return whether the limit is one of its path."""
        return self.on_path.limited_by(limit)

    def as_json(self) -> dict[str, Any]:
        """Return the path."""
        return {"path": self.on_path.path.key}


@dataclass(frozen=True)
class IsolatedConnections(WhilePoliciesChange):
    """What connections of all such paths of one kind show together, as repeated SYNs.

    It has no paths of its own: it judges what the run dials anyway.
    """

    on_connections: OnConnections

    @property
    def balanced(self) -> frozenset[str]:
        """Return what the load balancer must carry for VIPs."""
        return self.on_connections.balanced

    @property
    def on_host_network(self) -> bool:
        """Return False: paths that need agents are then not asked, the others are."""
        return False

    @property
    def profile(self) -> Profile:
        """Return the type of the Services."""
        return self.on_connections.kind

    def as_json(self) -> dict[str, Any]:
        """Return the aspect and the kind of paths."""
        return self.on_connections.as_json()


@dataclass(frozen=True)
class IsolatedHealth(WhilePoliciesChange):
    """The health check of an unchanged Local Service on one node, while other Services change policy.

    ``path`` is a path of the Service, which puts it on the testbed.
    """

    path: Path
    place: Role
    family: Family

    @property
    def paths(self) -> tuple[Path, ...]:
        """Return the path, so that the testbed has the Service."""
        return (self.path,)

    @property
    def through_pods(self) -> bool:
        """Return False: the check probes nodes, not pods."""
        return False


@dataclass(frozen=True)
class PolicyChange(WhilePoliciesChange):
    """A claim about a Service while its own policy changes; ``at`` is None for a claim about all nodes."""

    service: ChangingService
    claim: PolicyClaim
    family: Family
    at: At | None = None

    @property
    def part(self) -> str:
        """Return the Service that changes."""
        return self.service.value

    @property
    def traits(self) -> Mapping[str, str]:
        """Return the claim."""
        return {"claim": self.claim.value}

    @property
    def balanced(self) -> frozenset[str]:
        """Return what the load balancer must carry: a VIP over TCP, with changing policy."""
        own = self.service.balancer is Balancer.DEFAULT and self.at is At.VIP
        return frozenset({ANYTHING, "tcp", self.family.value.lower()}) if own else frozenset()

    @property
    def own_service(self) -> str:
        """Return the Service that changes, if the check dials its VIP."""
        return self.service.object_name if self.balanced else ""

    @property
    def source_at_vips(self) -> frozenset[str]:
        """Return the family of the VIP: all claims about a VIP depend on the source address."""
        return frozenset({self.family.value.lower()}) if self.balanced else frozenset()

    @property
    def profile(self) -> Profile:
        """Return the type of the Service."""
        return Profile.NODE_PORT if self.service is ChangingService.NODE_PORT else Profile.LOAD_BALANCER


IsolationCheck = Check[Isolated]
IsolatedConnectionsCheck = Check[IsolatedConnections]
IsolationHealthCheck = Check[IsolatedHealth]
PolicyChangeCheck = Check[PolicyChange]
WhilePoliciesChangeCheck = Check[WhilePoliciesChange]
