"""A cluster with a load balancer, simulated: moves, a proxy a node, health checks, and who of them may lie."""

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import dataclass, field
from math import inf

from esipp.checks.endpoint_change import Kind
from esipp.checks.model import Balancer, Family
from esipp.checks.timing import AS_STARTED, Checking, Promise
from esipp.judging.timeline import Decision, Mark, Sample, Stream
from esipp.scenarios.endpoint_change.evidence import BalancerEvidence, Change, Result
from esipp.scenarios.endpoint_change.health_probes import Arrival
from esipp.scenarios.endpoint_change.judge import Judge

NODES = ("a", "b", "c")
CLIENT, NODE_ADDRESS = "192.0.2.9", "192.0.2.1"
FAMILY = Family.IPV4
SPACING, TIMEOUT, LAG = 0.02, 0.9, 0.1
TOO_LATE = 5.5
"""Seconds that a proxy takes which is late."""

EVERY = 6.0
"""Seconds from move to move."""


@dataclass
class World:
    """Moves every few seconds; each field of the second part is a lie, but for ``more`` pairs of changes."""

    balancer: Balancer = Balancer.ECMP
    period: float = 1.0
    fall: int = 2
    reported_period: float = 1.0
    tells: bool = True

    ignores_health: bool = False
    keeps: str = ""
    health: Callable[[str, str], str] = field(default=lambda _node, truth: truth)
    forwards: str = ""
    serves_unready: str = ""
    loses_source: str = ""
    drops_terminating: bool = False
    sticks_after: float = 0.0
    elsewhere: bool = False
    late: str = ""
    loses_at_vip: float = 0.0
    loses_anywhere: float = 0.0
    more: int = 0
    promise: Promise = field(default_factory=lambda: Promise(3.0, AS_STARTED, None, True, True))

    def __post_init__(self) -> None:
        steps = [
            (Kind.OPENED, True, "b", "b1"), (Kind.CLOSED, False, "a", "a1"), (Kind.OPENED, True, "a", "a1"),
            (Kind.DELETED, False, "b", "b1"), (Kind.OPENED, True, "c", "c1"), (Kind.KILLED, False, "a", "a1"),
            (Kind.OPENED, True, "b", "b2"), (Kind.CLOSED, False, "c", "c1"),
        ]  # fmt: skip
        for _ in range(self.more):
            steps += [(Kind.OPENED, True, "a", "a2"), (Kind.CLOSED, False, "a", "a2")]
        self.changes = [Change(n, *step, cause=EVERY * (n + 1) + 0.137 * n) for n, step in enumerate(steps)]
        if self.elsewhere:  # the fifth move is two changes at once
            up = self.changes[4]
            self.changes[4:] = [
                Change(4, Kind.ELSEWHERE, True, "c", "c1", up.cause),
                Change(4, Kind.ELSEWHERE, False, "a", "a1", up.cause + 0.001),
            ]
        self.end = EVERY * (len(steps) + 1) + 3
        self._states = {node: self._states_of(node) for node in NODES}
        self.views: dict[str, list[tuple[float, bool]]] = {node: self._view_of(node) for node in NODES}

    # ------------------------------------------------------------------------------------------------------ the truth
    def _states_of(self, node: str) -> tuple[list[float], list[tuple[bool, str]]]:
        """The times at which a node changes; for each, whether its pod is ready, and the pod that answers, if any."""
        lag = TOO_LATE if node == self.late else LAG
        own = [c for c in self.changes if c.node == node]
        times = sorted({-inf, *(c.cause + lag for c in own), *(c.cause + 5.0 for c in own)})

        def state(at: float) -> tuple[bool, str]:
            last = next((c for c in reversed(own) if c.cause + lag <= at), None)
            if last is None:
                return node == "a", "a1" if node == "a" else ""
            terminating = last.graceful and at < last.cause + 5.0 and not self.drops_terminating
            return last.up, last.pod if last.up or terminating or node == self.serves_unready else ""

        return times, list(map(state, times))

    def _state(self, node: str, at: float) -> tuple[bool, str]:
        times, states = self._states[node]
        return states[bisect_right(times, at) - 1]

    def ready(self, node: str, at: float) -> bool:
        return self._state(node, at)[0]

    def pod(self, node: str, at: float) -> str:
        """Who answers at a node; empty for nobody."""
        return self._state(node, at)[1]

    def _status(self, node: str, at: float) -> str:
        return self.health(node, "200" if self.ready(node, at) else "503")

    # --------------------------------------------------------------------------------------------------- the balancer
    def polls(self, node: str) -> list[float]:
        phase = 0.31 * NODES.index(node)
        return [phase + self.period * n for n in range(int(self.end / self.period) + 1)]

    def _view_of(self, node: str) -> list[tuple[float, bool]]:
        """When the balancer's opinion of a node changed."""
        found, failures = [(-1.0, node == "a")], 0
        for at in self.polls(node):
            good = self._status(node, at) == "200"
            failures = 0 if good else failures + 1
            healthy = True if good else (found[-1][1] and failures < self.fall)
            if node == self.keeps:
                healthy = healthy or found[-1][1]
            if healthy is not found[-1][1]:
                found.append((at + 0.005, healthy))
        return found

    def uses(self, at: float) -> list[str]:
        if self.ignores_health:
            return list(NODES)
        healthy = [node for node, view in self.views.items() if view[bisect_right(view, (at, True)) - 1][1]]
        return healthy if self.balancer is not Balancer.DEFAULT else healthy[:1]

    # --------------------------------------------------------------------------------------------------- the streams
    def request(self, seq: int, at: float, node: str) -> Sample:
        pod, own = self.pod(node, at), node
        if self._lost(seq, self.loses_anywhere):
            return Sample(seq, at, at + TIMEOUT, "timeout")
        if not pod and node == self.forwards:
            own = next(each for each in NODES if self.pod(each, at))
            pod = self.pod(own, at)
        if not pod:
            return Sample(seq, at, at + TIMEOUT, "timeout")
        return Sample(seq, at, at + 0.002, "answered", pod, own, NODE_ADDRESS if node == self.loses_source else CLIENT)

    @staticmethod
    def _lost(seq: int, share: float) -> bool:
        """A share of all requests, spread so that no two are near each other, as by a path that loses some."""
        return share > 0.0 and seq % round(1.0 / share) == 3

    def _times(self) -> list[tuple[int, float]]:
        return [(seq, 2.0 + seq * SPACING) for seq in range(int((self.end - 2) / SPACING))]

    def _at_vip(self, seq: int, at: float) -> Sample:
        used = self.uses(at)
        if self._lost(seq, self.loses_at_vip):
            return Sample(seq, at, at + TIMEOUT, "timeout")
        return self.request(seq, at, used[seq % len(used)]) if used else Sample(seq, at, at + TIMEOUT, "timeout")

    def seen(self) -> BalancerEvidence:
        vip = Stream("VIP", SPACING, [self._at_vip(seq, at) for seq, at in self._times()])
        ports, health = {}, {}
        for node in NODES:
            ports[node] = Stream(f"nodePort of {node}", SPACING, [self.request(s, at, node) for s, at in self._times()])
            answers = [Sample(seq, at, at + 0.001, self._status(node, at)) for seq, at in self._times()]
            health[node] = Stream(f"health of {node}", SPACING, answers)
        for stream in (vip, *ports.values(), *health.values()):
            stream.samples.sort(key=lambda sample: sample.ended)
            stream.freeze()
        decisions = [Decision(at, n, ok) for n, view in self.views.items() for at, ok in view if at > 0]
        spreads = self.balancer is not Balancer.DEFAULT
        return BalancerEvidence(
            {FAMILY: vip}, ports, {FAMILY: health}, self._marks(), decisions if self.tells else (), spreads
        )

    def _marks(self) -> list[Mark]:
        marks = []
        for c in self.changes:
            what = "ready" if c.up else {Kind.DELETED: "deleting", Kind.KILLED: "gone"}.get(c.kind, "unready")
            marks.append(Mark(c.cause + 0.02, what, c.pod))
            marks.append(Mark(c.cause + 0.05, "slice-ready" if c.up else "slice-unready", c.pod, "IPv4"))
            if c.graceful:
                marks.append(Mark(c.cause + 5.0, "gone", c.pod))
                marks.append(Mark(c.cause + 5.1, "slice-gone", c.pod, "IPv4"))
        return sorted(marks, key=lambda mark: mark.at)

    def arrivals(self) -> list[Arrival]:
        return [Arrival(at, node, "192.0.2.20") for node in NODES for at in self.polls(node)]

    def result(self) -> Result:
        causes = {change.number: change.cause for change in reversed(self.changes)}
        ends = {number: causes.get(number + 1, self.end) for number in causes}
        client = {FAMILY: frozenset({CLIENT})}
        reported = Checking(self.reported_period, 2) if self.tells else Checking()
        return Result(
            self.balancer,
            self.seen(),
            self.changes,
            ends,
            [("a1", -1.0)],
            client,
            client,
            reported,
            promise=self.promise,
        )

    def judge(self) -> Judge:
        return Judge(self.result())
