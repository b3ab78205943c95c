"""The continuous probes of one balancer's service, from one client outside, by a prober process of its own."""

from collections.abc import Mapping, Sequence
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, field

from esipp.errors import HarnessError
from esipp.model import Family
from esipp.moves.samples import Stream, read_health, read_request
from esipp.moves.scene import PORT
from esipp.probing.jobs import Job
from esipp.probing.orders import Line
from esipp.probing.orders import Stream as Running
from esipp.probing.prober import Clock, Prober

SPACING = 0.02
"""Seconds between two requests through the VIP, and between two health checks: no coarser than this."""

PORT_SPACING = 0.04
"""Seconds between two requests at a nodePort; these tell no response times of the balancer's."""

TIMEOUT = 0.9
"""Seconds until a request counts as lost: below the second SYN, which would be answered by somebody else."""

ENDLESS = 1_000_000
END_SECONDS = 10.0
CONNECT_SECONDS = 60.0


@dataclass(frozen=True)
class Targets:
    """Where one service is asked: VIPs by family; and the nodes' addresses by family, at two ports.

    NodePorts are asked in the first family only.
    """

    vips: Mapping[Family, str]
    nodes: Mapping[str, Mapping[Family, str]]
    node_port: int
    health_port: int


@dataclass
class Observing:
    """Probes that fly from ``start`` to ``stop``; results come into the streams as they arrive."""

    name: str
    prober: Prober
    targets: Targets
    clock: Clock
    vip: dict[Family, Stream] = field(default_factory=dict)
    ports: dict[str, Stream] = field(default_factory=dict)
    health: dict[Family, dict[str, Stream]] = field(default_factory=dict)
    _running: list[Running] = field(default_factory=list)

    def start(self) -> None:
        """Begin to ask."""
        told = self.targets
        for family, vip in told.vips.items():
            self.vip[family] = self._stream(f"VIP {vip}", "tcp", vip, PORT)
        for node, addresses in told.nodes.items():
            for family in told.vips:
                name = f"health check of {node} {family.value}"
                stream = self._stream(name, "get", addresses[family], told.health_port)
                self.health.setdefault(family, {})[node] = stream
            address = addresses[next(iter(told.vips))]
            self.ports[node] = self._stream(f"nodePort of {node}", "tcp", address, told.node_port, PORT_SPACING)

    def stop(self) -> None:
        """End all probes, and put what came in order.

        Raises:
            HarnessError: the prober is gone.
        """
        for running in self._running:
            running.cancel()
        for running in self._running:
            running.wait(END_SECONDS)
        for stream in self.streams:
            stream.freeze()

    @property
    def streams(self) -> Sequence[Stream]:
        """All of them."""
        checks = [stream for nodes in self.health.values() for stream in nodes.values()]
        return [*self.vip.values(), *checks, *self.ports.values()]

    def connect(self, family: Family, count: int, spacing: float) -> list[Line]:
        """So many new connections through the VIP, beside all else."""
        job = Job(f"{self.name} balance", "tcp", self.targets.vips[family], PORT, count, TIMEOUT, spacing=spacing)
        try:
            return self.prober.ask(job).result(timeout=CONNECT_SECONDS)
        except FutureTimeoutError:
            raise HarnessError(
                f"{count} connections through the VIP of {self.name} did not end within {CONNECT_SECONDS:.0f} s.",
                "is the machine too busy for the prober? --moves and --suite ask for less at once.",
            ) from None

    def _stream(self, name: str, protocol: str, host: str, port: int, spacing: float = SPACING) -> Stream:
        stream = Stream(f"{self.name}: {name}", spacing)
        ours, read = self.clock.ours, read_health if protocol == "get" else read_request
        job = Job(stream.name, protocol, host, port, ENDLESS, TIMEOUT, spacing=spacing, url="/healthz")
        self._running.append(self.prober.stream(job, lambda line: stream.add(read(line, ours))))
        return stream
