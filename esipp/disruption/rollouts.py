"""Agents of all nodes, kube-proxy or Cilium's, of another image; kube-proxy in another mode or slower; and back."""

import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from esipp.base.errors import HarnessError
from esipp.base.interrupt import Stop
from esipp.base.json import Json
from esipp.base.waiting import Budget, Convergence, Reading, converge
from esipp.checks.disruption import ALL_NODES, MIN_SYNC_SECONDS, Disruption
from esipp.cluster.client import ApiError, Cluster, UnreachableError
from esipp.disruption import daemon_sets, kube_proxy
from esipp.disruption.actions import Action
from esipp.disruption.agents import agent_pods
from esipp.disruption.daemon_sets import CILIUM, CONFIG, DAEMON_SETS, KUBE_PROXY, DaemonSet
from esipp.disruption.kube_proxy import OTHERS, mode_of
from esipp.disruption.marks import RefusedError, is_ready
from esipp.disruption.rollback import Undo

ROLLED = Budget("agents of all nodes to be replaced", 60.0, need=1, spacing=0.5)
"""And as many seconds more as the cluster has nodes, times ``DaemonSet.per_node``."""

MOST_BYTES = "200000"
"""How much of a log is read, from its beginning: agents report their mode and version when they start."""
_MODE = re.compile(r"Using (\w+) Proxier")
_PERIOD = re.compile(r'minSyncPeriod="?(\w+)')
_VERSIONS = {
    KUBE_PROXY: re.compile(r"Version info.*?(v\d+\.\d+\.\d+[\w.+-]*)"),
    CILIUM: re.compile(r"\bCilium (\d+\.\d+\.\d+[\w.+-]*)"),
}

PERIOD = f"{MIN_SYNC_SECONDS}s"
"""The minSyncPeriod of a slow kube-proxy."""

Wait = Callable[[Callable[[], Reading], Budget], Convergence]


class Reported(NamedTuple):
    """What an agent reports of itself in its log, and the image that its node runs.

    Only kube-proxy has a ``mode``, and a ``period``, its minSyncPeriod; that is empty if it does not report it.
    """

    mode: str
    version: str
    image_id: str
    period: str = ""


