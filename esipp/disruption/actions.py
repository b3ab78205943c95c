"""Actions: what every disruption does and proves; those of a moment or through the API."""

import re
from dataclasses import dataclass, field

from esipp.base.errors import HarnessError
from esipp.base.interrupt import Stop
from esipp.base.json import Json
from esipp.base.labels import RUN_LABEL
from esipp.base.plural import counted
from esipp.base.waiting import Budget, Reading, converge
from esipp.cluster.client import ApiError, Cluster
from esipp.disruption import marks
from esipp.disruption.marks import UNSCHEDULABLE_TAINT, Mark
from esipp.disruption.rollback import Undo
from esipp.packets.tracking import READ, table_of
from esipp.probing.node_containers import run as run_on

UNTAINTED = Budget("removal of the cordon's taint", 60.0, need=1, spacing=0.2)
DELETED = re.compile(r"(\d+) flow entries have been deleted")
EVICTED = Budget("eviction of the run's pods", 60.0, need=1, spacing=0.5)


class Action:
    """A disruption: its rollback, which is known beforehand as data, and its steps.

    ``prove``, ``lasts`` and ``back`` return a description, or raise HarnessError if the check fails. By default there
    is nothing to undo, to check meanwhile, or to wait for.
    """

    @property
    def undos(self) -> tuple[Undo, ...]:
        """The rollback."""
        return ()

    @property
    def started(self) -> tuple[float, ...]:
        """When the containers of restarted pods started, once they are back."""
        return ()

    def do(self) -> None:
        """Do what needs a shield from signals; it is short."""

    def prove(self, stop: Stop) -> str:
        """Prove that it happened."""
        raise NotImplementedError

    def lasts(self) -> str:
        """Check that it lasted."""
        return ""

    def back(self) -> str:
        """Wait until the cluster is as before."""
        return ""


@dataclass
class Marked(Action):
    """A change to a Node object, with esipp's mark."""

    cluster: Cluster
    node: str
    owner: str
    mark: Mark = field(init=False)

    @property
    def undos(self) -> tuple[Undo, ...]:
        """The rollback."""
        return (Undo(self.mark.value, self.node, self.owner),)

    def do(self) -> None:
        """Make the change."""
        marks.change(self.cluster, self.node, self.mark, self.owner)

    def prove(self, stop: Stop) -> str:
        """Check that the API server shows the change."""
        stop.check()
        return self._shown("it is not")

    def lasts(self) -> str:
        """Check that the API server still shows the change."""
        self._shown("it did not remain so")
        return "the change lasted"

    def back(self) -> str:
        """Check that the API server no longer shows the change."""
        node = marks.read(self.cluster, self.node)
        if marks.is_so(node, self.mark):
            raise HarnessError(
                f"Node {self.node} is {self.mark.name.lower()} again.", "check which other client changes the node."
            )
        return "undone"

    def _shown(self, otherwise: str) -> str:
        node = marks.read(self.cluster, self.node)
        if not marks.is_so(node, self.mark) or marks.owner_of(node, self.mark) != self.owner:
            raise HarnessError(
                f"Node {self.node} should be {self.mark.name.lower()}: {otherwise}.",
                "check which other client changes the node.",
            )
        return f"the Node object is {self.mark.name.lower()} by this run"


class Cordon(Marked):
    """A cordon: the node accepts no new pods."""

    mark = Mark.CORDONED

    def back(self) -> str:
        """Check that the field and the taint that the node controller derives from it are gone."""
        said = super().back()

        def look() -> Reading:
            tainted = marks.is_tainted(marks.read(self.cluster, self.node), UNSCHEDULABLE_TAINT)
            return Reading(not tainted, "tainted" if tainted else "no taint")

        converge(look, UNTAINTED).required(
            f"Node {self.node} keeps the taint of the cordon", "check that the cluster's controller manager is running."
        )
        return said


