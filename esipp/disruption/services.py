"""Disruptions on the nodes themselves: the API server away, a kubelet stopped."""

import threading
from collections.abc import Mapping
from typing import Any

from esipp.base.errors import HarnessError
from esipp.base.interrupt import Stop
from esipp.base.waiting import Budget, Reading, converge
from esipp.checks.disruption import Disruption
from esipp.cluster.client import ApiError, Cluster, UnreachableError
from esipp.disruption import marks, shell
from esipp.disruption.marks import RefusedError, is_ready, is_tainted
from esipp.disruption.rollback import Undo

Json = dict[str, Any]
Way = tuple[str, ...]

ASK_SECONDS = 2.0
ASK_SPACING = 1.0
UNANSWERED = Budget("a request to the stopped API server going unanswered", 30.0, need=1, spacing=0.1)
CONTROL_PLANE = Budget("the control plane being at work again", 330.0, need=1, spacing=0.5)
"""What lost its leader election is started anew by its kubelet, after at most 300 s if that happened often lately."""
NOT_READY = Budget("a node without a kubelet counting as not ready", 180.0, need=1, spacing=0.5)
NODE_BACK = Budget("a node with its kubelet again being ready", 120.0, need=1, spacing=0.5)

LEADERS = ("kube-controller-manager", "kube-scheduler")
NODE_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


class _Asking:
    """Asks the API server again and again, in a thread, with a short timeout; counts what is answered."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._over = threading.Event()
        self.asked = self.answered = 0
        threading.Thread(target=self._ask, name="asking the API server", daemon=True).start()

    def _ask(self) -> None:
        while not self._over.is_set():
            try:
                self._cluster.request("GET", "/version", read_timeout=ASK_SECONDS)
                answered = True
            except UnreachableError:
                answered = False
            except ApiError:
                answered = True
            if not self._over.is_set():
                self.asked += 1
                self.answered += answered
            self._over.wait(ASK_SPACING)

    def end(self) -> None:
        """What is answered from now on does not count."""
        self._over.set()


class ApiServerAway:
    """All API servers are stopped: requests hang."""

    def __init__(self, cluster: Cluster, owner: str, nodes: Mapping[str, Way], longest: float) -> None:
        self._cluster, self._owner, self._nodes, self._longest = cluster, owner, dict(nodes), longest
        self._asking: _Asking | None = None

    @property
    def undos(self) -> tuple[Undo, ...]:
        """Each node's own."""
        what = Disruption.API_SERVER.value
        return tuple(Undo(what, node, self._owner, way) for node, way in self._nodes.items())

    def do(self) -> None:
        """Stop them.

        Raises:
            RefusedError: the first one is stopped already. Nothing was done.
            HarnessError: a later one cannot be stopped, be it that it is stopped already: there is something to undo.
        """
        for number, way in enumerate(self._nodes.values()):
            try:
                shell.stop(way, Disruption.API_SERVER, self._owner, self._longest)
            except RefusedError as refused:
                if number == 0:
                    raise
                raise HarnessError(refused.sentence, refused.hint) from None

    def prove(self, stop: Stop) -> str:
        """Every process is stopped, and a request goes unanswered."""
        self._check_stopped()
        asking = self._asking = _Asking(self._cluster)
        waited = stop.converge(lambda: Reading(asking.asked > 0, f"{asking.asked} unanswered"), UNANSWERED)
        if not waited.held or asking.answered:
            raise HarnessError(
                f"The API server still answers: {asking.answered} of {asking.asked} requests.",
                "is there another API server behind that address, which is no pod of kube-system?",
            )
        return f"all processes stopped on {', '.join(self._nodes)}, and a request went unanswered"

    def lasts(self) -> str:
        """Not one request was answered meanwhile, and they are still stopped."""
        asking = self._asking
        if asking is None:
            return ""
        asking.end()
        self._check_stopped()
        if asking.answered:
            raise HarnessError(
                f"The API server was back too early: it answered {asking.answered} of {asking.asked} requests.",
                f"what happens meanwhile must end within {self._longest:.0f} s",
            )
        return f"none of {asking.asked} requests was answered meanwhile"

    def back(self) -> str:
        """It answers, and what has leader election is at work again."""
        if self._asking:
            self._asking.end()
        waited = wait_for_control_plane(self._cluster)
        return f"it answers, and the control plane was at work again after {waited:.1f} s"

    def _check_stopped(self) -> None:
        going = [node for node, way in self._nodes.items() if not shell.is_stopped(way, Disruption.API_SERVER)]
        if going:
            raise HarnessError(f"The API server of node {going[0]} is not stopped.", "did its kubelet replace it?")


