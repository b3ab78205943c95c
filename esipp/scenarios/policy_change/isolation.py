"""The isolation window: paths of unchanged Services are dialled while other Services change their policy."""

import threading
import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace

from esipp.base.errors import HarnessError
from esipp.base.interrupt import Stop
from esipp.base.json import Json
from esipp.checks.check import Feature
from esipp.checks.model import OUTSIDE, Family, Path, Role, TrafficPolicy
from esipp.checks.path import PathCheck
from esipp.checks.policy_change import IsolationHealthCheck
from esipp.judging.observation import Observation
from esipp.judging.topology import Node, Topology
from esipp.preflight.facts import listener_facts
from esipp.probing.prober import Job, Target, Traffic, job_on
from esipp.scenarios.paths.evidence import Evidence
from esipp.scenarios.paths.run import JUDGED_TIMEOUT, Plan, Settling, must_answer, plan, stalls_of
from esipp.scenarios.policy_change.changes import (
    BARE_PACE,
    HEALTH_PACE,
    as_change,
    change_policy,
    policy_path,
    read_port,
)
from esipp.scenarios.policy_change.evidence import Neighbour, Window
from esipp.scenarios.policy_change.objects import INSIDE, NEIGHBOURS
from esipp.scenarios.timeouts import TIMEOUTS, Timeouts
from esipp.testbed.announced import families_of
from esipp.testbed.clients import Clients
from esipp.testbed.testbed import Testbed

COUNT, SPACING = 24, 0.4
"""New connections a path, and seconds between two: about a hundred paths make less than three hundred a second."""

PATIENCE = 4.0
"""Seconds for an answer where there was one: less than in a window in which nothing is done, as a longer patience would
let TCP's own repetitions hide that a path was silent for seconds while its neighbours changed. What they still hide is
a check of its own: repeated SYNs."""

CHANGES, EVERY, BEGIN = 10, 0.8, 0.6
"""The number of policy changes, made in turn, the seconds between two, and those before the first one; so each Service
keeps its policy for longer than kube-proxy waits between two syncs (minSyncPeriod, 1 s)."""


def address_for(node: Node, service: Json) -> str:
    """The node's address in a family that a Service has: the first of a node's may be one that no Service has.

    Raises:
        HarnessError: they share none.
    """
    own = [node.internal[family] for family in families_of(service) if family in node.internal]
    if not own:
        raise HarnessError(f"Node {node.name} and the Service {service['metadata']['name']} share no IP family.")
    return own[0]


