"""What becomes of health trials that break off, of nodes that are cordoned, and of an interrupt."""

import signal
import threading
import time
from concurrent.futures import TimeoutError as FutureTimeoutError
from pathlib import Path
from typing import Any, cast

import pytest

from esipp.cluster import ApiError, Cluster
from esipp.errors import HarnessError
from esipp.health.cordon import CORDONED_BY, cordoned, left_cordoned
from esipp.health.seen import Seen
from esipp.run import Run, Settings
from esipp.stop import Stop, StoppedError
from fixtures.session import ENDING, undisturbed
from fixtures.trials import kept, side_by_side

NODES = ["a", "b", "c"]


class Cordons:
    """Nodes with their annotations; those that are stuck refuse to be taken back."""

    context = "home"

    def __init__(self, *stuck: str) -> None:
        self.stuck = stuck
        self.notes: dict[str, dict[str, str]] = {name: {} for name in NODES}

    def patch(self, path: str, body: dict[str, Any], kind: str) -> dict[str, Any]:
        name = path.rpartition("/")[2]
        by = body["metadata"]["annotations"][CORDONED_BY]
        if by is None:
            for number in ENDING:
                signal.raise_signal(number)
            if name in self.stuck:
                raise ApiError(500, "InternalError", "etcd is busy", path)
            self.notes[name].pop(CORDONED_BY, None)
        else:
            self.notes[name][CORDONED_BY] = by
        return {}

    def list(self, path: str) -> list[dict[str, Any]]:
        return [{"metadata": {"name": name, "annotations": notes}} for name, notes in self.notes.items()]


def test_every_node_is_tried_and_no_signal_disturbs() -> None:
    nodes = Cordons("a")
    cluster = cast(Cluster, nodes)
    with pytest.raises(HarnessError, match="Still cordoned: a; esipp clean --context home") as told:  # noqa: SIM117
        with cordoned(cluster, NODES, undisturbed):
            assert set(left_cordoned(cluster)) == set(NODES)
    assert set(left_cordoned(cluster)) == {"a"}
    assert "etcd is busy" in told.value.sentence


@pytest.mark.parametrize(("broken", "comes"), [(KeyError("x"), HarnessError), (KeyboardInterrupt(), KeyboardInterrupt)])
def test_an_interrupt_stays_one(broken: BaseException, comes: type[BaseException]) -> None:
    nodes = Cordons("b")
    with pytest.raises(comes), cordoned(cast(Cluster, nodes), NODES, undisturbed):
        raise broken
    assert set(left_cordoned(cast(Cluster, nodes))) == {"b"}


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
