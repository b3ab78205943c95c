"""The run of path checks: every path of every selected check in one window, after the data plane has settled."""

import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace

from esipp.base.cores import idle_cores
from esipp.checks.catalog import designs
from esipp.checks.model import Client, Path, Protocol, Role, Vantage
from esipp.checks.observation import Observation, Outcome, Tracked, Witness
from esipp.checks.path import OnPath, PathCheck
from esipp.judging.reading import NOTHING_TRACKED
from esipp.judging.topology import Topology
from esipp.ledger.codec import record_of
from esipp.ledger.run import Run
from esipp.packets.tracking import Reader, Tracking, reachable
from esipp.preflight.facts import listener_facts
from esipp.scenarios.balancer_facts import observed_behaviour, steering
from esipp.scenarios.context import Context
from esipp.scenarios.packet_watch import Watch, follow, found_out, watched
from esipp.scenarios.paths.evidence import Evidence, FirstAnswers, Stall, Steer, Wait
from esipp.scenarios.paths.judge import as_asked
from esipp.scenarios.paths.probes import (
    Plan,
    Settling,
    asks_for_moments,
    fly,
    must_answer,
    plan,
    sampled_of,
    stalls_of,
    wait_longer,
)
from esipp.testbed import integrity, network_policies
from esipp.testbed.clients import Clients, vip_owners
from esipp.testbed.integrity import Harm
from esipp.testbed.testbed import Testbed

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
    known = taken.obstacles, taken.witnesses, taken.blind, taken.steers, taken.clocks, taken.doubts, several
    more = taken.first, taken.waits, taken.stalls, taken.tracked
    return Evidence(
        taken.observations, topology, findings.features, run.settings.samples, findings.facts, *known, *more
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
        with watched(run, findings, testbed, clients) as watch:
            seen |= fly(clients.probers, todo, targets, sampled, answering=answering, tell=tell, lost=lost)
        found_out(run, findings, watch)
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
        witnesses, blind = follow(run, watch, added)
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
