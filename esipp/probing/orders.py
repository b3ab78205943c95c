"""Receivers of a prober's result lines: all lines together, or one by one as they arrive."""

import contextlib
from collections.abc import Callable
from concurrent import futures
from concurrent.futures import Future, InvalidStateError
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, Generic, Protocol, TypeVar

from esipp.base.errors import HarnessError

Line = dict[str, Any]
"""A line of the prober's protocol."""


class Order(Protocol):
    """A receiver of the lines about one order, called in the reader's thread or when the prober is found dead."""

    def take(self, line: Line) -> None:
        """Receive a result."""

    def done(self) -> None:
        """Receive the end of the results."""

    def fail(self, error: HarnessError) -> None:
        """Receive an error, which ends the order."""


class Pulse:
    """A receiver for liveness requests, which ignores the answer."""

    def take(self, line: Line) -> None:
        """Ignore the answer."""

    def done(self) -> None:
        """Ignore the end."""

    def fail(self, error: HarnessError) -> None:
        """Ignore the error, which the receivers of other orders get too."""


T = TypeVar("T")


class Collection(Generic[T]):
    """A receiver that collects all results."""

    def __init__(self, read: Callable[[Line], T]) -> None:
        self._read = read
        self._found: list[T] = []
        self.future: Future[list[T]] = Future()
        self.future.set_running_or_notify_cancel()  # from now on it cannot be cancelled

    def take(self, line: Line) -> None:
        """Collect a result."""
        self._found.append(self._read(line))

    def done(self) -> None:
        """Complete the future with all results."""
        self.future.set_result(self._found)

    def fail(self, error: HarnessError) -> None:
        """Complete the future with an error."""
        self.future.set_exception(error)


class Stream:
    """A receiver that passes on each result as it arrives. ``Prober.stream`` creates it."""

    def __init__(self, name: str, sink: Callable[[Line], None], cancel: Callable[[], None]) -> None:
        self._name = name
        self._sink = sink
        self._cancel = cancel
        self._count = 0
        self._broken = False
        self._future: Future[int] = Future()
        self._future.set_running_or_notify_cancel()

    def cancel(self) -> None:
        """Stop the job, without results for its probes in flight. It has no effect on a finished job."""
        self._cancel()

    def ends(self, timeout: float) -> bool:
        """Wait until the job is done, has failed or is cancelled, but no longer than so many seconds.

        Returns:
            Whether it ended; ``wait`` tells how.
        """
        return bool(futures.wait([self._future], max(0.0, timeout)).done)

    def wait(self, timeout: float) -> int:
        """Wait until the job is done or cancelled.

        Returns:
            The number of results; for a brief job, the number of its groups.

        Raises:
            HarnessError: the prober died or refused the job, the sink failed, or the timeout is over (the job then
                continues).
        """
        try:
            return self._future.result(timeout=timeout)
        except FutureTimeoutError:
            raise HarnessError(
                f"A job of the prober of {self._name} is not done after {timeout:g} s ({self._count} results so far).",
                "check whether the machine is overloaded.",
            ) from None
        finally:
            if self._broken:
                self.cancel()

    def take(self, line: Line) -> None:
        """Pass on a result, in the reader's thread."""
        if self._broken:
            return
        try:
            self._sink(line)
        except BaseException as broken:  # whatever it is, it must not end the reader
            self._broken = True
            error = HarnessError(
                f"Cannot process a result of the prober of {self._name}: {type(broken).__name__}: {broken}.",
                "this is a bug in esipp, not a verdict on the product; please report it.",
            )
            error.__cause__ = broken
            self.fail(error)
        else:
            self._count += 1

    def done(self) -> None:
        """Complete the future."""
        with contextlib.suppress(InvalidStateError):  # the sink failed before
            self._future.set_result(self._count)

    def fail(self, error: HarnessError) -> None:
        """Complete the future with an error."""
        with contextlib.suppress(InvalidStateError):  # the first error counts
            self._future.set_exception(error)
