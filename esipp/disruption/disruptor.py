"""Performs disruptions: each proves that it happened, and is undone whatever happens to the run.

Three nets undo them: this process, shielded from signals; the watchdog, if this process is killed; and for what is
done on the nodes themselves a timer there, if both are. ``esipp clean`` finds the marks of whatever is left.
"""

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from types import TracebackType
from typing import Protocol

from esipp.base.errors import HarnessError
from esipp.base.interrupt import Stop
from esipp.checks.check import Feature
from esipp.checks.disruption import ALL_NODES, LONGEST, Disruption, Proof
from esipp.cluster.client import ApiError, Cluster, UnreachableError
from esipp.cluster.namespaces import owner
from esipp.disruption.actions import Cordon, Drain, Exclude
from esipp.disruption.marks import RefusedError
from esipp.disruption.restarts import Restart
from esipp.disruption.rollback import UNDONE, Undo, undo_all
from esipp.disruption.services import ApiServerAway, KubeletStopped
from esipp.disruption.watchdog_client import Leash

Guard = Callable[[], AbstractContextManager[None]]


class Found(Protocol):
    """What preflight found about the cluster, as far as disruptions need it."""

    @property
    def features(self) -> Mapping[str, Feature]: ...  # noqa: D102

    def on_node(self, node: str, command: list[str]) -> list[str] | None: ...  # noqa: D102


class Deed(Protocol):
    """One disruption: what undoes it, known beforehand as data, and the steps.

    ``do`` is short and shielded from signals. ``prove``, ``lasts`` and ``back`` return words; all raise HarnessError
    where it is not so. ``back`` waits until the cluster is as before.
    """

    @property
    def undos(self) -> tuple[Undo, ...]: ...  # noqa: D102

    def do(self) -> None: ...  # noqa: D102

    def prove(self, stop: Stop) -> str: ...  # noqa: D102

    def lasts(self) -> str: ...  # noqa: D102

    def back(self) -> str: ...  # noqa: D102


