"""What is done on nodes themselves: API servers, kubelets, agents, a node's network, its registration."""

import threading
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import ClassVar

from esipp.base.errors import HarnessError
from esipp.base.interrupt import Stop
from esipp.base.json import Json
from esipp.base.plural import counted
from esipp.base.waiting import Budget, Reading, converge
from esipp.checks.disruption import Disruption
from esipp.cluster.client import ApiError, Cluster, UnreachableError
from esipp.disruption import marks, shell
from esipp.disruption.actions import Action
from esipp.disruption.agents import AGENTS, agent_pods, api_servers, on_node, starts_of, uid_of, waits_to_start
from esipp.disruption.marks import RefusedError, is_ready, is_tainted
from esipp.disruption.restarts import AGAIN
from esipp.disruption.rollback import Undo
from esipp.probing.node_containers import run as run_on

Way = tuple[str, ...]

ASK_SECONDS, LONG_SECONDS = 2.0, 30.0
"""Timeouts in seconds of a request to an API server that is away, and to one that is slow."""
SLOW = 1.0
"""Seconds from which on an answer counts as slow."""
ASK_SPACING = 1.0
"""Seconds between the end of a request and the next one."""
UNANSWERED = Budget("an unanswered request to the stopped API server", 30.0, need=1, spacing=0.1)
LATE = Budget("a late answer of the slow API server", 30.0, need=1, spacing=0.1)
GIVEN_UP = 10.0
"""Seconds without an answer after which clients of the API give up: what has leader election, by its defaults."""
STARTED_AGAIN = Budget("an API server to start again, and all to be ready", 330.0, need=1, spacing=0.5)
"""Its kubelet starts it at once the first time, and waits longer each time, up to 300 s. After ten minutes without an
end it begins anew."""
CONTROL_PLANE = Budget("the control plane to work again", 330.0, need=1, spacing=0.5)
"""Its kubelet restarts a component that lost its leader election; after many restarts, that takes up to 300 s."""
NOT_READY = Budget("a node without a kubelet to become not ready", 180.0, need=1, spacing=0.5)
NODE_BACK = Budget("a node with a restarted kubelet to be ready", 120.0, need=1, spacing=0.5)

PODS_BACK = Budget("the pods of a node that joined to be ready", 60.0, need=1, spacing=0.5)

DELETED = Budget("deletion of a Node object", 10.0, need=1, spacing=0.1)
KEPT = ("labels", "annotations"), ("podCIDRs", "providerID", "taints", "unschedulable")
"""What of ``metadata`` and ``spec`` the node must have again: kubelets alone do not set all of it."""

LEADERS = ("kube-controller-manager", "kube-scheduler")
NODE_TAINTS = ("node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable")


class _Poller:
    """A thread that sends requests to the API server, counts the answers, and measures the longest one."""

    def __init__(self, cluster: Cluster, timeout: float) -> None:
        self._cluster, self._timeout = cluster, timeout
        self._over = threading.Event()
        self.sent = self.answered = 0
        self.longest = self._longest_silence = 0.0
        self._heard = time.monotonic()
        threading.Thread(target=self._ask, name="asking the API server", daemon=True).start()

    def _ask(self) -> None:
        while not self._over.is_set():
            began = time.monotonic()
            try:
                self._cluster.request("GET", "/version", read_timeout=self._timeout)
                answered = True
            except UnreachableError:
                answered = False
            except ApiError:
                answered = True
            if not self._over.is_set():
                self.sent += 1
                self.answered += answered
                now = time.monotonic()
                self.longest = max(self.longest, now - began)
                if answered:
                    self._longest_silence, self._heard = self.silence, now
            self._over.wait(ASK_SPACING)

    @property
    def silence(self) -> float:
        """The longest time without the end of an answer up to now, in seconds."""
        return max(self._longest_silence, time.monotonic() - self._heard)

    def end(self) -> None:
        """Stop counting."""
        self._over.set()


