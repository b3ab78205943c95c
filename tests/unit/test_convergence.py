"""Waiting: consecutive, bounded, ending early, telling the last state."""

import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor

import pytest

from esipp.base import waiting
from esipp.base.waiting import Budget, Reading, converge, report_to


def looks(readings: Iterable[bool]) -> Callable[[], Reading]:
    left = iter(readings)
    return lambda: Reading(next(left), "as it was")


def test_it_wants_consecutive_answers() -> None:
    ended = converge(looks([True, True, False, True, True, True]), Budget("x", 5, need=3, spacing=0))
    assert ended.held
    assert ended.looks == 6


def test_it_gives_up_and_tells_the_last_state() -> None:
    ended = converge(lambda: Reading(False, "still pending"), Budget("x", 0.05, spacing=0.01))
    assert not ended.held
    assert ended.state == "still pending"
    assert ended.seconds < 1


def test_it_ends_early_on_the_hopeless() -> None:
    ended = converge(lambda: Reading(False, "no such image", hopeless=True), Budget("x", 60))
    assert not ended.held
    assert ended.looks == 1


def test_the_time_runs_from_the_change(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "LEAST", 0.05)
    changed = time.monotonic() - 59.7
    slow = converge(lambda: Reading(time.monotonic() - changed > 59.8, "late"), Budget("x", 60, spacing=0.01), changed)
    assert slow.held, "just within the time"
    ended = converge(lambda: Reading(False, "stuck"), Budget("x", 60, spacing=0.01), changed)
    assert not ended.held
    assert ended.seconds < 5


def test_a_change_of_long_ago_leaves_time_for_some_readings(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "LEAST", 0.5)
    long_ago = time.monotonic() - 1000
    assert converge(looks([False, True, True, True]), Budget("x", 60, spacing=0.01), long_ago).held


def test_what_was_wrong_before_must_stay_right_for_a_while() -> None:
    moving = Budget("x", 5, need=2, spacing=0.01, stable=0.2)
    assert converge(looks([True] * 1000), moving).looks == 2
    ended = converge(looks([False] + [True] * 1000), moving)
    assert ended.held
    assert ended.seconds >= 0.2


def test_flapping_never_settles() -> None:
    turn = iter(range(10_000))
    ended = converge(lambda: Reading(next(turn) % 3 != 0, "flapping"), Budget("x", 0.1, need=3, spacing=0.001))
    assert not ended.held


# ------------------------------------------------------------------------------------------------------- observers
class Listener:
    """Keeps the waits that it hears of."""

    def __init__(self) -> None:
        self.heard: list[tuple[object, ...]] = []

    def wait_begins(self, name: str, seconds: float) -> int:
        self.heard.append(("begins", name, seconds))
        return len(self.heard)

    def wait_goes_on(self, number: int, state: str) -> None:
        self.heard.append(("goes on", number, state))

    def wait_ends(self, number: int) -> None:
        self.heard.append(("ends", number))


def test_who_listens_hears_of_waits_in_every_thread() -> None:
    listener = Listener()
    with report_to(listener), ThreadPoolExecutor() as pool:
        pool.submit(converge, looks([False, True]), Budget("pods", 5, need=1, spacing=0)).result()
    assert listener.heard == [
        ("begins", "pods", 5),
        ("goes on", 1, "as it was"),
        ("goes on", 1, "as it was"),
        ("ends", 1),
    ]
    converge(looks([True]), Budget("after", 5, need=1))
    assert len(listener.heard) == 4, "nobody listens any more"


def test_a_look_that_fails_ends_the_wait_for_who_listens() -> None:
    listener = Listener()

    def broken() -> Reading:
        raise RuntimeError("the API server is gone")

    with report_to(listener), pytest.raises(RuntimeError, match="gone"):
        converge(broken, Budget("pods", 5))
    assert listener.heard[-1] == ("ends", 1)
