"""The run of endpoint changes: all load balancers in parallel, each with its own Service, pods and prober.

Each has continuous probes, a seeded random plan, and a driver of the changes. The plan is made before anything happens.
Each load balancer has one pod on each node (a slot). A slot is open (its pod is ready) or closed (its pod runs, but is
not ready). A deleted pod is created again, closed; until it exists, its slot is away. The driver makes each change
after the previous one was followed.
"""

import contextlib
import random
import threading
import time
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, field, replace

from esipp.base.clock import Clock
from esipp.base.errors import HarnessError
from esipp.base.waiting import Budget, Reading, converge
from esipp.checks.endpoint_change import EVENTS, PROXIES, EndpointChange, Kind, What
from esipp.checks.model import OUTSIDE, Balancer, Family
from esipp.checks.timing import (
    Promise,
    Threshold,
    promise_of,
    promise_of_reference,
    threshold_of,
    threshold_of_reference,
)
from esipp.cluster.client import ApiError, Cluster, UnreachableError
from esipp.cluster.pods import is_ready
from esipp.judging.ingress import held, is_proxy_by_user
from esipp.judging.timeline import ANSWERED, Decision, Stream, read_request
from esipp.judging.topology import family_of
from esipp.ledger.run import Run
from esipp.loadbalancers.profiles.loading import all_profiles
from esipp.loadbalancers.timeouts import slowest
from esipp.loadbalancers.views import asked_of
from esipp.preflight.preflight import Findings
from esipp.probing.prober import Job, Line, Pace, Prober, Target, Traffic
from esipp.scenarios.balancer_facts import observed_checks
from esipp.scenarios.changing_pods import Watching, serves_on
from esipp.scenarios.context import Context, perform
from esipp.scenarios.endpoint_change import objects
from esipp.scenarios.endpoint_change.evidence import (
    LEAST_TURNS,
    QUIET,
    BalancerEvidence,
    Bystanders,
    Change,
    Counted,
    Moved,
    Result,
    timeline,
    took_turns,
)
from esipp.scenarios.endpoint_change.health_probes import Arrival, ProbeCapture
from esipp.scenarios.endpoint_change.health_probes import observe as observe_probes
from esipp.scenarios.endpoint_change.objects import PORT, balancers_of
from esipp.scenarios.endpoint_change.other_nodes import Everywhere
from esipp.scenarios.endpoint_change.reported_state import NOTHING, ReferenceState, Reported, Standing, polled_state
from esipp.scenarios.endpoint_change.sections import REPORTED
from esipp.scenarios.timeouts import TIMEOUTS, Timeouts
from esipp.testbed import manifests
from esipp.testbed.clients import Clients
from esipp.testbed.refusals import hint_for
from esipp.testbed.testbed import Testbed

# ----------------------------------------------------------------------------------------------------------- the probes
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


# ------------------------------------------------------------------------------------------------------------- the plan
LEAST = {kind: event.least for kind, event in EVENTS.items() if event.least}
"""The least number of each kind of removal."""

FIRST = 1
"""Changes beyond ``LEAST`` that make sure that every load balancer has a change to follow.

Without it, one that uses one node at a time had none in a run of four moves (2026-11-23, kind-iptables, MetalLB in L2
mode, seed 388983): its core checks were undecided.
"""


@dataclass(frozen=True)
class Step:
    """One step of the plan: ``up`` is the slot that opens, ``down`` the one that closes; None if there is none."""

    kind: Kind
    up: int | None = None
    down: int | None = None


