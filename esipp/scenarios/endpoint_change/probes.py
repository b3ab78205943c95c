"""The continuous probes of one load balancer's Service, from one client outside, by their own prober process."""

import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass

from esipp.base.clock import Clock
from esipp.checks.model import Family
from esipp.judging.timeline import Stream
from esipp.probing.prober import Job, Line, Prober
from esipp.probing.traffic import Pace, Target, Traffic
from esipp.scenarios.endpoint_change.objects import PORT

TIMEOUT = 0.9
"""Seconds until a request counts as lost: less than until the second SYN, which another backend may answer."""

PACE = Pace(0.02, TIMEOUT)
"""Requests through the VIP, and health checks: times of the load balancer are known no finer than this."""

PORT_PACE = Pace(0.04, TIMEOUT)
"""Requests at a nodePort; they do not measure the load balancer."""

SECOND_FAMILY = Pace(0.1, TIMEOUT)
"""Requests at a nodePort in the second family: they show which family's rules a node still has."""

WEIGHT = "x-load-balancing-endpoint-weight"

ANSWER_SECONDS = 10.0
"""Seconds until a single health check is answered, or given up."""

CONNECT_SECONDS = 60.0
"""Seconds after which no more connections are made for the balance: on a machine that is too busy they are few."""


@dataclass(frozen=True)
class Targets:
    """The targets of one Service: its VIPs by family, and the nodes' addresses by family, at two ports."""

    vips: Mapping[Family, str]
    nodes: Mapping[str, Mapping[Family, str]]
    node_port: int
    health_port: int


class Observing:
    """The streams of one Service from ``start`` to ``stop``; results come in as they arrive."""

    def __init__(self, name: str, prober: Prober, targets: Targets, clock: Clock) -> None:
        self.name = name
        self.prober = prober
        self.targets = targets
        self.clock = clock
        self.vip: dict[Family, Stream] = {}
        self.ports: dict[str, Stream] = {}
        self.beside: dict[str, Stream] = {}
        self.health: dict[Family, dict[str, Stream]] = {}
        self._traffic = Traffic(prober, clock)

    def start(self) -> None:
        """Start all streams."""
        traffic, targets = self._traffic, self.targets
        for family, vip in targets.vips.items():
            self.vip[family] = traffic.connect(f"{self.name}: VIP {vip}", Target(vip, PORT), PACE)
        for node, addresses in targets.nodes.items():
            for family in targets.vips:
                name = f"{self.name}: health check of {node} {family.value}"
                stream = traffic.check_health(name, Target(addresses[family], targets.health_port), PACE)
                self.health.setdefault(family, {})[node] = stream
            first, *others = targets.vips
            name = f"{self.name}: nodePort of {node}"
            self.ports[node] = traffic.connect(name, Target(addresses[first], targets.node_port), PORT_PACE)
            for family in others:
                target = Target(addresses[family], targets.node_port)
                self.beside[node] = traffic.connect(f"{name} {family.value}", target, SECOND_FAMILY)

    def stop(self) -> None:
        """Stop all streams, and put what came in order.

        Raises:
            HarnessError: the prober is gone.
        """
        self._traffic.stop_all()

    def connect(
        self, family: Family, count: int, spacing: float, control: Sequence[str] = ()
    ) -> tuple[list[Line], list[Line]]:
        """So many new connections through the VIP, and at the same time as many in all to nodePorts of these nodes.

        Fewer of them if they take longer than ``CONNECT_SECONDS``.

        Raises:
            HarnessError: the prober is gone.
        """
        targets = self.targets
        jobs = [Job(f"{self.name} balance", "tcp", targets.vips[family], PORT, count, TIMEOUT, spacing=spacing)]
        jobs += [
            Job(
                f"{self.name} control {node}", "tcp", targets.nodes[node][family], targets.node_port,
                count // len(control), TIMEOUT, spacing=spacing * len(control),
            )
            for node in control
        ]  # fmt: skip
        lines, *controls = found = [list[Line]() for _ in jobs]
        streams = [self.prober.stream(job, of.append) for job, of in zip(jobs, found, strict=True)]
        end = time.monotonic() + CONNECT_SECONDS
        for stream in streams:
            if not stream.ends(end - time.monotonic()):
                stream.cancel()
            stream.wait(ANSWER_SECONDS)
        return lines, [line for each in controls for line in each]

    def weights(self, nodes: Iterable[str], family: Family) -> dict[str, int]:
        """The weight that each node's health check reports, for nodes that report one."""
        targets, found = self.targets, {}
        for node in nodes:
            job = Job(
                f"{self.name} weight {node}", "get", targets.nodes[node][family], targets.health_port, 1, TIMEOUT,
                url="/healthz",
            )  # fmt: skip
            try:
                lines = self.prober.ask(job).result(timeout=ANSWER_SECONDS)
            except FutureTimeoutError:
                continue
            headers = [dict((line.get("response") or {}).get("headers") or {}) for line in lines]
            lower = {str(name).lower(): str(value) for each in headers for name, value in each.items()}
            if lower.get(WEIGHT, "").isdigit():
                found[node] = int(lower[WEIGHT])
        return found
