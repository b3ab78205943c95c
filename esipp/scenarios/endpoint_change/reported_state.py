"""What a balancer tells of itself, where it tells anything: settings, decisions, its view of the nodes."""

import contextlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

from esipp.checks.endpoint_change import What
from esipp.checks.model import Balancer, Family
from esipp.judging.endpoint_change.health_probes import Checking
from esipp.judging.endpoint_change.judge import Health, Judge
from esipp.judging.endpoint_change.polls import Poll
from esipp.judging.endpoint_change.timeline import Decision
from esipp.scenarios.endpoint_change.changes import Driver


class Word:
    """The word of balancers that tell nothing."""

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
        """What it was started with, as it tells; empty where it tells nothing."""
        return {}

    def decisions(self, balancer: Balancer) -> Sequence[Decision]:
        """What it decided of its service's nodes; grows while it is listened to."""
        del balancer
        return ()

    def look(self, drivers: Mapping[Balancer, Driver]) -> None:
        """Ask for the view of the nodes now, after the moves."""

    def look_again(self, balancers: Collection[Balancer]) -> None:
        """Ask which VIPs are left of their Cluster services, which have been deleted."""

    def views(self, balancer: Balancer) -> Mapping[What, Health]:
        """That view, by check."""
        del balancer
        return {}

    def polls(self, balancer: Balancer) -> Sequence[Poll]:
        """What it said when it was asked while pods moved, where it has to be asked."""
        del balancer
        return ()

    def lines(self, judges: Mapping[Balancer, Judge]) -> list[str]:
        """What a summary says of its word."""
        del judges
        return []

    def addresses(self) -> dict[Family, frozenset[str]]:
        """The balancer's own addresses."""
        return {}


NOTHING = Word()
