"""Types of isolation and policy change checks: traffic while Services change externalTrafficPolicy. No I/O."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from esipp.checks.check import Check, Profile
from esipp.checks.known_differences import KnownDifference
from esipp.checks.model import ANYTHING, Balancer, Family, Path, Role
from esipp.checks.path import PathCheck


class Flipping(StrEnum):
    """The Services that change their own policy while clients dial them."""

    NODE_PORT = "nodeport"
    DEFAULT = "loadbalancer"
    ECMP = "loadbalancer-ecmp"

    @property
    def balancer(self) -> Balancer | None:
        """Return the load balancer that it requests."""
        return {Flipping.DEFAULT: Balancer.DEFAULT, Flipping.ECMP: Balancer.ECMP}.get(self)

    @property
    def object_name(self) -> str:
        """Return the name of the Service."""
        return f"flips-{self.value}"


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


class FlipClaim(StrEnum):
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


@dataclass(frozen=True, kw_only=True)
class PolicyChangeCheck(Check):
    """A check that is judged from traffic during policy changes."""


@dataclass(frozen=True, kw_only=True)
class IsolationCheck(PolicyChangeCheck):
    """A path check of the source IP suite, repeated while other Services over the same pods change policy.

    ``path_check`` is that check, with its path, classes, controls and known differences.
    """

    path_check: PathCheck

    @property
    def expected(self) -> str:
        """Return the accepted classes."""
        return self.path_check.expected

    @property
    def profile(self) -> Profile:
        """Return the value of the path check."""
        return self.path_check.profile

    @property
    def balanced(self) -> frozenset[str]:
        """Return the value of the path check."""
        return self.path_check.balanced

    @property
    def source_at_vips(self) -> frozenset[str]:
        """Return the value of the path check."""
        return self.path_check.source_at_vips

    @property
    def paths(self) -> tuple[Path, ...]:
        """Return every path that the verdict needs: its own and those of its controls."""
        return self.path_check.paths

    @property
    def asked(self) -> str:
        """Return how the check probes."""
        return (
            "every client opens new connections at a fixed rate while a LoadBalancer and a NodePort Service over the "
            "same pods change between Local and Cluster; every answer counts"
        )

    @property
    def fails_if(self) -> str:
        """Return the fault that the check detects."""
        return (
            "a change of one Service affects another one over the same pods: its rules, endpoints or source addresses"
        )

    def as_json(self) -> dict[str, Any]:
        """Return the check as a JSON object."""
        return super().as_json() | {"path": self.path_check.path.key, "expect": self.expected}


@dataclass(frozen=True, kw_only=True)
class IsolationHealthCheck(PolicyChangeCheck):
    """A health check of an unchanged Local Service on one node, while other Services change policy.

    ``path`` is a path of the Service, which puts it on the testbed.
    """

    path: Path
    place: Role
    family: Family

    @property
    def through_pods(self) -> bool:
        """Return False: the check probes nodes, not pods."""
        return False

    @property
    def expected(self) -> str:
        """Return the expected status."""
        return "200" if self.place is Role.ENDPOINT_NODE else "503"

    @property
    def paths(self) -> tuple[Path, ...]:
        """Return the path, so that the testbed has the Service."""
        return (self.path,)

    @property
    def fails_if(self) -> str:
        """Return the fault that the check detects."""
        return "a node restarts all health checks when one Service goes, or confuses the health checks of two Services"

    def as_json(self) -> dict[str, Any]:
        """Return the check as a JSON object."""
        return super().as_json() | {"expect": self.expected}


@dataclass(frozen=True, kw_only=True)
class FlippedCheck(PolicyChangeCheck):
    """A claim about a Service while its own policy changes; ``at`` is None for a claim about all nodes.

    ``must`` says in a few words what the check expects, ``tripped_by`` names the fault that it detects.
    """

    service: Flipping
    claim: FlipClaim
    family: Family
    at: At | None = None
    must: str
    tripped_by: str
    differences: tuple[KnownDifference, ...] = ()

    @property
    def expected(self) -> str:
        """Return what the check expects."""
        return self.must

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
        return Profile.NODE_PORT if self.service is Flipping.NODE_PORT else Profile.LOAD_BALANCER

    @property
    def asked(self) -> str:
        """Return how the check probes."""
        return (
            "externalTrafficPolicy changes from Local to Cluster and back three times, each time after nodes followed "
            "the previous change, while a client outside opens new connections at a fixed rate; all times use one clock"
        )

    @property
    def fails_if(self) -> str:
        """Return the fault that the check detects."""
        return self.tripped_by

    def as_json(self) -> dict[str, Any]:
        """Return the check as a JSON object."""
        return super().as_json() | {"expect": self.must}