def plan(seed: str, slots: int, moves: int) -> list[Step]:
    """A sequence of ``moves`` openings and as many closings; only one slot is open at its begin and its end.

    At least one slot is always open, and each kind of removal occurs at least ``LEAST`` times, if there are so many.
    If there are fewer, or ``FIRST`` more, the first step moves the only open pod to another node: even a load balancer
    of one node at a time has used that node.

    Raises:
        ValueError: there are fewer than two slots.
    """
    if slots < 2:
        raise ValueError("endpoint changes need at least two nodes")
    chance = random.Random(seed)
    is_open = {slot: slot == 0 for slot in range(slots)}
    away = dict.fromkeys(range(slots), 0)
    ups, downs = moves, moves
    least = sum(LEAST.values())
    owed = Counter(LEAST) if moves >= least else Counter[Kind]()
    first = not least <= moves < least + FIRST
    steps: list[Step] = []
    while ups or downs:
        if first and not steps:
            step = Step(Kind.ELSEWHERE, chance.randrange(1, slots), 0)
        else:
            step = _choose(chance, is_open, away, ups, downs, owed)
        owed -= Counter([step.kind])
        steps.append(step)
        away = {slot: max(0, left - 1) for slot, left in away.items()}
        if step.up is not None:
            is_open[step.up], away[step.up] = True, 0
            ups -= 1
        if step.down is not None:
            is_open[step.down], away[step.down] = False, step.kind.event.rests
            downs -= 1
    return steps


def _choose(
    chance: random.Random, is_open: dict[int, bool], away: dict[int, int], ups: int, downs: int, owed: Counter[Kind]
) -> Step:
    last_ones = downs <= owed.total()
    opened = [slot for slot, state in is_open.items() if state]
    closed = [slot for slot, state in is_open.items() if not state]
    soonest = min((away[slot] for slot in closed), default=0)
    there = [slot for slot in closed if away[slot] == soonest]
    possible = {
        (True, False): bool(there and ups),
        (False, True): len(opened) > 1 and downs > 0,
        (True, True): bool(there and ups and downs) and not last_ones,
    }
    kinds: list[Kind] = []
    for kind, event in EVENTS.items():
        if possible[event.adds, event.removes]:
            due = owed[kind] if last_ones and event.removes else event.weight
            kinds += [kind] * due
    kind = chance.choice(kinds)
    up = chance.choice(there) if kind.event.adds else None
    down = chance.choice(opened) if kind.event.removes else None
    return Step(kind, up, down)


def last_open(steps: Sequence[Step]) -> int:
    """The slot that is open at the end."""
    is_open = {0}
    for step in steps:
        is_open |= {step.up} if step.up is not None else set()
        is_open -= {step.down} if step.down is not None else set()
    return min(is_open)


LOOKS = 0.05
"""Seconds between two looks whether traffic has followed."""

MOST_LATE, MOST_VERY_LATE = 5, 2
"""The number of changes that were not followed after which the scenario stops, as more would only take time. The second
applies with ``patience``."""

FEW = 260
"""New connections for the balance of a load balancer that is known to use one node at a time: they show whether it
does, and nothing is required of their split."""

CONNECTIONS, CLOSE = 2800, 0.002
"""New connections for the balance, and the seconds between two. ``FOR_POWER`` must count. On two busy
cores, 2,418 of 2,600 did (2026-11-27)."""


