"""Disruptions that several events share: each is done once, and what is to happen during it happens side by side."""

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Protocol

from esipp.base.interrupt import StoppedError
from esipp.checks.disruption import Disruption, Proof


class Performs(Protocol):
    """A disruptor."""

    def perform(self, what: Disruption, node: str, meanwhile: Callable[[], None], /) -> Proof: ...  # noqa: D102


@dataclass(frozen=True)
class _Turn:
    """An event that waits for a disruption; ``begun`` has the time before its first action."""

    what: Disruption
    node: str
    begun: "Future[float]" = field(default_factory=Future)
    over: threading.Event = field(default_factory=threading.Event)
    proof: "Future[Proof]" = field(default_factory=Future)


class Together:
    """Shares disruptions among events in threads of their own. The thread that leads does them: it gets the signals.

    Args:
        disruptor: does them.
        interrupt: ends all events.
    """

    def __init__(self, disruptor: Performs, interrupt: Callable[[], object]) -> None:
        self._disruptor, self._interrupt = disruptor, interrupt
        self._changed = threading.Condition()
        self._turns: list[_Turn] = []
        self._interrupted = False

    def perform(self, what: Disruption, node: str, meanwhile: Callable[[float], object]) -> Proof:
        """Wait until all events that have not ended need a disruption, and let this one last.

        Args:
            what: the disruption.
            node: the node.
            meanwhile: called while it is in effect, with the time before it began.

        Raises:
            HarnessError: it cannot be performed, proven, kept up or undone.
            StoppedError: the session was interrupted.
        """
        turn = _Turn(what, node)
        with self._changed:
            if self._interrupted:
                raise StoppedError("the session was interrupted")
            self._turns.append(turn)
            self._changed.notify_all()
        began = turn.begun.result()
        try:
            meanwhile(began)
        finally:
            turn.over.set()
        return turn.proof.result()

    def lead(self, events: Sequence["Future[Any]"]) -> None:
        """Do the disruptions that these events need, until all have ended."""
        for each in events:
            each.add_done_callback(self._ended)
        turns: list[_Turn] = []
        try:
            while turns := self._next(events):
                self._disrupt(turns)
        except BaseException:
            self._interrupt()
            with self._changed:
                self._interrupted = True
                _fail([*turns, *self._turns], StoppedError("the session was interrupted"))
            raise

    def _ended(self, _: object) -> None:
        with self._changed:
            self._changed.notify_all()

    def _next(self, events: Iterable["Future[Any]"]) -> list[_Turn]:
        """The events that share the next disruption, once no other is under way; none if all have ended."""
        with self._changed:
            self._changed.wait_for(lambda: len(self._turns) >= sum(not each.done() for each in events))
            first = [(turn.what, turn.node) for turn in self._turns[:1]]
            found = [turn for turn in self._turns if (turn.what, turn.node) in first]
            self._turns = [turn for turn in self._turns if turn not in found]
            return found

    def _disrupt(self, turns: Sequence[_Turn]) -> None:
        began = time.monotonic()

        def meanwhile() -> None:
            for turn in turns:
                turn.begun.set_result(began)
            for turn in turns:
                turn.over.wait()

        try:
            proof = self._disruptor.perform(turns[0].what, turns[0].node, meanwhile)
        except Exception as broken:
            _fail(turns, broken)
        else:
            for turn in turns:
                turn.proof.set_result(proof)


def _fail(turns: Iterable[_Turn], broken: Exception) -> None:
    for turn in turns:
        for future in (turn.begun, turn.proof):
            if not future.done():
                future.set_exception(broken)
