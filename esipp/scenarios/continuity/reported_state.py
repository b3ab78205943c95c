"""The reference load balancer's reports for continuity: its settings, and each change of the nodes it uses."""

import contextlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field

from esipp.base.json import Json
from esipp.judging.promise import Checking
from esipp.judging.timeline.events import Steer
from esipp.loadbalancers.reference import Reference


@dataclass
class ReportedState:
    """The reports of the reference load balancer on one namespace's Services; it shares our machine's clock.

    ``steers`` is by Service, and grows while it is listened to.
    """

    reference: Reference | None
    namespace: str
    steers: dict[str, list[Steer]] = field(default_factory=dict)

    def checking(self) -> Checking:
        """Its health-check settings, as it reports them.

        Raises:
            HarnessError: it does not answer.
        """
        if self.reference is None:
            return Checking()
        settings = self.reference.view()["settings"]
        timeout = float(settings["timeout"]) if "timeout" in settings else None
        return Checking(float(settings["period"]), int(settings["unhealthy"]), timeout)

    def addresses(self) -> list[str]:
        """Its own addresses, which backends of its proxy see."""
        return list(self.reference.addresses.values()) if self.reference else []

    def lacks(self, service: str, family: str, nodes: Collection[str]) -> list[str]:
        """The nodes to which it currently sends no requests, as it reports; empty without a report."""
        steers = [steer for steer in self.steers.get(service, ()) if steer.family in ("", family)]
        return sorted(set(nodes) - set(steers[-1].nodes)) if steers else []

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """While its decisions are taken down, in a thread.

        Raises:
            HarnessError: it does not answer, or some were missed.
        """
        if self.reference is None:
            yield
            return
        stream = self.reference.stream(0, self._take)
        try:
            yield
            stream.check()
        finally:
            stream.close()

    def _take(self, decision: Json) -> None:
        if decision.get("kind") != "steer" or decision["namespace"] != self.namespace:
            return
        steer = Steer(
            float(decision["monotonic"]), decision["family"], tuple(decision["nodes"]), str(decision.get("why", ""))
        )
        self.steers.setdefault(decision["service"], []).append(steer)