@dataclass
class Driver:
    """One service's moves.

    ``period`` is what the balancer asks health checks by, as far as it tells: moves begin at random moments of it,
    else the steering of one would set the time of the next. ``bound`` is how long its steering may take; ``serves`` is
    for how many seconds every pod on the testbed serves on when it is deleted. ``spreads`` says that it uses all nodes
    at once, as far as is known, ``single`` that it is known to use one at a time. ``balance`` is whether a check asks
    for what comes after the changes: two nodes with pods, and how connections split. ``patience`` is for how many
    seconds traffic is waited for of one of which nothing is known; 0 where something is. ``changes``, ``ends``,
    ``opened_last`` and ``counted`` are what came of it.
    """

    cluster: Cluster
    namespace: str
    run: str
    image: str
    balancer: Balancer
    nodes: Sequence[str]
    steps: Sequence[Step]
    seed: str
    observing: Observing
    watching: Watching
    decisions: Sequence[Decision]
    stopped: threading.Event
    period: float = 0.5
    bound: float | None = None
    serves: int = serves_on(None)
    timeouts: Timeouts = TIMEOUTS
    spreads: bool = True
    single: bool = False
    balance: bool = True
    patience: float = 0.0
    changes: list[Change] = field(default_factory=list)
    ends: dict[int, float] = field(default_factory=dict)
    opened_last: dict[str, float] = field(default_factory=dict)
    counted: dict[Family, Counted] = field(default_factory=dict)
    obstacle: str = ""
    pods: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.pods = {slot: objects.pod_name(self.balancer, slot, 1) for slot in range(len(self.nodes))}
        self._generations = dict.fromkeys(self.pods, 1)
        self._leaving: dict[int, str] = {}
        self._late = 0
        self._turns = set[float]()
        """The changes before which the balancer used several nodes at once. No look goes back to earlier ones: with
        hundreds of seconds of requests, that kept a core busy."""
        self._chance = random.Random(f"{self.seed} pauses")
        self._hands = ThreadPoolExecutor(max_workers=3)
        # Until then a balancer that goes by serving endpoints may rightly keep the node of a deleted pod (KEP-1669).
        limits = self.timeouts
        self._least = self.serves + max(limits.change_followed, limits.change_bounds * (self.bound or 0.0))
        seconds = max(self._least, self.serves + self.patience)
        need = int(QUIET / LOOKS) + 1
        self._promised = Budget("an endpoint change to be followed", seconds, need=need, spacing=LOOKS)

    @property
    def seen(self) -> BalancerEvidence:
        """The evidence so far."""
        marks = self.watching.marks[objects.service_name(self.balancer)]
        observing = self.observing
        return BalancerEvidence(
            observing.vip, observing.ports, observing.health, marks, self.decisions, self.spreads, observing.beside
        )

    @property
    def _most_late(self) -> int:
        return MOST_VERY_LATE if self.patience else MOST_LATE

    @property
    def first_pod(self) -> str:
        """The pod that is ready before the first change."""
        return objects.pod_name(self.balancer, 0, 1)

    @property
    def open_nodes(self) -> set[str]:
        """The nodes with a ready pod after all changes and the balance test."""
        return {self.nodes[slot] for slot in (last_open(self.steps), self._single())}

    def drive(self) -> None:
        """Make all changes, then test the balance.

        Raises:
            HarnessError: a pod of ours did not come back, or the API server refused something.
        """
        try:
            self._gate(self.first_pod, True)
            settled = converge(self._first_answers, self.timeouts.first_pod)
            # Where its node serves, a VIP that is not answered every time is the balancer's doing: judged as it is.
            if not settled.held and not self._first_serves():
                self.obstacle = (
                    f"neither its VIP nor the nodePort of {self.nodes[0]} answered within "
                    f"{self.timeouts.first_pod.seconds:.0f} s, with one pod ready there"
                )
                return
            if not settled.held and self.patience and not self._ever_answered():
                self.obstacle = (
                    f"its VIP did not answer once within {self.timeouts.first_pod.seconds:.0f} s, and it is unknown "
                    "how long this load balancer takes: name it with --provider NAME, or wait longer with "
                    "--bound SECONDS"
                )
                return
            for number, step in enumerate(self.steps):
                if self.stopped.is_set() or self._late >= self._most_late:
                    break
                self._move(number, step)
            self.stopped.wait(TIMEOUT)  # what the last change silenced shows it only when its requests have timed out
            if self.balance and not self.stopped.is_set() and self._late < self._most_late:
                self._weigh()
        except (ApiError, UnreachableError) as broken:
            raise HarnessError(
                f"The API server refused a request during the endpoint changes: {broken}.",
                "is it overloaded, or was a permission revoked meanwhile?",
            ) from None
        finally:
            self._hands.shutdown()

    # ----------------------------------------------------------------------------------------------------- the moves
    def _move(self, number: int, step: Step) -> None:
        if step.up is not None:
            self._wait_for(step.up)
        self.stopped.wait(self._chance.uniform(0.0, self.period))
        if self.changes:
            self.ends[self.changes[-1].number] = time.monotonic()
        began = []
        if step.up is not None:
            began.append(self._hands.submit(self._change, number, step, True, step.up))
        if step.down is not None:
            began.append(self._hands.submit(self._change, number, step, False, step.down))
        made = [each.result() for each in began]
        self.changes += made
        overdue = time.monotonic() + self._least
        followed = converge(lambda: self._look(made, overdue), self._promised)
        self._late += not followed.held
        self.ends[number] = time.monotonic()
        self.watching.check()

    def _change(self, number: int, step: Step, up: bool, slot: int) -> Change:
        name = self.pods[slot]
        change = Change(number, step.kind, up, self.nodes[slot], name, time.monotonic())
        if up or not step.kind.event.deletes:
            self._gate(name, up)
            return change
        self.cluster.delete(self._pod(name), grace=None if step.kind.event.serves else 0)
        self._leaving[slot] = name
        self._generations[slot] += 1
        self.pods[slot] = objects.pod_name(self.balancer, slot, self._generations[slot])
        self._hands.submit(self._make, self.pods[slot], self.nodes[slot])
        return change

    def _look(self, made: Sequence[Change], overdue: float) -> Reading:
        """Whether nodes and load balancer have followed. From ``overdue`` on, only the load balancer is waited for."""
        now, seen = time.monotonic(), self.seen
        lines = [timeline(change, now, seen, now) for change in made]
        self._turns |= {change.cause for change in made if took_turns(seen, change.cause)}
        spreads = self.spreads or len(self._turns) >= LEAST_TURNS
        done = all(line.complete(spreads) for line in lines)
        over = now > overdue and not all(line.followed_by_node for line in lines)
        return Reading(done, "followed" if done else "not yet", hopeless=self.stopped.is_set() or over)

    def _wait_for(self, slot: int) -> None:
        """Until the slot's last pod has gone, and its new one runs."""
        limit = self.timeouts.pod_again
        back = replace(limit, seconds=limit.seconds + self.serves)

        def there() -> Reading:
            gone = self._leaving.get(slot) not in self.watching.pods
            pod = self.watching.pods.get(self.pods[slot])
            runs = pod is not None and is_ready(pod)
            said = "" if gone else "the previous pod is still terminating"
            return Reading(gone and runs, said, hopeless=self.stopped.is_set())

        waited = converge(there, back)
        if not waited.held and not self.stopped.is_set():
            raise HarnessError(
                f"Timed out after {back.seconds:.0f} s waiting for pod {self.pods[slot]} to exist again.",
                f"kubectl --context {self.cluster.context} get events -n {self.namespace}",
            )

    # --------------------------------------------------------------------------------------------------- the balance
    def _weigh(self) -> None:
        """Two nodes, one with two pods, one with one: many new connections, and who answers them."""
        double = last_open(self.steps)
        single = self._single()
        extra = objects.pod_name(self.balancer, double, 0)
        self._make(extra, self.nodes[double])
        self._wait_for(single)
        self.pods[-1] = extra  # a slot of its own, only to be waited for
        self._wait_for(-1)
        for name in (extra, self.pods[single]):
            self.opened_last[name] = time.monotonic()
            self._gate(name, True)
        nodes = {self.nodes[double], self.nodes[single]}
        spread = self.spreads
        bound = self.bound or 0.0
        limit = self.timeouts.both_nodes
        both = replace(limit, seconds=limit.seconds + bound)
        if not converge(lambda: self._both(nodes, spread), both).held:
            return
        # A balancer that weighs nodes knows of a pod more by its next checks. That time is only let pass: a request of
        # ours that is late meanwhile, as on a busy machine, says nothing of the nodes.
        known = time.monotonic() + bound
        over = self.timeouts.bound_over
        passed = converge(
            lambda: Reading(time.monotonic() >= known, "both nodes serve", hopeless=self.stopped.is_set()),
            replace(over, seconds=over.seconds + bound),
        )
        if not passed.held:
            return
        self.observing.stop()  # what no change needs any more is not beside thousands of connections
        for family in self.observing.vip:
            pair = sorted(nodes)
            lines, control = self.observing.connect(family, FEW if self.single else CONNECTIONS, CLOSE, pair)
            samples = [read_request(line, self.observing.clock.ours) for line in lines]
            straight = [read_request(line, self.observing.clock.ours) for line in control]
            counts = {node: sum(sample.node == node for sample in samples) for node in nodes}
            lost = sum(not sample.answered for sample in samples)
            pods = {self.nodes[double]: 2, self.nodes[single]: 1}
            missed = sum(not sample.answered for sample in straight)
            weights = self.observing.weights(pair, family)
            split = {node: n for node, n in counts.items() if n}
            self.counted[family] = Counted(split, pods, lost, weights, len(straight), missed)

    def _single(self) -> int:
        """The slot that becomes the second node of the balance."""
        double = last_open(self.steps)
        return next(slot for slot in range(len(self.nodes)) if slot != double)

    def _both(self, nodes: set[str], spread: bool) -> Reading:
        now = time.monotonic()
        checks = self.observing.health.values()
        healthy = {node for node in nodes if all(of[node].shows("200", now) for of in checks)}
        reached = [
            {sample.node for sample in stream.view(now - 1.0, now)} >= nodes for stream in self.observing.vip.values()
        ]
        marks = self.watching.marks[objects.service_name(self.balancer)]
        ready = {mark.pod for mark in marks if mark.what == "slice-ready"} >= set(self.opened_last)
        right = ready and healthy == nodes and (all(reached) or not spread)
        return Reading(right, f"healthy: {', '.join(sorted(healthy))}", hopeless=self.stopped.is_set())

    # ------------------------------------------------------------------------------------------------------ the tools
    def _first_answers(self) -> Reading:
        now = time.monotonic()
        right = [stream.shows(ANSWERED, now) for stream in self.observing.vip.values()]
        return Reading(all(right), "", hopeless=self.stopped.is_set())

    def _ever_answered(self) -> bool:
        """Whether any request through the VIP was answered so far."""
        return any(sample.answered for stream in self.observing.vip.values() for sample in list(stream.samples))

    def _first_serves(self) -> bool:
        """Whether the first pod is answered at its node's own nodePort."""
        return self.observing.ports[self.nodes[0]].shows(ANSWERED, time.monotonic())

    def _pod(self, name: str) -> str:
        return f"/api/v1/namespaces/{self.namespace}/pods/{name}"

    def _gate(self, name: str, is_open: bool) -> None:
        self.cluster.patch(f"{self._pod(name)}/status", manifests.gate(is_open))

    def _make(self, name: str, node: str) -> None:
        pod = objects.pod(name, self.run, node, self.image, self.balancer, self.serves)
        self.cluster.create(f"/api/v1/namespaces/{self.namespace}/pods", pod)