@dataclass
class OnNodes(Action):
    """Something that a script stops on some nodes at once (``shell.SERVICES``), and undoes.

    Args:
        cluster: the cluster.
        what: the disruption.
        owner: ``host/pid`` of the run.
        nodes: the nodes, and for each the command that runs commands on it.
        longest: seconds after which the nodes themselves undo it.
    """

    cluster: Cluster
    what: Disruption
    owner: str
    nodes: Mapping[str, Way]
    longest: float

    @property
    def undos(self) -> tuple[Undo, ...]:
        """The rollbacks, one for each node."""
        return tuple(Undo(self.what.value, node, self.owner, way) for node, way in self.nodes.items())

    def do(self) -> None:
        """Stop it on all nodes.

        Raises:
            RefusedError: on the first one it is stopped already. Nothing was done.
            HarnessError: on a later one it cannot be stopped, or is already, so that there is something to undo.
        """
        for number, way in enumerate(self.nodes.values()):
            try:
                shell.stop(way, self.what, self.owner, self.longest, self._first())
            except RefusedError as refused:
                if number == 0:
                    raise
                raise HarnessError(refused.sentence, refused.hint) from None

    def prove(self, stop: Stop) -> str:
        """Check on the nodes that it is stopped."""
        stop.check()
        return self._check_stopped()

    def lasts(self) -> str:
        """Check that it still is."""
        self._check_stopped()
        return "until the end"

    def back(self) -> str:
        """Wait until kubelets reach the API server, and the nodes are ready."""
        waited = max(wait_for_node(self.cluster, node) for node in self.nodes)
        return f"undone, and the node was ready after {waited:.1f} s"

    def _first(self) -> str:
        """A script that the nodes run before, for what stopping it needs; empty for none."""
        return ""

    @property
    def _node(self) -> str:
        """The first node, of what is always on a single one."""
        return next(iter(self.nodes))

    def _check_stopped(self) -> str:
        """What is then so, as text.

        Raises:
            HarnessError: it is not so on some node.
        """
        state = shell.SERVICES[self.what].state
        for node, way in self.nodes.items():
            if not shell.is_stopped(way, self.what):
                raise HarnessError(
                    f"Node {node} is not disrupted any more, or not yet: expected that {state}.",
                    "check whether the node's own timer has undone it, or its kubelet has started it again.",
                )
        return state


@dataclass
class AgentDisturbed(OnNodes):
    """An agent on a node, stopped or without the programs that write its rules.

    An agent that was stopped is killed in the end. So it learns of changes by starting anew, and not from a watch that
    goes on. Its kubelet starts it at once the first time, and waits longer each time, up to 300 s: a pod that waits is
    deleted, and its owner makes another one.
    """

    _starts: dict[str, int] = field(default_factory=dict, init=False)
    _deleted: set[str] = field(default_factory=set, init=False)

    def do(self) -> None:
        """Disturb it."""
        self._starts = {uid_of(pod): starts_of([pod])[0] for pod in agent_pods(self.cluster, self.what)}
        super().do()

    def back(self) -> str:
        """Wait until its kubelet has started it again; one that writes its rules again is back at once."""
        if any(shell.is_stopped(way, self.what) for way in self.nodes.values()):
            raise HarnessError(
                f"Node {self._node} is still disrupted: {shell.SERVICES[self.what].state}.",
                f"see 'ps' on node {self._node}.",
            )
        if self.what is Disruption.PROXY_SICK:
            return "undone"

        def look() -> Reading:
            try:
                pods = self._pods()
                self._hasten(pods)
            except UnreachableError as silent:
                return Reading(False, str(silent))
            again = all(starts_of([pod])[0] > self._starts.get(uid_of(pod), -1) for pod in pods)
            ready = starts_of(pods)[1]
            return Reading(ready and again, "ready" if ready else "not ready")

        waited = converge(look, AGAIN).required(
            f"On node {self._node}, {AGENTS[self.what].noun} does not start again", "see 'kubectl get pods -A'."
        )
        instead = ", as another pod: its kubelet would have waited" if self._deleted else ""
        return f"started again after {waited.seconds:.1f} s{instead}"

    def _hasten(self, pods: Collection[Json]) -> None:
        """Delete each pod that its kubelet does not start yet."""
        for pod in pods:
            if uid_of(pod) not in self._deleted and waits_to_start(pod):
                where = pod["metadata"]
                self.cluster.delete(f"/api/v1/namespaces/{where['namespace']}/pods/{where['name']}")
                self._deleted.add(uid_of(pod))

    def _pods(self) -> list[Json]:
        """The agent's pods on the node, and those made since: what replaces a controller may be on another node."""
        found = agent_pods(self.cluster, self.what)
        return [pod for pod in found if on_node([pod], self._node) or uid_of(pod) not in self._starts]


