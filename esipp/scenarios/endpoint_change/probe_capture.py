"""Capture of the load balancer's own health probes, on every node."""

import time
from collections.abc import Collection, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from esipp.packets.capture import IN, REQUEST
from esipp.packets.scope import Scope
from esipp.packets.tap import Tap
from esipp.scenarios.endpoint_change.health_probes import Arrival
from esipp.testbed.clients import Clients

STEPPED = 1.0
"""Seconds by which the wall clock may drift from the monotonic one during the scenario."""


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
class Hearing:
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
        """Stop; what arrived, by Service, and nothing if the clock was stepped, which packets are told by.

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
