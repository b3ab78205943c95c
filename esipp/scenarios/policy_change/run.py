"""The run of policy changes: a Service's policy changes after each previous change was followed, with steady probes."""

import os
import time
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import partial

from esipp.base.interrupt import Stop
from esipp.base.waiting import Reading
from esipp.checks.check import is_about
from esipp.checks.model import OUTSIDE, POD_BACKEND, Family, Role, TrafficPolicy
from esipp.checks.policy_change import (
    BESIDE,
    PLACES,
    At,
    ChangingService,
    Isolated,
    IsolatedHealth,
    PolicyChange,
    PolicyClaim,
    WhilePoliciesChange,
)
from esipp.checks.timing import PROMPT
from esipp.judging.observation import Observation
from esipp.judging.timeline import Sample, Stream
from esipp.packets.capture import FEWEST_CORES
from esipp.packets.trace import Watch
from esipp.preflight.preflight import Findings
from esipp.probing.prober import Target, Traffic
from esipp.scenarios.context import Context, kept, perform, spare
from esipp.scenarios.events import Following, Steps, control_targets, last_answers
from esipp.scenarios.policy_change.changes import (
    CONTROL_PACE,
    HEALTH_PACE,
    KEPT_PACE,
    PACE,
    PATIENT,
    PATIENT_PACE,
    TIMEOUT,
    as_change,
    change_policy,
    read_kept,
    read_port,
)
from esipp.scenarios.policy_change.evidence import (
    STAYS,
    Course,
    Established,
    Ground,
    Phase,
    PolicyAction,
    PolicyChangeEvidence,
    closed,
    reads,
    says,
    stays,
)
from esipp.scenarios.policy_change.isolation import Beside
from esipp.scenarios.policy_change.objects import PORT
from esipp.scenarios.timeouts import TIMEOUTS, Timeouts
from esipp.testbed.clients import Clients
from esipp.testbed.testbed import Testbed

ROUNDS = 3
"""The number of cycles Local, Cluster, Local."""

LASTS = STAYS + 0.3
"""Seconds for which right answers must last before the next policy change."""

MOST_LATE = 2
"""The number of policy changes that were not followed after which the scenario stops; one for each direction is enough.

The first takes the whole budget. What did not follow it has failed its checks of that direction, and has ``PROMPT``
seconds in later changes: enough for a data plane that follows at all.
"""

FOLLOWED = 3
"""Packets follow one of so many connections of a path beside changing Services: these come at another moment after
each policy change."""

CONNECTIONS = 3
"""Connections that stay open, at an entry and in a family."""