# --------------------------------------------------------------------------------------------------- all load balancers
OF_BALANCE = (What.BALANCE, What.VIEW_LOCAL, What.VIEW_CLUSTER)
"""What is seen only while two nodes have pods after all changes."""

MOST_NODES = 6
"""The most nodes that are probed all the time: those with endpoint changes, and a few others."""


@dataclass
class Gathering:
    """Makes the endpoint changes, and collects the evidence.

    ``reported`` is the state that load balancers report; ``promise`` and ``threshold`` are those of the cluster's own
    one, ``proxy`` whether ``--provider`` says that it is a proxy, ``others`` is every known address of a node, a pod or
    a client.
    ``bystanders`` are the answers of nodes without endpoint changes, for the first Service; ``uncertainty`` is that of
    the prober's clock, in seconds; ``balance`` whether a check asks for the balance, or for health views beside it.
    ``timeouts``: how long each wait may take.
    """

    testbed: Testbed
    clients: Clients
    image: str
    balancers: Sequence[Balancer]
    moves: int
    seed: int
    packets: bool
    reported: Reported = NOTHING
    promise: Promise = field(default_factory=Promise)
    threshold: Threshold = field(default_factory=Threshold)
    others: frozenset[str] = frozenset()
    proxy: bool = False
    uncertainty: float = 0.0
    balance: bool = True
    timeouts: Timeouts = TIMEOUTS
    heard: str = "packets were not captured"
    bystanders: Bystanders | None = None
    results: dict[Balancer, Result] = field(default_factory=dict)
    drivers: dict[Balancer, Driver] = field(default_factory=dict)
    _stopped: threading.Event = field(default_factory=threading.Event)

    def run(self, run: Run) -> None:
        """Make all endpoint changes; there is one result for each load balancer.

        Raises:
            HarnessError: something of ours failed.
        """
        ready, obstacles = self._reachable()
        watching = Watching(
            self.testbed.cluster,
            self.testbed.namespace,
            {each.value: objects.service_name(each) for each in self.balancers},
        )
        with contextlib.ExitStack() as stack:
            stack.callback(watching.stop)
            probers = {balancer: self._prober(balancer, stack) for balancer in ready}  # start side by side
            targets = {balancer: self._targets(objects.service_name(balancer)) for balancer in ready}
            polls = self._polls(targets)
            ours = set(map(str, self.clients.addresses(OUTSIDE.name))) | self._asking(polls)
            capture = ProbeCapture(
                self.clients, {each.health_port: objects.service_name(of) for of, each in targets.items()}, ours
            )
            stack.callback(capture.stop)
            if self.packets and targets:
                capture.begin()
                self.heard = capture.trouble
            observing = {each: self._observing(each, probers[each], targets[each]) for each in ready}
            stack.callback(polls.stop)
            polls.start()
            stack.enter_context(self.reported.listening())
            self.drivers = drivers = {each: self._driver(each, observing[each], watching) for each in ready}
            perform(
                run, "endpoint changes", {each.value: driver.drive for each, driver in drivers.items()}, self._stopped
            )
            watching.check()
            self.reported.look(
                {
                    balancer: Standing(frozenset(driver.open_nodes), frozenset(driver.observing.vip))
                    for balancer, driver in drivers.items()
                    if driver.counted
                }
            )
            for each in observing.values():
                each.stop()
            polls.stop()
            if observing:
                self.bystanders = polls.answers(next(iter(observing.values())).name)
            self._let_go(drivers)
            self.reported.check()
            arrivals = {}
            if self.packets and observing:
                arrivals, self.heard = capture.end(), capture.trouble
        for balancer in self.balancers:
            if balancer in obstacles:
                self.results[balancer] = Result(balancer, BalancerEvidence({}, {}, {}), obstacle=obstacles[balancer])
            else:
                heard = arrivals.get(objects.service_name(balancer), [])
                self.results[balancer] = self._result(drivers[balancer], heard)

    @property
    def evidence(self) -> Moved:
        """What was observed so far."""
        results = {each: self._result(driver, ()) for each, driver in self.drivers.items()} | self.results
        polls = {balancer: found for balancer in results if (found := self.reported.polls(balancer))}
        others = self.bystanders if self.bystanders and self.bystanders.asked else None
        return Moved(results, PACE.every, PACE.timeout, self.heard, others, polls)

    def _let_go(self, balancers: Collection[Balancer]) -> None:
        """Delete the Cluster Services, and check that their VIPs are released."""
        names = {balancer: objects.cluster_service_name(balancer) for balancer in balancers}
        there = {balancer: name for balancer, name in names.items() if name in self.testbed.services}
        try:
            for name in there.values():
                self.testbed.cluster.delete(f"/api/v1/namespaces/{self.testbed.namespace}/services/{name}")
        except (ApiError, UnreachableError) as broken:
            raise HarnessError(
                f"The API server did not delete a Service after the endpoint changes: {broken}.",
                hint_for(broken) if isinstance(broken, ApiError) else "run again.",
            ) from None
        if there:
            self.reported.look_again(there)

    def _reachable(self) -> tuple[list[Balancer], dict[Balancer, str]]:
        """The load balancers with a VIP, and why the others have none."""
        obstacles = {}
        for balancer in self.balancers:
            name = objects.service_name(balancer)
            if not self.testbed.vips.get(name):
                why = (text for (service, _), text in self.testbed.obstacles.items() if service == name)
                obstacles[balancer] = next(why, "its Service has no VIP")
        return [balancer for balancer in self.balancers if balancer not in obstacles], obstacles

    def _prober(self, balancer: Balancer, stack: contextlib.ExitStack) -> Prober:
        """Start a prober in the place of the client outside, for one Service."""
        prober = self.clients.another(OUTSIDE.name, objects.service_name(balancer))
        stack.callback(prober.close)
        return prober

    def _observing(self, balancer: Balancer, prober: Prober, targets: Targets) -> Observing:
        """Have a prober probe the Service all the time."""
        prober.hello()
        clock = prober.clock()
        self.uncertainty = max(self.uncertainty, clock.uncertainty)
        observing = Observing(objects.service_name(balancer), prober, targets, clock)
        observing.start()
        return observing

    def _targets(self, name: str) -> Targets:
        spec = self.testbed.services[name]["spec"]
        vips = self.testbed.vips[name]
        slots = objects.slots_of(self.testbed.roles)
        nodes = [*slots, *(node for node in self._fit(vips) if node not in slots)][:MOST_NODES]
        addresses = {node: self.testbed.nodes[node].internal for node in nodes}
        return Targets(vips, addresses, spec["ports"][0]["nodePort"], spec["healthCheckNodePort"])

    def _polls(self, of_each: Mapping[Balancer, Targets]) -> Everywhere:
        """The health check of one Service at the nodes that are not probed all the time, in its first family."""
        if not of_each:
            return Everywhere({}, {}, 0)
        targets = next(iter(of_each.values()))
        family = next(iter(targets.vips))
        others = sorted(set(self._fit(targets.vips)) - set(targets.nodes))
        addresses = {node: self.testbed.nodes[node].internal[family] for node in others}
        return Everywhere(self.clients.agents, addresses, targets.health_port)

    def _asking(self, polls: Everywhere) -> set[str]:
        """The addresses of agents that probe health checks; they are not a load balancer's."""
        asking = self.clients.agents if polls.nodes else ()
        return {address for node in asking for address in self.testbed.nodes[node].internal.values()}

    def _fit(self, families: Collection[Family]) -> list[str]:
        """The nodes that can be probed in these families; those of the sample come first."""
        there = (node for node in self.testbed.nodes.values() if node.usable and node.chosen)
        fit = (node.name for node in there if set(families) <= node.internal.keys())
        return sorted(fit, key=lambda name: (name not in self.testbed.sampled, name))

    def _driver(self, balancer: Balancer, observing: Observing, watching: Watching) -> Driver:
        testbed, seed = self.testbed, f"{self.seed} {balancer.value}"
        nodes = objects.slots_of(testbed.roles)
        own, patience = balancer is Balancer.DEFAULT, testbed.patience  # the reference's ways are not the cluster's
        reported, promise = self.reported.checking(balancer), self._promise(balancer)
        known = [each for each in (reported.bound, promise.seconds, patience.steering if own else None) if each]
        return Driver(
            testbed.cluster,
            testbed.namespace,
            testbed.run,
            self.image,
            balancer,
            nodes,
            plan(seed, len(nodes), self.moves),
            seed,
            observing,
            watching,
            self.reported.decisions(balancer),
            self._stopped,
            period=reported.period or 0.5,
            bound=max(known, default=None),
            serves=serves_on(testbed.steering),
            timeouts=self.timeouts.answering(patience.answering) if own else self.timeouts,
            spreads=promise.spreads is True,
            single=promise.spreads is False,
            balance=self.balance,
            patience=0.0 if promise.known else slowest(all_profiles()),
        )

    def _result(self, driver: Driver, arrivals: Sequence[Arrival]) -> Result:
        balancer = driver.balancer
        result = Result(
            balancer,
            driver.seen,
            driver.changes,
            {change.number: time.monotonic() for change in driver.changes}
            | driver.ends,  # an interrupt leaves one open
            [(driver.first_pod, float("-inf")), *driver.opened_last.items()],
            self._sources(balancer),
            own_addresses(self.clients),
            self.reported.checking(balancer),
            counted=driver.counted,
            views=self.reported.views(balancer),
            obstacle=driver.obstacle,
            planned=sum((step.up is not None) + (step.down is not None) for step in driver.steps),
            promise=self._promise(balancer),
            threshold=self._threshold(balancer),
            uncertainty=self.uncertainty,
            others=self.others,
            proxy=self.proxy,
        )
        return result.with_observed(observe_probes(arrivals, result.timelines()))

    def _promise(self, balancer: Balancer) -> Promise:
        """How fast a balancer has to follow; of the reference one, an instrument, by what we started it with."""
        if balancer is Balancer.DEFAULT:
            return self.promise
        return promise_of_reference(self.reported.settings())

    def _threshold(self, balancer: Balancer) -> Threshold:
        """After how many failed health checks a balancer leaves a node."""
        own = balancer is Balancer.DEFAULT
        return self.threshold if own else threshold_of_reference(self.reported.settings())

    def _sources(self, balancer: Balancer) -> dict[Family, frozenset[str]]:
        """The source addresses that pods may see through the VIP: the client's, or a proxy's own."""
        if balancer in PROXIES:
            return self.reported.addresses()
        return own_addresses(self.clients)


