"""The reference load balancer's reports: its settings, its decisions, and its health view of the nodes."""

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from esipp.base.errors import HarnessError
from esipp.base.json import Json
from esipp.base.waiting import Budget, Reading, converge
from esipp.checks.endpoint_change import What
from esipp.checks.model import Balancer, Family
from esipp.judging.health_view import Asked, Places, State, Unavailable, Why
from esipp.judging.promise import Checking
from esipp.judging.timeline.events import Decision
from esipp.judging.topology import Node
from esipp.loadbalancers.reference import DEFAULT, Reference, Stream
from esipp.loadbalancers.views.reference import ReferenceView
from esipp.scenarios.endpoint_change import objects as scene
from esipp.scenarios.endpoint_change.changes import Driver
from esipp.scenarios.endpoint_change.judge import Health, Judge
from esipp.scenarios.endpoint_change.polls import shares
from esipp.scenarios.endpoint_change.reported_state import Word
from esipp.scenarios.timeouts import TIMEOUTS, Timeouts

EXCLUDED = "excluded-node"
"""The mark of a node that load balancers must leave out."""


@dataclass
class ReferenceWord(Word):
    """The reports of the reference load balancer on one namespace's Services; it shares our machine's clock.

    ``cluster_nodes`` are those of the cluster, as we know them ourselves.
    """

    reference: Reference
    namespace: str
    cluster_nodes: Collection[Node] = ()
    _settings: Json = field(default_factory=dict)
    _decisions: dict[str, list[Decision]] = field(default_factory=dict)
    _views: dict[Balancer, dict[What, Health]] = field(default_factory=dict)
    _stream: Stream | None = None
    timeouts: Timeouts = TIMEOUTS

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """While decisions are taken down, in a thread.

        Raises:
            HarnessError: it does not answer, or some were missed.
        """
        self._settings = self.reference.view()["settings"]
        self._stream = self.reference.stream(0, self._take)
        try:
            yield
            self._stream.check()
        finally:
            self._stream.close()

    def check(self) -> None:
        """Make sure that no decision was missed.

        Raises:
            HarnessError: some were.
        """
        if self._stream is not None:
            self._stream.check()

    def checking(self, balancer: Balancer) -> Checking:
        """Its health-check settings, as it reports them."""
        if not self._serves(balancer):
            return Checking()
        return Checking(float(self._settings["period"]), int(self._settings["unhealthy"]))

    def settings(self) -> Mapping[str, Any]:
        """What it was started with."""
        return self._settings

    def decisions(self, balancer: Balancer) -> Sequence[Decision]:
        """Its decisions on its Service's nodes; the list grows during the scenario."""
        return self._decisions.setdefault(scene.service_name(balancer), [])

    def look(self, drivers: Mapping[Balancer, Driver]) -> None:
        """Poll the health view after the endpoint changes, until it is right or its checks have had their time.

        Raises:
            HarnessError: it does not answer.
        """

        def ask() -> Reading:
            self._look(drivers)
            wrong = [each for of in self._views.values() for each in of.values() if each.healthy != each.should]
            return Reading(not wrong, f"{len(wrong)} health views are wrong")

        period, failures = float(self._settings.get("period", 0.0)), int(self._settings.get("unhealthy", 0))
        converge(ask, Budget("the load balancer's health view", (failures + 1) * period, need=1, spacing=0.2))

    def _look(self, drivers: Mapping[Balancer, Driver]) -> None:
        """Read the health view of the nodes now."""
        view = ReferenceView(Places(self.cluster_nodes), self.reference)
        for balancer, driver in drivers.items():
            if not self._serves(balancer) or not driver.counted:
                continue
            found = {}
            for what, name in (
                (What.VIEW_LOCAL, scene.service_name(balancer)),
                (What.VIEW_CLUSTER, scene.cluster_service_name(balancer)),
            ):
                healthy = self._healthy(view, name)
                local = what is What.VIEW_LOCAL
                should = driver.open_nodes if local else self._targets(driver.observing.vip.keys())
                found[what] = Health(healthy, frozenset(should))
            self._views[balancer] = found

    def _healthy(self, view: ReferenceView, name: str) -> frozenset[str]:
        """The nodes that it reports as healthy, including unknown ones; none for an unknown Service.

        Raises:
            HarnessError: it does not answer.
        """
        try:
            told = view.ask(Asked(f"{self.namespace}/{name}"))
        except Unavailable as failed:
            if failed.why is not Why.NOT_FOUND:
                raise HarnessError(failed.sentence, failed.hint) from None
            return frozenset()
        strangers = (each.target for each in told.members if each.node is None and each.state is State.HEALTHY)
        return told.healthy.union(strangers)

    def look_again(self, balancers: Collection[Balancer]) -> None:
        """Poll the remaining VIPs of their deleted Cluster Services, until there is none or the time is over.

        Raises:
            HarnessError: it does not answer.
        """
        names = {balancer: scene.cluster_service_name(balancer) for balancer in balancers}
        left: dict[Balancer, frozenset[str]] = {}

        def look() -> Reading:
            own = self._own()
            for balancer, name in names.items():
                left[balancer] = frozenset(own[name]["vips"].values()) if name in own else frozenset()
            return Reading(not any(left.values()), str(left))

        converge(look, self.timeouts.vips_released)
        for balancer, vips in left.items():
            self._views[balancer] = {**self.views(balancer), What.FREED: Health(vips, frozenset())}

    def _serves(self, balancer: Balancer) -> bool:
        """Whether this load balancer reports on it; on the cluster's own only if it is configured as such."""
        return balancer is not Balancer.DEFAULT or DEFAULT in self._settings

    def _own(self) -> dict[str, Json]:
        """Its state of our own Services, by name."""
        return {each["name"]: each for each in self.reference.view()["services"] if each["namespace"] == self.namespace}

    def _targets(self, families: Collection[Family]) -> set[str]:
        """The nodes that a load balancer must use for a VIP of these families, whatever it says of them itself."""
        there = (node for node in self.cluster_nodes if node.usable and EXCLUDED not in node.marks)
        return {node.name for node in there if set(families) <= node.internal.keys()}

    def views(self, balancer: Balancer) -> Mapping[What, Health]:
        """That view, by check."""
        return self._views.get(balancer, {})

    def lines(self, judges: Mapping[Balancer, Judge]) -> list[str]:
        """The share of nodes that it reported as healthy after the changes, as the Azure portal shows it."""
        del judges
        return [
            line
            for balancer, views in self._views.items()
            if (told := shares(views, self._targets(())))
            for line in (f"the load balancer's health view ({balancer.value}):", *told)
        ]

    def addresses(self) -> dict[Family, frozenset[str]]:
        """Its own addresses."""
        return {family: frozenset({address}) for family, address in self.reference.addresses.items()}

    def _take(self, told: Json) -> None:
        if told.get("kind") != "health" or told["namespace"] != self.namespace:
            return
        decision = Decision(float(told["monotonic"]), told["node"], bool(told["healthy"]), told["family"])
        self._decisions.setdefault(told["service"], []).append(decision)
