"""What load balancers report during endpoint changes: settings, decisions, and which nodes they hold for healthy.

The reference load balancer tells each decision when it makes it. A cloud's has to be polled, as often as its provider
tolerates. A poll is no decision: a node's state changed between the last poll with the old state and the first with
the new one, and a report may be older still. So polls give bounds next to the timeline, and no verdict depends on their
times. That a load balancer cannot be asked is recorded, and hinders nothing.
"""

import threading
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, NamedTuple

from esipp.base.errors import EsippError, HarnessError
from esipp.base.json import Json
from esipp.base.waiting import Budget, Reading, converge
from esipp.checks.endpoint_change import What
from esipp.checks.model import Balancer, Family
from esipp.checks.timing import Checking
from esipp.cluster.client import ApiError, Cluster, UnreachableError
from esipp.judging.health_view import Asked, HealthView, Places, Share, State, Unavailable, View, Why
from esipp.judging.timeline import Decision
from esipp.judging.topology import EXCLUDED, Node
from esipp.loadbalancers.reference import DEFAULT, Reference
from esipp.loadbalancers.views import view_for
from esipp.loadbalancers.views.reference import ReferenceView
from esipp.scenarios.endpoint_change import objects
from esipp.scenarios.endpoint_change.evidence import Change, Health, Poll, Result
from esipp.scenarios.reference_reports import ReferenceReports
from esipp.scenarios.timeouts import TIMEOUTS, Timeouts

MOST_SLOWER = 8.0
"""The most by which polls slow down if the provider throttles them."""

ENDING_SECONDS = 90.0
"""Seconds for a poll in progress at the end: longer than the timeout of a command-line tool."""


class Standing(NamedTuple):
    """The nodes with a ready pod after all changes, and the families of the Service's VIPs."""

    nodes: frozenset[str]
    families: frozenset[Family]


class Reported:
    """The reported state of load balancers without reports; ``cluster_nodes`` are those of the cluster."""

    cluster_nodes: Collection[Node] = ()

    def listening(self) -> AbstractContextManager[None]:
        """While decisions are taken down."""
        return nullcontext()

    def check(self) -> None:
        """Make sure that no decision was missed."""

    def checking(self, balancer: Balancer) -> Checking:
        """How it checks the nodes."""
        del balancer
        return Checking()

    def settings(self) -> Mapping[str, Any]:
        """Its settings, as it reports them; empty without a report."""
        return {}

    def decisions(self, balancer: Balancer) -> Sequence[Decision]:
        """What it decided of its service's nodes; grows while it is listened to."""
        del balancer
        return ()

    def look(self, standing: Mapping[Balancer, Standing]) -> None:
        """Read the health view of the nodes after the endpoint changes, of Services whose changes ended well."""

    def look_again(self, balancers: Collection[Balancer]) -> None:
        """Ask which VIPs are left of their Cluster services, which have been deleted."""

    def views(self, balancer: Balancer) -> Mapping[What, Health]:
        """That view, by check."""
        del balancer
        return {}

    def polls(self, balancer: Balancer) -> Sequence[Poll]:
        """Its polled views during the endpoint changes, if it must be polled."""
        del balancer
        return ()

    def lines(self, results: Mapping[Balancer, Result]) -> list[str]:
        """The lines of the summary."""
        del results
        return []

    def addresses(self) -> dict[Family, frozenset[str]]:
        """The balancer's own addresses."""
        return {}

    def _targets(self, families: Collection[Family]) -> frozenset[str]:
        """The nodes that a load balancer must use for a VIP of these families, whatever it says of them itself."""
        there = (node for node in self.cluster_nodes if node.usable and EXCLUDED not in node.marks)
        return frozenset(node.name for node in there if set(families) <= node.internal.keys())


NOTHING = Reported()


