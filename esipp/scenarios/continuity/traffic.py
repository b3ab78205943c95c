"""The traffic of continuity: new connections at a steady pace, established ones, health checks, and controls."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from esipp.base.clock import Clock
from esipp.checks.model import Family
from esipp.judging.timeline.losses import is_late
from esipp.judging.timeline.streams import Sample, Stream, read_request
from esipp.probing.orders import Line
from esipp.probing.prober import Prober
from esipp.probing.traffic import Pace, Target, Traffic, steady
from esipp.scenarios.continuity.evidence import Asked, Exchange

TIMEOUT = 3.0
"""Seconds until a request counts as lost: with two SYNs sent again meanwhile, no busy machine is that late."""

PACE = Pace(0.1, TIMEOUT)
"""New connections on a way, and requests to the control listener."""

OTHERS_PACE = Pace(0.2, TIMEOUT)
"""Requests to the control listener of another node."""

HEALTH_PACE = Pace(0.1, 1.0)
"""Health checks of a node."""

LASTING, LASTING_PACE = 3, Pace(0.3, TIMEOUT)
"""Connections that last, on each way, and the exchanges on each of them."""

CALM = 1.2
"""Seconds in which every request must have been answered in time for a way to be settled."""


@dataclass(frozen=True)
class Targets:
    """Where everything is: each way by family; health checks of nodes by family; the control by family.

    ``others`` are the control listeners of other nodes, by node and family.
    """

    ways: Mapping[Asked, Target]
    health: Mapping[Family, Mapping[str, Target]]
    control: Mapping[Family, Target]
    others: Mapping[tuple[str, Family], Target] = field(default_factory=dict)


class Streams:
    """All streams from ``start`` to ``stop``; results come in as they arrive."""

    def __init__(self, prober: Prober, targets: Targets, clock: Clock) -> None:
        self.targets = targets
        self.streams: dict[Asked, Stream] = {}
        self.lasting: dict[Asked, list[Exchange]] = {}
        self.health: dict[Family, dict[str, Stream]] = {}
        self.control: dict[Family, Stream] = {}
        self.others: dict[tuple[str, Family], Stream] = {}
        self._traffic = Traffic(prober, clock)

    @property
    def details(self) -> dict[tuple[str, int], str]:
        """The prober's words on requests without an answer, by stream and number."""
        return self._traffic.details

    def start(self) -> None:
        """Start all streams."""
        traffic = self._traffic
        for (way, family), target in self.targets.ways.items():
            name = f"{way.slug} {family.value}"
            self.streams[way, family] = traffic.connect(name, target, PACE)
            kept = self.lasting[way, family] = list[Exchange]()
            for number in range(LASTING):
                job = steady(f"{name} lasting {number}", "lasting", target, LASTING_PACE)
                traffic.follow(job, self._take(number, kept))
        for family, nodes in self.targets.health.items():
            self.health[family] = {
                node: traffic.check_health(f"health check of {node} {family.value}", target, HEALTH_PACE)
                for node, target in nodes.items()
            }
        for family, target in self.targets.control.items():
            self.control[family] = traffic.connect(f"control {family.value}", target, PACE)
        for (node, family), target in self.targets.others.items():
            self.others[node, family] = traffic.connect(f"control {node} {family.value}", target, OTHERS_PACE)

    def redirect_health(self, port: int, new: int) -> None:
        """Probe the nodes' health checks at another port from now on, those that are probed at this one."""
        self._traffic.redirect(port, new)

    def stop(self) -> None:
        """Stop all streams, and put what came in order.

        Raises:
            HarnessError: the prober is gone.
        """
        self._traffic.stop_all()
        for kept in self.lasting.values():
            kept.sort(key=lambda each: each.sample.started)

    def unsettled(self, now: float, asked: Sequence[Asked]) -> list[str]:
        """The names of the ways that did not answer every recent request in time."""
        found = []
        for key in asked:
            recent = self.streams[key].view(now - CALM - 0.25, now, now)
            if len(recent) < CALM / PACE.every / 2 or not all(s.answered and not is_late(s) for s in recent):
                found.append(self.streams[key].name)
        return found

    def latest(self, key: Asked) -> Sample | None:
        """The last answer on a way."""
        answered = (sample for sample in reversed(self.streams[key].samples) if sample.answered)
        return next(answered, None)

    def _take(self, job: int, kept: list[Exchange]) -> Callable[[Line], None]:
        ours = self._traffic.clock.ours

        def take(line: Line) -> None:
            lost = line.get("lost")
            number = (job, int(line.get("connection") or 0))
            kept.append(Exchange(number, read_request(line, ours), None if lost is None else ours(float(lost))))

        return take
