"""Whoever waits for the lines of a prober about one order: all of them together, or one by one as they arrive."""

import contextlib
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any, Generic, Protocol, TypeVar

from esipp.base.errors import HarnessError

Line = dict[str, Any]
"""A line of the prober, as its contract has it."""


class Order(Protocol):
    """Whoever waits for the lines about one order. All is called in the reader's thread, or by whom finds it dead."""

    def take(self, line: Line) -> None:
        """A result."""

    def done(self) -> None:
        """No more results come."""

    def fail(self, error: HarnessError) -> None:
        """Nothing more comes, and that is wrong."""


class Pulse:
    """Whether it lives is all that is asked."""

    def take(self, line: Line) -> None:
        """It does."""

    def done(self) -> None:
        """Nothing more was wanted."""

    def fail(self, error: HarnessError) -> None:
        """Whoever waits for something else is told."""


T = TypeVar("T")


class Collection(Generic[T]):
    """Keeps what is read from the results until all are there."""

    def __init__(self, read: Callable[[Line], T]) -> None:
        self._read = read
        self._found: list[T] = []
        self.future: Future[list[T]] = Future()
        self.future.set_running_or_notify_cancel()  # from now on nobody can cancel it under the reader's feet

    def take(self, line: Line) -> None:
        """Keep a result."""
        self._found.append(self._read(line))

    def done(self) -> None:
        """All are there."""
        self.future.set_result(self._found)

    def fail(self, error: HarnessError) -> None:
        """They never will be."""
        self.future.set_exception(error)


class Stream:
    """A job whose results are told one by one, as they arrive. ``Prober.stream`` starts it."""

    def __init__(self, name: str, sink: Callable[[Line], None], cancel: Callable[[], None]) -> None:
        self._name = name
        self._sink = sink
        self._cancel = cancel
        self._told = 0
        self._broken = False
        self._future: Future[int] = Future()
        self._future.set_running_or_notify_cancel()

    def cancel(self) -> None:
        """Have the prober stop the job; its probes in flight have no result. What is over stays so."""
        self._cancel()

    def wait(self, timeout: float) -> int:
        """Wait until the job is done or cancelled, up to so many seconds.

        Returns:
            The number of results that were told; of a brief job the number of its groups.

        Raises:
            HarnessError: the prober died or refused the job, the sink failed, or the time is up; then the job goes on.
        """
        try:
            return self._future.result(timeout=timeout)
        except FutureTimeoutError:
            raise HarnessError(
                f"A job of the prober of {self._name} is not over after {timeout:g} s; {self._told} results came.",
                "is the machine busy?",
            ) from None
        finally:
            if self._broken:
                self.cancel()

    def take(self, line: Line) -> None:
        """Tell a result, in the reader's thread."""
        if self._broken:
            return
        try:
            self._sink(line)
        except BaseException as broken:  # whatever it is, it must not end the reader
            self._broken = True
            error = HarnessError(
                f"A result of the prober of {self._name} could not be taken: {type(broken).__name__}: {broken}.",
                "this is a mistake of ours; nothing is said about the product.",
            )
            error.__cause__ = broken
            self.fail(error)
        else:
            self._told += 1

    def done(self) -> None:
        """No more results come."""
        with contextlib.suppress(InvalidStateError):  # the sink failed before
            self._future.set_result(self._told)

    def fail(self, error: HarnessError) -> None:
        """Nothing more comes, and that is wrong."""
        with contextlib.suppress(InvalidStateError):  # the first trouble counts
            self._future.set_exception(error)