@dataclass
class BalancerCutOff(OnNodes):
    """A load balancer beside the nodes that reaches no API server.

    Its process is not stopped: it also sends the health checks, and no node could resume it if a run is killed.

    Args:
        addresses: its addresses.
    """

    addresses: tuple[str, ...] = ()

    def lasts(self) -> str:
        """Check that nodes still drop its packets, and have dropped some."""
        self._check_stopped()
        number = sum(map(shell.dropped, self.nodes.values()))
        if not number:
            raise HarnessError(
                "The reference load balancer and the API server sent each other nothing meanwhile.",
                "check that it watches this cluster.",
            )
        return f"{counted(number, 'packet')} between them were dropped until the end"

    def back(self) -> str:
        """Check that nothing is dropped any more."""
        if left := [node for node, way in self.nodes.items() if shell.is_stopped(way, self.what)]:
            raise HarnessError(f"Node {left[0]} still drops packets.", f"see 'nft list ruleset' on {left[0]}.")
        return "undone"

    def _first(self) -> str:
        return shell.note_balancer(self.addresses)


@dataclass
class ApiServersDisturbed(OnNodes):
    """All API servers: at once, or in turn."""

    _timeout: ClassVar[float]
    _asking: _Poller | None = field(default=None, init=False)

    def back(self) -> str:
        """Wait until the API server answers, and components with leader election work again."""
        if self._asking:
            self._asking.end()
        waited = wait_for_control_plane(self.cluster)
        return f"it answers, and the control plane worked again after {waited:.1f} s"

    def _ask(self) -> _Poller:
        """Check that they are disturbed, and send requests from now on."""
        self._check_stopped()
        self._asking = _Poller(self.cluster, self._timeout)
        return self._asking

    def _asked(self) -> _Poller:
        """Send no more requests, and check that they are still disturbed."""
        assert self._asking is not None
        self._asking.end()
        self._check_stopped()
        return self._asking


class ApiServerSlow(ApiServersDisturbed):
    """All API servers work for a moment and pause, in turn: answers take seconds."""

    _timeout = LONG_SECONDS

    def prove(self, stop: Stop) -> str:
        """Wait until an answer takes long."""
        asking = self._ask()
        waited = stop.converge(lambda: Reading(asking.longest >= SLOW, f"{asking.longest:.1f} s"), LATE)
        if not waited.held:
            raise HarnessError(
                f"The API server answers at once: the longest answer took {asking.longest:.1f} s.",
                "check for another API server behind that address that is not a pod of kube-system.",
            )
        return f"the API servers on {', '.join(self.nodes)} pause for {shell.STOPPED_SECONDS:.0f} s again and again"

    def lasts(self) -> str:
        """Check that they still do, and how long answers took."""
        asking = self._asked()
        return f"{asking.answered} of {asking.sent} requests were answered, after {asking.longest:.1f} s at most"


