"""Signals: one ends a run, a second one does not keep it from removing what it made. Troubles, each reported once."""

import signal
from collections.abc import Iterator
from types import FrameType

import pytest

from esipp.base.errors import EsippError, HarnessError
from esipp.base.interrupt import ENDING, undisturbed
from esipp.ledger.run import Run, Settings
from fixtures.session import reporting


@pytest.fixture
def handled() -> Iterator[list[int]]:
    """Which signals reached a handler of our own, while there is one."""
    came: list[int] = []

    def handler(number: int, _frame: FrameType | None) -> None:
        came.append(number)

    kept = {number: signal.signal(number, handler) for number in ENDING}
    try:
        yield came
    finally:
        for number, before in kept.items():
            signal.signal(number, before)


def test_a_removal_is_not_disturbed(handled: list[int]) -> None:
    before = {number: signal.getsignal(number) for number in ENDING}
    with undisturbed():
        for number in ENDING:
            signal.raise_signal(number)
    assert handled == []
    assert {number: signal.getsignal(number) for number in ENDING} == before
    for number in ENDING:
        signal.raise_signal(number)
    assert handled == list(ENDING)


def test_handlers_are_back_after_a_removal_that_failed(handled: list[int]) -> None:
    with pytest.raises(RuntimeError, match="half"), undisturbed():
        raise RuntimeError("half of it")
    signal.raise_signal(signal.SIGINT)
    assert handled == [signal.SIGINT]


def test_what_could_not_be_removed_is_reported_beside_why_the_run_ended() -> None:
    run = Run(Settings(context="home"))
    troubles = [HarnessError("away"), HarnessError("away"), HarnessError("still there"), HarnessError("still there")]
    for trouble in troubles:
        with pytest.raises(EsippError), reporting(run):
            raise trouble
    assert str(run.trouble) == "away"
    assert [str(each) for each in run.later] == ["still there"]