@dataclass
class AgentsReplaced(Action):
    """A change to the agents of all nodes, whose DaemonSet replaces its pods.

    Args:
        cluster: the cluster.
        owner: ``host/pid`` of the run.
    """

    cluster: Cluster
    owner: str
    what: Disruption = field(init=False)
    _known: dict[str, Reported] = field(default_factory=dict, init=False)
    _proven: frozenset[str] = field(default=frozenset(), init=False)
    _mode: str = field(default="", init=False)
    _before: frozenset[str] = field(default=frozenset(), init=False)

    @property
    def agents(self) -> DaemonSet:
        """Whose pods are replaced."""
        return DAEMON_SETS[self.what]

    @property
    def undos(self) -> tuple[Undo, ...]:
        """The rollback: of the objects; their controller does the rest."""
        return (Undo(self.what.value, ALL_NODES, self.owner),)

    def do(self) -> None:
        """Change the objects."""
        self._before = frozenset(self._image_id(pod) for pod in agent_pods(self.cluster, self.what))
        self._change()

    def prove(self, stop: Stop) -> str:
        """Wait until all pods are replaced, and check what each reports."""
        found, seconds = self._roll(stop.converge)
        self._proven = frozenset(self._known)
        if wrong := self._wrong(found):
            title = self.agents.title
            raise HarnessError(f"{title} was replaced on all nodes, but {wrong}.", "see the logs of its pods.")
        how = daemon_sets.at_once(self.cluster.request("GET", self.agents.path))
        return f"{self._said(found)}, {how} in {seconds:.1f} s"

    def lasts(self) -> str:
        """Check that the same pods are still there."""
        now = {pod["metadata"]["uid"] for pod in agent_pods(self.cluster, self.what)}
        if not self._proven <= now:
            raise HarnessError(
                f"Pods of {self.agents.title} were replaced once more meanwhile.",
                "check which other client changes its DaemonSet.",
            )
        return "until the end"

    def back(self) -> str:
        """Wait until all pods are replaced once more, and check that each is as before."""
        found, seconds = self._roll(converge)
        if other := {each.image_id for each in found} - self._before - {""}:
            raise HarnessError(
                f"{self.agents.title} has another image than before: {', '.join(sorted(other))}.",
                f"see 'kubectl -n kube-system get daemonset {self.agents.name} -o yaml'.",
            )
        if any(each.mode != self._mode for each in found if self._mode):
            raise HarnessError(
                f"kube-proxy should be in {self._mode} mode again: {self._said(found)}.", "see its pods' logs."
            )
        return f"{self._said(found)} again after {seconds:.1f} s"

    def _change(self) -> None:
        raise NotImplementedError

    def _wrong(self, found: list[Reported]) -> str:
        """Why what all agents report is no proof; else empty."""
        raise NotImplementedError

    def _roll(self, wait: Wait) -> tuple[list[Reported], float]:
        """What each agent reports when all pods are of the newest template, and the seconds until then."""
        found: list[Reported] = []

        def look() -> Reading:
            try:
                if left := _not_replaced(self.cluster, self.agents):
                    return Reading(False, left)
                pods = [pod for pod in agent_pods(self.cluster, self.what) if not is_ending(pod)]
                found[:] = [each for pod in pods if (each := self._reported(pod))]
            except UnreachableError as silent:
                return Reading(False, str(silent))
            return Reading(len(found) == len(pods), f"{len(found)} of {len(pods)} pods report their mode and version")

        waited = wait(look, _budget(self.cluster, self.what)).required(*_not_in_time(self.agents))
        return found, waited.seconds

    def _reported(self, pod: Json) -> Reported | None:
        """What a pod's agent reports; None as long as it does not."""
        uid, name = pod["metadata"]["uid"], pod["metadata"]["name"]
        if uid not in self._known:
            if not is_ready(pod):
                return None
            where = {"container": daemon_sets.container_of(pod, self.agents), "limitBytes": MOST_BYTES}
            try:
                log = self.cluster.text(f"/api/v1/namespaces/kube-system/pods/{name}/log", where)
            except ApiError as refused:
                if refused.status not in (400, 404):  # its container has just started; it has gone
                    raise
                return None
            mode, version = _MODE.search(log), _VERSIONS[self.agents].search(log)
            if not version or (self.agents is KUBE_PROXY and not mode):
                return None
            period = _PERIOD.search(log)
            self._known[uid] = Reported(
                mode[1] if mode else "", version[1], self._image_id(pod), period[1] if period else ""
            )
        return self._known[uid]

    def _image_id(self, pod: Json) -> str:
        """The image of the agent's container as the node reports it; empty if it does not."""
        own = daemon_sets.container_of(pod, self.agents)
        states = pod.get("status", {}).get("containerStatuses") or []
        return next((str(each.get("imageID") or "") for each in states if each.get("name") == own), "")

    def _said(self, found: list[Reported]) -> str:
        """The modes and versions of agents, as text: ``kube-proxy v1.36.3 in nftables mode on 4 nodes``."""
        kinds: dict[str, int] = {}
        for each in found:
            kind = f"{self.agents.title} {each.version}{f' in {each.mode} mode' if each.mode else ''}"
            kinds[kind] = kinds.get(kind, 0) + 1
        return ", ".join(f"{kind} on {number} nodes" for kind, number in sorted(kinds.items()))


@dataclass
class ProxyMode(AgentsReplaced):
    """kube-proxy in another mode: nftables instead of iptables, or iptables instead of nftables."""

    what = Disruption.PROXY_MODE

    def _change(self) -> None:
        self._mode = mode_of(self.cluster.request("GET", CONFIG))
        if self._mode not in OTHERS:
            raise RefusedError(
                f"kube-proxy is in {self._mode or 'an unknown'} mode.",
                f"esipp changes only {' and '.join(sorted(OTHERS))}; nothing was changed.",
            )
        kube_proxy.change_mode(self.cluster, self.owner, OTHERS[self._mode])

    def _wrong(self, found: list[Reported]) -> str:
        modes = {each.mode for each in found}
        return "" if modes == {OTHERS[self._mode]} else f"it reports {self._said(found)}, not {OTHERS[self._mode]}"


