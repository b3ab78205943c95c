"""Interruption: scenarios check for it wherever they wait, and teardown is shielded from it."""

import contextlib
import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, wait
from dataclasses import replace
from typing import TypeVar

from esipp.base.waiting import Budget, Convergence, Reading, converge

T = TypeVar("T")

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""The signals that end a run; teardown runs for all of them."""

LOOK = 0.25
"""Seconds between two checks for an interrupt."""


class StoppedError(Exception):
    """The session was interrupted, so the scenario ends."""


class Stop:
    """A flag that ends all scenarios; it is set once."""

    def __init__(self) -> None:
        self._stopped = threading.Event()

    def set(self) -> None:
        """End all scenarios."""
        self._stopped.set()

    def check(self) -> None:
        """Check for an interrupt.

        Raises:
            StoppedError: the session was interrupted.
        """
        if self._stopped.is_set():
            raise StoppedError("the session was interrupted")

    def converge(self, look: Callable[[], Reading], budget: Budget, since: float | None = None) -> Convergence:
        """Wait as ``converge`` does.

        Raises:
            StoppedError: the session was interrupted.
        """

        def reading() -> Reading:
            found = look()
            return replace(found, hopeless=found.hopeless or self._stopped.is_set())

        held = converge(reading, budget, since)
        self.check()
        return held

    def result(self, future: "Future[T]", timeout: float) -> T:
        """Wait for the result of a job.

        Raises:
            StoppedError: the session was interrupted.
            TimeoutError: the job did not end in time.
        """
        end = time.monotonic() + timeout
        while not future.done() and time.monotonic() < end:
            self.check()
            wait([future], timeout=LOOK)
        return future.result(timeout=0)


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Ignore signals in the body, so that a second Ctrl-C does not interrupt teardown."""
    kept = {number: signal.signal(number, signal.SIG_IGN) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in kept.items():
            signal.signal(number, handler)
