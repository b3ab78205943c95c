"""Disruptions of a node's kube-proxy: stopped while the cluster changes, or unable to write its rules."""

from esipp.base.errors import HarnessError
from esipp.base.interrupt import Stop
from esipp.base.waiting import Reading, converge
from esipp.checks.disruption import Disruption
from esipp.cluster.client import Cluster, UnreachableError
from esipp.disruption import shell
from esipp.disruption.marks import is_ready
from esipp.disruption.restarts import AGAIN, daemon_pods
from esipp.disruption.rollback import Undo

SHOWN = {
    Disruption.PROXY_STOPPED: "kube-proxy is stopped",
    Disruption.PROXY_SICK: "kube-proxy cannot write its rules",
}


class ProxyDisturbed:
    """kube-proxy of one node, stopped or without the programs that write its rules.

    One that was stopped is killed in the end. So it learns what has changed as any kube-proxy does that starts, and
    not from a watch that goes on.
    """

    def __init__(
        self, cluster: Cluster, what: Disruption, owner: str, node: str, way: tuple[str, ...], longest: float
    ) -> None:
        self._cluster, self._what, self._owner = cluster, what, owner
        self._node, self._way, self._longest = node, way, longest
        self._starts = 0

    @property
    def undos(self) -> tuple[Undo, ...]:
        """The rollback on the node."""
        return (Undo(self._what.value, self._node, self._owner, self._way),)

    def do(self) -> None:
        """Disturb it."""
        self._starts = self._started()[0]
        shell.stop(self._way, self._what, self._owner, self._longest)

    def prove(self, stop: Stop) -> str:
        """Check on the node that it is disturbed."""
        stop.check()
        return self._shown()

    def lasts(self) -> str:
        """Check that it still is."""
        self._shown()
        return "until the end"

    def back(self) -> str:
        """Wait until its kubelet has started it again; one that writes its rules again is back at once."""
        if shell.is_stopped(self._way, self._what):
            raise HarnessError(f"On node {self._node}, {SHOWN[self._what]}.", f"see 'ps' on node {self._node}.")
        if self._what is not Disruption.PROXY_STOPPED:
            return "undone"

        def look() -> Reading:
            try:
                starts, ready = self._started()
            except UnreachableError as silent:
                return Reading(False, str(silent))
            return Reading(ready and starts > self._starts, "ready" if ready else "not ready")

        waited = converge(look, AGAIN)
        if not waited.held:
            raise HarnessError(
                f"kube-proxy on node {self._node} does not start again: {waited}", "see 'kubectl get pods -A'."
            )
        return f"started again after {waited.seconds:.1f} s"

    def _shown(self) -> str:
        if not shell.is_stopped(self._way, self._what):
            raise HarnessError(
                f"On node {self._node}, it is not so that {SHOWN[self._what]}.",
                "check whether its kubelet or the node's own timer has started it.",
            )
        return SHOWN[self._what]

    def _started(self) -> tuple[int, bool]:
        """How often the pod's container was started again, and whether the pod is ready."""
        pods = daemon_pods(self._cluster, Disruption.KUBE_PROXY)
        there = [pod for pod in pods if pod["spec"].get("nodeName") == self._node]
        states = [state for pod in there for state in pod.get("status", {}).get("containerStatuses") or []]
        return sum(int(state.get("restartCount", 0)) for state in states), bool(there) and all(map(is_ready, there))
