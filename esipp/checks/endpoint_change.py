"""The checks of the convergence suite as a type: which balancer, which family, what of it."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from esipp.checks.check import ANYTHING, Check, Difference
from esipp.checks.model import Balancer, Family
from esipp.checks.timing import PROMPT


class What(StrEnum):
    """What a check asks of one balancer's service while its pods move."""

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
"""Balancers of ours that use all healthy nodes at once. Of the cluster's own its profile says it, or what is seen."""

PROXIES = frozenset({Balancer.PROXY})
"""Balancers whose own address the pods see."""

EXPECTED = {
    What.STEERS: "every move is followed",
    What.PLACE: "no answer by a forbidden pod",
    What.SOURCE: "the right source in every answer",
    What.BLACK_HOLE: "at most the bound after the node's 503",
    What.NO_LOSS: "no request is lost",
    What.BALANCE: "equal per node",
    What.TIMES_UP: "recorded",
    What.TIMES_DOWN: "recorded",
    What.HEALTH: "200 and 503 follow every move",
    What.PATH: "the node's nodePort follows every move",
    What.HEALTH_PROMPT: f"200 and 503 within {PROMPT:.0f} s of the EndpointSlice",
    What.PATH_PROMPT: f"the nodePort within {PROMPT:.0f} s of the EndpointSlice",
    What.VIEW_LOCAL: "endpoint nodes only",
    What.VIEW_CLUSTER: "all nodes but those labelled to be left out",
    What.FREED: "no VIP of a deleted Service",
}

REHASHED = "rehashed"
"""What is seen where nothing is lost but connections that were open while the balancer changed its routes."""

AFTER_503 = "shortly after the 503"
"""What is seen where a pod answers for a moment longer than its node's health checks say, while its node had stopped to
lead to it in the other family only."""

WEIGHED = "weighed"
"""What is seen where nodes get as much as the weights that their health checks told."""

PROXIED = "not the client"
"""What is seen where the cluster's own load balancer lets backends see another address than the client's."""

FAILS_IF = {
    What.STEERS: "the balancer ignores health checks and endpoints, keeps a node that was removed, "
    "flaps, or is far too slow",
    What.PLACE: "a bare node forwards to another node, or goes on serving with a pod that is not ready",
    What.SOURCE: "somebody masquerades on the way while endpoints change: the node that forwards, or the balancer",
    What.BLACK_HOLE: "the balancer needs more failed checks, or asks less often, than it has to",
    What.NO_LOSS: "a node drops requests while its last pod ends, though that pod still serves (KEP-1669)",
    What.BALANCE: "the balancer sticks to one of the nodes, prefers some, or hashes badly",
    What.HEALTH: "the health check always says 200, is stuck after the pod left, or says 503 with local pods",
    What.PATH: "the proxy of a node does not follow its EndpointSlices",
    What.HEALTH_PROMPT: "the proxy of a node is late each time, or syncs too seldom",
    What.PATH_PROMPT: "the proxy of a node is late each time, or syncs too seldom",
    What.VIEW_LOCAL: "the balancer takes a node without endpoints for healthy, or one with endpoints for not",
    What.VIEW_CLUSTER: "the balancer leaves nodes out although the policy is Cluster",
    What.FREED: "the balancer keeps the VIP of a Service that is gone: in the end it leads to others' pods",
}


def service_name(balancer: Balancer) -> str:
    """The Service whose pods move."""
    return f"moves-{balancer.value}"


@dataclass(frozen=True, kw_only=True)
class EndpointChangeCheck(Check):
    """One claim about one balancer; ``family`` is that of the VIP, None where the check is about the nodes."""

    balancer: Balancer
    what: What
    family: Family | None = None
    differences: tuple[Difference, ...] = ()

    @property
    def expected(self) -> str:
        """What must be seen."""
        return EXPECTED[self.what]

    @property
    def balanced(self) -> frozenset[str]:
        """What the check asks, and the family of the VIP, if it is about one."""
        if self.balancer is not Balancer.DEFAULT:
            return frozenset()
        return frozenset({ANYTHING, self.what.value, *([self.family.value.lower()] if self.family else [])})

    @property
    def own_service(self) -> str:
        """The Service whose VIP is asked, if it is one of the cluster's own load balancer."""
        return service_name(self.balancer) if self.balancer is Balancer.DEFAULT and self.family else ""

    @property
    def source_at_vips(self) -> frozenset[str]:
        """The family of the VIP, of the check about the source there."""
        own = self.balanced and self.what is What.SOURCE
        return frozenset({self.family.value.lower()}) if own and self.family else frozenset()

    @property
    def asked(self) -> str:
        """How it is asked."""
        return (
            "pods on pinned nodes come and go by seeded moves (--moves, --seed), while a client outside asks the VIP, "
            "every node's nodePort and every node's health check about every 20 ms (what was achieved is told)"
        )

    @property
    def fails_if(self) -> str:
        """What trips it."""
        return FAILS_IF.get(self.what, "")

    def as_json(self) -> dict[str, Any]:
        """The check as one JSON object."""
        return super().as_json() | {"expect": self.expected}


LAG = 4.0
"""Seconds for which a pod serves on beyond (N+1) x period: the node's proxy is told of its end, and says 503."""
