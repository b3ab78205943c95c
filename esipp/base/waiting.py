"""Waiting: N consecutive right readings, spaced, within a named budget. The suite waits in no other way."""

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from esipp.base.errors import HarnessError


@dataclass(frozen=True)
class Budget:
    """A timeout, and what counts as settled.

    Args:
        name: what the wait is for; every message contains it.
        seconds: the timeout.
        need: number of consecutive right readings.
        spacing: seconds between two readings.
        stable: seconds that the right readings must span if any earlier reading was wrong: a state that has just
            changed needs more proof than one that never did.
    """

    name: str
    seconds: float
    need: int = 3
    spacing: float = 0.1
    stable: float = 0.0


Limit = TypeVar("Limit", Budget, float)
"""A budget, or seconds."""


def longer(limit: Limit, factor: float) -> Limit:
    """The same limit, for a cluster that needs so many times as long."""
    return replace(limit, seconds=limit.seconds * factor) if isinstance(limit, Budget) else limit * factor


LEAST = 5.0
"""Seconds that every wait gets, however long ago the change was: a busy machine may miss the first readings."""


@dataclass(frozen=True)
class Reading:
    """One reading: whether it is right, and a description of the state. ``hopeless`` ends the wait at once."""

    right: bool
    state: str
    hopeless: bool = False


@dataclass(frozen=True)
class Convergence:
    """The result of a wait: whether the state ``held``, after how long and how many readings, and the last state."""

    held: bool
    seconds: float
    looks: int
    state: str

    def __str__(self) -> str:
        how = "settled" if self.held else "gave up"
        return f"{how} after {self.seconds:.1f} s and {self.looks} readings: {self.state}"

    def required(self, fault: str, hint: str) -> "Convergence":
        """The same result, if the state held.

        Raises:
            HarnessError: it did not; the sentence is ``fault`` and this result.
        """
        if not self.held:
            raise HarnessError(f"{fault}: {self}", hint)
        return self


class Observer(Protocol):
    """An observer of waits; each method is called from the thread that waits."""

    def wait_begins(self, name: str, seconds: float) -> int:
        """A wait with a timeout begins; returns a number for this wait."""

    def wait_goes_on(self, number: int, state: str) -> None:
        """A wait has a new reading."""

    def wait_ends(self, number: int) -> None:
        """A wait ended, successful or not."""


_observers: list[Observer] = []
"""The observers of the whole process, because scenarios wait in their own threads."""


@contextlib.contextmanager
def report_to(observer: Observer) -> Iterator[None]:
    """Notify the observer of every wait that begins in the body, in all threads."""
    _observers.append(observer)
    try:
        yield
    finally:
        _observers.remove(observer)


@contextlib.contextmanager
def waiting(name: str, seconds: float) -> Iterator[Callable[[str], None]]:
    """Notify the observers that the body waits; the yielded function reports the state."""
    notified = [(observer, observer.wait_begins(name, seconds)) for observer in tuple(_observers)]

    def say(state: str) -> None:
        for observer, number in notified:
            observer.wait_goes_on(number, state)

    try:
        yield say
    finally:
        for observer, number in notified:
            observer.wait_ends(number)


def converge(check: Callable[[], Reading], budget: Budget, since: float | None = None) -> Convergence:
    """Read until ``budget.need`` consecutive readings are right, the time is over, or the state is hopeless.

    Args:
        check: takes one reading.
        budget: the timeout, and what counts as settled.
        since: when the change was made that must be followed, on the monotonic clock; without it, now. The timeout runs
            from then on: what is still wrong after it cannot be in time any more. ``LEAST`` seconds remain in any case.
    """
    seconds = budget.seconds
    if since is not None:
        seconds = max(min(LEAST, seconds), seconds - (time.monotonic() - since))
    with waiting(budget.name, seconds) as say:
        return _converge(check, replace(budget, seconds=seconds), say)


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