class ApiServerAway(ApiServersDisturbed):
    """A stop of all API servers: requests hang."""

    _timeout = ASK_SECONDS

    def prove(self, stop: Stop) -> str:
        """Check that every process is stopped and a request gets no answer."""
        asking = self._ask()
        waited = stop.converge(lambda: Reading(asking.sent > 0, f"{asking.sent} unanswered"), UNANSWERED)
        if not waited.held or asking.answered:
            raise HarnessError(
                f"The API server still answers: {asking.answered} of {asking.sent} requests.",
                "check for another API server behind that address that is not a pod of kube-system.",
            )
        return f"all processes on {', '.join(self.nodes)} were stopped, and a request got no answer"

    def lasts(self) -> str:
        """Check that no request was answered meanwhile, and the processes are still stopped."""
        asking = self._asked()
        if asking.answered:
            raise HarnessError(
                f"The API server resumed too early: it answered {asking.answered} of {asking.sent} requests.",
                f"the observation must end within {self.longest:.0f} s.",
            )
        return f"none of {asking.sent} requests was answered meanwhile"


class ApiServersInTurn(ApiServersDisturbed):
    """A restart of each API server, one after the other.

    Their kubelets start them again, so there is no rollback.
    """

    _timeout = ASK_SECONDS
    _starts: Mapping[str, int]

    @property
    def undos(self) -> tuple[Undo, ...]:
        """Nothing."""
        return ()

    def do(self) -> None:
        """Send requests from now on.

        Raises:
            RefusedError: without one of the API servers, there might be none that answers. Nothing was done.
        """
        self._starts, unready = self._state()
        if unready:
            raise RefusedError(
                f"The API server on {unready[0]} is not ready.", "see 'kubectl get pods -n kube-system'."
            )
        self._asking = _Poller(self.cluster, self._timeout)

    def prove(self, stop: Stop) -> str:
        """End each API server once the one before has started again and all are ready."""
        said = [f"on {node} in {self._restart(node, stop):.1f} s" for node in self.nodes]
        self._answered()
        return f"the API servers were restarted one after the other, {', '.join(said)}"

    def lasts(self) -> str:
        """Check that some API server answered all the while."""
        silence = self._answered()
        assert self._asking is not None
        self._asking.end()
        return (
            f"{self._asking.answered} of {self._asking.sent} requests were answered, one at least every {silence:.1f} s"
        )

    def _restart(self, node: str, stop: Stop) -> float:
        """Restart the API server of a node, and wait until all are ready; in seconds."""
        stop.check()
        if run_on(self.nodes[node], f"pkill -TERM -x {shell.API_SERVER_PROCESS}").returncode != 0:
            raise HarnessError(f"There is no process of the API server on node {node}.", f"see 'ps' on node {node}.")

        def look() -> Reading:
            try:
                starts, unready = self._state()
            except (ApiError, UnreachableError) as silent:  # the connection was to the one that has just ended
                return Reading(False, str(silent))
            if starts[node] == self._starts[node]:
                return Reading(False, "not started again")
            return Reading(not unready, f"not ready: {', '.join(unready)}" if unready else "all ready")

        waited = stop.converge(look, STARTED_AGAIN).required(
            f"The API server on node {node} does not start again", "see 'kubectl get pods -n kube-system'."
        )
        return waited.seconds

    def _state(self) -> tuple[dict[str, int], list[str]]:
        """How often the API server of each node was started again, and the nodes where it is not ready."""
        pods = api_servers(self.cluster)
        found = {node: starts_of(on_node(pods, node)) for node in self.nodes}
        starts = {node: number for node, (number, _) in found.items()}
        return starts, [node for node, (_, ready) in found.items() if not ready]

    def _answered(self) -> float:
        """The longest time without an answer so far, in seconds.

        Raises:
            HarnessError: it is so long that clients have given up.
        """
        assert self._asking is not None
        silence = self._asking.silence
        if silence > GIVEN_UP:
            raise HarnessError(
                f"While the API servers were restarted one after the other, none answered for {silence:.1f} s.",
                "check how the load balancer before them finds out which of them work.",
            )
        return silence


