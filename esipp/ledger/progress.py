"""Progress of a run: its current state, reported from any thread. No I/O, no rendering.

A check is set up when the testbed stands, observed when every connection of its path and of its controls is complete
(or when it is judged, where it is no path's), and judged when it has a verdict.
"""

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from esipp.checks.check import Check, Status
from esipp.judging.durations import expected, pace, phases

SET_UP, TEARDOWN = "set-up", "teardown"
LONG_ENOUGH = 2.0
"""Seconds after which a wait is worth a line."""


def plain(text: str) -> str:
    """A text of the cluster's on one line, without what a terminal would obey."""
    return "".join(letter if letter.isprintable() else " " for letter in text)


@dataclass(frozen=True)
class Phase:
    """A part of the run that has begun, ``seconds`` ago or in all.

    ``typical`` is how long it takes here, if known; ``whole`` is False where it broke off.
    """

    name: str
    what: str
    seconds: float
    typical: float = 0.0
    whole: bool = True


@dataclass(frozen=True)
class Wait:
    """A current wait: its time so far, its limit, and the last state."""

    name: str
    seconds: float
    bound: float
    state: str

    @property
    def sentence(self) -> str:
        """As people read it."""
        said = f"{self.seconds:.0f} s of {self.bound:.0f} s for {self.name}"
        if round(self.seconds) > round(self.bound):
            said = f"{self.seconds:.0f} s for {self.name} (limit {self.bound:.0f} s; the last look is not over)"
        return f"{said}: {self.state}" if self.state else said


@dataclass(frozen=True)
class Snapshot:
    """The progress of the run at one time.

    ``rows`` is how many were selected, of which ``impossible`` cannot be asked here; ``counts`` are verdicts by
    status; ``waits`` begin with the one that has lasted longest; ``left`` are the seconds that the rest takes,
    roughly, None where nothing is known of it; ``said`` is the newest sentence about what is being done.
    """

    checks: int
    impossible: int
    set_up: int
    observed: int
    counts: Mapping[Status, int]
    seconds: float
    done: Sequence[Phase]
    now: Phase | None
    waits: Sequence[Wait]
    connections: tuple[int, int]
    left: float | None
    said: str = ""

    @property
    def judged(self) -> int:
        """Checks that have their verdict."""
        return sum(self.counts.values())

    @property
    def share(self) -> float:
        """How much of the run's time is over, from 0 to 1."""
        whole = self.seconds + (self.left or 0.0)
        return self.seconds / whole if self.left is not None and whole else 0.0


@dataclass
class _Open:
    """A phase or a wait that is going on, or a phase that is over."""

    name: str
    began: float
    what: str = ""
    bound: float = 0.0
    state: str = ""
    ended: float | None = None
    whole: bool = True
    beside: bool = False

    def seconds(self, now: float) -> float:
        return (self.ended if self.ended is not None else now) - self.began


