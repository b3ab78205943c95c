"""Another node that joins the cluster, and is taken away again."""

import secrets
import string
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from esipp.base.errors import HarnessError
from esipp.base.interrupt import Stop
from esipp.base.labels import RUN_LABEL
from esipp.base.waiting import Budget, Reading, converge
from esipp.checks.disruption import Disruption
from esipp.checks.model import Family
from esipp.cluster.client import ApiError, Cluster, UnreachableError
from esipp.disruption import marks, shell
from esipp.disruption.actions import Action
from esipp.disruption.agents import owner_of
from esipp.disruption.marks import RefusedError, is_ready
from esipp.disruption.rollback import CONTAINER, Undo
from esipp.disruption.services import renewed
from esipp.probing import new_node
from esipp.probing.node_containers import run as run_on

Way = tuple[str, ...]
Addresses = Mapping[Family, str]

UP = Budget("a new node's container runtime to run", 60.0, need=1, spacing=0.5)
READY = Budget("a node that joined to be ready", 120.0, need=1, spacing=0.5)
GONE = Budget("a node that joined to be gone", 60.0, need=1, spacing=0.5)

_IN_TOKENS = string.ascii_lowercase + string.digits


def nothing(name: str, addresses: Addresses) -> None:
    """What is done before a node joins, where it does not matter."""


@dataclass
class NodeJoined(Action):
    """A node that joins, as a container like another node's; then its Node object and its container are removed.

    The container is started and has its images before anything joins. Its mark and its switch are on a node of the
    control plane, which can delete the Node object. The container has a switch of its own, which turns it off.

    Args:
        cluster: the cluster.
        run: id of the run.
        owner: ``host/pid`` of the run.
        control_plane: a node of the control plane, and the command that runs commands on it.
        like: the container of another node.
        longest: seconds after which both switches act.
        before_joining: called with its name and its addresses, before it joins.
    """

    cluster: Cluster
    run: str
    owner: str
    control_plane: tuple[str, Way]
    like: str
    longest: float
    before_joining: Callable[[str, Addresses], object]
    _addresses: Addresses = field(default_factory=dict, init=False)

    @property
    def undos(self) -> tuple[Undo, ...]:
        """The rollback: its Node object, and its container."""
        node, way = self.control_plane
        of_object = Undo(Disruption.NODE_JOINED.value, node, self.owner, way)
        return (of_object, Undo(CONTAINER, self._name, self.owner))

    def do(self) -> None:
        """Start the container."""
        self._addresses = new_node.start(self.like, self.run, self.owner, self.cluster.server)

    def prove(self, stop: Stop) -> str:
        """Have the node join, and wait until it is ready."""
        name, (_, way) = self._name, self.control_plane
        waited = stop.converge(self._runs, UP)
        waited.required(f"Container {name} does not start", f"see 'docker exec {name} journalctl'.")
        new_node.copy_images(self.like, name, self._images())
        switch = f"systemd-run --quiet --collect --on-active={self.longest:.0f} systemctl --force poweroff"
        run_on(("docker", "exec", name), switch)
        token = f"{_text(6)}.{_text(16)}"
        try:
            shell.stop(way, Disruption.NODE_JOINED, self.owner, self.longest, shell.let_join(name, token))
        except RefusedError as refused:  # there is a container to remove
            raise HarnessError(refused.sentence, refused.hint) from None
        self.before_joining(name, self._addresses)
        stop.check()
        new_node.join(self.like, name, self._addresses, token, {RUN_LABEL: self.run})
        ready = stop.converge(self._is_ready, READY)
        ready.required(f"Node {name} joined and is not ready", f"see 'kubectl describe node {name}'.")
        addresses = ", ".join(self._addresses.values())
        return f"node {name} ({addresses}) joined, and was ready {ready.seconds:.1f} s after kubeadm had ended"

    def lasts(self) -> str:
        """Check that the container still runs."""
        if not self._runs().right:
            raise HarnessError(
                f"Container {self._name} runs no longer.", f"the observation must end within {self.longest:.0f} s."
            )
        return "it ran until the end"

    def back(self) -> str:
        """Wait until nothing of it is left."""
        waited = converge(self._is_gone, GONE)
        waited.required(f"Node {self._name} is not gone", "run 'esipp clean'.")
        return f"its Node object, its pods and its container were gone after {waited.seconds:.1f} s"

    @property
    def _name(self) -> str:
        return new_node.name_of(self.run)

    def _images(self) -> set[str]:
        """The images of DaemonSets' pods on the other node: a node that joins gets such pods, too."""
        pods = self.cluster.list("/api/v1/pods", fieldSelector=f"spec.nodeName={self.like}")
        specs = [pod["spec"] for pod in pods if owner_of(pod)]
        parts = [part for spec in specs for part in (*(spec.get("initContainers") or ()), *spec.get("containers", ()))]
        return {str(part["image"]) for part in parts}

    def _runs(self) -> Reading:
        done = run_on(("docker", "exec", self._name), "systemctl is-active containerd")
        return Reading(done.returncode == 0, (done.stdout or done.stderr).strip() or "not active")

    def _is_ready(self) -> Reading:
        try:
            node = marks.read(self.cluster, self._name)
        except (ApiError, UnreachableError) as missing:
            return Reading(False, str(missing))
        return Reading(is_ready(node), "ready" if is_ready(node) else "not ready")

    def _is_gone(self) -> Reading:
        left = ["its container"] if new_node.describe(self._name) else []
        try:
            nodes = [node["metadata"]["name"] for node in self.cluster.list("/api/v1/nodes")]
            pods = self.cluster.list("/api/v1/pods", fieldSelector=f"spec.nodeName={self._name}")
            lease = renewed(self.cluster, "kube-node-lease", self._name)
        except UnreachableError as silent:
            return Reading(False, str(silent))
        left += ["its Node object"] if self._name in nodes else []
        left += [f"pod {pod['metadata']['name']}" for pod in pods]
        left += ["its Lease"] if lease else []
        return Reading(not left, f"left: {', '.join(left)}" if left else "nothing is left")


def _text(length: int) -> str:
    return "".join(secrets.choice(_IN_TOKENS) for _ in range(length))