# ------------------------------------------------------------------------------------- the reference load balancer
@dataclass
class ReferenceState(Reported):
    """The reports of the reference load balancer on one namespace's Services; it shares our machine's clock.

    ``cluster_nodes`` are those of the cluster, as we know them ourselves.
    """

    reference: Reference
    namespace: str
    cluster_nodes: Collection[Node] = ()
    timeouts: Timeouts = TIMEOUTS
    _views: dict[Balancer, dict[What, Health]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._reports = ReferenceReports(self.reference, self.namespace)

    def listening(self) -> AbstractContextManager[None]:
        """While decisions are taken down, in a thread."""
        return self._reports.listening()

    def check(self) -> None:
        """Make sure that no decision was missed.

        Raises:
            HarnessError: some were.
        """
        self._reports.check()

    def checking(self, balancer: Balancer) -> Checking:
        """Its health-check settings, as it reports them."""
        return replace(self._reports.checking, timeout=None) if self._serves(balancer) else Checking()

    def settings(self) -> Mapping[str, Any]:
        """What it was started with."""
        return self._reports.settings

    def decisions(self, balancer: Balancer) -> Sequence[Decision]:
        """Its decisions on its Service's nodes; the list grows during the scenario."""
        return self._reports.decided.setdefault(objects.service_name(balancer), [])

    def look(self, standing: Mapping[Balancer, Standing]) -> None:
        """Poll the health view after the endpoint changes, until it is right or its checks have had their time.

        Raises:
            HarnessError: it does not answer.
        """

        def ask() -> Reading:
            self._look(standing)
            wrong = [each for of in self._views.values() for each in of.values() if each.healthy != each.should]
            return Reading(not wrong, f"{len(wrong)} health views are wrong")

        seconds = self._reports.checking.bound or 0.0
        converge(ask, Budget("the load balancer's health view", seconds, need=1, spacing=0.2))

    def _look(self, standing: Mapping[Balancer, Standing]) -> None:
        """Read the health view of the nodes now."""
        view = ReferenceView(Places(self.cluster_nodes), self.reference)
        for balancer, (nodes, families) in standing.items():
            if not self._serves(balancer):
                continue
            found = {}
            for what, name in (
                (What.VIEW_LOCAL, objects.service_name(balancer)),
                (What.VIEW_CLUSTER, objects.cluster_service_name(balancer)),
            ):
                healthy = self._healthy(view, name)
                local = what is What.VIEW_LOCAL
                found[what] = Health(healthy, frozenset(nodes if local else self._targets(families)))
            self._views[balancer] = found

    def _healthy(self, view: ReferenceView, name: str) -> frozenset[str]:
        """The nodes that it reports as healthy, including unknown ones; none for an unknown Service.

        Raises:
            HarnessError: it does not answer.
        """
        try:
            reported = view.ask(Asked(f"{self.namespace}/{name}"))
        except Unavailable as failed:
            if failed.why is not Why.NOT_FOUND:
                raise HarnessError(failed.sentence, failed.hint) from None
            return frozenset()
        strangers = (each.target for each in reported.members if each.node is None and each.state is State.HEALTHY)
        return reported.healthy.union(strangers)

    def look_again(self, balancers: Collection[Balancer]) -> None:
        """Poll the remaining VIPs of their deleted Cluster Services, until there is none or the time is over.

        Raises:
            HarnessError: it does not answer.
        """
        names = {balancer: objects.cluster_service_name(balancer) for balancer in balancers}
        left: dict[Balancer, frozenset[str]] = {}

        def look() -> Reading:
            own = self._own()
            for balancer, name in names.items():
                left[balancer] = (
                    frozenset(chain.from_iterable(own[name]["vips"].values())) if name in own else frozenset()
                )
            return Reading(not any(left.values()), str(left))

        converge(look, self.timeouts.vips_released)
        for balancer, vips in left.items():
            self._views[balancer] = {**self.views(balancer), What.FREED: Health(vips, frozenset())}

    def _serves(self, balancer: Balancer) -> bool:
        """Whether this load balancer reports on it; on the cluster's own only if it is configured as such."""
        return balancer is not Balancer.DEFAULT or DEFAULT in self.settings()

    def _own(self) -> dict[str, Json]:
        """Its state of our own Services, by name."""
        return {each["name"]: each for each in self.reference.view()["services"] if each["namespace"] == self.namespace}

    def views(self, balancer: Balancer) -> Mapping[What, Health]:
        """That view, by check."""
        return self._views.get(balancer, {})

    def lines(self, results: Mapping[Balancer, Result]) -> list[str]:
        """The share of nodes that it reported as healthy after the changes, as the Azure portal shows it."""
        del results
        return [
            line
            for balancer, views in self._views.items()
            if (shown := shares(views, self._targets(())))
            for line in (f"the load balancer's health view ({balancer.value}):", *shown)
        ]

    def addresses(self) -> dict[Family, frozenset[str]]:
        """Its own addresses."""
        return {family: frozenset({address}) for family, address in self.reference.addresses.items()}


# ------------------------------------------------------------------------------------------------ polled health views
def polled_state(
    provider: str, cluster: Cluster, namespace: str, services: Mapping[str, Json], nodes: Collection[Node]
) -> Reported:
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
    return PolledState(view, lambda name: cluster.request("GET", f"{home}/services/{name}"), of_cluster, nodes)


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
    own = objects.cluster_service_name(Balancer.DEFAULT)
    return own if own in found else next(iter(found), "")


@dataclass
class PolledState(Reported):
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

    @contextmanager
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
        return self._polls.get(objects.service_name(balancer), []) if balancer is Balancer.DEFAULT else []

    def look(self, standing: Mapping[Balancer, Standing]) -> None:
        """Poll the view after the endpoint changes, until it is right or can no longer be outdated."""
        if Balancer.DEFAULT not in standing:
            return
        nodes, families = standing[Balancer.DEFAULT]
        self._end()  # else two would ask
        targets = self._targets(families)
        for what, name, should in (
            (What.VIEW_LOCAL, objects.service_name(Balancer.DEFAULT), nodes),
            (What.VIEW_CLUSTER, self.of_cluster, targets),
        ):
            if name and not self.absent:
                self._settle(what, name, should)

    def views(self, balancer: Balancer) -> Mapping[What, Health]:
        """That view, by check."""
        return self._views if balancer is Balancer.DEFAULT else {}

    def lines(self, results: Mapping[Balancer, Result]) -> list[str]:
        """The lines of the summary."""
        if self.absent:
            return [f"the load balancer's health view ({self.view.provider}) is not available: {self.absent}"]
        polls = self.polls(Balancer.DEFAULT)
        result = results.get(Balancer.DEFAULT)
        if result is None or not polls:
            return []
        seen = shown(polls, result.changes, result.ends)
        return lines(self.view.provider, self.view.interval, polls, seen, len(result.changes)) + shares(
            self._views, self._targets(set())
        )

    # ------------------------------------------------------------------------------------------------------- asking
    def _end(self) -> None:
        self._stopped.set()
        if self._thread is not None:
            self._thread.join(ENDING_SECONDS)

    def _go_on(self) -> None:
        name = objects.service_name(Balancer.DEFAULT)
        while not self._stopped.is_set() and not self.absent:
            self.poll(name)
            self._stopped.wait(self.view.interval * self._slower)

    def poll(self, name: str) -> View | None:
        """Poll once and record it; None without an answer."""
        asked = time.monotonic()
        try:
            reported = self.view.ask(Asked.of(self.services(name)))
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
        states = reported.states
        worst = {each.node: each for each in reported.members if each.node and each.state is states[each.node]}
        words = {node: each.word for node, each in worst.items()}
        times = {node: each.at for node, each in worst.items() if each.at is not None}
        self._take(Poll(reported.asked, reported.answered, name, states, words, times))
        return reported

    def _take(self, poll: Poll) -> None:
        self._polls.setdefault(poll.service, []).append(poll)

    def _settle(self, what: What, name: str, should: frozenset[str]) -> None:
        last: list[frozenset[str]] = []

        def look() -> Reading:
            reported = self.poll(name)
            if reported is None:
                return Reading(False, self._polls[name][-1].trouble, hopeless=bool(self.absent))
            last[:] = [reported.healthy]
            return Reading(reported.healthy == should, f"healthy: {', '.join(sorted(reported.healthy)) or 'none'}")

        seconds = 2.0 * (self.view.lag + self.view.interval)
        converge(look, Budget("the load balancer's health view", seconds, need=1, spacing=self.view.interval))
        if last:
            self._views[what] = Health(last[-1], should)


@dataclass(frozen=True)
class Shown:
    """When polls showed a change: later than ``after`` and by ``by``, in seconds since its cause.

    ``after`` is 0 if the first poll after the cause showed it.
    """

    change: Change
    after: float
    by: float


def shown(polls: Sequence[Poll], changes: Sequence[Change], ends: Mapping[int, float]) -> list[Shown]:
    """The changes that polls show before their node's next one; few, if changes are faster than polls.

    Args:
        polls: those of one Service, in order.
        changes: its endpoint changes.
        ends: the end of the time that belongs to each change.
    """
    found = []
    for number, change in enumerate(changes):
        same = (each.cause for each in changes[number + 1 :] if each.node == change.node)
        until = next(same, max(ends.values(), default=change.cause) + 1e9)
        before = [poll for poll in polls if poll.answered <= change.cause and not poll.trouble]
        if not before or (change.node in before[-1].healthy) is change.up:
            continue  # as far as known, the state was the same before: a poll would prove nothing
        last = 0.0
        for poll in polls:
            if poll.trouble or poll.asked < change.cause or poll.asked >= until:
                continue
            if (change.node in poll.healthy) is change.up:
                found.append(Shown(change, last, poll.answered - change.cause))
                break
            last = poll.asked - change.cause
    return found


def lines(provider: str, interval: float, polls: Sequence[Poll], seen: Sequence[Shown], moves: int) -> list[str]:
    """The lines of the summary."""
    answered = [poll for poll in polls if not poll.trouble]
    head = f"the load balancer's health view ({provider}): polled {len(polls)} times, every {interval:.0f} s or more"
    if len(answered) < len(polls):
        head += f", {len(polls) - len(answered)} of them without an answer"
    said = [head]
    if seen:
        by = sorted(each.by for each in seen)
        said.append(f"  polls showed {len(seen)} of {moves} endpoint changes, each within {by[-1]:.0f} s")
    elif answered:
        said.append("  polls showed no change before the next one: they are too rare, or the reports too old")
    return said


def shares(views: Mapping[What, Health], nodes: Collection[str]) -> list[str]:
    """The share of healthy nodes after the endpoint changes, as the Azure portal shows it.

    Args:
        views: the last views, by check.
        nodes: those that load balancers must use.
    """
    said = []
    for what, policy in ((What.VIEW_CLUSTER, "Cluster"), (What.VIEW_LOCAL, "Local")):
        if view := views.get(what):
            share, should = Share(len(view.healthy), len(nodes)), Share(len(view.should), len(nodes))
            right = "as expected" if view.healthy == view.should else f"expected {should}"
            said.append(f"  after the endpoint changes, {policy}: {share} of the nodes healthy, {right}")
    return said