@dataclass
class Progress:
    """The progress of a run, its waits and its window; safe to write and read from any thread.

    Args:
        clock: monotonic seconds.
    """

    clock: Callable[[], float] = time.monotonic
    _lock: threading.RLock = field(default_factory=threading.RLock)
    _checks: dict[str, Check] = field(default_factory=dict)
    _samples: int = 0
    _moves: int = 0
    _impossible: set[str] = field(default_factory=set)
    _of_path: dict[str, list[str]] = field(default_factory=dict)
    _missing: dict[str, int] = field(default_factory=dict)
    _completed: Counter[str] = field(default_factory=Counter)
    _observed: set[str] = field(default_factory=set)
    _verdicts: dict[str, Status] = field(default_factory=dict)
    _phases: list[_Open] = field(default_factory=list)
    _waits: dict[int, _Open] = field(default_factory=dict)
    _number: int = 0
    _began: float | None = None
    _typical: dict[str, float] = field(default_factory=dict)
    _said: str = ""

    # --------------------------------------------------------------------------------------------------- reports
    def begin(self, checks: Iterable[Check], samples: int, moves: int) -> None:
        """The checks of the run are known."""
        with self._lock:
            self._began = self.clock()
            self._checks = {check.id: check for check in checks}
            self._samples, self._moves = samples, moves
            self._typical = expected(self._checks.values(), samples, moves)

    def askable(self, ids: Iterable[str]) -> None:
        """The checks that can run on this cluster; the others need no set-up and no observation."""
        with self._lock:
            asked = [self._checks[each] for each in ids if each in self._checks]
            self._impossible = self._checks.keys() - {check.id for check in asked}
            self._typical = expected(asked, self._samples, self._moves)
            for check in asked:
                keys = {path.key for path in check.subject.window}
                self._missing[check.id] = len(keys)
                for key in keys:
                    self._of_path.setdefault(key, []).append(check.id)

    def phase_begins(self, name: str, what: str) -> None:
        """A part of the run begins."""
        with self._lock:
            beside = any(phase.ended is None for phase in self._phases)
            self._phases.append(_Open(name, self.clock(), plain(what), beside=beside))
            self._said = ""

    def phase_ends(self, name: str, *, whole: bool = True) -> None:
        """It is over; not ``whole`` where it broke off."""
        with self._lock:
            for phase in reversed(self._phases):
                if phase.name == name and phase.ended is None:
                    phase.ended, phase.whole = self.clock(), whole
                    break

    def said(self, text: str) -> None:
        """What a run says; of that, ``PHASE: …`` is what is being done within the phase."""
        with self._lock:
            going = [phase.name for phase in self._phases if phase.ended is None]
            if going and text.startswith(f"{going[-1]}: "):
                self._said = plain(text.removeprefix(f"{going[-1]}: "))

    def completed(self, path: str, count: int) -> None:
        """Count connections of a path that came back; a check is observed when all of its paths have all of theirs."""
        with self._lock:
            before = self._completed[path]
            self._completed[path] += count
            if before < self._samples <= self._completed[path]:
                for check in self._of_path.get(path, ()):
                    self._missing[check] -= 1
                    if not self._missing[check]:
                        self._observed.add(check)

    def judged(self, check: str, status: Status) -> None:
        """A check has its verdict."""
        with self._lock:
            self._verdicts[check] = status

    def wait_begins(self, name: str, seconds: float) -> int:
        """Something is waited for (``esipp.convergence.Observer``)."""
        with self._lock:
            self._number += 1
            self._waits[self._number] = _Open(name, self.clock(), bound=seconds)
            return self._number

    def wait_goes_on(self, number: int, state: str) -> None:
        """The last state."""
        with self._lock:
            if number in self._waits:
                self._waits[number].state = state

    def wait_ends(self, number: int) -> None:
        """It is over."""
        with self._lock:
            self._waits.pop(number, None)

    # ------------------------------------------------------------------------------------------------ being asked
    def snapshot(self) -> Snapshot:
        """How far the run is now."""
        with self._lock:
            now = self.clock()
            done = [self._tell(phase, now) for phase in self._phases if phase.ended is not None]
            going = [phase for phase in self._phases if phase.ended is None]
            waits = sorted(self._waits.values(), key=lambda wait: wait.began)
            stands = any(phase.name == SET_UP and phase.whole for phase in done)
            paths = len(self._of_path)
            return Snapshot(
                checks=len(self._checks),
                impossible=len(self._impossible),
                set_up=len(self._checks) - len(self._impossible) if stands else 0,
                observed=len(self._observed | (self._verdicts.keys() - self._impossible)),
                counts=Counter(self._verdicts.values()),
                seconds=max(0.0, now - self._began) if self._began is not None else 0.0,
                done=done,
                now=self._tell(going[-1], now) if going else None,
                waits=[
                    Wait(wait.name, spent, wait.bound, plain(wait.state))
                    for wait in waits
                    if (spent := max(0.0, wait.seconds(now))) >= LONG_ENOUGH
                ],
                connections=(sum(self._completed.values()), paths * self._samples),
                left=self._left(now),
                said=self._said,
            )

    def _tell(self, phase: _Open, now: float) -> Phase:
        typical = self._typical.get(phase.name, 0.0) * pace(self._typical, self._done(now))
        return Phase(phase.name, phase.what, max(0.0, phase.seconds(now)), typical, phase.whole)

    def _done(self, now: float) -> dict[str, float]:
        """Seconds of the phases that came to their end."""
        return {phase.name: phase.seconds(now) for phase in self._phases if phase.ended is not None and phase.whole}

    def _left(self, now: float) -> float | None:
        """Roughly, from what the phases take as a rule, and from how those went that are done."""
        if not self._typical:
            return None
        spent = self._done(now)
        slower = pace(self._typical, spent)
        going = {phase.name: phase.seconds(now) for phase in self._phases if phase.ended is None}
        order = [typical.phase for typical in phases()]
        known = [phase for phase in self._phases if phase.name in order]
        at = max((order.index(phase.name) for phase in known if not phase.beside), default=-1)
        if any(not phase.whole for phase in self._phases):  # a run that broke off only clears up
            at = max(at, order.index(TEARDOWN) - 1)
        begun = {phase.name for phase in known}
        coming = [name for name in self._typical if order.index(name) > at and name not in begun]
        # what was passed over does not come; what runs beside another phase does not come again
        left = slower * sum(self._typical[name] for name in coming)
        rests = [0.0]
        for name, seconds in going.items():
            whole = slower * self._typical.get(name, 0.0)
            share = sum(self._completed.values()) / max(1, len(self._of_path) * self._samples)
            if name == "observe" and 0.1 < share <= 1.0:
                whole = seconds / share
            rests.append(whole - seconds)
        return max(0.0, left + max(rests))


