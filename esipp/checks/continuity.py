"""Checks of continuity: what is done while traffic flows, the way that requests take, and what is required. No I/O."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from esipp.checks.check import ANYTHING, Check, Difference, Profile
from esipp.checks.disruption import Disruption
from esipp.checks.model import Balancer, Family, TrafficPolicy
from esipp.checks.timing import PROMPT

NODEPORT = "nodeport"


class Phase(StrEnum):
    """What is done while traffic flows. The later ones are disruptions, done only with ``--allow-disruptive``."""

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
        """Which disruption it is; None where nobody else on the cluster would notice."""
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
"""Phases in which pods are told to end, and serve on for longer than a load balancer needs to steer away."""


class What(StrEnum):
    """What a check asks of one way in one phase.

    Each way has one check about losses in each phase: ``no-loss`` where none may be, ``gap`` where the longest one is
    bounded. ``losses`` is that of the cluster's own load balancer: bounded where somebody promises a bound.
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
    What.LOSSES: "no gap longer than the load balancer's bound; recorded where nobody gives one",
    What.SOURCE: "the right source in every answer",
    What.PROMPT: f"the right source in every answer from {PROMPT:.0f} s after the return on",
    What.PLACE: "no answer by a forbidden pod",
    What.LASTING: "no connection breaks before its pod has served its last",
    What.TERMINATING: "answered while the node says 503",
}

FAILS_IF = {
    What.NO_LOSS: "one connection is dropped: by a node whose pod ends, by rules that are taken away before new ones "
    "are there, or by a load balancer that sends requests to a node that cannot serve them",
    What.GAP: "the load balancer needs more failed checks, or asks less often, than it says",
    What.LOSSES: "the cluster's own load balancer goes on sending requests to a node that cannot serve them",
    What.SOURCE: "somebody masquerades on the way, be it for one answer, while pods or rules change",
    What.PROMPT: "nodes go on rewriting the source for seconds after the policy is Local again",
    What.PLACE: "a bare node forwards to another node, or a pod is asked that is neither ready nor serving its last "
    "seconds",
    What.LASTING: "connection tracking is flushed, or rules that change apply to connections that are open",
    What.TERMINATING: "a node drops requests while its last pod ends, though that pod still serves (KEP-1669)",
}

REHASHED = "rehashed"
"""What is seen where nothing is lost but what was open while the balancer changed its routes."""

MOVED = "moved"
"""What is seen where connections broke after the balancer had moved its VIP to another node."""

UNREWRITTEN = "the client"
"""What is seen where Cluster leaves the client's own address in place."""

PROXIES = frozenset({Balancer.PROXY.value})
"""By whom the pods see the balancer's own address."""

CHECKED = frozenset({Balancer.ECMP.value, Balancer.PROXY.value})
"""Load balancers whose health checks are known: how often they ask, and how many must fail."""


@dataclass(frozen=True, order=True)
class Way:
    """How requests reach the pods: through the VIP of a load balancer, or at a nodePort.

    Under Local it is the endpoint node's, under Cluster the bare node's. ``by`` is a ``Balancer``'s value or
    ``nodeport``.
    """

    by: str
    policy: TrafficPolicy

    @property
    def slug(self) -> str:
        """The way as a part of check ids and of objects' names."""
        return f"{self.by}.{self.policy.value.lower()}"

    @property
    def local(self) -> bool:
        """Whether its service is one with the policy Local."""
        return self.policy is TrafficPolicy.LOCAL

    @property
    def balancer(self) -> Balancer | None:
        """Whose VIP it is; None for a nodePort."""
        return None if self.by == NODEPORT else Balancer(self.by)


@dataclass(frozen=True, kw_only=True)
class ContinuityCheck(Check):
    """One claim about one way, while one thing is done."""

    phase: Phase
    way: Way
    family: Family
    what: What
    differences: tuple[Difference, ...] = ()

    @property
    def expected(self) -> str:
        """What must be seen."""
        return EXPECTED[self.what]

    @property
    def balanced(self) -> frozenset[str]:
        """The way's policy, and the family of the VIP."""
        own = self.way.balancer is Balancer.DEFAULT
        return frozenset({ANYTHING, self.way.policy.value.lower(), self.family.value.lower()}) if own else frozenset()

    @property
    def own_service(self) -> str:
        """The Service of its way (scene.py), where its VIP is dialled."""
        return f"continuity-{self.way.by}-{self.way.policy.value.lower()}" if self.balanced else ""

    @property
    def source_at_vips(self) -> frozenset[str]:
        """The family of the VIP, of the checks about the source there."""
        own = self.balanced and self.what in (What.SOURCE, What.PROMPT)
        return frozenset({self.family.value.lower()}) if own else frozenset()

    @property
    def profile(self) -> Profile:
        """The type of the way's Service."""
        return Profile.NODE_PORT if self.way.balancer is None else Profile.LOAD_BALANCER

    @property
    def asked(self) -> str:
        """How it is asked."""
        return (
            "one client outside opens a new connection every 100 ms on every way and keeps three others open, with an "
            "exchange every 300 ms, all the time; meanwhile one thing after the other is done"
        )

    @property
    def fails_if(self) -> str:
        """What trips it."""
        return FAILS_IF.get(self.what, "")

    def as_json(self) -> dict[str, Any]:
        """The check as one JSON object."""
        return super().as_json() | {"expect": self.expected}
