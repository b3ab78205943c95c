"""The load balancer's own health probes in captured packets: their period, and the failures until it acts. Pure."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

from esipp.checks.model import Family
from esipp.judging.promise import Checking
from esipp.judging.statistics import Distribution
from esipp.scenarios.endpoint_change.timeline import Timeline

LEAST_CHECKS = 3
"""The fewest probes from a source that count as the load balancer's."""


class Arrival(NamedTuple):
    """A SYN to a health-check node port: when it reached the node, on our clock."""

    at: float
    node: str
    source: str


@dataclass(frozen=True)
class Observed:
    """Health probes in packets: the gaps between those of a node, and the failed ones before it was left."""

    sources: tuple[str, ...] = ()
    gaps: Distribution = field(default_factory=Distribution)
    failures: tuple[int, ...] = ()

    @property
    def checking(self) -> Checking:
        """The median gap, and the most failures before any node was left."""
        period = self.gaps.quantile(0.5) if self.gaps.samples else None
        return Checking(period, max(self.failures) if self.failures else None)

    def as_json(self) -> dict[str, Any]:
        """The observation as a ledger record."""
        return {"sources": list(self.sources), "gaps": self.gaps.as_json(), "failures": list(self.failures)}


def observe(arrivals: Sequence[Arrival], lines: Iterable[Timeline]) -> Observed:
    """Period and failures, from the probes that reached the nodes.

    Args:
        arrivals: probes of one Service's health-check node port, without our own.
        lines: the timelines of the endpoint changes.
    """
    by_node: dict[tuple[str, str], list[float]] = {}
    for each in sorted(arrivals):
        by_node.setdefault((each.node, each.source), []).append(each.at)
    known = {key: times for key, times in by_node.items() if len(times) >= LEAST_CHECKS}
    gaps = [after - before for times in known.values() for before, after in pairwise(times)]
    counts = [_failures(line, family, known) for line in lines for family in line.traffic]
    sources = sorted({source for _, source in known})
    return Observed(tuple(sources), Distribution.of(gaps), tuple(count for count in counts if count))


def _failures(line: Timeline, family: Family, known: Mapping[tuple[str, str], Sequence[float]]) -> int:
    """The probes of a family that met a node's 503 until the load balancer left the node; 0 if it did not."""
    seen = line.traffic[family]
    told = line.health.get(family)
    if line.change.up or told is None:
        return 0
    acted = seen.decision
    if acted is None and seen.used and seen.steady:
        acted = seen.at
    if acted is None:
        return 0
    checks = [
        times
        for (node, source), times in known.items()
        if node == line.change.node and (":" in source) is (family is Family.IPV6)
    ]
    return max((sum(1 for at in times if told < at <= acted) for times in checks), default=0)
