"""The run of this scenario: every event on Services of its own, side by side, each seen by every stream."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from esipp.base.errors import HarnessError
from esipp.base.interrupt import Stop
from esipp.base.json import Json
from esipp.base.waiting import Reading
from esipp.checks.model import OUTSIDE, Family, Protocol, Role
from esipp.checks.stream import Reuse, StreamKind
from esipp.judging.timeline.streams import Stream
from esipp.judging.topology import by_family
from esipp.probing.traffic import Pace, Target, Traffic
from esipp.scenarios.context import Context, kept, perform, spare
from esipp.scenarios.service_change.evidence import InStage, ServiceChangeEvidence, Stage, Stages
from esipp.scenarios.service_change.objects import PORT, events_of, selector
from esipp.scenarios.service_change.stages import STAYS, steady, wanted
from esipp.scenarios.service_change.subject import INSIDE, At, Change, Do, Event, ServiceChange
from esipp.scenarios.timeouts import TIMEOUTS, Timeouts
from esipp.testbed.clients import Clients
from esipp.testbed.manifests import HTTP
from esipp.testbed.testbed import Testbed

CONTROL_PACE = Pace(0.5, 2.5)

KEPT = ("type", "clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "ports")
"""What a Service has in common with the one whose addresses and ports it gets."""

HOLDS = STAYS + 0.5
"""Seconds for which what is right must last before the next stage."""


@dataclass
class Driver:
    """One event: its Services, its streams and its stages.

    Args:
        testbed: has the Service of the first stage.
        event: the event.
        asked: the streams that checks ask for.
        traffic: the streams of each client.
        stop: ends all waits.
        timeouts: how long each wait may take.
        seen: the evidence.
    """

    testbed: Testbed
    event: Event
    asked: list[tuple[At, StreamKind, Family]]
    traffic: Mapping[str, Traffic]
    stop: Stop
    timeouts: Timeouts = TIMEOUTS
    seen: Stages = field(default_factory=Stages)
    _name: str = ""
    _shown: list[Stream] = field(default_factory=list)
    """The streams whose answers are known while they are sent."""

    def perform(self) -> None:
        """Go through all stages.

        Raises:
            ApiError: the API server refused a change.
            UnreachableError: it did not answer.
            HarnessError: a prober is gone.
            StoppedError: the session ends.
        """
        self._name = self.event.service
        first, *others = self.event.changes
        now = time.monotonic()
        self.seen.stages.append(_stage(first, now, now))
        try:
            self._start()
            self._wait()
            for change in others:
                cause = time.monotonic()
                self._does[change.do](change)
                self.seen.stages.append(_stage(change, cause, time.monotonic()))
                self._wait()
            self.seen.end = end = time.monotonic()
            last = max((kind.timeout for _, kind, _ in self.asked), default=0.0) + 0.1
            self.stop.converge(
                lambda: Reading(time.monotonic() - end > last, "last answers"), self.timeouts.last_answers
            )
            self._ask_pods()
        finally:
            self.seen.end = self.seen.end or time.monotonic()
            for traffic in self.traffic.values():
                traffic.stop(self.seen.streams.values())

    # --------------------------------------------------------------------------------------------------- the changes
    @property
    def _does(self) -> Mapping[Do, Callable[[Change], object]]:
        return {
            Do.SELECT: self._select,
            Do.DELETE: self._delete,
            Do.CREATE_AGAIN: lambda change: self._create(self._name, change),
            Do.TAKE_OVER: self._take_over,
        }

    def _path(self, name: str = "") -> str:
        return f"/api/v1/namespaces/{self.testbed.namespace}/services" + (f"/{name}" if name else "")

    def _select(self, change: Change) -> None:
        body = {"spec": {"selector": selector(self.testbed.run, change.pods)}}
        self.testbed.cluster.patch(self._path(self._name), body, "merge-patch")

    def _delete(self, _: Change) -> None:
        self.testbed.cluster.delete(self._path(self._name))

    def _create(self, name: str, change: Change) -> None:
        """Create a Service with the addresses and ports of the first one."""
        first, pods = self.testbed.services[self.event.service], selector(self.testbed.run, change.pods)
        spec = {key: first["spec"][key] for key in KEPT if key in first["spec"]}
        spec["selector"] = {key: value for key, value in pods.items() if value}
        metadata = {"name": name, "labels": first["metadata"]["labels"]}
        made = {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}
        self.testbed.cluster.create(self._path(), made)
        self._name = name

    def _take_over(self, change: Change) -> None:
        self._delete(change)
        self._create(f"{self._name}-heir", change)

    # --------------------------------------------------------------------------------------------------- the streams
    def _ask_pods(self) -> None:
        """Ask every pod of the event what it counted of the streams that nobody answers."""
        for name in dict.fromkeys(name for change in self.event.changes for name in change.pods.names):
            pod = self.testbed.pods[name]
            address = next(iter(pod.addresses.values()))
            for traffic in self.traffic.values():
                traffic.ask_arrived(self.traffic[INSIDE.name].prober, Target(address, HTTP), pod.node)

    @property
    def _spec(self) -> Json:
        """The Service of the first stage."""
        spec: Json = self.testbed.services[self.event.service]["spec"]
        return spec

    def _start(self) -> None:
        for at, kind, family in self.asked:
            where = self._target(at, kind.protocol, family)
            if isinstance(where, str):
                self.seen.obstacles[at, family] = where
                continue
            stream = self.traffic[at.client.name].send(kind, f"{self.event.service} {at} {kind.name} {family}", where)
            self.seen.streams[at, kind.name, family] = stream
            if kind.reuse is not Reuse.ONE_WAY:
                self._shown.append(stream)

    def _target(self, at: At, protocol: Protocol, family: Family) -> Target | str:
        """What is dialled; a sentence if it cannot be."""
        if at.role is None:
            address = by_family(self._spec.get("clusterIPs") or []).get(family)
            return Target(address, PORT) if address else f"the Service has no {family} ClusterIP"
        node = self.testbed.nodes[self.testbed.roles[at.role]]
        ports = {port["protocol"]: port.get("nodePort") for port in self._spec["ports"]}
        if family not in node.internal:
            return f"node {node.name} has no {family} address"
        return Target(node.internal[family], int(ports[protocol.value]))

    def _wait(self) -> None:
        """Wait until every stream shows the stage, and has done so for long enough; or until it is late."""
        stage = self.seen.stages[-1]

        def look() -> Reading:
            now = time.monotonic()
            late = [stream.name for stream in self._shown if not _shows(stream, stage, now)]
            return Reading(not late, f"waiting for {', '.join(late)}" if late else "followed")

        self.stop.converge(look, self.timeouts.change_shown)


def _stage(change: Change, cause: float, accepted: float) -> Stage:
    return Stage(change.do.value, cause, accepted, change.pods.names, change.is_there)


def _shows(stream: Stream, stage: Stage, now: float) -> bool:
    seen = InStage(stage, now, stream.view(stage.accepted, now, now))
    found = steady(seen, wanted(stage))
    return found is not None and now - found.since >= HOLDS


def controls(traffic: Mapping[str, Traffic], clients: Clients) -> dict[tuple[str, str, Family], Stream]:
    """The control listeners of two nodes, with no Service in the way.

    Raises:
        HarnessError: there is no agent on a node.
    """
    testbed, made = clients.testbed, {}
    for role in (Role.ENDPOINT_NODE, Role.BARE_NODE):
        node = testbed.nodes[testbed.roles[role]]
        port = testbed.listeners.get(node.name, {}).get(Protocol.TCP)
        if not port:
            raise HarnessError(f"Node {node.name} has no agent.", "run again.")
        for client, own in traffic.items():
            for family, host in node.internal.items():
                name = f"listener of {node.name} {family} {client}"
                made[client, node.name, family] = own.connect(name, Target(host, port), CONTROL_PACE)
    return made


def observe(context: Context) -> ServiceChangeEvidence:
    """The evidence of all events."""
    run, testbed, clients = context.run, context.testbed, context.clients
    checks, seen, stop = context.asked(ServiceChange), ServiceChangeEvidence(), Stop()
    probers = {client.name: clients.probers[client.name] for client in (OUTSIDE, INSIDE)}
    traffic = {name: Traffic(prober, prober.clock()) for name, prober in probers.items()}
    events = events_of(checks)

    def go_through(event: Event) -> None:
        own = (check.subject for check in checks if check.subject.event == event)
        asked = dict.fromkeys((each.at, kind, each.family) for each in own for kind in each.streams)
        driver = Driver(testbed, event, list(asked), traffic, stop)
        seen.events[event.name] = driver.seen
        with kept(event.name, run, seen):
            driver.perform()

    with run.phase("changes", ", ".join(event.name for event in events)):
        seen.controls = controls(traffic, clients)
        try:
            perform(run, "changes", {event.name: partial(go_through, event) for event in events}, stop)
        finally:
            for client, own in traffic.items():
                own.stop(stream for (name, _, _), stream in seen.controls.items() if name == client)
    spare(testbed, seen, (event.name for event in events))
    return seen
