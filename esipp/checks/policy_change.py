"""Checks about traffic while policies flip, as data, and the words they are made of."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from esipp.checks.check import ANYTHING, Check, Difference, Profile
from esipp.checks.model import Balancer, Family, Path, Role
from esipp.checks.path import PathCheck


class Flipping(StrEnum):
    """The Services whose own policy flips while they are dialled."""

    NODE_PORT = "nodeport"
    DEFAULT = "loadbalancer"
    ECMP = "loadbalancer-ecmp"

    @property
    def balancer(self) -> Balancer | None:
        """The load balancer it asks for."""
        return {Flipping.DEFAULT: Balancer.DEFAULT, Flipping.ECMP: Balancer.ECMP}.get(self)

    @property
    def object_name(self) -> str:
        """The Service object in the cluster."""
        return f"flips-{self.value}"


class At(StrEnum):
    """Where it is dialled: the nodePort of one of two nodes, or the VIP."""

    ENDPOINT_NODE = "endpoint-node"
    BARE_NODE = "bare-node"
    VIP = "vip"

    @property
    def role(self) -> Role | None:
        """The node that is dialled; None for a VIP, which may lead to any."""
        return None if self is At.VIP else Role(self.value)


PLACES = (Role.ENDPOINT_NODE, Role.BARE_NODE, Role.OTHER_NODE)
"""The nodes whose health checks are asked."""


class FlipClaim(StrEnum):
    """What a check claims of one Service that flips, at one entry and in one family."""

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


@dataclass(frozen=True, kw_only=True)
class PolicyChangeCheck(Check):
    """A check that is judged from what flowed while policies flipped."""


@dataclass(frozen=True, kw_only=True)
class IsolationCheck(PolicyChangeCheck):
    """What the source IP suite claims of a path, while policies of neighbours over the same pods flip.

    ``cell`` is that claim: its path, its classes, its controls and known differences.
    """

    path_check: PathCheck

    @property
    def expected(self) -> str:
        """The accepted classes."""
        return self.path_check.expected

    @property
    def profile(self) -> Profile:
        """Its path's."""
        return self.path_check.profile

    @property
    def balanced(self) -> frozenset[str]:
        """Its path's."""
        return self.path_check.balanced

    @property
    def source_at_vips(self) -> frozenset[str]:
        """Its path's."""
        return self.path_check.source_at_vips

    @property
    def paths(self) -> tuple[Path, ...]:
        """Every path that has to be observed: its own and its controls'."""
        return self.path_check.paths

    @property
    def asked(self) -> str:
        """How it is asked."""
        return (
            "new connections at a fixed rate from every client at once, for as long as the policies of a LoadBalancer "
            "and a NodePort service over the same pods flip between Local and Cluster; every single answer counts"
        )

    @property
    def fails_if(self) -> str:
        """What trips it."""
        return "a change of one service disturbs another one over the same pods: its rules, its endpoints, its source"

    def as_json(self) -> dict[str, Any]:
        """The check as one JSON object."""
        return super().as_json() | {"path": self.path_check.path.key, "expect": self.expected}


@dataclass(frozen=True, kw_only=True)
class IsolationHealthCheck(PolicyChangeCheck):
    """What the health check of a steady Local service says on one node, while policies of its neighbours flip.

    ``path`` is one of the Service's, which puts it on the testbed.
    """

    path: Path
    place: Role
    family: Family

    @property
    def through_pods(self) -> bool:
        """Nodes answer, not pods."""
        return False

    @property
    def expected(self) -> str:
        """The status."""
        return "200" if self.place is Role.ENDPOINT_NODE else "503"

    @property
    def paths(self) -> tuple[Path, ...]:
        """The Service must be there."""
        return (self.path,)

    @property
    def fails_if(self) -> str:
        """What trips it."""
        return "the health checks of all services are rebuilt when one of them goes, or a neighbour's takes its place"

    def as_json(self) -> dict[str, Any]:
        """The check as one JSON object."""
        return super().as_json() | {"expect": self.expected}


@dataclass(frozen=True, kw_only=True)
class FlippedCheck(PolicyChangeCheck):
    """One claim about a Service while its own policy flips; ``at`` is None where it is about all nodes.

    ``must`` says in a few words what must be seen, ``tripped_by`` names the data plane that trips it.
    """

    service: Flipping
    claim: FlipClaim
    family: Family
    at: At | None = None
    must: str
    tripped_by: str
    differences: tuple[Difference, ...] = ()

    @property
    def expected(self) -> str:
        """What must be seen."""
        return self.must

    @property
    def balanced(self) -> frozenset[str]:
        """A VIP over TCP; which policy it has changes."""
        own = self.service.balancer is Balancer.DEFAULT and self.at is At.VIP
        return frozenset({ANYTHING, "tcp", self.family.value.lower()}) if own else frozenset()

    @property
    def own_service(self) -> str:
        """The Service that flips, where its VIP is dialled."""
        return self.service.object_name if self.balanced else ""

    @property
    def source_at_vips(self) -> frozenset[str]:
        """All claims about a VIP rest on whose address answers show."""
        return frozenset({self.family.value.lower()}) if self.balanced else frozenset()

    @property
    def profile(self) -> Profile:
        """The type of the Service that flips."""
        return Profile.NODE_PORT if self.service is Flipping.NODE_PORT else Profile.LOAD_BALANCER

    @property
    def asked(self) -> str:
        """How it is asked."""
        return (
            "externalTrafficPolicy goes Local, Cluster, Local three times, each flip when the one before was followed, "
            "while a client outside makes new connections at a fixed rate; all on one clock with our patches"
        )

    @property
    def fails_if(self) -> str:
        """What trips it."""
        return self.tripped_by

    def as_json(self) -> dict[str, Any]:
        """The check as one JSON object."""
        return super().as_json() | {"expect": self.must}
