"""What becomes of health trials that break off, and of an interrupt."""

import threading
import time
from concurrent.futures import TimeoutError as FutureTimeoutError
from pathlib import Path

import pytest

from esipp.base.errors import HarnessError
from esipp.base.interrupt import Stop, StoppedError
from esipp.cluster.client import ApiError
from esipp.ledger.run import Run, Settings
from esipp.scenarios.context import kept, perform
from esipp.scenarios.health.evidence import HealthEvidence


@pytest.mark.parametrize("broken", [FutureTimeoutError(), KeyError("ports"), ValueError("no JSON")])
def test_a_fault_of_ours_breaks_one_trial_and_is_kept_whole(broken: Exception, tmp_path: Path) -> None:
    seen = HealthEvidence()
    with kept("lifecycle", Run(Settings("kind-test"), folder=tmp_path), seen):
        raise broken
    assert seen.trouble == {}
    whole = tmp_path / "fault.txt"
    assert seen.broken == {"lifecycle": f"{type(broken).__name__}: {broken}; see {whole}"}
    assert "Traceback" in whole.read_text()
    assert type(broken).__name__ in whole.read_text()


@pytest.mark.parametrize(
    "broken", [HarnessError("no pod", "?"), ApiError(403, "Forbidden", "no", "POST"), StoppedError("interrupted")]
)
def test_what_is_nobodys_fault_breaks_one_trial(broken: Exception, tmp_path: Path) -> None:
    seen = HealthEvidence()
    with kept("placement", Run(Settings("kind-test"), folder=tmp_path), seen):
        raise broken
    assert not (tmp_path / "fault.txt").exists()
    assert set(seen.trouble) == {"placement"}
    assert seen.broken == {}


class Recording(Run):
    """A run that keeps what it has to record."""

    def record(self, record: str, **fields: object) -> None:
        recorded.append((record, fields))


recorded: list[tuple[str, dict[str, object]]] = []


@pytest.fixture
def run() -> Run:
    recorded.clear()
    return Recording(Settings("kind-test"))


@pytest.mark.parametrize("broken", [KeyboardInterrupt(), HarnessError("the prober is gone", "run again.")])
def test_an_interrupt_ends_the_events_beside_it(run: Run, broken: BaseException) -> None:
    stop, waiting = Stop(), threading.Event()
    began = time.monotonic()

    def lasts() -> None:
        waiting.set()
        while time.monotonic() < began + 30:
            stop.check()
            time.sleep(0.01)

    def breaks() -> None:
        waiting.wait(5)
        raise broken

    with pytest.raises(type(broken)):
        perform(run, "health scenarios", {"lifecycle": lasts, "terminating": breaks}, stop)
    assert time.monotonic() - began < 5


def test_events_of_own_services_run_at_the_same_time_and_are_recorded(run: Run) -> None:
    both = threading.Barrier(2, timeout=10)
    perform(run, "health scenarios", {"placement": both.wait, "lifecycle": both.wait}, Stop())
    assert {kind for kind, _ in recorded} == {"event"}
    assert {(record["phase"], record["name"], record["touches"]) for _, record in recorded} == {
        ("health scenarios", "placement", "own Services"), ("health scenarios", "lifecycle", "own Services"),
    }  # fmt: skip


def test_an_event_that_touches_a_node_runs_where_signals_arrive(run: Run) -> None:
    where: list[threading.Thread] = []
    perform(run, "cordon", {"cordoned": lambda: where.append(threading.current_thread())}, Stop())
    assert where == [threading.current_thread()]


def test_an_event_that_nobody_planned_is_refused(run: Run) -> None:
    with pytest.raises(KeyError):
        perform(run, "health scenarios", {"made-up": lambda: None}, Stop())
    assert recorded == []
