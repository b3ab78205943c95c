"""The disruptor, which performs disruptions, proves that they happened, and undoes them whatever happens to the run.

Three mechanisms undo them: this process, shielded from signals; the watchdog, if this process is killed; and a timer on
the node, for disruptions on nodes themselves, if both are killed. ``esipp clean`` finds the marks of everything else.
"""

import threading
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Protocol, TypeVar

from esipp.base.errors import HarnessError
from esipp.base.interrupt import Stop
from esipp.checks.check import Feature
from esipp.checks.disruption import ALL_NODES, LONGEST, PLACED, Disruption, Proof
from esipp.cluster.client import ApiError, Cluster, UnreachableError
from esipp.cluster.namespaces import owner
from esipp.disruption.actions import Action, Cordon, Drain, EntriesDeleted, Exclude, Taint
from esipp.disruption.addresses import AddressAdded, NodeReaddressed
from esipp.disruption.agents import STOPPED, agent_pods, api_servers
from esipp.disruption.joining import Addresses, NodeJoined, nothing
from esipp.disruption.machines import NodeRestarted
from esipp.disruption.marks import RefusedError
from esipp.disruption.restarts import Restart
from esipp.disruption.rollback import UNDONE, undo_all
from esipp.disruption.rollouts import ProxyMode, ProxySlow, Upgraded
from esipp.disruption.services import (
    AgentDisturbed,
    ApiServerAway,
    ApiServersInTurn,
    ApiServerSlow,
    BalancerCutOff,
    KubeletStopped,
    NodeDeleted,
    NodeLeft,
    OnNodes,
)
from esipp.disruption.watchdog_client import WatchdogClient
from esipp.loadbalancers.reference import Reference
from esipp.probing import new_node

Guard = Callable[[], AbstractContextManager[None]]


class Found(Protocol):
    """The findings of preflight that disruptions need."""

    @property
    def features(self) -> Mapping[str, Feature]: ...  # noqa: D102 - preflight's Findings explain it

    @property
    def reference(self) -> Reference | None: ...  # noqa: D102 - preflight's Findings explain it

    def on_node(self, node: str, command: list[str]) -> list[str] | None: ...  # noqa: D102 - preflight's Findings explain it


