"""The run of path checks: every path of every selected check in one window, after the data plane has settled.

Nothing is tried again. The window has two parts. The sample has a few connections for each path; it is recorded in
full, with packets if possible. The rest follows, and equal results are grouped.
"""

import contextlib
import itertools
import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from esipp.base.cores import idle_cores
from esipp.base.errors import HarnessError
from esipp.base.waiting import Budget, Convergence, Reading, converge
from esipp.checks.catalog import designs
from esipp.checks.check import Level
from esipp.checks.ingress import facts_at
from esipp.checks.model import NO_ANSWER, Client, EntryKind, Outcome, Path, Protocol, Role, Vantage
from esipp.checks.path import OnPath, PathCheck
from esipp.judging.observation import NOTHING_TRACKED, Observation, Tracked, Witness
from esipp.judging.topology import Topology
from esipp.ledger.codec import record_of
from esipp.ledger.run import Run
from esipp.packets.capture import MOST_PACKETS
from esipp.packets.trace import Watch
from esipp.packets.tracking import Reader, Tracking, reachable
from esipp.preflight.facts import listener_facts
from esipp.probing.prober import Job, Prober, ProberLostError, job_on
from esipp.scenarios.balancer_facts import observed_behaviour, steering
from esipp.scenarios.context import Context
from esipp.scenarios.paths.evidence import Evidence, FirstAnswers, Stall, Steer, Wait
from esipp.scenarios.paths.judge import as_asked
from esipp.scenarios.timeouts import TIMEOUTS
from esipp.testbed import integrity, network_policies
from esipp.testbed.clients import Clients, vip_owners
from esipp.testbed.integrity import Harm
from esipp.testbed.testbed import Testbed

SETTLING_TIMEOUT = 1.0
"""Seconds a probe may take while the data plane is being programmed."""

QUICK_LOOKS = 5
"""Looks with that timeout. What is silent then may be a busy machine that answers late, so the later ones have more."""

PATIENT_TIMEOUT = 4.0
"""Seconds a probe may take from then on."""

JUDGED_TIMEOUT = 2.0
"""Seconds of silence that count as no answer in the judged window: one SYN retransmission is given its chance."""

ANSWER_TIMEOUT = 10.0
"""Seconds that a path gets which answered while settling: a late answer of a machine that is busy is an answer. TCP
sends its SYN again after one second, three and seven; where an answer is lost for good, patience changes nothing."""

SAMPLED = 4
"""The fewest connections of a path that are kept whole and looked for among the packets, so that these are of every
client, node and entry."""

SAMPLED_PER_CORE = 2_500
"""The connections of all paths that are, for each idle core of this machine, if their paths have more than the fewest.
To be recorded whole and looked for in captures, each takes this machine half as long again as other connections, and
the ledger has 1.6 kB for it."""

PACKETS_EACH = 5
"""The packets that a capture has of a connection."""

MOST_SAMPLED = MOST_PACKETS // PACKETS_EACH // 2
"""The most connections that are, however many cores there are: all may go through one node, whose tap ends after so
many packets. Half of them are left to controls and to packets that are sent again."""

JOBS_AT_ONCE = 12
"""The most jobs of a client in flight on answering paths; jobs on silent paths run all at once."""

PARALLEL = {Protocol.TCP: 8, Protocol.UDP: 2, Protocol.SCTP: 2}
"""Probes of one job in flight, on paths that answer: more would overrun the receive buffer of our own echo server,
and be counted as the product's loss."""

WAIT_TIMEOUT = 10.0
"""Seconds of silence that the patient probes of a path have which must not answer: as long as a late answer has that
counts elsewhere."""

WAITS = 2
"""Patient probes of each such path."""

LINGER = 0.1
"""Seconds for which a probe over UDP or SCTP listens for a second answer: a packet that is doubled on the way comes
twice within milliseconds. Each job ends so much later."""

BOUND = 600.0
"""Seconds after which a prober that has not finished is given up."""


