"""Scenarios that run side by side: which, on which machine, and what becomes of their errors and of an interrupt."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from esipp.base.cores import idle_cores
from esipp.base.errors import HarnessError, PreflightError
from esipp.base.interrupt import StoppedError
from esipp.checks.catalog import checks_of
from esipp.checks.check import Check, Feature
from esipp.judging.scenario import scenario_of, scenarios
from esipp.ledger.run import Run, Settings
from esipp.scenarios import context as contexts
from esipp.scenarios.context import Context, Unfinished
from esipp.scenarios.continuity import run as continuity
from esipp.scenarios.continuity.evidence import ContinuityEvidence
from esipp.scenarios.every_node import run as every_node
from esipp.scenarios.every_node.evidence import EveryNodeEvidence
from esipp.scenarios.health import run as health
from esipp.scenarios.health.evidence import HealthEvidence

HEALTH, CONTINUITY, NODES = (scenario_of(checks_of(of)[0]) for of in ("health_checks", "continuity", "nodes"))
QUIET = [
    check for check in (*checks_of("health_checks"), *checks_of("continuity")) if "disruptive" not in check.features
]
ALL = [*checks_of("health_checks"), *checks_of("continuity")]


class World:
    """Two scenarios that wait for each other, if they run side by side."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path, checks: list[Check], idle: float = 2.0) -> None:
        self.order: list[str] = []
        self.said: list[str] = []
        self.met = threading.Barrier(2)
        monkeypatch.setattr(contexts, "idle_cores", lambda: (idle, 2))
        monkeypatch.setattr(health, "observe", lambda given: self.observe("health", given))
        monkeypatch.setattr(continuity, "observe", lambda given: self.observe("continuity", given))
        self.run = Run(Settings("kind-test", image="x", out=str(folder)), say=self.said.append)
        self.run.begin(checks, left_out=0)
        batches = SimpleNamespace(scenarios={}, limited=False)
        testbed = SimpleNamespace(batches=batches, cluster=SimpleNamespace(version=lambda: "v1.36.3"))
        there: Any = {"testbed": testbed, "topology": SimpleNamespace(nodes={"a": 1})}
        known = {name: Feature(True, "") for check in checks for name in check.features}
        findings: Any = SimpleNamespace(features=known, facts={}, ways={})
        self.context = Context(self.run, findings, there.get)
        self.together = False

    def observe(self, name: str, context: Context) -> Any:
        self.order.append(name)
        try:
            self.met.wait(0.5)
            self.together = True
        except threading.BrokenBarrierError:
            pass
        return HealthEvidence() if name == "health" else ContinuityEvidence()

    def ask(self) -> list[Any]:
        return [self.context.observe(HEALTH), self.context.observe(CONTINUITY)]


Make = Callable[..., World]


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Make]:
    made: list[World] = []

    def world(checks: list[Check] = QUIET, idle: float = 2.0) -> World:
        made.append(World(monkeypatch, tmp_path, checks, idle))
        return made[-1]

    yield world
    for each in made:
        assert each.run.ledger is not None
        each.run.ledger.close()


def test_health_checks_and_continuity_run_side_by_side(make: Make) -> None:
    world = make()
    assert [type(each) for each in world.ask()] == [HealthEvidence, ContinuityEvidence]
    assert world.together
    assert sorted(world.order) == ["continuity", "health"], "each once"
    assert any("side by side: 2.0 of 2 cores are idle" in text for text in world.said)


@pytest.mark.parametrize(("checks", "idle"), [(QUIET, 0.4), (ALL, 2.0)])
def test_a_busy_machine_or_a_disruption_leaves_them_one_after_the_other(
    make: Make, checks: list[Check], idle: float
) -> None:
    world = make(checks, idle)
    assert [type(each) for each in world.ask()] == [HealthEvidence, ContinuityEvidence]
    assert not world.together
    assert world.order == ["health", "continuity"]