class Disruptor:
    """The disruptor of a run, which acts only with ``--allow-disruptive``.

    Args:
        cluster: the cluster.
        findings: the findings of preflight; without the feature ``disruptive`` it does nothing.
        run_id: id of the run; only its pods are evicted.
        stop: ends the waits of an active disruption, but never its rollback.
        guard: shields the body from signals (``fixtures.session.undisturbed``). Signals reach only the main thread, so
            other threads do not use it.
        log: the watchdog's log file, if it ever does anything.
        say: called when a disruption begins and when it is undone.
        images: the other images, for ``proxy-upgraded`` and ``network-agent-upgraded``.
    """

    def __init__(
        self,
        cluster: Cluster,
        findings: Found,
        run_id: str,
        stop: Stop,
        guard: Guard = nullcontext,
        log: Path | None = None,
        say: Callable[[str], object] = str,
        images: Mapping[Disruption, str] = MappingProxyType({}),
    ) -> None:
        self._cluster, self._findings, self._run = cluster, findings, run_id
        self._stop, self._guard, self._say = stop, guard, say
        self._images = images
        self._watchdog = WatchdogClient(cluster.context, cluster.kubeconfig, log, cluster.as_user)

    def __enter__(self) -> "Disruptor":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the watchdog."""
        self._watchdog.close()

    def perform(
        self,
        what: Disruption,
        node: str,
        meanwhile: Callable[[], None],
        *,
        selector: str = "",
        not_ready: bool = False,
        before_joining: Callable[[str, Addresses], object] = nothing,
    ) -> Proof:
        """Perform a disruption, prove it, call ``meanwhile`` while it is in effect, undo it, and prove the rollback.

        Restarted pods (``kube-proxy``, ``speaker``, ``network-agent``) are being replaced while ``meanwhile`` runs, and
        may be back before it ends. During ``api-server`` only this object may call the API, because every request
        blocks. Disruptions nest: ``meanwhile`` may perform another one.

        Args:
            what: the disruption.
            node: the node. "" means every node for ``speaker``. What is in ``PLACED`` has nodes of its own.
            meanwhile: called while the disruption is in effect; it must end soon after ``stop`` is set, and before
                ``LONGEST``, when the node itself undoes a disruption there.
            selector: for ``drain``: label selector of the pods to evict, among those of this run on the node.
            not_ready: for ``kubelet``: wait until the node counts as not ready (about 50 s) before ``meanwhile``.
            before_joining: for ``node-joined``: called with the name and the addresses of the node, before it joins.

        Raises:
            HarnessError: it cannot be performed, proven, kept up or undone.
            StoppedError: the session was interrupted; the disruption was undone.
        """
        if not self._findings.features["disruptive"].present:
            raise HarnessError(f"{what} would disrupt the cluster.", "it needs --allow-disruptive.")
        node = self._place_of(what) if what in PLACED else node
        action = self._action(what, node, selector, not_ready, before_joining)
        where = node or ALL_NODES
        self._say(f"disruption: {what} of {where} begins")
        began = time.monotonic()
        numbers: list[int] = []
        try:
            with self._guarded():
                numbers += [self._watchdog.note(undo) for undo in action.undos]
                _step(what, action.do)
            proofs = [_step(what, lambda: action.prove(self._stop))]
            happened = time.monotonic()
            meanwhile()
            proofs.append(_step(what, action.lasts))
            ending = time.monotonic()
        except RefusedError:
            self._forget(
                numbers
            )  # nothing was done; an existing mark belongs to another run, or to an outer disruption
            raise
        except BaseException as broken:
            try:
                self._take_back(what, action, numbers)
            except HarnessError as left:
                if isinstance(broken, Exception):
                    raise left from broken
                broken.add_note(left.sentence)  # an interrupt remains an interrupt
            raise
        proofs.append(self._take_back(what, action, numbers))
        said = "; ".join(each for each in proofs if each)
        self._say(f"disruption: {what} of {where} is undone")
        return Proof(what, where, said, began, happened, ending, time.monotonic(), action.started)

    def _take_back(self, what: Disruption, action: Action, numbers: list[int]) -> str:
        """Undo everything, shielded from signals, and wait until the cluster is as before; a signal ends that wait."""
        with self._guarded():
            left, waited = undo_all(action.undos, self._cluster, UNDONE)
            if left:
                command = f"'esipp clean --context {self._cluster.context}'"
                names = ", ".join(dict.fromkeys(undo.node for undo in left))
                raise HarnessError(
                    f"Cannot undo the disruption {what} of {names}; {command} undoes it. {waited.state}",
                    f"run {command}.",
                )
            self._forget(numbers)
        return _step(what, action.back)

    def _forget(self, numbers: list[int]) -> None:
        for number in numbers:
            self._watchdog.undone(number)

    def _guarded(self) -> AbstractContextManager[None]:
        return self._guard() if threading.current_thread() is threading.main_thread() else nullcontext()

    def _action(
        self,
        what: Disruption,
        node: str,
        selector: str,
        not_ready: bool,
        before_joining: Callable[[str, Addresses], object],
    ) -> Action:
        cluster, by, bound = self._cluster, owner(), LONGEST.get(what, 0.0)
        match what:
            case Disruption.CORDON:
                return Cordon(cluster, node, by)
            case Disruption.EXCLUDE:
                return Exclude(cluster, node, by)
            case Disruption.DRAIN:
                if not selector:
                    raise HarnessError("A drain needs a selector of the pods to evict.", "pass a label selector.")
                return Drain(cluster, node, by, self._run, selector)
            case Disruption.KUBE_PROXY | Disruption.SPEAKER | Disruption.NETWORK_AGENT:
                return Restart(cluster, what, node)
            case Disruption.PROXY_MODE:
                return ProxyMode(cluster, by)
            case Disruption.PROXY_SLOW:
                return ProxySlow(cluster, by)
            case Disruption.PROXY_UPGRADED | Disruption.NETWORK_AGENT_UPGRADED:
                return Upgraded(cluster, by, what, self._images.get(what, ""))
            case Disruption.TAINT:
                return Taint(cluster, node, by)
            case Disruption.CONNTRACK_DELETED:
                return EntriesDeleted(cluster, self._run, node, self._way(node))
            case Disruption.API_SERVER:
                return ApiServerAway(cluster, what, by, self._control_planes(), bound)
            case Disruption.API_SERVERS_IN_TURN:
                return ApiServersInTurn(cluster, what, by, self._control_planes(), bound)
            case Disruption.API_SLOW:
                return ApiServerSlow(cluster, what, by, self._control_planes(), bound)
            case Disruption.BALANCER_CUT_OFF:
                balancer = self._balancer()
                return BalancerCutOff(cluster, what, by, self._control_planes(), bound, balancer)
            case Disruption.NODE_JOINED:
                planes = self._control_planes()
                like = self._way(self._worker(planes))[-1]
                return NodeJoined(cluster, self._run, by, next(iter(planes.items())), like, bound, before_joining)
            case Disruption.NODE_RESTARTED:
                return NodeRestarted(cluster, by, node, self._way(node), bound)
        nodes = {node: self._way(node)}
        if what in (*STOPPED, Disruption.PROXY_SICK):
            return AgentDisturbed(cluster, what, by, nodes, bound)
        match what:
            case Disruption.KUBELET:
                return KubeletStopped(cluster, what, by, nodes, bound, not_ready)
            case Disruption.NODE_DELETED:
                return NodeDeleted(cluster, what, by, nodes, bound)
            case Disruption.NODE_LEFT:
                return NodeLeft(cluster, what, by, nodes, bound)
            case Disruption.ADDRESS_ADDED:
                return AddressAdded(cluster, what, by, nodes, bound)
            case Disruption.NODE_READDRESSED:
                return NodeReaddressed(cluster, what, by, nodes, bound)
        return OnNodes(cluster, what, by, nodes, bound)

    def _place_of(self, what: Disruption) -> str:
        """The node of what has one of its own; "" for all control plane nodes.

        Raises:
            HarnessError: there is no such pod.
        """
        if what is Disruption.NODE_JOINED:
            return new_node.name_of(self._run)
        if what is not Disruption.CONTROLLER_STOPPED:
            return ""
        pods = _step(what, lambda: agent_pods(self._cluster, what))
        nodes = sorted({str(pod["spec"].get("nodeName", "")) for pod in pods} - {""})
        if not nodes:
            raise HarnessError("Cannot find the load balancer's controller.", "see 'kubectl get pods -A'.")
        return nodes[0]

    def _balancer(self) -> tuple[str, ...]:
        """The addresses from which the reference load balancer asks the API server."""
        if self._findings.reference is None:
            raise HarnessError("There is no reference load balancer.", "ci/conformance creates one.")
        return tuple(self._findings.reference.addresses.values())

    def _way(self, node: str) -> tuple[str, ...]:
        """The command that runs commands on a node."""
        way = self._findings.on_node(node, [])
        if way is None:
            raise HarnessError(
                f"Cannot reach node {node} without Kubernetes.",
                "disruptions on nodes need nodes that are containers on this machine, as kind's are.",
            )
        return tuple(way)

    def _worker(self, planes: Collection[str]) -> str:
        """A node that does not run the API server, or else any."""
        names = sorted(str(node["metadata"]["name"]) for node in self._cluster.list("/api/v1/nodes"))
        return min(names, key=lambda name: name in planes)

    def _control_planes(self) -> dict[str, tuple[str, ...]]:
        """The nodes with a pod of the API server, and the commands to enter them."""
        names = sorted({pod["spec"]["nodeName"] for pod in api_servers(self._cluster)})
        if not names:
            raise HarnessError(
                "Cannot find a node that runs the API server.", "no pod has the label component=kube-apiserver."
            )
        return {name: self._way(name) for name in names}


T = TypeVar("T")


def _step(what: Disruption, step: Callable[[], T]) -> T:
    """Take a step; an error of the API server becomes an error of the disruption."""
    try:
        return step()
    except (ApiError, UnreachableError) as broken:
        raise HarnessError(
            f"Cannot perform and prove the disruption {what}: {broken}", "check the health of the cluster."
        ) from None
