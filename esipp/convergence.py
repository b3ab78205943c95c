"""Waiting, the only way this suite waits: N consecutive right answers, spaced, within a named budget."""

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass


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


def converge(check: Callable[[], Reading], budget: Budget) -> Convergence:
    """Look until ``budget.need`` consecutive readings are right, the budget is used up, or it is hopeless."""
    began = time.monotonic()
    pause = threading.Event()
    run = looks = 0
    since = began
    while True:
        reading = check()
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