def wait_for_control_plane(cluster: Cluster) -> float:
    """Wait until the API server answers, leaders renew their Leases and control-plane pods are ready; in seconds.

    Raises:
        HarnessError: that does not happen in time.
    """
    first: dict[str, str] = {}

    def look() -> Reading:
        try:
            for name in LEADERS:
                first.setdefault(name, renewed(cluster, "kube-system", name))
            idle = [name for name in LEADERS if first[name] and renewed(cluster, "kube-system", name) == first[name]]
            pods = cluster.list("/api/v1/namespaces/kube-system/pods", labelSelector="tier=control-plane")
        except (ApiError, UnreachableError) as silent:
            return Reading(False, str(silent))
        idle += [pod["metadata"]["name"] for pod in pods if not is_ready(pod)]
        return Reading(not idle, f"not working: {', '.join(idle)}" if idle else "working")

    waited = converge(look, CONTROL_PLANE)
    return waited.required("The control plane does not recover", "see 'kubectl get pods -n kube-system'.").seconds


def renewed(cluster: Cluster, namespace: str, name: str) -> str:
    """The last renewal of a Lease, by its holder's clock; "" if there is no Lease."""
    try:
        lease = cluster.request("GET", f"/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases/{name}")
    except ApiError as refused:
        if refused.status == 404:
            return ""
        raise
    return str((lease.get("spec") or {}).get("renewTime") or "")


@dataclass
class KubeletStopped(OnNodes):
    """A stop of a node's kubelet; ``not_ready`` waits until the node counts as not ready."""

    not_ready: bool = False
    _lease: str = field(default="", init=False)

    def prove(self, stop: Stop) -> str:
        """Check that the kubelet is stopped and, if requested, wait until the node is not ready."""
        self._check_stopped()
        self._lease = renewed(self.cluster, "kube-node-lease", self._node)
        if not self.not_ready:
            return "systemd reports that the kubelet is inactive"

        def look() -> Reading:
            ready = is_ready(marks.read(self.cluster, self._node))
            return Reading(not ready, "still ready" if ready else "not ready")

        waited = stop.converge(look, NOT_READY).required(
            f"Node {self._node} remains ready without a kubelet",
            "check that the cluster's controller manager is running.",
        )
        return f"systemd reports that the kubelet is inactive, and the node was not ready after {waited.seconds:.0f} s"

    def lasts(self) -> str:
        """Check that the kubelet is still stopped, and has not renewed the node's Lease."""
        self._check_stopped()
        if renewed(self.cluster, "kube-node-lease", self._node) != self._lease:
            raise HarnessError(
                f"The Lease of node {self._node} was renewed meanwhile.", "check whether its kubelet was started."
            )
        return "the node's Lease was not renewed meanwhile"

    def back(self) -> str:
        """Wait until the kubelet runs, and the node is ready and has no not-ready taints."""
        waited = wait_for_node(self.cluster, self._node)
        return f"the kubelet was started, and the node was ready after {waited:.1f} s"


def wait_for_node(cluster: Cluster, name: str) -> float:
    """Wait until a kubelet renews its node's Lease, and the node is ready without not-ready taints; in seconds.

    Raises:
        HarnessError: that does not happen in time.
    """
    first: list[str] = []

    def look() -> Reading:
        try:
            node = marks.read(cluster, name)
            first.append(renewed(cluster, "kube-node-lease", name))
        except (ApiError, UnreachableError) as silent:
            return Reading(False, str(silent))
        if not is_ready(node) or is_tainted(node, *NODE_TAINTS):
            return Reading(False, "not ready")
        return Reading(first[-1] != first[0] or not first[0], "ready, but its Lease is not renewed yet")

    waited = converge(look, NODE_BACK)
    return waited.required(f"Node {name} does not recover", f"see 'kubectl describe node {name}'.").seconds


