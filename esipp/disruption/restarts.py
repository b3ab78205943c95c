"""Restarts of agents that DaemonSets replace: kube-proxy, the network add-on's, speakers."""

import time

from esipp.base.errors import HarnessError
from esipp.base.interrupt import Stop
from esipp.base.json import Json
from esipp.base.waiting import Budget, Reading, converge
from esipp.checks.disruption import Disruption
from esipp.cluster.client import ApiError, Cluster, UnreachableError
from esipp.cluster.leases import moment
from esipp.disruption.actions import Action
from esipp.disruption.agents import agent_pods, owner_of
from esipp.disruption.marks import is_ready

GONE = Budget("termination of a pod", 30.0, need=1, spacing=0.1)
AGAIN = Budget("the DaemonSet's next pod to be ready", 120.0, need=1, spacing=0.2)


class Restart(Action):
    """The restart of the pods of a kind, on a node or on all nodes one after the other.

    The last replacement starts while the caller observes. The DaemonSet replaces the pods, so there is no rollback.
    How long a restart lasts is undefined.
    """

    def __init__(self, cluster: Cluster, what: Disruption, node: str) -> None:
        self._cluster, self._what, self._node = cluster, what, node
        self._last: Json = {}
        self._ended = 0.0
        self._started: list[float] = []

    @property
    def started(self) -> tuple[float, ...]:
        """When the replacements' containers started."""
        return tuple(self._started)

    def prove(self, stop: Stop) -> str:
        """Delete each pod, and wait until each one except the last is replaced."""
        pods = [p for p in agent_pods(self._cluster, self._what) if self._node in ("", p["spec"].get("nodeName"))]
        if not pods:
            raise HarnessError(
                f"There is no pod of {self._what} on {self._node or 'any node'}.", "see 'kubectl get pods -A'."
            )
        said = []
        for pod in sorted(pods, key=lambda pod: str(pod["spec"]["nodeName"])):
            if self._last:
                said.append(self._successor())
            stop.check()
            self._end(pod)
            self._last = pod
        return "; ".join([*said, f"deleted {_named(self._last)}"])

    def back(self) -> str:
        """Wait until the last deleted pod, if any, is replaced."""
        return self._successor() if self._last else ""

    def _end(self, pod: Json) -> None:
        path = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}"
        self._ended = time.monotonic()
        self._cluster.delete(path)

        def look() -> Reading:
            try:
                now = self._cluster.request("GET", path)["metadata"]
            except ApiError as refused:
                return Reading(refused.status == 404, refused.message)
            ends = now["uid"] != pod["metadata"]["uid"] or bool(now.get("deletionTimestamp"))
            return Reading(ends, "terminating" if ends else "not terminating")

        converge(look, GONE).required(f"Pod {_named(pod)} does not terminate", f"see 'kubectl get --raw {path}'.")

    def _successor(self) -> str:
        before, node = self._last, self._last["spec"]["nodeName"]
        found: list[Json] = []

        def look() -> Reading:
            try:
                pods = agent_pods(self._cluster, self._what)
            except UnreachableError as silent:
                return Reading(False, str(silent))
            there = [p for p in pods if p["spec"].get("nodeName") == node and owner_of(p) == owner_of(before)]
            found[:] = [p for p in there if p["metadata"]["uid"] != before["metadata"]["uid"]]
            ready = len(there) == len(found) == 1 and is_ready(found[0])
            return Reading(ready, ", ".join(_named(pod) for pod in there) or "no pod")

        converge(look, AGAIN).required(
            f"The replacement of pod {_named(before)} is not ready", "see 'kubectl get pods -A'."
        )
        self._started.append(started(found[0], self._ended))
        return f"{_named(before)} was replaced by {_named(found[0])} on {node}"


def started(pod: Json, ended: float) -> float:
    """When a pod's last container started, by our clock; the node's may differ: not before its predecessor ended."""
    running = (each.get("state", {}).get("running", {}) for each in pod["status"].get("containerStatuses") or [])
    times = [at for each in running if (at := moment(each.get("startedAt", ""))) is not None]
    now = time.monotonic()
    return min(now, max(ended, now - (time.time() - max(times)))) if times else now


def _named(pod: Json) -> str:
    return f"{pod['metadata']['name']} (uid {pod['metadata']['uid']})"
