"""A node of kind that is switched off, and on again: its container is killed, and started.

The mark is an annotation of the Node object, as no file of the node's ``/run`` outlives that. No timer on the node can
undo it either: a process of its own, beside the run and its watchdog, starts the container after a while.
"""

import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field

from esipp.base.errors import HarnessError
from esipp.base.interrupt import Stop
from esipp.base.plural import counted
from esipp.base.waiting import Budget, Reading, converge
from esipp.cluster.client import Cluster, UnreachableError
from esipp.disruption import marks
from esipp.disruption.actions import Action
from esipp.disruption.agents import api_servers, on_node, starts_of, uid_of
from esipp.disruption.marks import Mark, RefusedError, is_ready
from esipp.disruption.rollback import Undo
from esipp.disruption.services import renewed, wait_for_node
from esipp.probing import node_machines
from esipp.probing.node_machines import NOWHERE, State

STARTED = Budget("the pods of a node that was restarted to be ready", 120.0, need=1, spacing=0.5)


@dataclass
class NodeRestarted(Action):
    """A node whose processes all end at once, and that boots in the end.

    Args:
        cluster: the cluster.
        owner: ``host/pid`` of the run.
        node: the node, which runs no API server.
        way: the command that runs commands on it; the last word is its container.
        longest: seconds after which another process starts it.
    """

    cluster: Cluster
    owner: str
    node: str
    way: tuple[str, ...]
    longest: float
    _ready: Mapping[str, tuple[str, int]] = field(default_factory=dict, init=False)
    _switch: "subprocess.Popen[bytes] | None" = field(default=None, init=False)
    _before: State = field(default=NOWHERE, init=False)
    _lease: str = field(default="", init=False)

    @property
    def undos(self) -> tuple[Undo, ...]:
        """Start its container, and remove the mark."""
        return (Undo(Mark.OFF.value, self.node, self.owner),)

    def do(self) -> None:
        """Kill its container.

        Raises:
            RefusedError: it runs an API server, or is switched off already. Nothing was done.
        """
        if on_node(api_servers(self.cluster), self.node):
            raise RefusedError(
                f"Node {self.node} runs the API server.", "the third node must be one that does not: add a worker."
            )
        self._before, self._ready = node_machines.state_of(self._container), self._starts()
        marks.change(self.cluster, self.node, Mark.OFF, self.owner)
        node_machines.keep_addresses(self.way)
        self._switch = node_machines.start_later(self._container, self._before, self.longest)
        node_machines.kill(self._container)
        self._lease = renewed(self.cluster, "kube-node-lease", self.node)

    def prove(self, stop: Stop) -> str:
        """Check that its container does not run."""
        stop.check()
        self._check_off()
        return "its container was killed: none of its processes runs"

    def lasts(self) -> str:
        """Check that it still does not, and that the node's Lease was not renewed."""
        self._check_off()
        if renewed(self.cluster, "kube-node-lease", self.node) != self._lease:
            raise HarnessError(
                f"The Lease of node {self.node} was renewed meanwhile.", "check who else has a node of this name."
            )
        return "until the end"

    def back(self) -> str:
        """Wait until the node is ready, and its pods that were ready have started again and are so.

        Raises:
            HarnessError: that does not happen in time, or it has another address.
        """
        if self._switch is not None:
            node_machines.forget(self._switch)
        now = node_machines.state_of(self._container)
        if now.addresses != self._before.addresses:
            raise HarnessError(
                f"Docker gave node {self.node} other addresses: {', '.join(now.addresses)}.",
                "check which container has got its former ones; 'docker restart' may help.",
            )
        waited = wait_for_node(self.cluster, self.node)

        def look() -> Reading:
            try:
                starts = self._starts()
            except UnreachableError as silent:
                return Reading(False, str(silent))
            left = [name for name, (uid, number) in self._ready.items() if not _again(starts.get(name), uid, number)]
            return Reading(not left, f"not ready: {', '.join(sorted(left))}" if left else "all ready")

        again = converge(look, STARTED).required(
            f"Pods of node {self.node} are not ready again", f"see 'kubectl get pods -A -o wide | grep {self.node}'."
        )
        pods = counted(len(self._ready), "pod")
        return f"started again, and ready after {waited:.1f} s; its {pods} ready again {again.seconds:.1f} s later"

    @property
    def _container(self) -> str:
        return self.way[-1]

    def _starts(self) -> dict[str, tuple[str, int]]:
        """The pods that are ready on the node: their uid, and how often their containers were started again."""
        pods = self.cluster.list("/api/v1/pods", fieldSelector=f"spec.nodeName={self.node}")
        return {
            f"{pod['metadata']['namespace']}/{pod['metadata']['name']}": (uid_of(pod), starts_of([pod])[0])
            for pod in pods
            if is_ready(pod)
        }

    def _check_off(self) -> None:
        if node_machines.state_of(self._container).running:
            raise HarnessError(
                f"Node {self.node} runs again already.", f"the observation must end within {self.longest:.0f} s."
            )


def _again(now: tuple[str, int] | None, uid: str, starts: int) -> bool:
    """Whether a pod is ready now and was not all the while: its containers were started again, or it is another one."""
    return now is not None and (now[0] != uid or now[1] > starts)
