"""Polled health views: a load balancer's view of the nodes during endpoint changes, each poll with its time.

As often as its provider tolerates, and no more. That it can't be asked is told, and hinders nothing.
"""

import contextlib
import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from esipp.base.errors import EsippError
from esipp.base.json import Json
from esipp.base.waiting import Budget, Reading, converge
from esipp.checks.endpoint_change import What
from esipp.checks.model import Balancer, Family
from esipp.cluster.client import ApiError, Cluster, UnreachableError
from esipp.judging.health_view import Asked, HealthView, Unavailable, View, Why
from esipp.judging.topology import Node
from esipp.loadbalancers.views import view_for
from esipp.scenarios.endpoint_change import objects as scene
from esipp.scenarios.endpoint_change.changes import Driver
from esipp.scenarios.endpoint_change.judge import Health, Judge
from esipp.scenarios.endpoint_change.polls import Poll, lines, shares, shown
from esipp.scenarios.endpoint_change.reference_state import EXCLUDED
from esipp.scenarios.endpoint_change.reported_state import NOTHING, Word

MOST_SLOWER = 8.0
"""The most by which polls slow down if the provider throttles them."""

ENDING_SECONDS = 90.0
"""Seconds for a poll in progress at the end: longer than the timeout of a command-line tool."""


def polled_word(
    provider: str, cluster: Cluster, namespace: str, services: Mapping[str, Json], nodes: Collection[Node]
) -> Word:
    """The reported state of the cluster's own load balancer, by its provider's name; nothing without a health view.

    Args:
        provider: see ``view_for``.
        cluster: where the Services are, and the pods, which are targets of some load balancers.
        namespace: that of both.
        services: those that there are, by name, as they were created.
        nodes: the cluster's.
    """
    home = f"/api/v1/namespaces/{namespace}"

    def pods() -> dict[str, str]:
        there = cluster.list(f"{home}/pods")
        return {
            each["ip"]: pod["spec"]["nodeName"]
            for pod in there
            for each in (pod.get("status") or {}).get("podIPs") or []
            if pod["spec"].get("nodeName")
        }

    view = view_for(provider, nodes, pods=pods)
    if view is None:
        return NOTHING
    of_cluster = any_of_cluster(services)
    return PolledWord(view, lambda name: cluster.request("GET", f"{home}/services/{name}"), of_cluster, nodes)


def any_of_cluster(services: Mapping[str, Json]) -> str:
    """A Service of the cluster's own load balancer with the policy Cluster, whichever suite wanted it; empty if none.

    Its view is the same whose pods ever are behind it, and another load balancer would be paid for.
    """
    found = [
        name
        for name, each in sorted(services.items(), key=lambda item: (len(item[0]), item[0]))
        if each["spec"].get("type") == "LoadBalancer"
        and not each["spec"].get("loadBalancerClass")
        and each["spec"].get("externalTrafficPolicy", "Cluster") == "Cluster"
        and any(port.get("protocol", "TCP") == "TCP" for port in each["spec"]["ports"])
    ]
    own = scene.cluster_service_name(Balancer.DEFAULT)
    return own if own in found else next(iter(found), "")