class Exclude(Marked):
    """The label that excludes a node from external load balancers."""

    mark = Mark.EXCLUDED


class Taint(Marked):
    """The taint by which the cluster autoscaler announces a node's end."""

    mark = Mark.TAINTED


@dataclass
class Drain(Cordon):
    """A cordon, and the eviction of this run's pods that match a selector, and of no other pods."""

    run: str
    selector: str
    evicted: dict[str, str] = field(default_factory=dict)

    def prove(self, stop: Stop) -> str:
        """Check that the node is cordoned, and evict the pods until each is gone or terminating."""
        said = super().prove(stop)
        selector = ",".join(part for part in (f"{RUN_LABEL}={self.run}", self.selector) if part)
        where = {"labelSelector": selector, "fieldSelector": f"spec.nodeName={self.node}"}
        there = self.cluster.list(self._pods, **where)
        self.evicted = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in there}
        if not self.evicted:
            raise HarnessError(f"Node {self.node} has no pod to evict ({selector}).", "check where the pods are.")
        waiting = dict(self.evicted)

        def attempt() -> Reading:
            refusals = [f"{name}: {why}" for name in list(waiting) if (why := self._evict(name, waiting))]
            return Reading(not waiting, "; ".join(refusals) or "all evicted")

        stop.converge(attempt, EVICTED).required(
            f"Pods of node {self.node} are not evicted", "check for PodDisruptionBudgets of others."
        )
        return f"{said}; evicted {', '.join(sorted(self.evicted))}"

    @property
    def _pods(self) -> str:
        return f"/api/v1/namespaces/esipp-{self.run}/pods"

    def _evict(self, name: str, waiting: dict[str, str]) -> str:
        """Request an eviction, and return why it was refused for now. Terminating and replaced pods are done."""
        path = f"{self._pods}/{name}"
        body: Json = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}}
        try:
            self.cluster.request("POST", f"{path}/eviction", body=body)
            pod = self.cluster.request("GET", path)["metadata"]
        except ApiError as refused:
            if refused.status not in (404, 429):
                raise
            if refused.status == 429:  # a disruption budget: allowed a little later
                return refused.message
            del waiting[name]
            return ""
        if pod["uid"] == waiting[name] and not pod.get("deletionTimestamp"):
            return "it is not terminating"
        del waiting[name]
        return ""


class EntriesDeleted(Action):
    """Connection tracking entries of this run's Services, deleted on a node: nothing is left to undo."""

    def __init__(self, cluster: Cluster, run: str, node: str, way: tuple[str, ...]) -> None:
        self._cluster, self._run, self._node, self._way = cluster, run, node, way
        self._number = 0

    def do(self) -> None:
        """Delete them: by the nodePorts of the run's Services, and by their VIPs."""
        services = self._cluster.list(f"/api/v1/namespaces/esipp-{self._run}/services")
        ports = {port["nodePort"] for each in services for port in each["spec"]["ports"] if port.get("nodePort")}
        given = [each.get("status", {}).get("loadBalancer", {}).get("ingress") or [] for each in services]
        vips = {each["ip"] for those in given for each in those if each.get("ip")}
        told = run_on(self._way, READ)
        filters = list[str]()  # of what there is: a thousand other ports took 40 s (kind-iptables, 2026-11-28)
        for protocol, _, (host, port) in sorted(table_of(told.stdout)):
            family = "ipv6" if ":" in host else "ipv4"
            own = port in ports and protocol in ("tcp", "udp")
            filters += [f"-f {family} -p {protocol} --orig-port-dst {port}"] if own else []
            filters += [f"-f {family} --orig-dst {host}"] if host in vips else []
        # conntrack says of each filter how many it deleted, and fails if there was none
        lines = [f"conntrack -D {each} 2>&1 >/dev/null || true" for each in dict.fromkeys(filters)]
        done = run_on(self._way, "\n".join(lines)) if lines else told
        if told.returncode != 0:
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
