"""Disruptions that events share: one for all, when all are ready, and each event's own errors. No cluster."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from esipp.base.errors import HarnessError
from esipp.base.interrupt import StoppedError
from esipp.checks.disruption import Disruption, Proof
from esipp.disruption.together import Together

CORDON, TAINT = Disruption.CORDON, Disruption.TAINT


class Disruptor:
    """Notes what is in effect, and fails or is interrupted on request."""

    def __init__(self, fails: BaseException | None = None) -> None:
        self.done: list[tuple[Disruption, str]] = []
        self.active: Disruption | None = None
        self.by: set[str] = set()
        self.fails = fails

    def perform(self, what: Disruption, node: str, meanwhile: Callable[[], None], /) -> Proof:
        self.by.add(threading.current_thread().name)
        began, self.active = time.monotonic(), what
        try:
            meanwhile()
            if self.fails:
                raise self.fails
        finally:
            self.active = None
            self.done.append((what, node))
        now = time.monotonic()
        return Proof(what, node, "", began, began, now, now)


def lead(disruptor: Disruptor, *events: Callable[[Together], object]) -> tuple[list[Future[Any]], bool]:
    """What became of events that share disruptions, and whether they were interrupted."""
    interrupted = threading.Event()
    together = Together(disruptor, interrupted.set)
    with ThreadPoolExecutor(len(events)) as pool:
        going = [pool.submit(event, together) for event in events]
        try:
            together.lead(going)
        except KeyboardInterrupt:
            assert interrupted.is_set()
    return going, interrupted.is_set()


def test_one_disruption_is_enough_for_all_and_ends_when_all_are_done() -> None:
    disruptor, met = Disruptor(), threading.Barrier(2, timeout=10)
    began = list[float]()

    def meanwhile(since: float) -> None:
        began.append(since)
        met.wait()
        assert disruptor.active is CORDON

    def event(together: Together) -> Proof:
        return together.perform(CORDON, "a", meanwhile)

    (one, other), interrupted = lead(disruptor, event, event)
    assert disruptor.done == [(CORDON, "a")]
    assert one.result() is other.result()
    assert len(began) == 2
    assert max(began) <= one.result().began
    assert disruptor.by == {threading.main_thread().name}, "signals reach only this thread"
    assert not interrupted


def test_the_next_disruption_waits_for_events_that_have_none_left() -> None:
    disruptor, order = Disruptor(), list[str]()

    def brief(together: Together) -> None:
        together.perform(CORDON, "a", lambda _: None)
        time.sleep(0.05)  # its last stage
        order.append("brief ended")

    def long(together: Together) -> None:
        for what in (CORDON, TAINT):
            together.perform(what, "a", lambda _: order.append(str(disruptor.active)))

    lead(disruptor, brief, long)
    assert disruptor.done == [(CORDON, "a"), (TAINT, "a")]
    assert order == ["cordon", "brief ended", "taint"]


def test_disruptions_that_differ_are_never_shared() -> None:
    disruptor, seen = Disruptor(), list[Any]()

    def on(node: str) -> Callable[[Together], object]:
        return lambda together: seen.append(together.perform(CORDON, node, lambda _: None).node)

    lead(disruptor, on("a"), on("b"))
    assert sorted(disruptor.done) == [(CORDON, "a"), (CORDON, "b")]
    assert sorted(seen) == ["a", "b"]


def test_an_error_of_an_event_ends_that_event_alone() -> None:
    def fails(_: float) -> None:
        raise HarnessError("a pod did not start.", "see its node.")

    disruptor = Disruptor()
    (broken, sound), _ = lead(
        disruptor,
        lambda together: together.perform(CORDON, "a", fails),
        lambda together: together.perform(CORDON, "a", lambda _: None),
    )
    assert isinstance(broken.exception(), HarnessError)
    assert isinstance(sound.result(), Proof)
    assert disruptor.done == [(CORDON, "a")]


def test_an_error_of_a_disruption_is_one_of_all_its_events() -> None:
    disruptor = Disruptor(HarnessError("it did not last.", "see the node."))
    going, interrupted = lead(disruptor, *[lambda together: together.perform(CORDON, "a", lambda _: None)] * 2)
    assert [type(each.exception()) for each in going] == [HarnessError] * 2
    assert not interrupted


def test_an_interrupt_ends_all_events_also_those_that_come_later() -> None:
    disruptor, released = Disruptor(KeyboardInterrupt()), threading.Event()

    def late(together: Together) -> None:
        together.perform(CORDON, "a", lambda _: None)

    def later(together: Together) -> None:
        with pytest.raises(StoppedError):
            together.perform(CORDON, "a", lambda _: None)
        released.set()
        together.perform(TAINT, "a", lambda _: None)

    going, interrupted = lead(disruptor, late, later)
    assert interrupted
    assert [type(each.exception()) for each in going] == [StoppedError] * 2
    assert released.is_set()
