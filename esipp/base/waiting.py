"""Waiting, the only way this suite waits: N consecutive right answers, spaced, within a named budget."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Budget:
    """How long something may take, and what counts as settled.

    Args:
        name: what is waited for; it stands in every message.
        seconds: the bound.
        need: consecutive right readings.
        spacing: seconds between two readings.
        stable: seconds that the right readings must span, if any reading before them was wrong: what was in motion
            a moment ago needs more proof than what never was.
    """

    name: str
    seconds: float
    need: int = 3
    spacing: float = 0.1
    stable: float = 0.0


@dataclass(frozen=True)
class Reading:
    """One look: whether it is as it should be, and the state in words. ``hopeless`` ends the wait at once."""

    right: bool
    state: str
    hopeless: bool = False


@dataclass(frozen=True)
class Convergence:
    """How a wait ended: ``held`` or given up, after how long and how many looks, and the last state."""

    held: bool
    seconds: float
    looks: int
    state: str

    def __str__(self) -> str:
        how = "settled" if self.held else "gave up"
        return f"{how} after {self.seconds:.1f} s and {self.looks} looks: {self.state}"


class Observer(Protocol):
    """Who is told of waits while they last; its methods are called from whichever thread waits."""

    def wait_begins(self, name: str, seconds: float) -> int:
        """Something is waited for, at most so many seconds; returns a number for this wait."""

    def wait_goes_on(self, number: int, state: str) -> None:
        """What was seen last."""

    def wait_ends(self, number: int) -> None:
        """It is over, whether it held or not."""


_observers: list[Observer] = []
"""Of the whole process, not of a thread: trials wait in threads of their own."""


@contextlib.contextmanager
def told_to(observer: Observer) -> Iterator[None]:
    """Tell the observer of every wait that begins in the body, in all threads."""
    _observers.append(observer)
    try:
        yield
    finally:
        _observers.remove(observer)


@contextlib.contextmanager
def waiting(name: str, seconds: float) -> Iterator[Callable[[str], None]]:
    """Tell the observers that the body waits; it may say the state with what it is given."""
    told = [(observer, observer.wait_begins(name, seconds)) for observer in tuple(_observers)]

    def say(state: str) -> None:
        for observer, number in told:
            observer.wait_goes_on(number, state)

    try:
        yield say
    finally:
        for observer, number in told:
            observer.wait_ends(number)


def converge(check: Callable[[], Reading], budget: Budget) -> Convergence:
    """Look until ``budget.need`` consecutive readings are right, the budget is used up, or it is hopeless."""
    with waiting(budget.name, budget.seconds) as say:
        return _converge(check, budget, say)


def _converge(check: Callable[[], Reading], budget: Budget, say: Callable[[str], None]) -> Convergence:
    began = time.monotonic()
    pause = threading.Event()
    run = looks = 0
    since = began
    while True:
        reading = check()
        say(reading.state)
        looks += 1
        run = run + 1 if reading.right else 0
        since = time.monotonic() if run == 1 else since
        spent = time.monotonic() - began
        steady = run == looks or time.monotonic() - since >= budget.stable
        if run >= budget.need and steady:
            return Convergence(True, spent, looks, reading.state)
        if reading.hopeless or spent + budget.spacing > budget.seconds:
            return Convergence(False, spent, looks, reading.state)
        pause.wait(budget.spacing)