@dataclass
class NodeDeleted(OnNodes):
    """A Node object deleted by this run.

    The node saves the object before, and creates it again with its own account: without this run, too.
    """

    _before: Json = field(default_factory=dict, init=False)

    def do(self) -> None:
        """Let the node save its object, and delete the object in the version that is seen then, and in no later one."""
        self._before = marks.read(self.cluster, self._node)
        super().do()

        def attempt() -> Reading:
            version = marks.read(self.cluster, self._node)["metadata"].get("resourceVersion")
            body: Json = {"preconditions": {"resourceVersion": version}}
            try:
                self.cluster.request("DELETE", f"/api/v1/nodes/{self._node}", body=body)
            except ApiError as refused:
                if refused.status != 409:  # its kubelet has just reported
                    raise
                return Reading(False, refused.message)
            return Reading(True, "deleted")

        converge(attempt, DELETED).required(f"Cannot delete Node {self._node}", "check which other client changes it.")

    def back(self) -> str:
        """Wait until the node is ready, and check that it is another object that has what the first one had."""
        waited = wait_for_node(self.cluster, self._node)
        now = marks.read(self.cluster, self._node)
        if now["metadata"]["uid"] == self._before["metadata"]["uid"]:
            raise HarnessError(
                f"Node {self._node} is the same object as before.", "check which other client keeps Node objects."
            )
        if lost := _differing(self._before, now):
            raise HarnessError(
                f"Node {self._node} was registered again with other {', '.join(lost)}.",
                f"see 'kubectl get node {self._node} -o yaml'.",
            )
        return f"registered again, and ready after {waited:.1f} s"

    def _check_stopped(self) -> str:
        try:
            marks.read(self.cluster, self._node)
        except ApiError as refused:
            if refused.status == 404:
                return shell.SERVICES[self.what].state
            raise
        raise HarnessError(
            f"Node {self._node} should be deleted: it is still there, or it was registered meanwhile.",
            "check who registers nodes here.",
        )


@dataclass
class NodeLeft(NodeDeleted):
    """A node that is gone for the cluster and for the network, and joins again, with the same pods."""

    _ready: frozenset[str] = field(default=frozenset(), init=False)

    def do(self) -> None:
        """Note which pods are ready on the node, and let it leave."""
        self._ready = self._ready_pods()
        super().do()

    def back(self) -> str:
        """Wait until the node is ready, and each of its pods that was ready before."""
        said = super().back()

        def look() -> Reading:
            left = self._ready - self._ready_pods()
            return Reading(not left, f"not ready: {', '.join(sorted(left))}" if left else "all ready")

        waited = converge(look, PODS_BACK).required(
            f"Pods of node {self._node} are not ready again", f"see 'kubectl get pods -A -o wide | grep {self._node}'."
        )
        return f"{said}; its {counted(len(self._ready), 'pod')} ready {waited.seconds:.1f} s later"

    def _ready_pods(self) -> frozenset[str]:
        """The pods that are ready on the node."""
        pods = self.cluster.list("/api/v1/pods", fieldSelector=f"spec.nodeName={self._node}")
        return frozenset(f"{pod['metadata']['namespace']}/{pod['metadata']['name']}" for pod in pods if is_ready(pod))

    def _check_stopped(self) -> str:
        super()._check_stopped()
        return OnNodes._check_stopped(self)


def _differing(before: Json, now: Json) -> list[str]:
    """What a node had and has no longer; controllers may have added to it."""
    found = []
    for part, names in zip(("metadata", "spec"), KEPT, strict=True):
        for name in names:
            old, new = before.get(part, {}).get(name), now.get(part, {}).get(name)
            kept = old.items() <= (new or {}).items() if isinstance(old, dict) else old is None or old == new
            found += [] if kept else [name]
    return found