@dataclass
class ProxySlow(AgentsReplaced):
    """kube-proxy with a larger minSyncPeriod, in the mode that it has.

    kube-proxy reports the period in its log only with ``-v=2``. Without, the proof is that its pods are newer than the
    configuration, and that nobody changed that meanwhile.
    """

    what = Disruption.PROXY_SLOW

    def lasts(self) -> str:
        """Check that the same pods, and the same configuration, are still there."""
        if self._period() != PERIOD:
            raise HarnessError(
                f"kube-proxy's minSyncPeriod is {self._period() or 'unset'} in its ConfigMap, and no longer {PERIOD}.",
                "check which other client changes the ConfigMap.",
            )
        return super().lasts()

    def _change(self) -> None:
        self._mode = mode_of(self.cluster.request("GET", CONFIG))
        if self._mode not in kube_proxy.MODES or self._period() == PERIOD:
            raise RefusedError(
                f"kube-proxy is in {self._mode or 'an unknown'} mode, with minSyncPeriod {self._period() or 'unset'}.",
                f"esipp sets {PERIOD} where another period was set; nothing was changed.",
            )
        kube_proxy.change_period(self.cluster, self.owner, PERIOD)

    def _wrong(self, found: list[Reported]) -> str:
        others = sorted({each.period for each in found} - {"", PERIOD})
        return f"it reports minSyncPeriod {', '.join(others)}, not {PERIOD}" if others else ""

    def _period(self) -> str:
        return kube_proxy.period_of(self.cluster.request("GET", CONFIG))


@dataclass
class Upgraded(AgentsReplaced):
    """Agents of another image, as by an upgrade.

    Args:
        what: whose: ``proxy-upgraded`` or ``network-agent-upgraded``.
        image: the other image.
    """

    what: Disruption
    image: str = ""

    def _change(self) -> None:
        if not self.image:
            raise RefusedError(f"There is no other image of {self.agents.title}.", f"{self.agents.option} names one.")
        daemon_sets.change_image(self.cluster, self.what, self.owner, self.image)

    def _wrong(self, found: list[Reported]) -> str:
        same = {each.image_id for each in found} & self._before
        return f"{self.image} is the image of before, {', '.join(sorted(same))}" if same else ""


def wait_until_replaced(cluster: Cluster, what: Disruption) -> None:
    """Wait until all pods of the agents that a disruption changes are of their DaemonSet's newest template.

    Raises:
        HarnessError: that does not happen in time.
    """
    agents = DAEMON_SETS[what]

    def look() -> Reading:
        try:
            left = _not_replaced(cluster, agents)
        except (ApiError, UnreachableError) as silent:
            return Reading(False, str(silent))
        return Reading(not left, left or "all replaced")

    converge(look, _budget(cluster, what)).required(*_not_in_time(agents))


def _budget(cluster: Cluster, what: Disruption) -> Budget:
    return replace(ROLLED, seconds=ROLLED.seconds + DAEMON_SETS[what].per_node * len(agent_pods(cluster, what)))


def _not_in_time(agents: DaemonSet) -> tuple[str, str]:
    """The sentence and the hint if not all pods are replaced."""
    hint = f"see 'kubectl -n kube-system rollout status daemonset {agents.name}'."
    return f"{agents.title} is not replaced on all nodes", hint


def _not_replaced(cluster: Cluster, agents: DaemonSet) -> str:
    """How far the controller of a DaemonSet is; empty once all pods are of the newest template and ready."""
    found = cluster.request("GET", agents.path)
    status = found.get("status") or {}
    wanted, new = int(status.get("desiredNumberScheduled", 0)), int(status.get("updatedNumberScheduled", 0))
    ready, seen = int(status.get("numberReady", 0)), int(status.get("observedGeneration", 0))
    if seen >= int(found["metadata"].get("generation", 0)) and new == ready == wanted:
        return ""
    return f"{new} of {wanted} pods are replaced, {ready} are ready"


def is_ending(pod: Json) -> bool:
    """Whether a pod is being deleted. One that has been replaced may be listed for a while."""
    return bool(pod["metadata"].get("deletionTimestamp"))
