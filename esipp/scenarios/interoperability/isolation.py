"""The isolation scenario: Service A is probed on every node while another Service B changes in every way.

B's pods stand on A's node and on a node where A has none. Each change of B is waited for on the nodes, at B's own
health check, before the next one: so that what A was asked meanwhile was asked while the nodes took it in.
"""

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from esipp.base.errors import HarnessError
from esipp.base.json import Json
from esipp.base.waiting import Reading
from esipp.checks.health import Answer, Place
from esipp.checks.model import OUTSIDE, Entry, EntryKind, Path, Protocol, Service, ServiceType, TrafficPolicy
from esipp.cluster.client import ApiError
from esipp.cluster.node_ports import BY_NUMBER, health_port, taken
from esipp.judging.observation import read
from esipp.judging.topology import Topology
from esipp.probing.prober import Job, Pace, Target, Traffic, read_result, steady
from esipp.scenarios.health.evidence import Node
from esipp.scenarios.health.probes import Asker
from esipp.scenarios.interoperability.controls import ROLES, listen
from esipp.scenarios.interoperability.evidence import Neighbours
from esipp.scenarios.interoperability.objects import NEIGHBOUR_ROLES, A, B, neighbour_pod, service_b
from esipp.scenarios.paths.run import ANSWER_TIMEOUT
from esipp.testbed import manifests

SPACING = 0.05
SILENT = 1.0
"""Seconds of silence that count as no answer, where there must be none."""

PATIENT = ANSWER_TIMEOUT
"""Seconds for an answer: a late answer of a busy machine is not lost."""

MOST = 2400
"""Questions a node at most: two minutes, where the changes take that long; usually they end it after seconds."""

TRIES = 8
"""The most ports to try if other Services have them."""

UNPROCESSABLE, ALREADY = 422, "already allocated"
"""How an API server refuses a port that another Service has."""

FIRST = 0
"""The number that a prober gives to the first question of a job."""

WATCHED = Service(ServiceType.LOAD_BALANCER, TrafficPolicy.LOCAL)
"""Service A, with what is needed to read its answers."""

VOLATILE = ("managedFields", "resourceVersion")


Came = dict[int, float]
"""The finished requests of a stream, answered or timed out: when each began, on the prober's clock."""


def is_whole(came: Came, until: float) -> bool:
    """Whether all requests up to a time are finished: a later one is, and all before it."""
    later = [seq for seq, started in list(came.items()) if started > until]
    return bool(later) and all(seq in came for seq in range(FIRST, min(later)))


