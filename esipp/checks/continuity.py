"""Type and texts of continuity checks: the change, the way of the requests, and the claim. No I/O."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from esipp.checks.check import Check, Profile
from esipp.checks.disruption import Disruption
from esipp.checks.known_differences import KnownDifference
from esipp.checks.model import ANYTHING, Balancer, Family, TrafficPolicy
from esipp.checks.timing import PROMPT

NODEPORT = "nodeport"


class Phase(StrEnum):
    """A change during steady traffic. The later ones are disruptions, which need ``--allow-disruptive``."""

    QUIET = "quiet"
    ROLLING_UPDATE = "rolling-update"
    DELETED = "deleted"
    FLAPS = "readiness-flaps"
    FLIPS = "policy-flips"
    CORDON = "cordon"
    DRAIN = "drain"
    EXCLUDE = "exclude"
    KUBE_PROXY = "kube-proxy"
    SPEAKER = "speaker"
    API_SERVER = "api-server"
    KUBELET = "kubelet"

    @property
    def disruption(self) -> Disruption | None:
        """Return the disruption; None if the change affects no other user of the cluster."""
        return DISRUPTIONS.get(self)


DISRUPTIONS = {
    Phase.CORDON: Disruption.CORDON,
    Phase.DRAIN: Disruption.DRAIN,
    Phase.EXCLUDE: Disruption.EXCLUDE,
    Phase.KUBE_PROXY: Disruption.KUBE_PROXY,
    Phase.SPEAKER: Disruption.SPEAKER,
    Phase.API_SERVER: Disruption.API_SERVER,
    Phase.KUBELET: Disruption.KUBELET,
}

GRACEFUL = frozenset({Phase.ROLLING_UPDATE, Phase.DELETED, Phase.DRAIN})
"""Phases in which pods are deleted and still serve for longer than a load balancer needs to leave the node."""


class What(StrEnum):
    """A claim about one way in one phase.

    Each way has one check of losses in each phase. ``no-loss`` allows none, ``gap`` limits the longest one. ``losses``
    is for the cluster's own load balancer, and applies its bound if a profile or the user gives one.
    """

    NO_LOSS = "no-loss"
    GAP = "gap"
    LOSSES = "losses"
    SOURCE = "source"
    PROMPT = "source-prompt"
    PLACE = "place"
    LASTING = "lasting"
    TERMINATING = "terminating-serves"


EXPECTED = {
    What.NO_LOSS: "no request is lost",
    What.GAP: "no gap longer than (N+1) x period",
    What.LOSSES: "no gap longer than the load balancer's bound; recorded if there is none",
    What.SOURCE: "the correct source in every answer",
    What.PROMPT: f"the correct source in every answer from {PROMPT:.0f} s after the return to Local",
    What.PLACE: "no answer from a pod that must not serve",
    What.LASTING: "no connection breaks while its pod still serves",
    What.TERMINATING: "an answer while the node says 503",
}

FAILS_IF = {
    What.NO_LOSS: "a node drops a connection because its pod terminates, or because it removes old rules before it "
    "adds new ones, or a load balancer sends requests to a node that cannot serve them",
    What.GAP: "the load balancer needs more failed health checks, or probes less often, than it reports",
    What.LOSSES: "the cluster's own load balancer still sends requests to a node that cannot serve them",
    What.SOURCE: "a node or the load balancer masquerades even one connection while pods or rules change",
    What.PROMPT: "nodes still rewrite the source for seconds after the policy is Local again",
    What.PLACE: "a node without local endpoints forwards to another node, or a node uses a pod that must not serve",
    What.LASTING: "a node flushes connection tracking, or changed rules apply to established connections",
    What.TERMINATING: "a node drops requests while its last pod terminates, although the pod still serves (KEP-1669)",
}

MOVED = "moved"
"""Evidence: connections broke after the load balancer had moved its VIP to another node."""

UNREWRITTEN = "the client"
"""Evidence: the pod sees the client's own address under Cluster."""

PROXIES = frozenset({Balancer.PROXY.value})
"""Load balancers that show pods their own address."""

CHECKED = frozenset({Balancer.ECMP.value, Balancer.PROXY.value})
"""Load balancers with a known health check period and failure threshold."""


@dataclass(frozen=True, order=True)
class Way:
    """How requests reach the pods: through the VIP of a load balancer, or through a nodePort.

    The nodePort is on the endpoint node under Local, and on a node without local endpoints under Cluster.
    ``by`` is a value of ``Balancer``, or ``nodeport``.
    """

    by: str
    policy: TrafficPolicy

    @property
    def slug(self) -> str:
        """Return the way as a part of check ids and object names."""
        return f"{self.by}.{self.policy.value.lower()}"

    @property
    def local(self) -> bool:
        """Return whether the Service has the policy Local."""
        return self.policy is TrafficPolicy.LOCAL

    @property
    def balancer(self) -> Balancer | None:
        """Return the load balancer of the VIP; None for a nodePort."""
        return None if self.by == NODEPORT else Balancer(self.by)


@dataclass(frozen=True, kw_only=True)
class ContinuityCheck(Check):
    """A claim about one way during one change."""

    phase: Phase
    way: Way
    family: Family
    what: What
    differences: tuple[KnownDifference, ...] = ()

    @property
    def expected(self) -> str:
        """Return what the check expects."""
        return EXPECTED[self.what]

    @property
    def balanced(self) -> frozenset[str]:
        """Return the policy of the way and the family of the VIP."""
        own = self.way.balancer is Balancer.DEFAULT
        return frozenset({ANYTHING, self.way.policy.value.lower(), self.family.value.lower()}) if own else frozenset()

    @property
    def own_service(self) -> str:
        """Return the Service of the way, if the check dials its VIP."""
        return f"continuity-{self.way.by}-{self.way.policy.value.lower()}" if self.balanced else ""

    @property
    def source_at_vips(self) -> frozenset[str]:
        """Return the family of the VIP, for checks of the source."""
        own = self.balanced and self.what in (What.SOURCE, What.PROMPT)
        return frozenset({self.family.value.lower()}) if own else frozenset()

    @property
    def profile(self) -> Profile:
        """Return the type of the way's Service."""
        return Profile.NODE_PORT if self.way.balancer is None else Profile.LOAD_BALANCER

    @property
    def asked(self) -> str:
        """Return how the check probes."""
        return (
            "one client outside opens a new connection every 100 ms on every way, and keeps three others open with an "
            "exchange every 300 ms; meanwhile the changes take place one after the other"
        )

    @property
    def fails_if(self) -> str:
        """Return the fault that the check detects."""
        return FAILS_IF.get(self.what, "")

    def as_json(self) -> dict[str, Any]:
        """Return the check as a JSON object."""
        return super().as_json() | {"expect": self.expected}
