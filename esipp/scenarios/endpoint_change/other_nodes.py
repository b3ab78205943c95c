"""Health checks of nodes without endpoint changes in a large cluster, probed by agents.

The client outside could not follow hundreds of nodes. A check requires that they always say 503. This machine
sends each agent an order a node and a round, and reads one line back for each answer that differed: where nothing
changes, a node costs a line a round, however often it is probed.
"""

import threading
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from esipp.base.clock import Clock
from esipp.base.errors import HarnessError
from esipp.checks.health import Answer
from esipp.probing.prober import Job, Line, Running
from esipp.scenarios.endpoint_change.evidence import Answers, Bystanders

SPACING = 1.0
"""The least seconds between two probes of a node: its answer should never change."""

MOST_A_SECOND = 50.0
"""The most requests of one agent; with a larger slice it probes nodes less often, and the summary says so."""

PROBES = 5
"""The probes of each node in a round; equal answers come as one line."""

TIMEOUT = 2.0
LATE = 30.0
"""Extra seconds for a round: agents are reached through the API server."""


class Agent(Protocol):
    """What is needed of a prober."""

    def stream(self, job: Job, sink: Any) -> Running:
        """See ``Prober.stream``."""

    def clock(self) -> Clock:
        """See ``Prober.clock``."""


def slices(agents: Sequence[str], nodes: Iterable[str]) -> dict[str, list[str]]:
    """Which agent asks which nodes: in turn, and none its own node where there is another one to do it."""
    found: dict[str, list[str]] = {agent: [] for agent in agents}
    for number, node in enumerate(nodes if agents else ()):
        agent = agents[number % len(agents)]
        if agent == node and len(agents) > 1:
            agent = agents[(number + 1) % len(agents)]
        found[agent].append(node)
    return found


def joined(stretches: Sequence[Answers], more: Iterable[Answers]) -> list[Answers]:
    """The stretches of another round behind those that are there; what goes on as it was stays one."""
    found = list(stretches)
    for each in sorted(more, key=lambda one: one.since):
        if found and found[-1].said == each.said:
            found[-1] = replace(found[-1], until=max(found[-1].until, each.until), count=found[-1].count + each.count)
        else:
            found.append(each)
    return found


@dataclass
class Everywhere:
    """Polls from ``start`` to ``stop``; ``by_node`` are each node's answers, ``trouble`` is why the polls ended early.

    Args:
        agents: probers by their node.
        nodes: addresses by node.
        port: the health-check node port.
        spacing: the least seconds between two probes of a node.
        probes: the number of probes in a round.
    """

    agents: Mapping[str, Agent]
    nodes: Mapping[str, str]
    port: int
    spacing: float = SPACING
    probes: int = PROBES
    by_node: dict[str, list[Answers]] = field(default_factory=dict)
    rounds: int = 0
    trouble: str = ""
    _running: list[Running] = field(default_factory=list)
    _over: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _thread: threading.Thread | None = None

    @property
    def slices(self) -> dict[str, list[str]]:
        """Which agent asks which nodes."""
        return slices(sorted(self.agents), self.nodes)

    @property
    def pace(self) -> float:
        """Seconds between two health checks of a node."""
        most = max((len(those) for those in self.slices.values()), default=0)
        return max(self.spacing, most / MOST_A_SECOND)

    def start(self) -> None:
        """Begin to poll, if there are nodes and agents."""
        if self.nodes and self.agents:
            self._thread = threading.Thread(target=self._go_on, name="health checks everywhere", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """End, with what was answered so far; the second call does nothing."""
        self._over.set()
        with self._lock:
            running = list(self._running)
        for each in running:
            each.cancel()
        if self._thread is not None:
            self._thread.join(self.probes * self.pace + TIMEOUT + LATE)
            self._thread = None

    def answers(self, service: str) -> Bystanders:
        """What was found; ``service`` is the Service of the health check."""
        trouble = self.trouble or ("" if self.agents else "there is no agent to probe them")
        return Bystanders(service, len(self.agents), self.pace, dict(self.by_node), len(self.nodes), trouble)

    def _go_on(self) -> None:
        try:
            clocks = {name: agent.clock() for name, agent in self.agents.items()}
            while not self._over.is_set():
                self._round(clocks)
        except (HarnessError, FutureTimeoutError) as broken:
            self.trouble = str(broken) or "an agent no longer answers"

    def _round(self, clocks: Mapping[str, Clock]) -> None:
        """Every node once more, all at the same time."""
        pace, lines = self.pace, {node: list[Line]() for node in self.nodes}
        running = []
        for agent, those in self.slices.items():
            for node in those:
                running.append(self.agents[agent].stream(self._job(node), lines[node].append))
        with self._lock:
            self._running = running
        if self._over.is_set():  # stop() came before they were known
            for each in running:
                each.cancel()
        for each in running:
            each.wait(self.probes * pace + TIMEOUT + LATE)
        for agent, those in self.slices.items():
            for node in those:
                more = [_answers(line, clocks[agent]) for line in lines[node]]
                self.by_node[node] = joined(self.by_node.get(node, ()), more)
        self.rounds += 1

    def _job(self, node: str) -> Job:
        host, name = self.nodes[node], f"health check of {node}"
        return Job(name, "get", host, self.port, self.probes, TIMEOUT, self.pace, brief=True, url="/healthz")


def _answers(line: Line, clock: Clock) -> Answers:
    answer = Answer.read(line)
    return Answers(answer.words, clock.ours(line["started"]), clock.ours(line["ended"]), answer.count)
