"""The load balancer's own health checks: captured on every node, and their period and the failures until it acts."""

import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple

from esipp.checks.model import Family
from esipp.judging.statistics import Distribution
from esipp.packets.capture import IN, REQUEST, Scope, Tap
from esipp.scenarios.endpoint_change.evidence import Observed, Timeline
from esipp.testbed.clients import Clients

LEAST_CHECKS = 3
"""The fewest probes from a source that count as the load balancer's."""

STEPPED = 1.0
"""Seconds by which the wall clock may drift from the monotonic one during the scenario."""


class Arrival(NamedTuple):
    """A SYN to a health-check node port: when it reached the node, on our clock."""

    at: float
    node: str
    source: str


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
    answered_503 = line.health.get(family)
    if line.change.up or answered_503 is None:
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
    return max((sum(1 for at in times if answered_503 < at <= acted) for times in checks), default=0)


def _offset() -> float:
    """What the wall clock is ahead of the monotonic one."""
    return time.time() - time.monotonic()


@dataclass(frozen=True)
class StrangersScope(Scope):
    """Packets at these ports that are not ``ours``: our own health checks are many, and known."""

    ours: Collection[str] = ()

    def expression(self) -> str:
        """The filter for tcpdump."""
        hosts = " or ".join(f"host {address}" for address in sorted(self.ours))
        return f"({super().expression()})" + (f" and not ({hosts})" if hosts else "")


@dataclass
class ProbeCapture:
    """Captures on all nodes with an agent; ``trouble`` names a missing one, which is no failure."""

    clients: Clients
    ports: Mapping[int, str]
    ours: Collection[str]
    trouble: str = ""
    _offset: float = 0.0
    _taps: list[Tap] = field(default_factory=list)

    def begin(self) -> None:
        """Start, and wait until all listen. ``ports`` are the health-check node ports, each with its Service."""
        scope = StrangersScope([("TCP", port) for port in self.ports], ours=self.ours)
        commands = {node: self.clients.on_agent(node) for node in sorted(self.clients.agents)}
        self._offset = _offset()
        self._taps = [Tap(node, command, scope) for node, command in commands.items()]
        with ThreadPoolExecutor(max_workers=12) as pool:
            self.trouble = "; ".join(filter(None, pool.map(Tap.listening, self._taps)))

    def end(self) -> dict[str, list[Arrival]]:
        """Stop; what arrived, by Service, and nothing if the clock by which packets are dated was stepped.

        The nodes' clock is taken for this machine's (kind: it is).
        """
        offset = _offset()
        with ThreadPoolExecutor(max_workers=12) as pool:
            captures = list(pool.map(Tap.stop, self._taps))
        found: dict[str, list[Arrival]] = {service: [] for service in self.ports.values()}
        if abs(offset - self._offset) > STEPPED:
            self.trouble = f"the clock jumped by {offset - self._offset:+.0f} s during the packet capture"
            return found
        for capture in captures:
            for each in capture.sightings:
                service = self.ports.get(each.destination[1])
                if service and each.kind == REQUEST and each.direction == IN:
                    found[service].append(Arrival(each.time - offset, capture.node, each.source[0]))
        return found

    def stop(self) -> None:
        """Stop whatever still runs."""
        for tap in self._taps:
            tap.stop()
