"""Reported state: the settings, decisions and health view that a load balancer reports, if it does."""

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from esipp.checks.endpoint_change import What
from esipp.checks.model import Balancer, Family
from esipp.judging.promise import Checking
from esipp.judging.timeline.events import Decision
from esipp.scenarios.endpoint_change.changes import Driver
from esipp.scenarios.endpoint_change.judge import Health, Judge
from esipp.scenarios.endpoint_change.polls import Poll


class Word:
    """The reported state of load balancers without reports."""

    @contextlib.contextmanager
    def listening(self) -> Iterator[None]:
        """While decisions are taken down."""
        yield

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

    def look(self, drivers: Mapping[Balancer, Driver]) -> None:
        """Read the health view of the nodes after the endpoint changes."""

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

    def lines(self, judges: Mapping[Balancer, Judge]) -> list[str]:
        """The lines of the summary."""
        del judges
        return []

    def addresses(self) -> dict[Family, frozenset[str]]:
        """The balancer's own addresses."""
        return {}


NOTHING = Word()
