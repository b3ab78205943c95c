"""Disruptions on the nodes themselves: the API server away, a kubelet stopped, kube-proxy or the network disturbed."""

import re
import threading
from collections.abc import Mapping

from esipp.base.errors import HarnessError
from esipp.base.interrupt import Stop
from esipp.base.plural import counted
from esipp.base.waiting import Budget, Reading, converge
from esipp.checks.disruption import Disruption
from esipp.cluster.client import ApiError, Cluster, UnreachableError
from esipp.disruption import marks, shell
from esipp.disruption.marks import RefusedError, is_ready, is_tainted
from esipp.disruption.restarts import AGAIN, daemon_pods
from esipp.disruption.rollback import Undo
from esipp.probing.node_containers import run as run_on

Way = tuple[str, ...]

ASK_SECONDS = 2.0
ASK_SPACING = 1.0
UNANSWERED = Budget("an unanswered request to the stopped API server", 30.0, need=1, spacing=0.1)
CONTROL_PLANE = Budget("the control plane to work again", 330.0, need=1, spacing=0.5)
"""Its kubelet restarts a component that lost its leader election; after many restarts, that takes up to 300 s."""
NOT_READY = Budget("a node without a kubelet to become not ready", 180.0, need=1, spacing=0.5)
NODE_BACK = Budget("a node with a restarted kubelet to be ready", 120.0, need=1, spacing=0.5)

LEADERS = ("kube-controller-manager", "kube-scheduler")
NODE_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


class _Poller:
    """A thread that sends requests to the API server with a short timeout, and counts the answers."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._over = threading.Event()
        self.sent = self.answered = 0
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
                self.sent += 1
                self.answered += answered
            self._over.wait(ASK_SPACING)

    def end(self) -> None:
        """Stop counting."""
        self._over.set()


class ApiServerAway:
    """A stop of all API servers: requests hang."""

    def __init__(self, cluster: Cluster, owner: str, nodes: Mapping[str, Way], longest: float) -> None:
        self._cluster, self._owner, self._nodes, self._longest = cluster, owner, dict(nodes), longest
        self._asking: _Poller | None = None

    @property
    def undos(self) -> tuple[Undo, ...]:
        """The rollbacks, one for each node."""
        what = Disruption.API_SERVER.value
        return tuple(Undo(what, node, self._owner, way) for node, way in self._nodes.items())

    def do(self) -> None:
        """Stop all API servers.

        Raises:
            RefusedError: the first one is already stopped. Nothing was done.
            HarnessError: a later one cannot be stopped, or is already stopped, so that there is something to undo.
        """
        for number, way in enumerate(self._nodes.values()):
            try:
                shell.stop(way, Disruption.API_SERVER, self._owner, self._longest)
            except RefusedError as refused:
                if number == 0:
                    raise
                raise HarnessError(refused.sentence, refused.hint) from None

    def prove(self, stop: Stop) -> str:
        """Check that every process is stopped and a request gets no answer."""
        self._check_stopped()
        asking = self._asking = _Poller(self._cluster)
        waited = stop.converge(lambda: Reading(asking.sent > 0, f"{asking.sent} unanswered"), UNANSWERED)
        if not waited.held or asking.answered:
            raise HarnessError(
                f"The API server still answers: {asking.answered} of {asking.sent} requests.",
                "check for another API server behind that address that is not a pod of kube-system.",
            )
        return f"all processes on {', '.join(self._nodes)} were stopped, and a request got no answer"

    def lasts(self) -> str:
        """Check that no request was answered meanwhile, and the processes are still stopped."""
        asking = self._asking
        if asking is None:
            return ""
        asking.end()
        self._check_stopped()
        if asking.answered:
            raise HarnessError(
                f"The API server resumed too early: it answered {asking.answered} of {asking.sent} requests.",
                f"the observation must end within {self._longest:.0f} s.",
            )
        return f"none of {asking.sent} requests was answered meanwhile"

    def back(self) -> str:
        """Wait until the API server answers, and components with leader election work again."""
        if self._asking:
            self._asking.end()
        waited = wait_for_control_plane(self._cluster)
        return f"it answers, and the control plane worked again after {waited:.1f} s"

    def _check_stopped(self) -> None:
        going = [node for node, way in self._nodes.items() if not shell.is_stopped(way, Disruption.API_SERVER)]
        if going:
            raise HarnessError(
                f"The API server of node {going[0]} is not stopped.", "check whether its kubelet replaced it."
            )


def wait_for_control_plane(cluster: Cluster) -> float:
    """Wait until the API server answers, leaders renew their Leases and control-plane pods are ready; in seconds.

    Raises:
        HarnessError: that does not happen in time.
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
        return Reading(not idle, f"not working: {', '.join(idle)}" if idle else "working")

    waited = converge(look, CONTROL_PLANE)
    if not waited.held:
        raise HarnessError(f"The control plane does not recover: {waited}", "see 'kubectl get pods -n kube-system'.")
    return waited.seconds