@dataclass(frozen=True)
class Plan:
    """What to dial: address and port by path, and the paths that cannot be dialled with the reason.

    ``seed`` chooses source ports of the whole range from 1,024 up; None leaves them to the kernel.
    """

    targets: Mapping[Path, tuple[str, int]]
    obstacles: Mapping[str, str] = field(default_factory=dict)
    seed: int | None = None

    def first_port(self, client: Client) -> int | None:
        """The number with which the source ports of a client begin: another one for each."""
        return None if self.seed is None else zlib.crc32(f"{self.seed} {client.name}".encode())


def sampled_of(paths: int, samples: int, idle: float) -> int:
    """The number of connections of each path that packets witness: as many as this machine bears.

    Each path has some, so they are of every client, node and entry.

    Args:
        paths: the number of paths.
        samples: the connections that are made on each.
        idle: the idle cores of this machine.
    """
    bears = min(int(SAMPLED_PER_CORE * idle), MOST_SAMPLED)
    return min(samples, max(SAMPLED, bears // max(paths, 1)))


def plan(
    path_checks: Iterable[PathCheck],
    address: Callable[[Path], tuple[str, int] | str],
    also: Iterable[Path] = (),
    seed: int | None = None,
) -> Plan:
    """Resolve every path of the checks, with their controls and other paths, once.

    They are mixed, the same way in each run: so a client dials the paths without a Service, which are the controls,
    among the others all the time, and not one after the other in a part of the window.
    """
    targets: dict[Path, tuple[str, int]] = {}
    obstacles: dict[str, str] = {}
    every = {path for path_check in path_checks for path in path_check.subject.paths} | set(also)
    for path in sorted(every, key=lambda path: (zlib.crc32(path.key.encode()), path.key)):
        target = address(path)
        if isinstance(target, str):
            obstacles[path.key] = target
        else:
            targets[path] = target
    return Plan(targets, obstacles, seed)


def must_answer(path_checks: Iterable[PathCheck], facts: Mapping[str, str]) -> set[Path]:
    """The paths that must answer before the judged window.

    Paths that a known difference allows to stay silent on this cluster are not among them.
    """
    path_checks = list(path_checks)
    wanted = {
        path_check.subject.path
        for path_check in path_checks
        if not path_check.subject.is_negative and path_check.level is not Level.RECORD
    }
    may_be_silent = {
        path_check.subject.path
        for path_check in path_checks
        for known in path_check.differences
        if known.connections.accept & NO_ANSWER and known.holds(facts_at(path_check.subject.own_service, facts))
    }
    return (
        wanted - may_be_silent
        | {control.path for path_check in path_checks for control in path_check.subject.controls} - may_be_silent
    )


def asks_for_moments(path_checks: Iterable[PathCheck], facts: Mapping[str, str]) -> bool:
    """Whether a known difference of this cluster needs the times of connections that were not lost."""
    differences = (
        known
        for path_check in path_checks
        for known in path_check.differences
        if known.connections.collides or known.connections.hangs
    )
    return any(known.holds(facts) for known in differences)


@dataclass
class Settling:
    """Waits until every path that must answer does, three times in a row; ``answering`` are those that ever did.

    The other paths are dialled once, when those first answer that must, or at the end: if one answers, as some data
    planes do, its probes are work for our echo server, and must not all come at once. Most stay silent, so this passes
    beside the last looks; ``others`` waits for it.

    Set-up may converge; only the judged window has no retry. A path that never answers uses up the ``budget`` and is
    then judged as it is: its silence is a fault of the product. ``lost`` says why the prober of a client is gone; its
    paths are not waited for. ``first`` are all answers, by path key.

    The ``budget`` of a slow load balancer takes minutes. It is the time until a VIP answers, so the paths to a VIP have
    ``follows`` seconds once that answers a client outside, and the paths elsewhere from the beginning. None: it is
    unknown how long the load balancer takes to use all nodes, and every path has the whole budget.
    """

    probers: Mapping[str, Prober]
    todo: Plan
    answering: set[Path] = field(default_factory=set)
    budget: Budget = TIMEOUTS.paths_answer
    lost: dict[Client, str] = field(default_factory=dict)
    follows: float | None = None
    first: dict[str, list[FirstAnswers]] = field(default_factory=dict)
    _there: dict[tuple[str, int, Protocol], float] = field(default_factory=dict)
    """When each VIP's port first answered a client outside."""
    _others: "Future[dict[Path, list[Observation]]] | None" = None

    def wait(self, expected: set[Path]) -> Convergence:
        """Wait for the paths that are expected to answer, then for what comes of the others."""
        ended = self.expect(expected)
        self.others()
        return ended

    def expect(self, expected: set[Path]) -> Convergence:
        """Wait for the paths that are expected to answer; ``others`` must follow."""
        expecting = [path for path in self.todo.targets if path in expected]
        looks, began = itertools.count(), time.monotonic()

        def look() -> Reading:
            timeout = SETTLING_TIMEOUT if next(looks) < QUICK_LOOKS else PATIENT_TIMEOUT
            waiting = [path for path in expecting if path.client not in self.lost]
            seen = fly(self.probers, self.todo, waiting, 1, timeout=timeout, lost=self.lost)
            self._take(seen)
            answering = {path for path, made in seen.items() if all(o.outcome is Outcome.ANSWERED for o in made)}
            silent = [path for path in waiting if path not in answering and path.client not in self.lost]
            self.answering |= answering
            if not silent:
                self._dial_others()
                return Reading(True, f"{len(waiting)} paths answer")
            state = f"{len(silent)} of {len(waiting)} paths do not answer, among them {silent[0].key}"
            for path in (path for path in answering if path.client.role is None):
                self._there.setdefault(self._at(path), time.monotonic())
            return Reading(False, state, hopeless=all(self._is_over(path, began) for path in silent))

        ended = converge(look, self.budget)
        self._dial_others()
        return ended

    def others(self) -> None:
        """Wait for what came of the other paths."""
        assert self._others is not None
        seen = self._others.result()
        self._take(seen)
        for path, made in seen.items():
            self.answering |= {path for each in made if each.outcome is Outcome.ANSWERED}

    def _dial_others(self) -> None:
        """Dial the paths once that did not answer so far."""
        if self._others is None:
            others = [p for p in self.todo.targets if p not in self.answering and p.client not in self.lost]
            beside = ThreadPoolExecutor(1)
            self._others = beside.submit(fly, self.probers, self.todo, others, 1, lost=self.lost)
            beside.shutdown(wait=False)

    def _take(self, seen: Mapping[Path, Iterable[Observation]]) -> None:
        """Keep the answers, equal ones after each other as one."""
        for path, made in seen.items():
            for each in made:
                if each.outcome is not Outcome.ANSWERED or each.seen is None:
                    continue
                kept = self.first.setdefault(path.key, [])
                now = FirstAnswers(each.seen[0], each.source[0] if each.source else None, each.backend)
                if kept and replace(kept[-1], count=1) == now:
                    kept[-1] = replace(now, count=kept[-1].count + 1)
                else:
                    kept.append(now)

    def _at(self, path: Path) -> tuple[str, int, Protocol]:
        return *self.todo.targets[path], path.protocol

    def _is_over(self, path: Path, began: float) -> bool:
        """Whether a path had all the time that it may take."""
        since = self._there.get(self._at(path)) if path.entry.kind is EntryKind.VIP else began
        return self.follows is not None and since is not None and time.monotonic() - since > self.follows


def wait_longer(
    probers: Mapping[str, Prober], todo: Plan, path_checks: Iterable[PathCheck], answering: set[Path]
) -> dict[Path, list[Wait]]:
    """Probe the paths that must not answer, and do not so far, with more patience, all at the same time."""
    silent = {check.subject.path for check in path_checks if check.subject.is_negative} - answering
    paths = [path for path in todo.targets if path in silent]
    seen = fly(probers, todo, paths, WAITS, timeout=WAIT_TIMEOUT, lost={})
    return {
        path: [Wait(each.outcome is Outcome.ANSWERED, round(each.ended - each.started, 3)) for each in made]
        for path, made in seen.items()
    }


def fly(
    probers: Mapping[str, Prober],
    todo: Plan,
    paths: Sequence[Path],
    count: int,
    *,
    timeout: float = JUDGED_TIMEOUT,
    brief: bool = False,
    answering: set[Path] | None = None,
    tell: Callable[[str, int], None] = lambda _path, _count: None,
    lost: dict[Client, str] | None = None,
) -> dict[Path, list[Observation]]:
    """Probe all paths at the same time, ``count`` new connections each.

    Args:
        probers: the prober of each client.
        todo: where the paths lead.
        paths: those to probe.
        count: probes a path.
        timeout: seconds a probe may take.
        brief: whether equal results are grouped.
        answering: paths that are known to answer; their number in flight is limited to what our own echo server handles
            without loss. None starts all at once.
        tell: called with a path's key and ``count`` when its job ends, from any thread.
        lost: receives why the prober of a client is gone; its paths have no observations. Without it, that is an error.
    """
    jobs: dict[Path, Job] = {}
    for path in paths:
        host, port = todo.targets[path]
        answers = answering is not None and path in answering
        made = job_on(path, host, port, count, max(timeout, ANSWER_TIMEOUT) if answers else timeout)
        bounded = PARALLEL[path.protocol] if answers else 0
        jobs[path] = replace(
            made, brief=brief, parallel=bounded, wide=todo.first_port(path.client), linger=LINGER if answers else 0.0
        )
    flying: dict[Path, Future[list[Observation]]] = {}
    for path, job in jobs.items():
        if not job.parallel:
            flying[path] = probers[path.client.name].submit(job)
    clients = sorted({path.client.name for path, job in jobs.items() if job.parallel})
    gates = {client: ThreadPoolExecutor(JOBS_AT_ONCE, thread_name_prefix=client) for client in clients}

    def through(path: Path) -> list[Observation]:
        return probers[path.client.name].submit(jobs[path]).result(timeout=BOUND)

    def telling(key: str) -> Callable[["Future[list[Observation]]"], None]:
        return lambda _landed: tell(key, count)

    try:
        for path, job in jobs.items():
            if job.parallel:
                flying[path] = gates[path.client.name].submit(through, path)
        for path, future in flying.items():
            future.add_done_callback(telling(path.key))
        landed = {path: _landed(path, future, lost) for path, future in flying.items()}
        return {path: seen for path, seen in landed.items() if seen is not None}
    finally:
        for gate in gates.values():
            gate.shutdown(wait=False, cancel_futures=True)


def stalls_of(probers: Mapping[str, Prober], clocks: Mapping[str, float], began: float) -> list[Stall]:
    """When machines of clients stood still since then; ``clocks`` are the seconds that each is ahead of ours."""
    found = []
    for name, prober in probers.items():
        with contextlib.suppress(HarnessError):  # a prober that is gone has an obstacle of its own
            found += [Stall(name, at - clocks[name], seconds) for at, seconds in prober.standstills()]
    return [each for each in found if each.at + each.seconds >= began]


def _landed(
    path: Path, future: "Future[list[Observation]]", lost: dict[Client, str] | None
) -> list[Observation] | None:
    try:
        return future.result(timeout=BOUND)
    except ProberLostError as gone:
        if lost is None:
            raise
        lost.setdefault(path.client, gone.sentence.rstrip("."))
        return None
    except TimeoutError:
        raise HarnessError(
            f"Timed out after {BOUND:.0f} s waiting for the prober of {path.client.name} to finish {path.key}.",
            "is its machine or container overloaded?",
        ) from None


# ----------------------------------------------------------------------------------------------------------- the window
WATCHER = Client("pod-on-other-node", Vantage.POD, Role.OTHER_NODE)
"""The client that dials pods directly if cluster-wide policies may deny that."""


def observe(context: Context) -> Evidence:
    """The evidence of every path of every selected check.

    If the number of load balancers is limited, there are several windows, one after the other.
    """
    run, testbed, findings = context.run, context.testbed, context.findings
    topology = context.topology
    path_checks = [as_asked(check, topology) for check in context.asked(OnPath)]
    _say_share(run, path_checks)
    taken = Taken()
    for number, names in enumerate(testbed.batches.windows):
        if testbed.batches.limited:
            with run.phase("set-up", f"load balancers of window {number + 1}: {', '.join(sorted(names))}"):
                testbed.balance(names)
        these = [path_check for path_check in path_checks if testbed.batches.window_of(path_check) == number]
        topology = replace(topology, balancers={**topology.balancers, **vip_owners(testbed.vips)})
        _observe(context, topology, these, taken)
    context.watch = taken.watch
    several = {key: times for key, times in taken.windows.items() if times > 1}
    known = {name: value for name, value in vars(taken).items() if name not in ("targets", "watch")}
    return Evidence(
        topology=topology,
        features=findings.features,
        samples=run.settings.samples,
        facts=findings.facts,
        **known | {"windows": several},
    )


@dataclass
class Taken:
    """The evidence of all windows (see ``Evidence``); ``targets`` are the dialled paths."""

    observations: dict[str, list[Observation]] = field(default_factory=dict)
    obstacles: dict[str, str] = field(default_factory=dict)
    witnesses: dict[str, list[Witness]] = field(default_factory=dict)
    blind: str = ""
    steers: list[Steer] = field(default_factory=list)
    clocks: dict[str, float] = field(default_factory=dict)
    doubts: dict[str, str] = field(default_factory=dict)
    windows: dict[str, int] = field(default_factory=dict)
    first: dict[str, list[FirstAnswers]] = field(default_factory=dict)
    waits: dict[str, list[Wait]] = field(default_factory=dict)
    stalls: list[Stall] = field(default_factory=list)
    tracked: dict[str, Tracked] = field(default_factory=dict)
    targets: set[Path] = field(default_factory=set)
    watch: Watch | None = None

    def take(self, path: Path, made: Sequence[Observation], samples: int) -> list[Observation]:
        """Add a window's observations of a path, with unique sequence numbers, and return them."""
        before = self.windows.get(path.key, 0) * samples
        self.windows[path.key] = self.windows.get(path.key, 0) + 1
        added = [replace(each, seq=each.seq + before) for each in made] if before else list(made)
        self.observations.setdefault(path.key, []).extend(added)
        self.targets.add(path)
        return added

    def track(self, tracked: Mapping[str, Tracked]) -> None:
        """Add what a window's connections were tracked as."""
        for key, each in tracked.items():
            before = self.tracked.get(key, NOTHING_TRACKED)
            words = before.words or each.words
            self.tracked[key] = Tracked(before.agreed + each.agreed, before.contradicted + each.contradicted, words)

    def witness(self, watch: Watch | None, witnesses: Mapping[str, Sequence[Witness]], blind: str) -> None:
        """Add a window's packet witnesses."""
        for key, each in witnesses.items():
            self.witnesses.setdefault(key, []).extend(each)
        self.blind = "; ".join(dict.fromkeys(each for each in (self.blind, blind) if each))
        if self.watch is not None and watch is not None:
            watch.traces, watch.captures = self.watch.traces | watch.traces, [*self.watch.captures, *watch.captures]
        self.watch = watch or self.watch


def _observe(context: Context, topology: Topology, path_checks: Sequence[PathCheck], taken: Taken) -> None:
    """Perform a window: settle, observe, and determine which paths cannot be judged because of the environment."""
    run, testbed, clients, findings = context.run, context.testbed, context.clients, context.findings
    patience, seed = testbed.patience, run.settings.seed
    policies = network_policies.beyond_us(testbed.cluster, testbed.namespace)
    todo = plan(path_checks, testbed.address, _direct(path_checks, clients) if policies else (), seed)
    usual = context.timeouts.paths_answer
    budget = replace(usual, name=patience.named(usual.name), seconds=max(patience.answering, usual.seconds))
    follows = None if patience.steering is None else usual.seconds + patience.steering
    settling = Settling(clients.probers, todo, budget=budget, follows=follows)
    with run.phase("settle", "waiting until every path that must answer does so"):
        settled = settling.expect(must_answer(path_checks, findings.facts))
        idle, cores = idle_cores()  # while other paths are silent
        settling.others()
        run.record("settled", held=settled.held, seconds=round(settled.seconds, 3), state=settled.state)
    if not settled.held:
        run.say(f"settle: {settled}; esipp judges the current state")
    samples, lost = run.settings.samples, settling.lost
    targets = [path for path in todo.targets if path.client not in lost]
    sampled = sampled_of(len(targets), samples, idle)
    said = f"{idle:.1f} of {cores} cores of this machine were idle"
    run.fact("paths.sampled", f"{sampled} of {samples} connections of each of {len(targets)} paths", said)
    seen: dict[Path, list[Observation]] = {}
    looking = run.phase("observe", f"{len(targets)} paths, {samples} connections each")
    timed = asks_for_moments(path_checks, findings.facts)
    clocks = {name: prober.clock().offset for name, prober in clients.probers.items()}
    began = time.monotonic()
    reader = Reader(reachable(clients.agents, findings.on_node))
    with looking, testbed.suspected(), steering(run, findings) as steers, ThreadPoolExecutor(1) as beside, reader:
        tell, answering = run.progress.completed, settling.answering
        waiting = beside.submit(wait_longer, clients.probers, todo, path_checks, answering)
        with context.watched() as watch:
            seen |= fly(clients.probers, todo, targets, sampled, answering=answering, tell=tell, lost=lost)
        context.found_out(watch)
        if samples > sampled:
            rest, left_over = samples - sampled, [path for path in targets if path.client not in lost]
            briefly = fly(clients.probers, todo, left_over, rest, brief=True, answering=answering, tell=tell, lost=lost)
            for path, made in briefly.items():
                seen[path] += [each if timed or each.outcome is not Outcome.ANSWERED else replace(each, moments=())
                               for each in made]  # fmt: skip
        tracking = Tracking(reader.end())  # at once, as kernels forget
        taken.stalls += stalls_of(clients.probers, clocks, began)
        for path, waits in waiting.result().items():
            taken.waits.setdefault(path.key, []).extend(waits)
        for key, answers in settling.first.items():
            taken.first.setdefault(key, []).extend(answers)
        harm = testbed.harmed().with_lost(lost, testbed.cast)
        _none_left(todo, harm, testbed)
        obstacles = {**todo.obstacles, **harm.obstacles(todo.targets, testbed.cast)}
        added = {path.key: taken.take(path, made, samples) for path, made in seen.items()}
        taken.track(tracking.testify(added))
        whole = {path: made for path, made in seen.items() if path.key not in obstacles}
        obstacles |= network_policies.denied(whole, {path.key: made for path, made in whole.items()}, policies)
        for sentence in harm.sentences:
            run.note("environment", sentence)
            run.say(f"{sentence}: esipp cannot judge the checks that need it")
        for key, why in obstacles.items():
            run.record("obstacle", path=key, why=why)
        taken.obstacles |= obstacles
        taken.doubts |= integrity.doubts(todo.targets, testbed.injected, testbed.cast)
        for observations in added.values():
            for each in observations:
                run.record("observation", **record_of(each))
        for name, fact in listener_facts(taken.observations, taken.targets, topology).items():
            run.fact(name, fact.value, fact.decided)
            findings.facts[name] = fact.value
        observed_behaviour(run, findings, testbed, taken.observations, taken.targets, topology)
    with run.phase("packets", "following the sampled connections through the captures"):
        witnesses, blind = context.follow(watch, added)
        for witness in (each for made in witnesses.values() for each in made):
            run.record("witness", **record_of(witness))
        taken.witness(watch, witnesses, blind)
    taken.steers += steers.made
    taken.clocks |= clocks


def _say_share(run: Run, path_checks: Sequence[PathCheck]) -> None:
    """Record how much of the full product of each covering design this run asks, and what it does not ask."""
    paths = {check.subject.path for check in path_checks}
    for suite, whole in designs().items():
        asked = whole.only(paths)
        if asked.own:
            left_out = "; ".join(asked.not_asked()) or "every pair of the product has a path"
            run.fact(f"paths.design.{suite}", asked.words, left_out)


def _direct(path_checks: Sequence[PathCheck], clients: Clients) -> list[Path]:
    """The paths from esipp's pods to the backend's pod IP, in the protocols and families of these checks."""
    paths = {path for path_check in path_checks for path in path_check.subject.paths}
    ways = {path.protocol for path in paths} - {Protocol.SCTP}  # SCTP needs raw sockets at both ends
    stands = {path.client for path in paths} | {WATCHER}
    known = [client for client in stands if client.name in clients.probers]
    return network_policies.direct(known, {path.family for path in paths}, ways)


def _none_left(todo: Plan, harm: Harm, testbed: Testbed) -> None:
    """Check that some paths can still be judged.

    Raises:
        HarnessError: no path can be judged.
    """
    if todo.targets and len(harm.obstacles(todo.targets, testbed.cast)) == len(todo.targets):
        harm.raise_first()