def test_an_error_is_reported_when_its_own_scenario_is_asked(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    world = make()

    def fail(_: Context) -> None:
        raise HarnessError("It fell over.")

    def gone() -> str:
        raise PreflightError("The API server does not answer.")

    monkeypatch.setattr(continuity, "observe", fail)
    monkeypatch.setattr(world.context.testbed.cluster, "version", gone)
    assert isinstance(world.context.observe(HEALTH), HealthEvidence)
    with pytest.raises(HarnessError, match="It fell over"):
        world.context.observe(CONTINUITY)


def test_a_scenario_that_breaks_off_costs_only_itself(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    world = make()

    def fail(_: Context) -> None:
        raise HarnessError("A pod did not come back.", "look at its events")

    monkeypatch.setattr(continuity, "observe", fail)
    assert [type(each) for each in world.ask()] == [HealthEvidence, ContinuityEvidence]
    assert world.context.broken == {"continuity": "A pod did not come back."}
    assert any("continuity broke off: A pod did not come back." in text for text in world.said)


def test_a_failed_set_up_ends_the_run(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    world = make()

    def get(name: str) -> Any:
        if name == "testbed":
            return SimpleNamespace(
                batches=SimpleNamespace(scenarios={}, limited=True), cluster=SimpleNamespace(version=lambda: "v1.36.3")
            )
        raise HarnessError("No prober started.")

    world.context.get = get
    monkeypatch.setattr(health, "observe", lambda context: context.clients)
    with pytest.raises(HarnessError, match="No prober"):
        world.context.observe(HEALTH)


def test_an_interrupt_ends_what_runs_beside(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    world = make()
    began = threading.Event()

    def wait_for_the_end(context: Context) -> None:
        stop = context.stop()
        began.set()
        while True:
            stop.check()

    def interrupted(_: Context) -> None:
        began.wait(5.0)
        raise KeyboardInterrupt

    monkeypatch.setattr(continuity, "observe", wait_for_the_end)
    monkeypatch.setattr(health, "observe", interrupted)
    with pytest.raises(KeyboardInterrupt):
        world.context.observe(HEALTH)


class Waiting(World):
    """Every node was dialled, and is only waited for: until so many other scenarios have run."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, folder: Path, checks: list[Check], idle: float = 0.0, lasts: int = 9
    ) -> None:
        super().__init__(monkeypatch, folder, [*checks_of("nodes"), *checks], idle)
        self.wait: Future[None] = Future()
        self.lasts = lasts
        monkeypatch.setattr(every_node, "observe", lambda _: Unfinished(self.wait, self.finish))

    def finish(self) -> EveryNodeEvidence:
        self.order.append("finish")
        return EveryNodeEvidence()

    def observe(self, name: str, context: Context) -> Any:
        found = super().observe(name, context)
        if len(self.order) == self.lasts:
            self.wait.set_result(None)
        return found


Wait = Callable[..., Waiting]


@pytest.fixture
def waiting(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Wait]:
    made: list[Waiting] = []

    def world(checks: list[Check] = QUIET, **more: Any) -> Waiting:
        made.append(Waiting(monkeypatch, tmp_path, checks, **more))
        return made[-1]

    yield world
    for each in made:
        assert each.run.ledger is not None
        each.run.ledger.close()


def test_the_next_scenarios_run_while_one_only_waits(waiting: Wait) -> None:
    world = waiting(idle=2.0)
    assert isinstance(world.context.observe(NODES), EveryNodeEvidence)
    assert sorted(world.order[:-1]) == ["continuity", "health"]
    assert world.order[-1] == "finish"
    assert world.together, "and side by side, as without the wait"
    assert [type(each) for each in world.ask()] == [HealthEvidence, ContinuityEvidence]
    assert len(world.order) == 3, "each once"


def test_what_comes_after_the_wait_has_its_own_time(waiting: Wait) -> None:
    world = waiting(lasts=1)
    world.context.observe(NODES)
    assert world.order == ["health", "finish"]
    world.ask()
    assert world.order == ["health", "finish", "continuity"]


def test_a_disruption_does_not_run_while_a_scenario_waits(waiting: Wait) -> None:
    """A node that is away is silent for that reason."""
    world = waiting(ALL)
    world.context.observe(NODES)
    assert world.order == ["finish"]


def test_an_error_meanwhile_is_reported_when_its_own_scenario_is_asked(
    waiting: Wait, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = waiting()

    def fail(_: Context) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(health, "observe", fail)
    assert isinstance(world.context.observe(NODES), EveryNodeEvidence)
    assert world.order == ["finish"], "nothing else begins"
    with pytest.raises(ZeroDivisionError):
        world.context.observe(HEALTH)


def test_an_interrupt_meanwhile_ends_the_wait(waiting: Wait, monkeypatch: pytest.MonkeyPatch) -> None:
    world = waiting()
    stop = world.context.stop()

    def interrupted(_: Context) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(health, "observe", interrupted)
    with pytest.raises(KeyboardInterrupt):
        world.context.observe(NODES)
    with pytest.raises(StoppedError):
        stop.check()


def test_only_scenarios_whose_events_are_their_own_say_that_they_may() -> None:
    assert {each.name for each in scenarios() if each.beside} == {"health", "continuity"}


def test_idle_cores_are_some_of_those_that_may_be_used() -> None:
    idle, cores = idle_cores(0.1)
    assert 0.0 <= idle <= cores
