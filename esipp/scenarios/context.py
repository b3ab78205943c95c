"""What a scenario's run is given, and what runs share: events as they are planned, and failures that end one alone."""

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

from esipp.base.cores import RunQueue, idle_cores
from esipp.base.errors import HarnessError, PreflightError
from esipp.base.interrupt import Stop, StoppedError, undisturbed
from esipp.base.terminal import wait_for_enter
from esipp.checks.check import Check, Feature, Status, Subject, Verdict, checks_about, missing_features
from esipp.checks.model import BACKENDS, Protocol
from esipp.checks.required_features import PACKETS
from esipp.cluster.client import ApiError, Cluster, UnreachableError
from esipp.disruption.disruptor import Disruptor
from esipp.judging.durations import planned_events, schedule
from esipp.judging.frame import Interruptions, Known, give_verdict, run_queue, undecided
from esipp.judging.observation import Observation, Witness
from esipp.judging.scenario import RunThen, Scenario, scenario_of, scenarios
from esipp.judging.schedule import PlannedEvent, Touches, may_run_aside, only_own_services, steps
from esipp.judging.topology import Topology
from esipp.ledger.codec import judged
from esipp.ledger.run import Run
from esipp.packets.trace import Watch
from esipp.preflight.preflight import Findings
from esipp.scenarios.timeouts import TIMEOUTS, Timeouts
from esipp.testbed.clients import Clients
from esipp.testbed.endpoints import Pods, endpoints_of, scope_of
from esipp.testbed.objects import Ground
from esipp.testbed.testbed import Testbed

About = TypeVar("About", bound=Subject)

SPARE_CORES = 1.0
"""Idle cores with which scenarios run side by side. Their steady traffic takes less than half a core each."""


@dataclass(frozen=True)
class Unfinished:
    """Evidence that lacks only what a wait will bring: nothing is changed and nothing loads the machine meanwhile.

    Args:
        wait: is done when the wait is over.
        finish: gives the whole evidence, after the rest of the wait.
    """

    wait: "Future[Any]"
    finish: Callable[[], Any]