@dataclass
class Isolation:
    """Runs the scenario."""

    asker: Asker
    topology: Topology
    _last_port: int = 0

    def perform(self) -> Neighbours:
        """All changes of B, and what A was meanwhile.

        Raises:
            HarnessError: the changes of B did not reach the nodes: then nothing is said about A.
        """
        testbed = self.asker.testbed
        seen = Neighbours((testbed.namespace, A), before=self._object(A))
        self._choose_port()
        self._change(seen, "its pods became ready", lambda: self._gate(True), self._serving("200"), first=True)
        with self._watched(seen) as came:
            seen.ways = listen(self.asker, self.topology)
            port = self._last_port
            self._change(seen, "its pods became unready", lambda: self._gate(False), self._serving("503"))
            self._change(seen, "its pods became ready", lambda: self._gate(True), self._serving("200"))
            to_cluster = {"spec": {"externalTrafficPolicy": "Cluster"}}
            self._change(
                seen, "policy changed to Cluster", lambda: self._patch(to_cluster), self._everywhere("refused")
            )
            self._change(seen, "recreated with its old port", lambda: self._again(port), self._serving("200"))
            self._change(seen, "deleted", lambda: testbed.cluster.delete(self._path(B)), self._everywhere("refused"))
            self._last_answers(came)
        seen.after = self._object(A)
        return seen

    # ------------------------------------------------------------------------------------------------- the changes
    def _path(self, name: str) -> str:
        return f"/api/v1/namespaces/{self.asker.testbed.namespace}/services/{name}"

    def _object(self, name: str) -> Mapping[str, Any]:
        """A Service as it is, but for what the server keeps about its writers."""
        item = self.asker.testbed.cluster.request("GET", self._path(name))
        metadata = {key: value for key, value in item["metadata"].items() if key not in VOLATILE}
        return {"metadata": metadata, "spec": item["spec"]}

    def _gate(self, opened: bool) -> None:
        pods = f"/api/v1/namespaces/{self.asker.testbed.namespace}/pods"
        for role in NEIGHBOUR_ROLES:
            self.asker.testbed.cluster.patch(f"{pods}/{neighbour_pod(role)}/status", manifests.gate(opened))

    def _patch(self, body: Json) -> None:
        made = self.asker.testbed.cluster.patch(self._path(B), body, "merge-patch")
        self._last_port = health_port(made) or self._last_port

    def _choose_port(self) -> None:
        """Give B a port that no other Service gets after B released it, while the scale scenario creates many.

        With another range of the server, B keeps a port of the server's choice.
        """
        local = {"externalTrafficPolicy": "Local"}
        self._patch({"spec": {"externalTrafficPolicy": "Cluster"}})
        for port in Random(self.asker.testbed.run).sample(BY_NUMBER, TRIES):
            try:
                self._patch({"spec": {**local, "healthCheckNodePort": port}})
                break
            except ApiError as refused:
                if refused.status != UNPROCESSABLE:
                    raise
        else:
            self._patch({"spec": local})

    def _again(self, port: int) -> None:
        """Delete B and make it again at once, with the health-check port it had, or another one if that was taken."""
        cluster, testbed = self.asker.testbed.cluster, self.asker.testbed
        cluster.delete(self._path(B))
        for wanted in (port, *Random(f"{testbed.run} again").sample(BY_NUMBER, TRIES)):
            try:
                made = cluster.create(self._path("").rstrip("/"), service_b(testbed.run, healthCheckNodePort=wanted))
            except ApiError as refused:
                if refused.status != UNPROCESSABLE or ALREADY not in refused.message:
                    raise
                last = refused
                continue
            self._last_port = health_port(made) or wanted
            return
        raise last

    def _change(
        self, seen: Neighbours, words: str, do: Callable[[], object], wanted: Mapping[Node, str], *, first: bool = False
    ) -> None:
        """Change B and wait until B's health check shows it on every node; the ``first`` change does not count."""
        testbed = self.asker.testbed
        self.asker.stop.check()
        began = time.monotonic()
        do()
        port = self._last_port  # a Service that is made again may have had to take another one

        def look() -> Reading:
            said = {node: answer.words for node, answer in self.asker.everywhere(port).items()}
            for node, shown in said.items():
                if not first:
                    seen.other.setdefault(node, Counter())[shown] += 1
            wrong = {node: shown for node, shown in said.items() if shown != wanted[node]}
            return Reading(not wrong, f"{len(wrong)} of {len(said)} do not follow, among them {[*wrong.items()][:1]}")

        budget = self.asker.timeouts.other_followed
        held = self.asker.stop.converge(look, budget)
        if not held.held:
            rival = taken(testbed.cluster.list("/api/v1/services"), {port}, {(testbed.namespace, B)})
            state = rival or held.state
            raise HarnessError(
                f"Timed out after {held.seconds:.0f} s waiting for {budget.name} ({words}): {state}.",
                "is the node's service proxy healthy?",
            )
        if not first:
            seen.changes.append((words, round(time.monotonic() - began, 3)))

    def _everywhere(self, words: str) -> dict[Node, str]:
        return {(place, family): words for place in self._places for family in self.asker.families}

    def _serving(self, words: str) -> dict[Node, str]:
        """What B's health check says where its pods are; 503 elsewhere."""
        own = {Place(role.value) for role in NEIGHBOUR_ROLES}
        return {node: words if node[0] in own else "503" for node in self._everywhere("503")}

    @property
    def _places(self) -> list[Place]:
        return [place for place in self.asker.places if place is not Place.EXCLUDED]

    def _last_answers(self, came: Collection[Came]) -> None:
        """Wait until all requests so far are finished."""
        until = time.monotonic() + self.asker.clients.probers[OUTSIDE.name].clock().offset

        def look() -> Reading:
            missing = sum(not is_whole(each, until) for each in came)
            return Reading(not missing, f"{missing} of {len(came)} streams")

        self.asker.stop.converge(look, self.asker.timeouts.last_answers)

    # ------------------------------------------------------------------------------------------------- the watching
    @contextlib.contextmanager
    def _watched(self, seen: Neighbours) -> Iterator[Collection[Came]]:
        """Probe A's health check and dial A's nodePort on every node for the duration of the context.

        Yields the finished requests of each stream.
        """
        spec = self.asker.testbed.services[A]["spec"]
        prober = self.asker.clients.probers[OUTSIDE.name]
        traffic = Traffic(prober, prober.clock())
        everything: list[Came] = []

        def start(job: Job, take: Callable[[Json], object]) -> None:
            came: Came = {}
            everything.append(came)

            def note(line: Json) -> None:
                take(line)
                came[int(line["seq"])] = float(line["started"])

            traffic.follow(job, note)

        try:
            for node in self._everywhere(""):
                place, family = node
                host = self.asker.address(place, family)
                assert host
                answers, dialled = seen.answers.setdefault(node, []), seen.dialled.setdefault(node, [])
                health = Target(host, spec["healthCheckNodePort"])
                ask = steady(f"A {host}", "get", health, Pace(SPACING, PATIENT), MOST)
                start(ask, lambda line, to=answers: to.append(Answer.read(line)))  # type: ignore[misc]  # mypy infers no type of a lambda with a default
                pace = Pace(SPACING, PATIENT if place is Place.ENDPOINT_NODE else SILENT)
                dial = steady(f"A {host}", "tcp", Target(host, spec["ports"][0]["nodePort"]), pace, MOST)
                path = Path(OUTSIDE, Entry(EntryKind.NODE_PORT, ROLES.get(place)), Protocol.TCP, family, WATCHED)

                def take(line: Json, job: Job = dial, path: Path = path, to: list[Any] = dialled) -> None:
                    to.append(read(path, read_result(job, line), self.topology))

                start(dial, take)
            yield everything
        finally:
            traffic.stop_all()
