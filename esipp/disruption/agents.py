"""Disruptions of one agent on a node: stopped while the cluster changes, or unable to write its rules."""

from dataclasses import dataclass

from esipp.base.errors import HarnessError
from esipp.base.interrupt import Stop
from esipp.base.waiting import Reading, converge
from esipp.checks.disruption import Disruption
from esipp.cluster.client import Cluster, UnreachableError
from esipp.disruption import shell
from esipp.disruption.marks import is_ready
from esipp.disruption.restarts import AGAIN, agent_pods
from esipp.disruption.rollback import Undo


@dataclass(frozen=True)
class Disturbed:
    """How an agent is disturbed: its name, what it is then, as text, and whether it starts anew in the end."""

    noun: str
    state: str
    starts_anew: bool = True

    @property
    def words(self) -> str:
        """The agent and its state."""
        return f"{self.noun} {self.state}"


HOW = {
    Disruption.PROXY_STOPPED: Disturbed("kube-proxy", "is stopped"),
    Disruption.PROXY_SICK: Disturbed("kube-proxy", "cannot write its rules", starts_anew=False),
    Disruption.CONTROLLER_STOPPED: Disturbed("the load balancer's controller", "is stopped"),
}


class AgentDisturbed:
    """An agent on a node, stopped or without the programs that write its rules.

    One that was stopped is killed in the end. So it learns what has changed as any kube-proxy does that starts, and
    not from a watch that goes on.
    """

    def __init__(
        self, cluster: Cluster, what: Disruption, owner: str, node: str, way: tuple[str, ...], longest: float
    ) -> None:
        self._cluster, self._what, self._owner = cluster, what, owner
        self._node, self._way, self._longest = node, way, longest
        self._how, self._starts = HOW[what], 0

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
            raise HarnessError(f"On node {self._node}, {self._how.words}.", f"see 'ps' on node {self._node}.")
        if not self._how.starts_anew:
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
                f"{self._how.noun} on node {self._node} does not start again: {waited}", "see 'kubectl get pods -A'."
            )
        return f"started again after {waited.seconds:.1f} s"

    def _shown(self) -> str:
        if not shell.is_stopped(self._way, self._what):
            raise HarnessError(
                f"On node {self._node}, it is not so that {self._how.words}.",
                "check whether its kubelet or the node's own timer has started it.",
            )
        return self._how.words

    def _started(self) -> tuple[int, bool]:
        """How often the pod's container was started again, and whether the pod is ready."""
        pods = agent_pods(self._cluster, self._what)
        there = [pod for pod in pods if pod["spec"].get("nodeName") == self._node]
        states = [state for pod in there for state in pod.get("status", {}).get("containerStatuses") or []]
        return sum(int(state.get("restartCount", 0)) for state in states), bool(there) and all(map(is_ready, there))