def own_addresses(clients: Clients) -> dict[Family, frozenset[str]]:
    """The addresses of the client outside, by family."""
    addresses = clients.addresses(OUTSIDE.name)
    return {family: frozenset(str(each) for each in addresses if family_of(each) is family) for family in Family}


def observe(context: Context) -> Moved:
    """The results of all endpoint changes, for each load balancer."""
    run, testbed, findings, settings = context.run, context.testbed, context.findings, context.run.settings
    checks = context.asked(EndpointChange)
    gathering = Gathering(
        testbed, context.clients, settings.image, balancers_of(checks),
        settings.moves, settings.seed, findings.features["packets"].present,
        reported_by(findings, testbed),
        promise_of(testbed.balancer.profiles, sure=testbed.balancer.named, bound=settings.bound),
        threshold_of(testbed.balancer.profiles, certain=testbed.balancer.certain),
        frozenset(map(str, held(context.topology))), is_proxy_by_user(findings.facts),
        balance=any(check.subject.what in OF_BALANCE for check in checks), timeouts=context.timeouts,
    )  # fmt: skip
    context.gathered = lambda: gathering.evidence
    names = ", ".join(each.value for each in gathering.balancers)
    with run.phase("endpoint changes", f"{settings.moves} up and {settings.moves} down: {names}; seed {settings.seed}"):
        gathering.run(run)
        own, others = gathering.results.get(Balancer.DEFAULT), gathering.bystanders
        if own is not None:
            observed_checks(run, testbed.balancer, own.observed.checking)
        if others is not None and others.finding:
            run.note("health checks", others.finding)
        lines = [*gathering.reported.lines(gathering.results), *(others.lines() if others else [])]
        if lines:
            run.note(REPORTED, "; ".join(line.strip() for line in lines).replace(":; ", ": "))
    return gathering.evidence


def reported_by(findings: Findings, testbed: Testbed) -> Reported:
    """The source of reported state: the reference load balancer, or a cloud's load balancer, which must be polled."""
    nodes = testbed.nodes.values()
    if findings.reference:
        return ReferenceState(findings.reference, testbed.namespace, nodes)
    return polled_state(
        asked_of(nodes, findings.balancer.named_profile), testbed.cluster, testbed.namespace, testbed.services, nodes
    )
