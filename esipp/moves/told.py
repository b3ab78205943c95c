"""The reference load balancer's word: its settings, its decisions, its view of the nodes (images/loadbalancer/)."""

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from esipp.loadbalancers.reference import Reference, Stream
from esipp.model import Balancer, Family
from esipp.moves import scene
from esipp.moves.checks import Checking
from esipp.moves.drive import Driver
from esipp.moves.judging import Health
from esipp.moves.rows import What
from esipp.moves.timeline import Decision
from esipp.moves.word import Word

Json = dict[str, Any]


@dataclass
class ReferenceWord(Word):
    """What the reference load balancer tells of the services of one namespace. Its clock is ours: one machine."""

    reference: Reference
    namespace: str
    _settings: Json = field(default_factory=dict)
    _decisions: dict[str, list[Decision]] = field(default_factory=dict)
    _views: dict[Balancer, dict[What, Health]] = field(default_factory=dict)
    _stream: Stream | None = None

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
        """How it checks the nodes, as it tells itself."""
        if balancer is Balancer.DEFAULT:
            return Checking()
        return Checking(float(self._settings["period"]), int(self._settings["unhealthy"]))

    def decisions(self, balancer: Balancer) -> Sequence[Decision]:
        """What it decided of its service's nodes; grows while it is listened to."""
        return self._decisions.setdefault(scene.service_name(balancer), [])

    def look(self, drivers: Mapping[Balancer, Driver]) -> None:
        """Ask for the view of the nodes now, after the moves.

        Raises:
            HarnessError: it does not answer.
        """
        own = [each for each in self.reference.view()["services"] if each["namespace"] == self.namespace]
        nodes = {each["name"]: each["nodes"] for each in own}
        for balancer, driver in drivers.items():
            if balancer is Balancer.DEFAULT or not driver.counted:
                continue
            found = {}
            for what, name in (
                (What.VIEW_LOCAL, scene.service_name(balancer)),
                (What.VIEW_CLUSTER, scene.cluster_service_name(balancer)),
            ):
                if name in nodes:
                    known = {each["node"] for each in nodes[name]}
                    sick = {each["node"] for each in nodes[name] if not each["healthy"]}
                    should = driver.open_nodes if what is What.VIEW_LOCAL else known
                    found[what] = Health(frozenset(known - sick), frozenset(should))
            self._views[balancer] = found

    def views(self, balancer: Balancer) -> Mapping[What, Health]:
        """That view, by row."""
        return self._views.get(balancer, {})

    def addresses(self) -> dict[Family, frozenset[str]]:
        """Its own addresses."""
        return {family: frozenset({address}) for family, address in self.reference.addresses.items()}

    def _take(self, told: Json) -> None:
        if told.get("kind") != "health" or told["namespace"] != self.namespace:
            return
        decision = Decision(float(told["monotonic"]), told["node"], bool(told["healthy"]), told["family"])
        self._decisions.setdefault(told["service"], []).append(decision)