def wait_for_control_plane(cluster: Cluster) -> float:
    """Wait until the API server answers, leaders renew their Leases, and the control plane's pods are ready; how long.

    Raises:
        HarnessError: it does not come about.
    """
    first: dict[str, str] = {}

    def look() -> Reading:
        try:
            for name in LEADERS:
                renewed = _renewed(cluster, "kube-system", name)
                first.setdefault(name, renewed)
            idle = [name for name in LEADERS if first[name] and _renewed(cluster, "kube-system", name) == first[name]]
            pods = cluster.list("/api/v1/namespaces/kube-system/pods", labelSelector="tier=control-plane")
        except (ApiError, UnreachableError) as silent:
            return Reading(False, str(silent))
        idle += [pod["metadata"]["name"] for pod in pods if not is_ready(pod)]
        return Reading(not idle, f"not at work: {', '.join(idle)}" if idle else "at work")

    waited = converge(look, CONTROL_PLANE)
    if not waited.held:
        raise HarnessError(f"The control plane does not come back: {waited}", "kubectl get pods -n kube-system")
    return waited.seconds


def _renewed(cluster: Cluster, namespace: str, name: str) -> str:
    """When a Lease was renewed last, by its holder's clock; "" where there is none."""
    try:
        lease = cluster.request("GET", f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}")
    except ApiError as refused:
        if refused.status == 404:
            return ""
        raise
    return str((lease.get("spec") or {}).get("renewTime") or "")


class KubeletStopped:
    """A node's kubelet is stopped."""

    def __init__(self, cluster: Cluster, owner: str, node: str, way: Way, longest: float, not_ready: bool) -> None:
        self._cluster, self._owner, self._node, self._way = cluster, owner, node, way
        self._longest, self._not_ready = longest, not_ready
        self._lease = ""

    @property
    def undos(self) -> tuple[Undo, ...]:
        """The node's own."""
        return (Undo(Disruption.KUBELET.value, self._node, self._owner, self._way),)

    def do(self) -> None:
        """Stop it."""
        shell.stop(self._way, Disruption.KUBELET, self._owner, self._longest)

    def prove(self, stop: Stop) -> str:
        """The node says so, and, if that is wanted, counts as not ready."""
        self._check_stopped()
        self._lease = _renewed(self._cluster, "kube-node-lease", self._node)
        if not self._not_ready:
            return "systemd says that the kubelet is inactive"

        def look() -> Reading:
            ready = is_ready(marks.read(self._cluster, self._node))
            return Reading(not ready, "still ready" if ready else "not ready")

        waited = stop.converge(look, NOT_READY)
        if not waited.held:
            raise HarnessError(f"Node {self._node} is ready without a kubelet: {waited}", "the controller manager?")
        return f"systemd says that the kubelet is inactive, and the node was not ready after {waited.seconds:.0f} s"

    def lasts(self) -> str:
        """It is still stopped, and has not renewed the node's Lease."""
        self._check_stopped()
        if _renewed(self._cluster, "kube-node-lease", self._node) != self._lease:
            raise HarnessError(f"Somebody renewed the Lease of node {self._node}.", "was its kubelet started?")
        return "the node's Lease was not renewed meanwhile"

    def back(self) -> str:
        """It runs, and the node is ready and without the taints of one that is not."""
        waited = wait_for_node(self._cluster, self._node)
        return f"the kubelet was started, and the node was ready after {waited:.1f} s"

    def _check_stopped(self) -> None:
        if not shell.is_stopped(self._way, Disruption.KUBELET):
            raise HarnessError(
                f"The kubelet of node {self._node} is not stopped.", "did the node's own timer start it?"
            )


def wait_for_node(cluster: Cluster, name: str) -> float:
    """Wait until a node's kubelet renews its Lease, the node is ready and has no taint of one that is not; how long.

    Raises:
        HarnessError: it does not come about.
    """
    first: list[str] = []

    def look() -> Reading:
        try:
            node = marks.read(cluster, name)
            first.append(_renewed(cluster, "kube-node-lease", name))
        except (ApiError, UnreachableError) as silent:
            return Reading(False, str(silent))
        if not is_ready(node) or is_tainted(node, *NODE_TAINTS):
            return Reading(False, "not ready")
        return Reading(first[-1] != first[0] or not first[0], "ready, and its Lease not renewed yet")

    waited = converge(look, NODE_BACK)
    if not waited.held:
        raise HarnessError(f"Node {name} does not come back: {waited}", f"kubectl describe node {name}")
    return waited.seconds