def _renewed(cluster: Cluster, namespace: str, name: str) -> str:
    """The last renewal of a Lease, by its holder's clock; "" if there is no Lease."""
    try:
        lease = cluster.request("GET", f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}")
    except ApiError as refused:
        if refused.status == 404:
            return ""
        raise
    return str((lease.get("spec") or {}).get("renewTime") or "")


class KubeletStopped:
    """A stop of a node's kubelet."""

    def __init__(self, cluster: Cluster, owner: str, node: str, way: Way, longest: float, not_ready: bool) -> None:
        self._cluster, self._owner, self._node, self._way = cluster, owner, node, way
        self._longest, self._not_ready = longest, not_ready
        self._lease = ""

    @property
    def undos(self) -> tuple[Undo, ...]:
        """The rollback on the node."""
        return (Undo(Disruption.KUBELET.value, self._node, self._owner, self._way),)

    def do(self) -> None:
        """Stop the kubelet."""
        shell.stop(self._way, Disruption.KUBELET, self._owner, self._longest)

    def prove(self, stop: Stop) -> str:
        """Check that the kubelet is stopped and, if requested, wait until the node is not ready."""
        self._check_stopped()
        self._lease = _renewed(self._cluster, "kube-node-lease", self._node)
        if not self._not_ready:
            return "systemd reports that the kubelet is inactive"

        def look() -> Reading:
            ready = is_ready(marks.read(self._cluster, self._node))
            return Reading(not ready, "still ready" if ready else "not ready")

        waited = stop.converge(look, NOT_READY)
        if not waited.held:
            raise HarnessError(
                f"Node {self._node} remains ready without a kubelet: {waited}",
                "check that the cluster's controller manager is running.",
            )
        return f"systemd reports that the kubelet is inactive, and the node was not ready after {waited.seconds:.0f} s"

    def lasts(self) -> str:
        """Check that the kubelet is still stopped, and has not renewed the node's Lease."""
        self._check_stopped()
        if _renewed(self._cluster, "kube-node-lease", self._node) != self._lease:
            raise HarnessError(
                f"The Lease of node {self._node} was renewed meanwhile.", "check whether its kubelet was started."
            )
        return "the node's Lease was not renewed meanwhile"

    def back(self) -> str:
        """Wait until the kubelet runs, and the node is ready and has no not-ready taints."""
        waited = wait_for_node(self._cluster, self._node)
        return f"the kubelet was started, and the node was ready after {waited:.1f} s"

    def _check_stopped(self) -> None:
        if not shell.is_stopped(self._way, Disruption.KUBELET):
            raise HarnessError(
                f"The kubelet of node {self._node} is not stopped.", "check whether the node's own timer started it."
            )


