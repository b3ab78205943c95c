"""Type and texts of convergence checks: a load balancer, a family and a claim."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from esipp.checks.check import Check
from esipp.checks.known_differences import KnownDifference
from esipp.checks.model import ANYTHING, Balancer, Family
from esipp.checks.timing import PROMPT


class What(StrEnum):
    """A claim about the Service of one load balancer while its endpoints change."""

    STEERS = "steers"
    PLACE = "only-allowed-pods"
    SOURCE = "source"
    BLACK_HOLE = "black-hole"
    NO_LOSS = "no-loss-on-graceful-deletion"
    BALANCE = "balance"
    TIMES_UP = "response-up"
    TIMES_DOWN = "response-down"
    HEALTH = "health-follows"
    PATH = "path-follows"
    HEALTH_PROMPT = "health-follows-promptly"
    PATH_PROMPT = "path-follows-promptly"
    VIEW_LOCAL = "health-view-local"
    VIEW_CLUSTER = "health-view-cluster"
    FREED = "vip-freed"


SPREADS = frozenset({Balancer.ECMP, Balancer.PROXY})
"""Reference load balancers that use all healthy nodes at once. For the cluster's own, its profile or a run tells."""

PROXIES = frozenset({Balancer.PROXY})
"""Load balancers that show pods their own address."""

EXPECTED = {
    What.STEERS: "follows every change",
    What.PLACE: "no answer from a pod that must not serve",
    What.SOURCE: "the correct source in every answer",
    What.BLACK_HOLE: "losses end within the bound after the node's 503",
    What.NO_LOSS: "no request is lost",
    What.BALANCE: "equal for each node",
    What.TIMES_UP: "recorded",
    What.TIMES_DOWN: "recorded",
    What.HEALTH: "200 and 503 follow every change",
    What.PATH: "the nodePort follows every change",
    What.HEALTH_PROMPT: f"200 and 503 within {PROMPT:.0f} s of the EndpointSlice",
    What.PATH_PROMPT: f"the nodePort within {PROMPT:.0f} s of the EndpointSlice",
    What.VIEW_LOCAL: "only endpoint nodes are healthy",
    What.VIEW_CLUSTER: "all nodes are healthy, except those with the exclusion label",
    What.FREED: "no VIP for a deleted Service",
}

AFTER_503 = "shortly after the 503"
"""Evidence: a pod answers for a moment after its node's 503, because the node stopped serving only the other family."""

WEIGHED = "weighed"
"""Evidence: the distribution fits the weights that the nodes' health checks report."""

FAILS_IF = {
    What.STEERS: "the load balancer ignores health checks and endpoints, keeps a removed node, flaps, or is too slow",
    What.PLACE: "a node without local endpoints forwards to another node, or a node uses a pod that is not ready",
    What.SOURCE: "a node or the load balancer masquerades connections while endpoints change",
    What.BLACK_HOLE: "the load balancer needs more failed health checks, or probes less often, than its bound allows",
    What.NO_LOSS: "a node drops requests while its last pod terminates, although the pod still serves (KEP-1669)",
    What.BALANCE: "the load balancer uses only one node, prefers some, or hashes badly",
    What.HEALTH: "the health check always says 200, still says 200 after the last pod, or says 503 with local pods",
    What.PATH: "the service proxy of a node does not follow EndpointSlices",
    What.HEALTH_PROMPT: "the service proxy of a node is late every time, or syncs too rarely",
    What.PATH_PROMPT: "the service proxy of a node is late every time, or syncs too rarely",
    What.VIEW_LOCAL: "the load balancer reports a node without endpoints as healthy, or an endpoint node as unhealthy",
    What.VIEW_CLUSTER: "the load balancer excludes nodes although the policy is Cluster",
    What.FREED: "the load balancer keeps the VIP of a deleted Service, which may later lead to other pods",
}


def service_name(balancer: Balancer) -> str:
    """Return the name of the Service with changing endpoints."""
    return f"moves-{balancer.value}"


@dataclass(frozen=True, kw_only=True)
class EndpointChangeCheck(Check):
    """A claim about one load balancer. ``family`` is that of the VIP, or None for a check of nodes."""

    balancer: Balancer
    what: What
    family: Family | None = None
    differences: tuple[KnownDifference, ...] = ()

    @property
    def expected(self) -> str:
        """Return what the check expects."""
        return EXPECTED[self.what]

    @property
    def balanced(self) -> frozenset[str]:
        """Return the claim, and the family of the VIP if there is one."""
        if self.balancer is not Balancer.DEFAULT:
            return frozenset()
        return frozenset({ANYTHING, self.what.value, *([self.family.value.lower()] if self.family else [])})

    @property
    def own_service(self) -> str:
        """Return the Service with the dialled VIP, if it belongs to the cluster's own load balancer."""
        return service_name(self.balancer) if self.balancer is Balancer.DEFAULT and self.family else ""

    @property
    def source_at_vips(self) -> frozenset[str]:
        """Return the family of the VIP, for the check of the source."""
        own = self.balanced and self.what is What.SOURCE
        return frozenset({self.family.value.lower()}) if own and self.family else frozenset()

    @property
    def asked(self) -> str:
        """Return how the check probes."""
        return (
            "pods on fixed nodes come and go in a seeded sequence (--moves, --seed), while a client outside probes the "
            "VIP, the nodePort and the health check of every node about every 20 ms; the report has the actual interval"
        )

    @property
    def fails_if(self) -> str:
        """Return the fault that the check detects."""
        return FAILS_IF.get(self.what, "")

    def as_json(self) -> dict[str, Any]:
        """Return the check as a JSON object."""
        return super().as_json() | {"expect": self.expected}


LAG = 4.0
"""Seconds for which a pod still serves after (N+1) x period, until the service proxy knows its end and says 503."""
