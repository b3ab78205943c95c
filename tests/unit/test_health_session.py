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
from esipp.scenarios.context import kept, side_by_side
from esipp.scenarios.health.evidence import Seen


@pytest.mark.parametrize("broken", [FutureTimeoutError(), KeyError("ports"), ValueError("no JSON")])
def test_a_fault_of_ours_breaks_one_trial_and_is_kept_whole(broken: Exception, tmp_path: Path) -> None:
    seen = Seen()
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
    seen = Seen()
    with kept("placement", Run(Settings("kind-test"), folder=tmp_path), seen):
        raise broken
    assert not (tmp_path / "fault.txt").exists()
    assert set(seen.trouble) == {"placement"}
    assert seen.broken == {}


def test_an_interrupt_ends_the_trials() -> None:
    stop = Stop()
    began, waiting = time.monotonic(), threading.Event()

    def trial() -> None:
        waiting.set()
        while time.monotonic() < began + 30:
            stop.check()
            time.sleep(0.01)

    def session() -> None:
        with side_by_side(stop) as pool:
            pool.submit(trial)
            waiting.wait(5)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        session()
    assert time.monotonic() - began < 2