class Disruptor:
    """Disturbs a cluster, with ``--allow-disruptive`` only.

    Args:
        cluster: whose API is asked.
        findings: what preflight found; without its feature ``disruptive`` nothing is done.
        run_id: only pods of this run are evicted.
        stop: ends the waits of a disruption that has begun; its undoing is never cut short.
        guard: around what must not be disturbed by signals (``fixtures.session.undisturbed``). Signals reach the main
            thread only, so elsewhere it is left out.
        log: a file in which the watchdog says what it did, if it ever does anything.
        say: is told when a disruption begins, and when it is undone.
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
    ) -> None:
        self._cluster, self._findings, self._run = cluster, findings, run_id
        self._stop, self._guard, self._say = stop, guard, say
        self._leash = Leash(cluster.context, cluster.kubeconfig, log)

    def __enter__(self) -> "Disruptor":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """End the watchdog."""
        self._leash.close()

    def perform(
        self,
        what: Disruption,
        node: str,
        meanwhile: Callable[[], None],
        *,
        selector: str = "",
        not_ready: bool = False,
        longest: float | None = None,
    ) -> Proof:
        """Do it, prove it, have ``meanwhile`` called while it is in effect, undo it, prove that.

        What restarts (``kube-proxy``, ``speaker``) is being replaced while ``meanwhile`` runs, and may be back before
        that ends. While ``api-server`` is in effect nothing but this object may call the API: every request hangs.
        Disruptions nest: ``meanwhile`` may perform another one.

        Args:
            what: the disruption.
            node: where. "" is every node for ``speaker``, and all control-plane nodes for ``api-server`` anyway.
            meanwhile: what is to be seen while it is in effect; it is to end soon once ``stop`` is set.
            selector: ``drain``: the label selector of the pods to evict, of those of this run on that node.
            not_ready: ``kubelet``: wait until the node counts as not ready (about 50 s) before ``meanwhile``.
            longest: seconds after which a node undoes by itself what was done there; ``LONGEST`` by default. What
                ``meanwhile`` does must end before.

        Raises:
            HarnessError: it cannot be done, proven, kept up or undone.
            StoppedError: the session ends; it was undone.
        """
        deed = self._deed(what, node, selector, not_ready, longest)
        where = node or ALL_NODES
        self._say(f"disruption: {what} of {where} begins")
        began = time.monotonic()
        numbers: list[int] = []
        try:
            with self._guarded():
                numbers += [self._leash.note(undo) for undo in deed.undos]
                _told(what, deed.do)
            words = [_told(what, lambda: deed.prove(self._stop))]
            happened = time.monotonic()
            meanwhile()
            words.append(_told(what, deed.lasts))
            ending = time.monotonic()
        except RefusedError:
            self._forget(numbers)  # nothing was done; the mark that is there is another's, or of a disruption around us
            raise
        except BaseException as broken:
            try:
                self._take_back(what, deed, numbers)
            except HarnessError as left:
                if isinstance(broken, Exception):
                    raise left from broken
                broken.add_note(left.sentence)  # an interrupt stays one
            raise
        words.append(self._take_back(what, deed, numbers))
        said = "; ".join(word for word in words if word)
        self._say(f"disruption: {what} of {where} is undone")
        return Proof(what, where, said, began, happened, ending, time.monotonic())

    def _take_back(self, what: Disruption, deed: Deed, numbers: list[int]) -> str:
        """Undo all of it, whatever signals come, and wait until the cluster is as before; a signal ends that wait."""
        with self._guarded():
            left, waited = undo_all(deed.undos, self._cluster, UNDONE)
            if left:
                hint = f"esipp clean --context {self._cluster.context} takes that back"
                names = ", ".join(dict.fromkeys(undo.node for undo in left))
                raise HarnessError(f"Still disturbed by {what}: {names}; {hint}. {waited.state}", hint)
            self._forget(numbers)
        return _told(what, deed.back)

    def _forget(self, numbers: list[int]) -> None:
        for number in numbers:
            self._leash.undone(number)

    def _guarded(self) -> AbstractContextManager[None]:
        return self._guard() if threading.current_thread() is threading.main_thread() else nullcontext()

    def _deed(self, what: Disruption, node: str, selector: str, not_ready: bool, longest: float | None) -> Deed:
        if not self._findings.features["disruptive"].present:
            raise HarnessError(f"{what} would disturb the cluster.", "only with --allow-disruptive")
        cluster, by, bound = self._cluster, owner(), longest or LONGEST.get(what, 0.0)
        match what:
            case Disruption.CORDON:
                return Cordon(cluster, node, by)
            case Disruption.EXCLUDE:
                return Exclude(cluster, node, by)
            case Disruption.DRAIN:
                if not selector:
                    raise HarnessError("A drain must be told which of our pods are evicted.", "by a label selector")
                return Drain(cluster, node, by, self._run, selector)
            case Disruption.KUBE_PROXY | Disruption.SPEAKER:
                return Restart(cluster, what, node)
            case Disruption.API_SERVER:
                return ApiServerAway(cluster, by, self._control_planes(), bound)
            case Disruption.KUBELET:
                return KubeletStopped(cluster, by, node, self._way(node), bound, not_ready)

    def _way(self, node: str) -> tuple[str, ...]:
        """How a command is run on a node."""
        way = self._findings.on_node(node, [])
        if way is None:
            raise HarnessError(f"Node {node} cannot be reached but through Kubernetes.", "only nodes of kind can")
        return tuple(way)

    def _control_planes(self) -> dict[str, tuple[str, ...]]:
        """The nodes with an API server's pod, and how each is reached."""
        pods = self._cluster.list("/api/v1/namespaces/kube-system/pods", labelSelector="component=kube-apiserver")
        names = sorted({pod["spec"]["nodeName"] for pod in pods})
        if not names:
            raise HarnessError("No node is known to run the API server.", "no pod has component=kube-apiserver")
        return {name: self._way(name) for name in names}


def _told(what: Disruption, step: Callable[[], "str | None"]) -> str:
    """A step; a refusal or silence of the API server is told as what it keeps us from."""
    try:
        return step() or ""
    except (ApiError, UnreachableError) as broken:
        raise HarnessError(f"{what} cannot be done and proven: {broken}", "is the cluster well otherwise?") from None
