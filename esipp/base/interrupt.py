"""An interrupt must end the trials, which run in threads of their own: they look for it wherever they wait."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, wait
from dataclasses import replace
from typing import TypeVar

from esipp.base.waiting import Budget, Convergence, Reading, converge

T = TypeVar("T")

LOOK = 0.25
"""Seconds between two looks for an interrupt."""


class StoppedError(Exception):
    """The session ends; what a trial has not seen by now it does not see."""


class Stop:
    """Set once, by whoever ends the session."""

    def __init__(self) -> None:
        self._stopped = threading.Event()

    def set(self) -> None:
        """End all trials."""
        self._stopped.set()

    def check(self) -> None:
        """Go on only if nobody has ended the trials.

        Raises:
            StoppedError: somebody has.
        """
        if self._stopped.is_set():
            raise StoppedError("the session was interrupted")

    def converge(self, look: Callable[[], Reading], budget: Budget) -> Convergence:
        """Wait as ``converge`` does.

        Raises:
            StoppedError: it is to end.
        """
        held = converge(lambda: replace(look(), hopeless=self._stopped.is_set()), budget)
        self.check()
        return held

    def result(self, future: "Future[T]", timeout: float) -> T:
        """What a job found.

        Raises:
            StoppedError: it is to end.
            TimeoutError: the job is not over in time.
        """
        end = time.monotonic() + timeout
        while not future.done() and time.monotonic() < end:
            self.check()
            wait([future], timeout=LOOK)
        return future.result(timeout=0)
