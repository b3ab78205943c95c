"""The reports of the reference load balancer on one namespace's Services, while a scenario listens to them."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

from esipp.base.json import Json
from esipp.checks.timing import Checking
from esipp.judging.timeline import Decision, Steer
from esipp.loadbalancers.reference import Reference, Stream


@dataclass
class ReferenceReports:
    """What it reports; nothing without a reference load balancer. It shares our machine's clock.

    ``decided`` are its decisions on nodes, ``steers`` its changes of routes, by Service. Both grow while it is listened
    to.
    """

    reference: Reference | None
    namespace: str
    decided: dict[str, list[Decision]] = field(default_factory=dict, init=False)
    steers: dict[str, list[Steer]] = field(default_factory=dict, init=False)
    _stream: Stream | None = field(default=None, init=False)

    @cached_property
    def settings(self) -> Json:
        """What it was started with; empty without one.

        Raises:
            HarnessError: it does not answer.
        """
        settings: Json = self.reference.view()["settings"] if self.reference else {}
        return settings

    @property
    def checking(self) -> Checking:
        """Its health-check settings.

        Raises:
            HarnessError: it does not answer.
        """
        if not self.settings:
            return Checking()
        timeout = float(self.settings["timeout"]) if "timeout" in self.settings else None
        return Checking(float(self.settings["period"]), int(self.settings["unhealthy"]), timeout)

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """While its reports are taken down, in a thread.

        Raises:
            HarnessError: it does not answer, or some were missed.
        """
        if self.reference is None:
            yield
            return
        self._stream = self.reference.stream(0, self._take)
        try:
            yield
            self._stream.check()
        finally:
            self._stream.close()

    def check(self) -> None:
        """Make sure that no report was missed.

        Raises:
            HarnessError: some were.
        """
        if self._stream is not None:
            self._stream.check()

    def _take(self, report: Json) -> None:
        if report.get("namespace") != self.namespace:
            return
        at, service, family = report["monotonic"], report["service"], report["family"]
        if report.get("kind") == "health":
            decision = Decision(float(at), report["node"], bool(report["healthy"]), family)
            self.decided.setdefault(service, []).append(decision)
        if report.get("kind") == "steer":
            steer = Steer(float(at), family, tuple(report["nodes"]), str(report.get("why", "")))
            self.steers.setdefault(service, []).append(steer)
