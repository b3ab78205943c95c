"""The traffic of continuity: new connections at a steady pace, established ones, health checks, and controls."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from esipp.base.clock import Clock
from esipp.checks.model import Family
from esipp.judging.timeline.losses import is_late
from esipp.judging.timeline.streams import Sample, Stream, read_health, read_request
from esipp.probing.jobs import Job
from esipp.probing.orders import Line
from esipp.probing.orders import Stream as Running
from esipp.probing.prober import Prober
from esipp.scenarios.continuity.evidence import Asked, Exchange

SPACING = 0.1
"""Seconds between two new connections on a way, between two health checks, and between two of the control."""

OTHERS_SPACING = 0.2
"""Seconds between two requests to the control listener of another node."""

TIMEOUT = 3.0
"""Seconds until a request counts as lost: with two SYNs sent again meanwhile, no busy machine is that late."""

LASTING, LASTING_SPACING = 3, 0.3
"""Connections that last, on each way, and seconds between two exchanges on each of them."""

ENDLESS = 1_000_000
END_SECONDS = 15.0
CALM = 1.2
"""Seconds in which every request must have been answered in time for a way to be settled."""


@dataclass(frozen=True)
class Targets:
    """Where everything is: each way by family; health checks of nodes by family; the control by family.

    ``others`` are the control listeners of other nodes, by node and family.
    """

    ways: Mapping[Asked, tuple[str, int]]
    health: Mapping[Family, Mapping[str, tuple[str, int]]]
    control: Mapping[Family, tuple[str, int]]
    others: Mapping[tuple[str, Family], tuple[str, int]] = field(default_factory=dict)


@dataclass
class Asking:
    """Probes that fly from ``start`` to ``stop``; results come in as they arrive.

    ``details`` are the prober's words on requests that had no answer, by stream and number.
    """

    prober: Prober
    targets: Targets
    clock: Clock
    streams: dict[Asked, Stream] = field(default_factory=dict)
    lasting: dict[Asked, list[Exchange]] = field(default_factory=dict)
    health: dict[Family, dict[str, Stream]] = field(default_factory=dict)
    control: dict[Family, Stream] = field(default_factory=dict)
    others: dict[tuple[str, Family], Stream] = field(default_factory=dict)
    details: dict[tuple[str, int], str] = field(default_factory=dict)
    _running: list[Running] = field(default_factory=list)
    _checks: list[tuple[Running, Stream, tuple[str, int]]] = field(default_factory=list)

    def start(self) -> None:
        """Begin to ask."""
        for (way, family), target in self.targets.ways.items():
            self.streams[way, family] = self._stream(f"{way.slug} {family.value}", "tcp", target)
            kept: list[Exchange] = []
            self.lasting[way, family] = kept
            for number in range(LASTING):
                self._last(f"{way.slug} {family.value} lasting {number}", number, target, kept)
        for family, nodes in self.targets.health.items():
            self.health[family] = {
                node: self._stream(f"health check of {node} {family.value}", "get", target)
                for node, target in nodes.items()
            }
        for family, target in self.targets.control.items():
            self.control[family] = self._stream(f"control {family.value}", "tcp", target)
        for (node, family), target in self.targets.others.items():
            self.others[node, family] = self._stream(f"control {node} {family.value}", "tcp", target, OTHERS_SPACING)

    def move_health(self, port: int, new: int) -> None:
        """Probe the nodes' health checks at another port from now on, those that are probed at this one."""
        moved = [each for each in self._checks if each[2][1] == port]
        for running, stream, (host, _) in moved:
            running.cancel()
            self._checks.remove((running, stream, (host, port)))
            self._run(stream, "get", (host, new))

    def stop(self) -> None:
        """End all, and put what came in order.

        Raises:
            HarnessError: the prober is gone.
        """
        for running in self._running:
            running.cancel()
        for running in self._running:
            running.wait(END_SECONDS)
        checks = [stream for nodes in self.health.values() for stream in nodes.values()]
        for stream in [*self.streams.values(), *self.control.values(), *self.others.values(), *checks]:
            stream.freeze()
        for kept in self.lasting.values():
            kept.sort(key=lambda each: each.sample.started)

    def unsettled(self, now: float, asked: Sequence[Asked]) -> list[str]:
        """The names of the ways that did not answer every recent request in time."""
        found = []
        for key in asked:
            recent = self.streams[key].view(now - CALM - 0.25, now, now)
            if len(recent) < CALM / SPACING / 2 or not all(s.answered and not is_late(s) for s in recent):
                found.append(self.streams[key].name)
        return found

    def latest(self, key: Asked) -> Sample | None:
        """The last answer on a way."""
        answered = (sample for sample in reversed(self.streams[key].samples) if sample.answered)
        return next(answered, None)

    def _stream(self, name: str, protocol: str, target: tuple[str, int], spacing: float = SPACING) -> Stream:
        stream = Stream(name, spacing)
        self._run(stream, protocol, target)
        return stream

    def _run(self, stream: Stream, protocol: str, target: tuple[str, int]) -> None:
        name, ours, read = stream.name, self.clock.ours, read_health if protocol == "get" else read_request
        timeout = 1.0 if protocol == "get" else TIMEOUT
        job = Job(name, protocol, *target, ENDLESS, timeout, spacing=stream.spacing, url="/healthz")

        def take(line: Line) -> None:
            sample = read(line, ours)
            stream.add(sample)
            if protocol == "tcp" and not sample.answered:
                self.details[name, sample.seq] = str(line.get("detail") or "")

        running = self.prober.stream(job, take)
        self._running.append(running)
        if protocol == "get":
            self._checks.append((running, stream, target))

    def _last(self, name: str, job_number: int, target: tuple[str, int], kept: list[Exchange]) -> None:
        def take(line: Line) -> None:
            lost = line.get("lost")
            number = (job_number, int(line.get("connection") or 0))
            kept.append(
                Exchange(
                    number,
                    read_request(line, self.clock.ours),
                    None if lost is None else self.clock.ours(float(lost)),
                )
            )

        job = Job(name, "lasting", *target, ENDLESS, TIMEOUT, spacing=LASTING_SPACING)
        self._running.append(self.prober.stream(job, take))