@dataclass
class Context:
    """What the runs of scenarios are given.

    Testbed, clients and topology are set up when a scenario first asks for them.

    Args:
        run: the run, to record in.
        findings: what preflight found; facts and features that a scenario finds out are put there.
        get: sets up a part of the session by its name, or returns it.
        evidence: what each scenario observed, by its name.
        broken: why a scenario broke off, by its name: its own checks are undecided, and the run goes on.
        watch: the packets of the judged window of paths, if any.
    """

    run: Run
    findings: Findings
    get: Callable[[str], Any]
    evidence: dict[str, Any] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)
    watch: Watch | None = None
    _analysed: dict[str, Any] = field(default_factory=dict)
    _paused: set[str] = field(default_factory=set)
    _unmade: bool = False
    _aside: dict[str, Future[Any]] = field(default_factory=dict)
    _stops: list[Stop] = field(default_factory=list)
    _of_thread: threading.local = field(default_factory=threading.local)

    @property
    def gathered(self) -> Callable[[], Any] | None:
        """Gives the evidence so far, while a scenario gathers it in this thread; None before there is any."""
        found: Callable[[], Any] | None = getattr(self._of_thread, "gathered", None)
        return found

    @gathered.setter
    def gathered(self, given: Callable[[], Any] | None) -> None:
        self._of_thread.gathered = given

    def stop(self) -> Stop:
        """What ends a scenario if another one that runs beside it is interrupted."""
        made = Stop()
        self._stops.append(made)
        return made

    @cached_property
    def testbed(self) -> Testbed:
        """The pods and Services of all selected checks."""
        made: Testbed = self._made("testbed")
        return made

    @cached_property
    def clients(self) -> Clients:
        """The probers of all clients."""
        made: Clients = self._made("clients")
        return made

    @cached_property
    def topology(self) -> Topology:
        """The owners of addresses, once all probers run."""
        made: Topology = self._made("topology")
        return made

    def _made(self, name: str) -> Any:
        try:
            return self.get(name)
        except BaseException:
            self._unmade = True
            raise

    @property
    def cluster(self) -> Cluster:
        """The API server."""
        return self.testbed.cluster

    @property
    def features(self) -> Mapping[str, Feature]:
        """The features of the cluster and its environment."""
        return self.findings.features

    @property
    def ground(self) -> Ground:
        """What scenarios choose their objects by."""
        run, found = self.run, self.findings
        sampled = found.sample.nodes
        return Ground(run.id, run.settings.image, found.nodes, found.roles, found.features, found.steering, sampled)

    @property
    def timeouts(self) -> Timeouts:
        """How long scenarios may wait on this cluster, at most."""
        return TIMEOUTS.slower(self.run.settings.timeout_factor)

    def runnable(self) -> list[Check]:
        """The selected checks that can run on this cluster."""
        return [check for check in self.run.checks if not missing_features(check, self.features)]

    def asked(self, about: type[About]) -> list[Check[About]]:
        """The selected checks with such subjects that can run on this cluster."""
        return checks_about(about, self.runnable())

    def disruptor(self, stop: Stop) -> Disruptor:
        """A disruptor whose rollback no signal interrupts; the caller closes it."""
        run = self.run
        return Disruptor(
            self.cluster, self.findings, run.id, stop, undisturbed, run.folder / "watchdog.txt", run.say,
            run.settings.images,
        )  # fmt: skip

    def verdict(self, check: Check) -> Verdict:
        """The verdict on a check. Its scenario runs when the first of its checks is asked."""
        run, scenario = self.run, scenario_of(check)
        if scenario.name not in self._analysed:
            self._analysed[scenario.name] = scenario.analyse(self.observe(scenario))
        began = time.monotonic()
        known = Known(self.findings.facts, self.findings.features)
        if why := self.broken.get(scenario.name):
            verdict = give_verdict(check, known, lambda: undecided(check, why))
        else:
            verdict = scenario.judge(check, self._analysed[scenario.name], known)
        run.seconds["judge"] = run.seconds.get("judge", 0.0) + time.monotonic() - began
        run.keep(verdict)
        failed = verdict.status in (Status.FAIL, Status.FLAKY)
        if failed and run.settings.pause_on_failure and scenario.name not in self._paused:
            self._paused.add(scenario.name)
            run.say(f"{check.id} failed; what the run created still stands, in namespace esipp-{run.id}")
            wait_for_enter(f"esipp-{run.id}")
        return verdict

    # ------------------------------------------------------------------------------------------------------- packets
    @contextmanager
    def watched(self, pods: Pods = BACKENDS) -> Iterator[Watch | None]:
        """Capture packets if the feature is present; a failed capture never ends the run.

        Args:
            pods: those that answer, if they are others than those of paths.
        """
        if not self.features[PACKETS].present:
            yield None
            return
        testbed, clients = self.testbed, self.clients
        ways = {node: clients.on_agent(node) for node in clients.agents}
        known = {
            node: (agent, (address, port))
            for node, agent in clients.agents.items()
            if (address := next(iter(testbed.nodes[node].internal.values()), None))
            and (port := testbed.listeners.get(node, {}).get(Protocol.TCP))
        }
        watch = Watch(endpoints_of(testbed, pods), scope_of(testbed, pods), ways, known)
        try:
            watch.begin()
            yield watch
            watch.end()
        finally:
            watch.stop()
        if watch.blind:
            self.run.say(f"packets: {watch.blind}")

    def found_out(self, watch: Watch | None) -> None:
        """Record whether the captures of a window could be believed: else the cluster lacks the feature."""
        if watch is None:
            return
        seeing = [capture.node for capture in watch.captures]
        why = watch.blind or f"captures on {', '.join(seeing)} are complete"
        self.findings.features[PACKETS] = Feature(bool(seeing), why)
        self.run.feature(PACKETS, self.findings.features[PACKETS])

    def follow(
        self, watch: Watch | None, seen: Mapping[str, Sequence[Observation]]
    ) -> tuple[dict[str, list[Witness]], str]:
        """The witnesses of each sampled connection from packets, and why there are none, if so."""
        if watch is None:
            return {}, "packet capture is disabled"
        if not watch.captures:
            return {}, watch.blind
        witnesses = watch.witnesses(seen)
        for sentence in watch.unseen(seen, witnesses):
            self.run.note(PACKETS, sentence)
        return witnesses, watch.blind

    # ---------------------------------------------------------------------------------------------------- observation
    def observe(self, scenario: Scenario) -> Any:
        """Run a scenario, with those that may run beside it, and record its evidence.

        Without a check that can run, nothing happens. An error of another scenario is kept until that one is asked.
        """
        if scenario.name in self._aside:
            return self._aside.pop(scenario.name).result()
        return self._observe_beside(scenario)

    def _observe_beside(self, scenario: Scenario) -> Any:
        others = self._beside(scenario)
        if not others:
            return self._observe(scenario)
        with ThreadPoolExecutor(len(others)) as pool:
            try:
                self._aside |= {each.name: pool.submit(self._observe, each) for each in others}
                evidence = self._observe(scenario)
                wait(self._aside.values())
            except BaseException:
                for stop in self._stops:
                    stop.set()
                raise
        return evidence

    def _beside(self, scenario: Scenario) -> list[Scenario]:
        """The scenarios that run beside one, as this machine has cores to spare."""
        if not self._may_be_beside(scenario):
            return []
        others = [each for each in scenarios() if each is not scenario and self._may_be_beside(each)]
        if not others or not self.topology.nodes:  # which is set up here: only this thread may do that
            return []
        idle, cores = idle_cores()
        bears = idle >= SPARE_CORES
        named = " and ".join(each.name for each in (scenario, *others))
        run_how = "run side by side" if bears else "run one after the other"
        self.run.say(f"{named} {run_how}: {idle:.1f} of {cores} cores are idle")
        return others if bears else []

    def _go_on(self, scenario: Scenario, unfinished: Unfinished) -> None:
        """Run the next scenarios while one only waits, as long as they change nothing but their own Services.

        An error of theirs is kept until they are asked.
        """
        gathered = self.gathered
        try:
            for each in scenarios()[scenarios().index(scenario) + 1 :]:
                own = each.own(self.runnable())
                if unfinished.wait.done() or self.testbed.batches.limited or not only_own_services(planned(own)):
                    return
                if not own or each.name in self._aside:
                    continue
                found: Future[Any] = Future()
                try:
                    found.set_result(self._observe_beside(each))
                except Exception as broken:
                    found.set_exception(broken)
                self._aside[each.name] = found
                if found.exception():
                    return
        except BaseException:
            for stop in self._stops:
                stop.set()
            raise
        finally:
            self.gathered = gathered

    def _may_be_beside(self, scenario: Scenario) -> bool:
        """Whether a scenario that has not run yet may run beside others, by what its checks have it do."""
        if not scenario.beside or scenario.name in self.evidence or self.testbed.batches.limited:
            return False
        own = scenario.own(self.runnable())
        return bool(own) and may_run_aside(planned(own))

    def _observe(self, scenario: Scenario) -> Any:
        """Run a scenario and record its evidence.

        If it breaks off, the evidence so far is recorded for reports, and nothing is judged by it. That costs the run
        only if it was interrupted, its set-up failed, or the API server is gone.

        Raises:
            HarnessError: no other scenario could run either.
        """
        nothing = scenario.read(None, RunThen(self.run.settings.samples))
        if not scenario.own(self.runnable()):
            return nothing
        if names := self.testbed.batches.scenarios.get(scenario.name):
            self.testbed.balance(names)
        self.gathered = None
        try:
            with RunQueue() as queue:
                evidence = scenario.part("run", "observe")(self)
            if self.findings.ways:  # the nodes are containers of this machine
                name, value = run_queue(scenario.name), f"{queue.per_core:.1f}"
                self.findings.facts[name] = value
                self.run.fact(name, value, "procs_running of /proc/stat, in one look of ten more")
            if isinstance(evidence, Unfinished):
                self._go_on(scenario, evidence)
                evidence = evidence.finish()
        except BaseException as broken:
            if self.gathered is not None:
                self.run.record("judged", **judged(scenario.record, self.gathered()), broken_off=True)
            if not isinstance(broken, HarnessError) or self._unmade or not self._server_answers():
                raise
            self.broken[scenario.name] = broken.sentence
            self.run.note(f"{scenario.name.replace('_', ' ')} broke off", str(broken))
            return nothing
        self.run.record("judged", **judged(scenario.record, evidence))
        self.evidence[scenario.name] = evidence
        return evidence

    def _server_answers(self) -> bool:
        try:
            self.cluster.version()
        except PreflightError:
            return False
        return True