@dataclass
class Driver:
    """One Service, its policy changes, and its probes; ``course`` has the evidence.

    ``keeps`` says whether there are established connections.
    """

    testbed: Testbed
    ground: Ground
    service: ChangingService
    traffic: Traffic
    stop: Stop
    keeps: bool = False
    timeouts: Timeouts = TIMEOUTS
    course: Course = field(default_factory=Course)
    _late: int = 0
    """The number of changes that were not followed."""

    def __post_init__(self) -> None:
        self._following = Following(self.stop, later=PROMPT)

    def perform(self) -> None:
        """Make all policy changes.

        Raises:
            ApiError: the API server refused one.
            UnreachableError: it did not answer.
            HarnessError: the prober is gone.
            StoppedError: the session ends.
        """
        course, name = self.course, self.service.object_name
        course.planned = 2 * ROUNDS
        created = self.testbed.services[name]
        course.changes.append(as_change(0, TrafficPolicy.LOCAL, time.monotonic(), created))
        try:
            self._dial()
            self._ask_health(course.changes[0])
            self._follow()
            self._keep(At.ENDPOINT_NODE)
            self._steps.perform(course, enough=lambda: self._late >= MOST_LATE)
            course.end = time.monotonic()
            patience = (PATIENT if course.kept else TIMEOUT) + 0.1
            last_answers(self.stop, course.end, patience, self.timeouts.last_answers)
        finally:
            course.end = course.end or time.monotonic()
            kept = [stream for each in course.kept for stream in each.streams]
            self.traffic.stop([*course.data.values(), *course.health.values(), *kept])

    @property
    def _steps(self) -> Steps[Course]:
        """How the event is done: to Cluster and back, each change followed before the next one."""
        return Steps(
            do=lambda _: self._change(TrafficPolicy.CLUSTER),
            prove=self._prove,
            undo=lambda _: self._change(TrafficPolicy.LOCAL),
            settle=lambda _: self._follow(),
            times=ROUNDS,
        )

    def _change(self, to: TrafficPolicy) -> None:
        self.course.changes.append(change_policy(self.testbed, self.service.object_name, len(self.course.changes), to))
        self._ask_health(self.course.changes[-1])

    def _prove(self, course: Course) -> None:
        self._follow()
        if not any(each.at is At.BARE_NODE for each in course.kept):
            self._keep(At.BARE_NODE)

    def address(self, at: At, family: Family) -> Target | str:
        """What is dialled at an entry; a sentence where it cannot be."""
        name = self.service.object_name
        if at.role is not None:
            port = int(self.testbed.services[name]["spec"]["ports"][0]["nodePort"])
            return Target(self.testbed.nodes[self.testbed.roles[at.role]].internal[family], port)
        vip = self.testbed.vips.get(name, {}).get(family)
        why = self.testbed.obstacles.get((name, family), f"the Service has no {family} VIP")
        return Target(vip, PORT) if vip else why

    @property
    def families(self) -> list[Family]:
        """Those of the Service."""
        return [Family(each) for each in self.testbed.services[self.service.object_name]["spec"]["ipFamilies"]]

    def _dial(self) -> None:
        for family in self.families:
            for at in At:
                if at is At.VIP and self.service.balancer is None:
                    continue
                where = self.address(at, family)
                if isinstance(where, str):
                    self.course.obstacles[at, family] = where
                    continue
                pace = PATIENT_PACE if at is At.ENDPOINT_NODE else PACE
                self.course.data[at, family] = self.traffic.connect(f"{self.service} {at} {family}", where, pace)

    def _ask_health(self, changed: PolicyAction) -> None:
        """Probe the health checks at a new port from now on, instead of the previous one."""
        if not changed.health_port or changed.to is not TrafficPolicy.LOCAL:
            return
        self.traffic.stop(self.course.health.values())
        for node in dict.fromkeys(self.testbed.roles[role] for role in PLACES):
            for family in self.families:
                key = (changed.number, node, family)
                if key not in self.course.health:
                    host, name = self.testbed.nodes[node].internal[family], self.service.object_name
                    stream_name = f"{name} health check {changed.number} of {node} {family}"
                    self.course.health[key] = self.traffic.check_health(
                        stream_name,
                        Target(host, changed.health_port),
                        HEALTH_PACE,
                        read_port(name, self.testbed.namespace),
                    )

    def _keep(self, at: At) -> None:
        """Make connections that are to stay open, under the policy of now; only a NodePort service's lead one way."""
        if self.service is not ChangingService.NODE_PORT or not self.keeps:
            return
        made = []
        for family in self.families:
            where = self.address(at, family)
            assert not isinstance(where, str)
            name = f"{self.service} {at} {family} kept"
            numbered = [f"{name} {number}" for number in range(CONNECTIONS)]
            streams = [self.traffic.exchange(each, where, KEPT_PACE, read_kept) for each in numbered]
            made.append(Established(at, family, self.course.changes[-1].number, streams))
        self.course.kept += made

        def look() -> Reading:
            waiting = [stream.name for each in made for stream in each.streams if not stream.samples]
            return Reading(not waiting, ", ".join(waiting))

        self.stop.converge(look, self.timeouts.connections_made)

    # ------------------------------------------------------------------------------------- has it been followed?
    def _follow(self) -> None:
        """Wait until everything follows the last policy change, or cannot follow it in time any more."""
        last = self.course.changes[-1]

        def behind(now: float) -> list[str]:
            late = self._behind(last, now, strictly=True)
            if late and now - last.cause > self.timeouts.policy_loosely:
                late = self._behind(last, now, strictly=False)
            return late

        self._late += bool(self._following.wait(behind, self.timeouts.policy_followed, last.cause, last.to))

    def _behind(self, last: PolicyAction, now: float, *, strictly: bool) -> list[str]:
        """The places that do not follow the last change yet: entries, and nodes with a health-check node port."""
        late = []
        for (at, family), stream in self.course.data.items():
            if not _lasts(stream, last, now, reads(self.ground, at, last.to, strictly=strictly)):
                late.append(f"{self.service} {at} {family}")
        home = self.testbed.roles[Role.ENDPOINT_NODE]
        newest = max((number for number, *_ in self.course.health), default=0)
        for (number, node, family), stream in self.course.health.items():
            if number == newest and self.service.balancer:
                wanted = says("200" if node == home else "503") if last.to is TrafficPolicy.LOCAL else closed
                if not _lasts(stream, last, now, wanted):
                    late.append(f"{self.service} health check of {node} {family}")
        return late


def _lasts(stream: Stream, last: PolicyAction, now: float, good: Callable[[Sample], bool | None]) -> bool:
    found = Phase(last, now, stream.view(last.cause, now, now)).last_run(good)
    return found is not None and stays(found) and found.until - found.since >= LASTS