def wait_for_node(cluster: Cluster, name: str) -> float:
    """Wait until a kubelet renews its node's Lease, and the node is ready without not-ready taints; in seconds.

    Raises:
        HarnessError: that does not happen in time.
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
        return Reading(first[-1] != first[0] or not first[0], "ready, but its Lease is not renewed yet")

    waited = converge(look, NODE_BACK)
    if not waited.held:
        raise HarnessError(f"Node {name} does not recover: {waited}", f"see 'kubectl describe node {name}'.")
    return waited.seconds


SHOWN = {
    Disruption.PROXY_STOPPED: "kube-proxy is stopped",
    Disruption.PROXY_SICK: "kube-proxy cannot write its rules",
    Disruption.CUT_OFF: "the node's network carries nothing",
    Disruption.CONNTRACK_FULL: "the node takes no new flows",
}


class _Disturbed:
    """Something of one node that esipp disturbs there, until the node itself undoes it at the latest."""

    def __init__(self, cluster: Cluster, what: Disruption, owner: str, node: str, way: Way, longest: float) -> None:
        self._cluster, self._what, self._owner = cluster, what, owner
        self._node, self._way, self._longest = node, way, longest

    @property
    def undos(self) -> tuple[Undo, ...]:
        """The rollback on the node."""
        return (Undo(self._what.value, self._node, self._owner, self._way),)

    def do(self) -> None:
        """Disturb it."""
        shell.stop(self._way, self._what, self._owner, self._longest)

    def prove(self, stop: Stop) -> str:
        """Check on the node that it is disturbed."""
        stop.check()
        return self._shown()

    def lasts(self) -> str:
        """Check that it still is."""
        self._shown()
        return "until the end"

    def _shown(self) -> str:
        if not shell.is_stopped(self._way, self._what):
            raise HarnessError(
                f"On node {self._node}, it is not so that {SHOWN[self._what]}.",
                "check whether its kubelet or the node's own timer has undone it.",
            )
        return SHOWN[self._what]


class NetworkDisturbed(_Disturbed):
    """A node that drops what its network brings and takes away: all, or new flows alone."""

    def back(self) -> str:
        """Wait until the node's kubelet reaches the API server, and the node is ready."""
        return f"undone, and the node was ready after {wait_for_node(self._cluster, self._node):.1f} s"


class ProxyDisturbed(_Disturbed):
    """kube-proxy of one node, stopped or without the programs that write its rules.

    One that was stopped is killed in the end. So it learns what has changed as any kube-proxy does that starts, and
    not from a watch that goes on.
    """

    _starts = 0

    def do(self) -> None:
        """Disturb it."""
        self._starts = self._started()[0]
        super().do()

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

    def _started(self) -> tuple[int, bool]:
        """How often the pod's container was started again, and whether the pod is ready."""
        pods = daemon_pods(self._cluster, Disruption.KUBE_PROXY)
        there = [pod for pod in pods if pod["spec"].get("nodeName") == self._node]
        states = [state for pod in there for state in pod.get("status", {}).get("containerStatuses") or []]
        return sum(int(state.get("restartCount", 0)) for state in states), bool(there) and all(map(is_ready, there))


DELETED = re.compile(r"(\d+) flow entries have been deleted")


class EntriesDeleted:
    """Connection tracking entries of this run's Services, deleted on a node: nothing is left to undo."""

    undos: tuple[Undo, ...] = ()

    def __init__(self, cluster: Cluster, run: str, node: str, way: Way) -> None:
        self._cluster, self._run, self._node, self._way = cluster, run, node, way
        self._number = 0

    def do(self) -> None:
        """Delete them: by the nodePorts of the run's Services, and by their VIPs."""
        services = self._cluster.list(f"/api/v1/namespaces/esipp-{self._run}/services")
        ports = sorted(
            {port["nodePort"] for each in services for port in each["spec"]["ports"] if port.get("nodePort")}
        )
        given = [each.get("status", {}).get("loadBalancer", {}).get("ingress") or [] for each in services]
        vips = sorted({each["ip"] for those in given for each in those if each.get("ip")})
        filters = [
            f"-f {family} -p {protocol} --orig-port-dst {port}"
            for port in ports
            for family in ("ipv4", "ipv6")
            for protocol in ("tcp", "udp")
        ]
        filters += [f"-f {'ipv6' if ':' in vip else 'ipv4'} --orig-dst {vip}" for vip in vips]
        # conntrack says of each filter how many it deleted, and fails if there was none
        lines = [f"conntrack -D {each} 2>&1 >/dev/null || true" for each in filters]
        done = run_on(self._way, "\n".join(["command -v conntrack >/dev/null || exit 1", *lines]))
        if done.returncode != 0:
            raise HarnessError(f"There is no conntrack on node {self._node}.", "check that this is a node of kind.")
        self._number = sum(int(number) for number in DELETED.findall(done.stdout))

    def prove(self, stop: Stop) -> str:
        """Check that there were any."""
        stop.check()
        if not self._number:
            raise HarnessError(
                f"Node {self._node} had no connection tracking entry of this run's Services.",
                "check whether the service proxy uses the kernel's connection tracking.",
            )
        return f"{counted(self._number, 'connection tracking entry', 'connection tracking entries')} deleted"

    def lasts(self) -> str:
        """Check nothing: new packets make new entries."""
        return ""

    def back(self) -> str:
        """Wait for nothing."""
        return ""
