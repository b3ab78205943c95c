"""The reference load balancer's word: how it checks nodes, and each change of the nodes it sends requests to."""

import contextlib
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from typing import Any

from esipp.judging.continuity.evidence import Steer
from esipp.judging.endpoint_change.health_probes import Checking
from esipp.loadbalancers.reference import Reference

Json = dict[str, Any]


@dataclass
class Told:
    """What it tells of the Services of one namespace; without one, nothing. Its clock is ours: one machine.

    ``steers`` is by Service, and grows while it is listened to.
    """

    reference: Reference | None
    namespace: str
    steers: dict[str, list[Steer]] = field(default_factory=dict)

    def checking(self) -> Checking:
        """How it checks the nodes, as it tells itself.

        Raises:
            HarnessError: it does not answer.
        """
        if self.reference is None:
            return Checking()
        settings = self.reference.view()["settings"]
        return Checking(float(settings["period"]), int(settings["unhealthy"]))

    def addresses(self) -> list[str]:
        """Its own addresses, which backends of its proxy see."""
        return list(self.reference.addresses.values()) if self.reference else []

    def lacks(self, service: str, family: str, nodes: Collection[str]) -> list[str]:
        """Those of these nodes to which it does not send requests now, as it tells; none, where it tells nothing."""
        told = [steer for steer in self.steers.get(service, ()) if steer.family in ("", family)]
        return sorted(set(nodes) - set(told[-1].nodes)) if told else []

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

    def _take(self, told: Json) -> None:
        if told.get("kind") != "steer" or told["namespace"] != self.namespace:
            return
        steer = Steer(float(told["monotonic"]), told["family"], tuple(told["nodes"]), str(told.get("why", "")))
        self.steers.setdefault(told["service"], []).append(steer)