def say_seconds(seconds: float) -> str:
    """A duration as people say it: ``8 s``, ``2 min 5 s``, ``1 h 4 min``."""
    whole = round(max(0.0, seconds))
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s" if whole % 60 else f"{whole // 60} min"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def say_left(seconds: float | None) -> str:
    """What is left, as roughly as it is known; empty where nothing is."""
    if seconds is None:
        return ""
    if seconds < 10:
        return "nearly done"
    step = 10 if seconds < 90 else 30 if seconds < 300 else 60
    return f"about {say_seconds(round(seconds / step) * step)} left"


class SlowSteps:
    """Log lines for long steps, limited to one line in ``every`` seconds.

    Args:
        every: seconds between two lines, and before the first line of a step.
    """

    def __init__(self, every: float = 15.0) -> None:
        self.every = every
        self._last = 0.0

    def quiet(self, snapshot: Snapshot) -> None:
        """Something else was said: that is a sign of life, too."""
        self._last = snapshot.seconds

    def lines(self, snapshot: Snapshot) -> list[str]:
        """What is to be said now: mostly nothing."""
        phase = snapshot.now
        if phase is None or snapshot.seconds - self._last < self.every:
            return []
        waits = [wait for wait in snapshot.waits if wait.seconds >= self.every]
        if not waits and phase.seconds < 2 * self.every:
            return []
        self._last = snapshot.seconds
        if waits:
            return [f"{phase.name}: still waiting, {waits[0].sentence}"]
        parts = [f"{phase.name}: {say_seconds(phase.seconds)} so far", snapshot.said]
        completed, wanted = snapshot.connections
        if phase.name == "observe" and wanted:
            parts.append(f"{completed:,} of {wanted:,} connections, {snapshot.observed:,} checks observed")
        step, left = ", ".join(part for part in parts if part), say_left(snapshot.left)
        return [f"{step}; whole run: {left}" if left else step]