def planned(checks: Iterable[Check]) -> list[PlannedEvent]:
    """The events that these checks need."""
    return [event for _, in_steps in schedule(checks) for step in in_steps for event in step]


def perform(
    run: Run,
    phase: str,
    acts: Mapping[str, Callable[[], object]],
    stop: Stop | threading.Event,
    lead: Callable[[Sequence[Future[Any]]], object] | None = None,
) -> None:
    """Perform events of a phase, side by side or alone as they are planned, and record when each ran.

    An error or an interrupt ends them all; ``kept`` leaves it to one. What touches more than own Services happens in
    the calling thread: it needs the signals that arrive there.

    Args:
        run: records them.
        phase: the phase.
        acts: what the events do, by their names.
        stop: ends those that still run.
        lead: does the disruptions of events in the calling thread; without it, that is where such an event runs.
    """
    known = planned_events(phase)
    for step in steps(known[name] for name in acts):
        disrupts = step[0].touches is not Touches.OWN_SERVICES
        if disrupts and lead is None:
            _event(run, phase, step[0], acts[step[0].name])
            continue
        with ThreadPoolExecutor(len(step)) as pool:
            try:
                going = [pool.submit(_event, run, phase, event, acts[event.name]) for event in step]
                if disrupts and lead is not None:
                    lead(going)
                done, _ = wait(going, return_when=FIRST_EXCEPTION)
                for each in done:
                    each.result()
            except BaseException:
                stop.set()
                raise


def _event(run: Run, phase: str, event: PlannedEvent, act: Callable[[], object]) -> None:
    with run.event(phase, event):
        act()


def spare(testbed: Testbed, interruptions: Interruptions, parts: Iterable[str], but: Collection[str] = ()) -> None:
    """Leave parts undecided if something happened to a pod or node with a role meanwhile; ``but`` are left out.

    Raises:
        HarnessError: the state of the pods cannot be determined.
    """
    sentences = testbed.harmed_parts(but).sentences
    for part in parts if sentences else ():
        interruptions.trouble.setdefault(part, f"{sentences[0]}: esipp cannot judge what it observed meanwhile")


@contextmanager
def kept(part: str, run: Run, interruptions: Interruptions) -> Iterator[None]:
    """Record an error of a part, so that only its own checks are undecided; a bug in esipp is recorded as such."""
    try:
        yield
    except HarnessError as broken:
        interruptions.trouble[part] = broken.sentence
    except (ApiError, UnreachableError, StoppedError) as broken:
        interruptions.trouble[part] = str(broken)
    except Exception as broken:
        interruptions.broken[part] = f"{type(broken).__name__}: {broken}; see {run.keep_fault()}"
