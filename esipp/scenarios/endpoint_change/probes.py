"""The continuous probes of one load balancer's Service, from one client outside, by their own prober process."""

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, field

from esipp.base.clock import Clock
from esipp.base.errors import HarnessError
from esipp.checks.model import Family
from esipp.judging.timeline.streams import Stream, read_health, read_request
from esipp.probing.jobs import Job
from esipp.probing.orders import Line
from esipp.probing.orders import Stream as Running
from esipp.probing.prober import Prober
from esipp.scenarios.endpoint_change.objects import PORT

SPACING = 0.02
"""Seconds between two requests through the VIP, and between two health checks: no coarser than this."""

PORT_SPACING = 0.04
"""Seconds between two requests at a nodePort; they do not measure the load balancer."""

CONTROL_SPACING = 0.1
"""Seconds between two requests at a nodePort in the second family: they show which family's rules a node still has."""

WEIGHT = "x-load-balancing-endpoint-weight"

TIMEOUT = 0.9
"""Seconds until a request counts as lost: less than until the second SYN, which another backend may answer."""

ENDLESS = 1_000_000
END_SECONDS = 10.0
CONNECT_SECONDS = 60.0


@dataclass(frozen=True)
class Targets:
    """The targets of one Service: its VIPs by family, and the nodes' addresses by family, at two ports."""

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
    beside: dict[str, Stream] = field(default_factory=dict)
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
            first, *others = told.vips
            self.ports[node] = self._stream(
                f"nodePort of {node}", "tcp", addresses[first], told.node_port, PORT_SPACING
            )
            for family in others:
                name = f"nodePort of {node} {family.value}"
                self.beside[node] = self._stream(name, "tcp", addresses[family], told.node_port, CONTROL_SPACING)

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
        return [*self.vip.values(), *checks, *self.ports.values(), *self.beside.values()]

    def connect(
        self, family: Family, count: int, spacing: float, control: Sequence[str] = ()
    ) -> tuple[list[Line], list[Line]]:
        """So many new connections through the VIP, and at the same time as many in all to nodePorts of these nodes."""
        told = self.targets
        jobs = [Job(f"{self.name} balance", "tcp", told.vips[family], PORT, count, TIMEOUT, spacing=spacing)]
        jobs += [
            Job(
                f"{self.name} control {node}", "tcp", told.nodes[node][family], told.node_port,
                count // len(control), TIMEOUT, spacing=spacing * len(control),
            )
            for node in control
        ]  # fmt: skip
        asked = [self.prober.ask(job) for job in jobs]
        try:
            lines, *controls = [each.result(timeout=CONNECT_SECONDS) for each in asked]
        except FutureTimeoutError:
            raise HarnessError(
                f"{count} connections through the VIP of {self.name} did not end within {CONNECT_SECONDS:.0f} s.",
                "is the machine too busy for the prober? --moves and --suite reduce the load.",
            ) from None
        return lines, [line for each in controls for line in each]

    def weights(self, nodes: Iterable[str], family: Family) -> dict[str, int]:
        """The weight that each node's health check reports, for nodes that report one."""
        told, found = self.targets, {}
        for node in nodes:
            job = Job(
                f"{self.name} weight {node}", "get", told.nodes[node][family], told.health_port, 1, TIMEOUT,
                url="/healthz",
            )  # fmt: skip
            try:
                lines = self.prober.ask(job).result(timeout=END_SECONDS)
            except FutureTimeoutError:
                continue
            headers = [dict((line.get("response") or {}).get("headers") or {}) for line in lines]
            lower = {str(name).lower(): str(value) for each in headers for name, value in each.items()}
            if lower.get(WEIGHT, "").isdigit():
                found[node] = int(lower[WEIGHT])
        return found

    def _stream(self, name: str, protocol: str, host: str, port: int, spacing: float = SPACING) -> Stream:
        stream = Stream(f"{self.name}: {name}", spacing)
        ours, read = self.clock.ours, read_health if protocol == "get" else read_request
        job = Job(stream.name, protocol, host, port, ENDLESS, TIMEOUT, spacing=spacing, url="/healthz")
        self._running.append(self.prober.stream(job, lambda line: stream.add(read(line, ours))))
        return stream