def controls(traffic: Traffic, clients: Clients) -> Mapping[tuple[At, Family], Stream]:
    """The control listeners of both nodes, with no Service in the way: they show that the client is not masqueraded.

    Raises:
        HarnessError: there is no agent on a node.
    """
    testbed, made = clients.testbed, dict[tuple[At, Family], Stream]()
    for at in (At.ENDPOINT_NODE, At.BARE_NODE):
        targets = control_targets(testbed, [testbed.roles[Role(at.value)]], required=True)
        for (node, family), target in targets.items():
            made[at, family] = traffic.connect(f"listener of {node} {family}", target, CONTROL_PACE)
    return made


def traffic_of(clients: Clients, *, followed: bool) -> Traffic:
    """The steady streams of the client outside, whose requests packets may have to follow."""
    prober = clients.probers[OUTSIDE.name]
    return Traffic(prober, prober.clock(), observations={} if followed else None)


def observe(context: Context) -> PolicyChangeEvidence:
    """All evidence: traffic to unchanged Services first, then to Services whose policy changes."""
    run, testbed, clients, topology = context.run, context.testbed, context.clients, context.topology
    findings, checks = context.findings, context.asked(WhilePoliciesChange)
    seen, stop = PolicyChangeEvidence(), Stop()
    context.gathered = lambda: seen
    steady = [check for check in checks if is_about(check, Isolated)]
    health = [check for check in checks if is_about(check, IsolatedHealth)]
    services = sorted({check.subject.service for check in checks if is_about(check, PolicyChange)})
    if steady or health:
        path_checks = [check.with_subject(check.subject.on_path) for check in steady]
        beside = Beside(
            testbed, clients, topology, findings.features, findings.facts, path_checks, health, stop, context.timeouts
        )
        with kept(BESIDE, run, seen):
            with run.phase(
                "settle side by side", "waiting until every path of the unchanged Services behaves as required"
            ):
                began = time.monotonic()
                todo, settling, trouble = beside.settle()
                run.record("settled", held=not trouble, seconds=round(time.monotonic() - began, 3), state=trouble)
            if trouble:
                run.say(f"settle: {trouble}")
            with run.phase("side by side", f"{len(todo.targets)} paths, while the policies of other Services change"):
                known = dict(findings.facts)
                with _captured(context) as watch:
                    seen.window = window = beside.perform(todo, settling.answering)
                made = {key: each[::FOLLOWED] for key, each in window.evidence.observations.items()}
                witnesses, blind = context.follow(watch, made)
                window.evidence = replace(window.evidence, witnesses=witnesses, blind=_too_few(findings) or blind)
                for name, value in findings.facts.items():
                    if known.get(name) != value:
                        run.fact(name, value, "the control listeners, while the policies of other Services changed")
    if services:
        with run.phase("policy changes", f"Local, Cluster, Local: {', '.join(services)}"):
            keeps = any(is_about(check, PolicyChange) and check.subject.claim is PolicyClaim.KEPT for check in checks)
            _change_services(context, services, stop, seen, keeps)
    return seen


def _too_few(findings: Findings) -> str:
    """Why packets are not captured: nodes that are containers of this machine share its cores; empty if they are."""
    cores = len(os.sched_getaffinity(0))
    if not findings.ways or cores >= FEWEST_CORES:
        return ""
    return f"packets of policy changes are captured from {FEWEST_CORES} cores on; the nodes share {cores} with esipp"


def _captured(context: Context) -> AbstractContextManager[Watch | None]:
    """Capture packets, where the machine bears it beside traffic that is measured."""
    if _too_few(context.findings):
        return nullcontext()
    return context.watched()


def _change_services(
    context: Context, services: list[ChangingService], stop: Stop, seen: PolicyChangeEvidence, keeps: bool
) -> None:
    """Change the policies of Services in parallel, probed by one client with one clock."""
    run, testbed, clients = context.run, context.testbed, context.clients
    seen.ground = ground = Ground(context.topology, OUTSIDE.name, POD_BACKEND)
    with _captured(context) as watch:
        traffic = traffic_of(clients, followed=watch is not None)
        seen.controls = controls(traffic, clients)

        def change(service: ChangingService) -> None:
            driver = Driver(testbed, ground, service, traffic, stop, keeps, context.timeouts)
            seen.courses[service] = driver.course
            with kept(service.value, run, seen):
                driver.perform()

        try:
            perform(run, "policy changes", {service.value: partial(change, service) for service in services}, stop)
        finally:
            traffic.stop(seen.controls.values())
    spare(testbed, seen, (service.value for service in services))
    witnesses, blind = context.follow(watch, to_follow(seen, traffic))
    seen.witnesses, seen.blind = witnesses, _too_few(context.findings) or blind


def to_follow(seen: PolicyChangeEvidence, traffic: Traffic) -> dict[str, list[Observation]]:
    """The connections that packets follow, by stream."""
    found: dict[str, list[Observation]] = {}
    for name, seq in seen.sampled():
        if made := (traffic.observations or {}).get((name, seq)):
            found.setdefault(name, []).append(made)
    return found