@dataclass
class Beside:
    """Dials the paths and health checks of the checks, while other Services change their policy."""

    testbed: Testbed
    clients: Clients
    topology: Topology
    features: Mapping[str, Feature]
    facts: dict[str, str]
    path_checks: Sequence[PathCheck]
    health: Sequence[IsolationHealthCheck]
    stop: Stop
    timeouts: Timeouts = TIMEOUTS

    def settle(self) -> tuple[Plan, Settling, str]:
        """Wait until every path that must answer does, as before any judged window; the end of the wait as text."""
        todo = plan(self.path_checks, self.testbed.address)
        settling = Settling(self.clients.probers, todo, budget=self.timeouts.paths_answer)
        settled = settling.wait(must_answer(self.path_checks, self.facts))
        return todo, settling, "" if settled.held else f"{settled}; judged in this state"

    def perform(self, todo: Plan, answering: Iterable[Path]) -> Window:
        """The window.

        Raises:
            ApiError: the API server refused a policy change.
            UnreachableError: it did not answer.
            HarnessError: a prober is gone, or it is unknown whether our own pods stayed as they were.
            StoppedError: the session ends.
        """
        probers = self.clients.probers
        watcher = OUTSIDE if OUTSIDE.name in probers else INSIDE
        clocks = {name: prober.clock() for name, prober in probers.items()}
        traffic = Traffic(probers[watcher.name], clocks[watcher.name])
        neighbours = {name: self._neighbour(name, traffic, bare=watcher is OUTSIDE) for name in NEIGHBOURS}
        streams = [each.bare for each in neighbours.values() if each.bare is not None]
        try:
            began = time.monotonic()
            paths, asked = self._dial(todo, set(answering))
            self._change(neighbours, traffic, began + BEGIN)
            observations = {path: self.stop.result(future, self.timeouts.job_ends) for path, future in paths.items()}
            answers = {place: self.stop.result(future, self.timeouts.job_ends) for place, future in asked.items()}
            for name, each in neighbours.items():
                read = self.testbed.cluster.request("GET", policy_path(self.testbed.namespace, name))
                each.policy = str(read["spec"].get("externalTrafficPolicy"))
        finally:
            traffic.stop([*streams, *(stream for each in neighbours.values() for stream in each.health.values())])
        obstacles = {**todo.obstacles, **self.testbed.harmed().obstacles(todo.targets, self.testbed.cast)}
        seen = {path.key: made for path, made in observations.items()}
        found = {name: fact.value for name, fact in listener_facts(seen, todo.targets, self.topology).items()}
        self.facts |= found
        ahead = {name: clock.offset for name, clock in clocks.items()}
        stalls = stalls_of(probers, ahead, began)
        evidence = Evidence(
            observations=seen,
            topology=self.topology,
            features=self.features,
            samples=COUNT,
            facts=self.facts,
            obstacles=obstacles,
            clocks=ahead,
            stalls=stalls,
        )
        health = {place: self._statuses(lines) for place, lines in answers.items()}
        return Window(evidence, list(observations), clocks, neighbours, health)

    # ------------------------------------------------------------------------------------------- what is dialled
    def _dial(
        self, todo: Plan, answering: set[Path]
    ) -> tuple[dict[Path, Future[list[Observation]]], dict[tuple[Role, Family], Future[list[Json]]]]:
        """Everything, each at its own moment of the time between two connections, so that they do not come at once."""
        wanted = list(todo.targets.items())
        questions = list(
            dict.fromkeys((check.subject.place, check.subject.family, check.subject.path) for check in self.health)
        )
        pause = threading.Event()
        between = SPACING / max(1, len(wanted) + len(questions))
        paths, asked = {}, {}
        for path, (host, port) in wanted:
            timeout = PATIENCE if path in answering else JUDGED_TIMEOUT
            job = replace(job_on(path, host, port, COUNT, timeout), spacing=SPACING)
            paths[path] = self.clients.probers[path.client.name].submit(job)
            pause.wait(between)
        for place, family, path in questions:
            host = self.testbed.nodes[self.testbed.roles[place]].internal[family]
            port = int(self.testbed.services[path.object_name]["spec"]["healthCheckNodePort"])
            job = Job(f"health {place} {family}", "get", host, port, COUNT, PATIENCE, SPACING, url="/healthz")
            asked[place, family] = self.clients.probers[OUTSIDE.name].ask(job)
            pause.wait(between)
        return paths, asked

    @staticmethod
    def _statuses(lines: Iterable[Json]) -> dict[str, int]:
        """How many answers said what."""
        said = (str((line.get("response") or {}).get("status") or line["outcome"]) for line in lines)
        return dict(Counter(said))

    # ---------------------------------------------------------------------------------------------- neighbours
    def _neighbour(self, name: str, traffic: Traffic, *, bare: bool) -> Neighbour:
        created = self.testbed.services[name]
        made = Neighbour()
        if bare:
            node = self.testbed.nodes[self.testbed.roles[Role.BARE_NODE]]
            port = int(created["spec"]["ports"][0]["nodePort"])
            host = address_for(node, created)
            made.bare = traffic.connect(f"{name} at the bare node", Target(host, port), BARE_PACE)
        self._ask_port(name, made, as_change(0, TrafficPolicy.LOCAL, time.monotonic(), created).health_port, 0, traffic)
        return made

    def _ask_port(self, name: str, made: Neighbour, port: int, number: int, traffic: Traffic) -> None:
        """Ask at the health-check port that it has now."""
        if port:
            traffic.stop(made.health.values())
            host = address_for(self.testbed.nodes[self.testbed.roles[Role.ENDPOINT_NODE]], self.testbed.services[name])
            key = f"{name} health check {number}"
            made.health[number] = traffic.check_health(
                key, Target(host, port), HEALTH_PACE, read_port(name, self.testbed.namespace)
            )

    def _change(self, neighbours: Mapping[str, Neighbour], traffic: Traffic, begin: float) -> None:
        """Make all policy changes at their times, in turn."""
        pause, names = threading.Event(), list(neighbours)
        for number in range(CHANGES):
            pause.wait(max(0.0, begin + number * EVERY - time.monotonic()))
            self.stop.check()
            name = names[number % len(names)]
            each = neighbours[name]
            to = TrafficPolicy.LOCAL if len(each.changes) % 2 else TrafficPolicy.CLUSTER
            each.changes.append(change_policy(self.testbed, name, len(each.changes) + 1, to))
            if to is TrafficPolicy.LOCAL:
                self._ask_port(name, each, each.changes[-1].health_port, each.changes[-1].number, traffic)