@dataclass
class PolledWord(Word):
    """The polled state of the cluster's own load balancer.

    ``view`` is the health view, ``services`` reads a Service by its name, ``of_cluster`` is the name of one with policy
    Cluster (empty: there is none), ``cluster_nodes`` are those of the cluster.
    ``absent`` says why the view is not available, once that is known.
    """

    view: HealthView
    services: Callable[[str], Json]
    of_cluster: str = ""
    cluster_nodes: Collection[Node] = ()
    absent: str = ""
    _polls: dict[str, list[Poll]] = field(default_factory=dict)
    _views: dict[What, Health] = field(default_factory=dict)
    _stopped: threading.Event = field(default_factory=threading.Event)
    _slower: float = 1.0
    _thread: threading.Thread | None = None

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """Poll it in a thread, for the duration of the context."""
        named = f"health view ({self.view.provider})"
        self._thread = threading.Thread(target=self._go_on, name=named, daemon=True)
        self._thread.start()
        try:
            yield
        finally:
            self._end()

    def polls(self, balancer: Balancer) -> Sequence[Poll]:
        """The polls of the Service with endpoint changes."""
        return self._polls.get(scene.service_name(balancer), []) if balancer is Balancer.DEFAULT else []

    def look(self, drivers: Mapping[Balancer, Driver]) -> None:
        """Poll the view after the endpoint changes, until it is right or can no longer be outdated."""
        driver = drivers.get(Balancer.DEFAULT)
        if driver is None or not driver.counted:
            return
        self._end()  # else two would ask
        targets = self._targets(set(driver.observing.vip))
        for what, name, should in (
            (What.VIEW_LOCAL, scene.service_name(Balancer.DEFAULT), frozenset(driver.open_nodes)),
            (What.VIEW_CLUSTER, self.of_cluster, targets),
        ):
            if name and not self.absent:
                self._settle(what, name, should)

    def views(self, balancer: Balancer) -> Mapping[What, Health]:
        """That view, by check."""
        return self._views if balancer is Balancer.DEFAULT else {}

    def addresses(self) -> dict[Family, frozenset[str]]:
        """Its own are not known."""
        return {}

    def lines(self, judges: Mapping[Balancer, Judge]) -> list[str]:
        """The lines of the summary."""
        if self.absent:
            return [f"the load balancer's health view ({self.view.provider}) is not available: {self.absent}"]
        polls = self.polls(Balancer.DEFAULT)
        judge = judges.get(Balancer.DEFAULT)
        if judge is None or not polls:
            return []
        result = judge.result
        seen = shown(polls, result.changes, result.ends)
        return lines(self.view.provider, self.view.interval, polls, seen, len(result.changes)) + shares(
            self._views, self._targets(set())
        )

    def _targets(self, families: Collection[Family]) -> frozenset[str]:
        """The nodes that a load balancer must use for a VIP of these families."""
        there = (node for node in self.cluster_nodes if node.usable and EXCLUDED not in node.marks)
        return frozenset(node.name for node in there if set(families) <= node.internal.keys())

    # ------------------------------------------------------------------------------------------------------- asking
    def _end(self) -> None:
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(ENDING_SECONDS)

    def _go_on(self) -> None:
        name = scene.service_name(Balancer.DEFAULT)
        while not self._stopped.is_set() and not self.absent:
            self.poll(name)
            self._stopped.wait(self.view.interval * self._slower)

    def poll(self, name: str) -> View | None:
        """Poll once and record it; None without an answer."""
        asked = time.monotonic()
        try:
            told = self.view.ask(Asked.of(self.services(name)))
        except Unavailable as failed:
            if failed.lasting:
                self.absent = str(failed).replace("\n", " ")
            if failed.why in (Why.THROTTLED, Why.TIMEOUT):
                self._slower = min(MOST_SLOWER, 2.0 * self._slower)
            self._take(Poll(asked, time.monotonic(), name, trouble=failed.sentence))
            return None
        except (ApiError, UnreachableError, EsippError, OSError) as broken:
            self._take(Poll(asked, time.monotonic(), name, trouble=f"the Service could not be read: {broken}"))
            return None
        self._slower = 1.0
        states = told.states
        worst = {each.node: each for each in told.members if each.node and each.state is states[each.node]}
        words = {node: each.word for node, each in worst.items()}
        times = {node: each.at for node, each in worst.items() if each.at is not None}
        self._take(Poll(told.asked, told.answered, name, states, words, times))
        return told

    def _take(self, poll: Poll) -> None:
        self._polls.setdefault(poll.service, []).append(poll)

    def _settle(self, what: What, name: str, should: frozenset[str]) -> None:
        last: list[frozenset[str]] = []

        def look() -> Reading:
            told = self.poll(name)
            if told is None:
                return Reading(False, self._polls[name][-1].trouble, hopeless=bool(self.absent))
            last[:] = [told.healthy]
            return Reading(told.healthy == should, f"healthy: {', '.join(sorted(told.healthy)) or 'none'}")

        seconds = 2.0 * (self.view.lag + self.view.interval)
        converge(look, Budget("the load balancer's health view", seconds, need=1, spacing=self.view.interval))
        if last:
            self._views[what] = Health(last[-1], should)
