"""The disruptions and their proofs: words, no I/O."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Disruption(StrEnum):
    """What is done to a cluster, only with ``--allow-disruptive``."""

    CORDON = "cordon"
    """A node takes no new pods."""
    DRAIN = "drain"
    """It is cordoned, and those of our own pods that a selector names are evicted from it (policy/v1)."""
    EXCLUDE = "exclude"
    """It has the label that keeps it out of external load balancers."""
    KUBE_PROXY = "kube-proxy"
    """Its kube-proxy pod is deleted; the DaemonSet brings another one."""
    SPEAKER = "speaker"
    """The load balancer's speaker on it, or on all nodes one after the other, is restarted likewise."""
    API_SERVER = "api-server"
    """Every API server process is stopped (SIGSTOP). Clients see connections that hang: the kernel still completes TCP
    handshakes, and nothing is said on them; those that wait for the answer of a request wait on. What has leader
    election loses it after about 10 s and starts anew. Nodes' Leases are not renewed meanwhile; kubelets kill the
    stopped process after about 80 s, for its liveness probe."""
    KUBELET = "kubelet"
    """A node's kubelet is stopped. Its pods run on; after the controller's grace period (40 to 50 s) the node counts as
    not ready."""


FEATURES = {
    Disruption.KUBE_PROXY: "kube-proxy.pods",
    Disruption.SPEAKER: "load-balancer.speaker",
    Disruption.API_SERVER: "control-plane.reachable",
    Disruption.KUBELET: "nodes.shell",
}


def feature_of(what: Disruption) -> str:
    """The feature that a check about it needs besides ``disruptive``; ``disruptive`` itself where it needs no other."""
    return FEATURES.get(what, "disruptive")


LONGEST = {Disruption.API_SERVER: 75.0, Disruption.KUBELET: 240.0}
"""Seconds after which a node itself undoes what was done there: before a kubelet kills a stopped API server, and before
pods are evicted from a node that is not ready (300 s)."""

ALL_NODES = "all"


@dataclass(frozen=True)
class Proof:
    """That a disruption happened and is over.

    Args:
        disruption: what was done.
        node: where; ``all`` for all of them.
        words: what proved that it happened, that it lasted, and that it is undone.
        began: ``time.monotonic()`` of this process before anything was done, as all times here.
        happened: when it had been done and proven; what ``meanwhile`` did comes after that.
        ending: when its undoing began.
        undone: when that had been proven, too.
    """

    disruption: Disruption
    node: str
    words: str
    began: float
    happened: float
    ending: float
    undone: float

    def as_json(self) -> dict[str, Any]:
        """The proof as one JSON object."""
        times = {name: round(getattr(self, name), 6) for name in ("began", "happened", "ending", "undone")}
        return {"disruption": self.disruption.value, "node": self.node, "words": self.words, **times}
