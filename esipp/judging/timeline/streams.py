"""Steady probes on one clock, and what happens meanwhile: samples, streams, marks, decisions, stages. No I/O.

All times are monotonic seconds of this process.
"""

import json
import math
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from operator import sub
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")

ANSWERED, PENDING = "answered", "pending"
SENT, LOST = "sent", "timeout"
"""Outcomes of a probe that nobody answers: at first, and if no backend is found to have counted it."""

PATIENCE = 0.25
"""Seconds after which a probe without a result counts as unanswered during the scenario: an answer takes milliseconds.
Verdicts use results alone."""

RECENT, FEWEST, OLDEST = 0.5, 6, 5.0
"""The current state of a stream is that of its probes in the last ``RECENT`` seconds; on a busy machine, that of the
last ``FEWEST`` probes, none older than ``OLDEST`` seconds."""


class Sample(NamedTuple):
    """One probe. ``outcome`` is the prober's outcome, or the HTTP status of a health check; ``pod`` and ``node``
    answered, and saw the address ``source``; all are empty without an answer.
    """

    seq: int
    started: float
    ended: float
    outcome: str
    pod: str = ""
    node: str = ""
    source: str = ""

    @property
    def answered(self) -> bool:
        """Whether one of our pods answered."""
        return self.outcome == ANSWERED


class Stretch(NamedTuple):
    """Consecutive probes with the same result."""

    since: float
    until: float
    probes: int
    outcome: str
    pod: str
    node: str
    source: str


class Stream:
    """All probes of one kind to one place, every ``spacing`` seconds; results are added in the order they end."""

    def __init__(self, name: str, spacing: float, samples: Iterable[Sample] = ()) -> None:
        self.name = name
        self.spacing = spacing
        self.samples = list(samples)
        self._starts: list[float] | None = None
        self._derived: dict[Callable[[list[Sample]], Any], Any] = {}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Stream):
            return NotImplemented
        return (self.name, self.spacing, self.samples) == (other.name, other.spacing, other.samples)

    __hash__ = object.__hash__  # streams that are equal are still not the same one

    @property
    def frozen(self) -> bool:
        """Whether the stream is complete."""
        return self._starts is not None

    def add(self, sample: Sample) -> None:
        """Add a result; called by the thread that reads them."""
        self.samples.append(sample)

    def freeze(self) -> None:
        """Complete the stream: sort all probes by their start."""
        self.samples.sort(key=lambda sample: sample.started)
        self._starts = [sample.started for sample in self.samples]
        self._derived.clear()

    def derived(self, make: Callable[[list[Sample]], T]) -> T:
        """What a judge makes of all samples; of a complete stream, it is made once."""
        if self._starts is None:
            return make(self.samples)
        if make not in self._derived:
            self._derived[make] = make(self.samples)
        found: T = self._derived[make]
        return found

    def view(self, since: float, until: float, now: float | None = None) -> list[Sample]:
        """The probes that started in [since, until), in that order.

        Args:
            now: the current time, while results still come. Probes without a result for longer than ``PATIENCE`` are
                included as pending.
        """
        if self._starts is not None:
            return self.samples[bisect_left(self._starts, since) : bisect_left(self._starts, until)]
        found = []
        for sample in reversed(self.samples):
            if sample.ended < since - 0.05:
                break
            if since <= sample.started < until:
                found.append(sample)
        found.sort()
        return found if now is None else list(self._with_pending(found, min(until, now - PATIENCE), now))

    def shows(self, outcome: str, now: float) -> bool:
        """Whether all current probes have this outcome, while results still come."""
        seen = self.view(now - OLDEST, now, now)
        recent = sum(sample.started >= now - RECENT for sample in seen)
        last = seen[-max(recent, FEWEST) :]
        return len(last) >= FEWEST and all(sample.outcome == outcome for sample in last)

    def known_until(self, until: float) -> bool:
        """Whether all probes that started before a time have a result, as a later one has: they count from 0 on."""
        later = min((sample.seq for sample in self.samples if sample.started >= until), default=0)
        return later > 0 and len({sample.seq for sample in self.samples if sample.seq < later}) == later

    def _with_pending(self, found: list[Sample], until: float, now: float) -> Iterator[Sample]:
        """The results, and in between the missing ones, at the times at which they must have started."""
        last: Sample | None = None
        for sample in found:
            if last is not None:
                for seq in range(last.seq + 1, sample.seq):
                    started = last.started + (seq - last.seq) * self.spacing
                    if started < until:
                        yield Sample(seq, started, now, PENDING)
            yield sample
            last = sample
        if last is not None:
            for ahead in range(1, int((until - last.started) / self.spacing) + 1):
                yield Sample(last.seq + ahead, last.started + ahead * self.spacing, now, PENDING)

    def stretches(self) -> list[Stretch]:
        """The whole stream, run-length encoded."""
        made: list[Stretch] = []
        for sample in self.samples:
            same = made and made[-1][3:] == sample[3:]
            if same:
                made[-1] = made[-1]._replace(until=sample.started, probes=made[-1].probes + 1)
            else:
                made.append(Stretch(sample.started, sample.started, 1, *sample[3:]))
        return made

    def gaps(self, since: float = -math.inf, until: float = math.inf) -> list[float]:
        """Seconds from the start of each probe in [since, until] to that of the next one in it."""
        starts = [sample.started for sample in self.samples if since <= sample.started <= until]
        return [after - before for before, after in pairwise(starts)]

    def gap_around(self, since: float, until: float) -> float:
        """The longest time between the starts of two consecutive probes that overlaps [since, until]."""
        starts = self._starts or [sample.started for sample in self.samples]
        if not starts:
            return math.inf
        inside = starts[max(0, bisect_left(starts, since) - 1) : bisect_right(starts, until) + 1]
        before, after = since - starts[0], starts[-1] - until
        open_ends = [-each for each in (before, after) if each < 0]  # no probe before, or after
        return max([*(later - sooner for sooner, later in pairwise(inside)), *open_ends], default=0.0)

    def longest_gap(self, since: float = -math.inf, until: float = math.inf) -> float:
        """The longest of these gaps, in which events may have been missed."""
        return max(self.gaps(since, until), default=0.0)


def longest_gap(samples: Iterable[Sample]) -> float:
    """The longest time between the starts of two of these probes, in order of their start."""
    starts = [sample.started for sample in samples]
    between: Iterable[float] = map(sub, starts[1:], starts)
    return max(between, default=0.0)


Reader = Callable[[dict[str, Any], Callable[[float], float]], Sample]
"""Reads a result line of a prober; the second argument maps the prober's monotonic seconds to this process's."""


def read_request(result: dict[str, Any], ours: Callable[[float], float]) -> Sample:
    """A result of a ``tcp`` job; ``ours`` maps the prober's monotonic seconds to this process's."""
    echo = result.get("echo") or {}
    return Sample(
        int(result["seq"]),
        ours(float(result["started"])),
        ours(float(result["ended"])),
        str(result["outcome"]),
        str(echo.get("pod") or ""),
        str(echo.get("node") or ""),
        str(echo.get("peer_address") or ""),
    )


class Arrived(NamedTuple):
    """Probes of a one-way stream that a pod counted: ``runs`` are the first and last number of consecutive ones."""

    pod: str
    node: str
    source: str
    runs: tuple[tuple[int, int], ...]


def read_arrived(result: dict[str, Any], node: str) -> list[Arrived]:
    """A result of a ``get`` job that asked a pod on this node what it counted.

    Raises:
        ValueError: it is no such answer.
    """
    response = result.get("response") or {}
    if response.get("status") != 200:
        raise ValueError(result.get("detail") or f"status {response.get('status')}")
    report = json.loads(response["body"])
    return [
        Arrived(
            str(report["pod"] or ""), node, str(each["address"]), tuple((int(a), int(b)) for a, b in each["arrived"])
        )
        for each in report["senders"]
    ]


def count_arrived(samples: Iterable[Sample], arrived: Iterable[Arrived]) -> list[Sample]:
    """The probes of a one-way stream, as answered by the pods that counted them; the others are lost."""
    by = {seq: each for each in arrived for first, last in each.runs for seq in range(first, last + 1)}
    return [_counted(sample, by.get(sample.seq)) if sample.outcome == SENT else sample for sample in samples]


def _counted(sample: Sample, arrived: Arrived | None) -> Sample:
    if arrived is None:
        return sample._replace(outcome=LOST)
    return sample._replace(outcome=ANSWERED, pod=arrived.pod, node=arrived.node, source=arrived.source)


def read_health(result: dict[str, Any], ours: Callable[[float], float]) -> Sample:
    """A result of a ``get`` job: its outcome is the HTTP status, where there is one."""
    response = result.get("response") or {}
    return Sample(
        int(result["seq"]),
        ours(float(result["started"])),
        ours(float(result["ended"])),
        str(response.get("status") or result["outcome"]),
    )


UNREADY, UNREADY_BESIDE, SLICE_GONE = "slice-unready", "slice-unready-beside", "slice-gone"


@dataclass(frozen=True)
class Mark:
    """An event of our watches: when it arrived, its pod, and its kind.

    ``what``: ``ready``, ``unready``, ``deleting``, ``gone`` for a Pod; ``slice-ready``, ``slice-unready``,
    ``slice-gone`` for an endpoint in the EndpointSlice of ``family``; ``slice-unready-beside`` for one that is no
    longer a ready endpoint of another Service over the same pods.
    """

    at: float
    what: str
    pod: str
    family: str = ""


@dataclass(frozen=True)
class Decision:
    """A decision that the load balancer reports: a node is healthy or not from ``at`` on, on our clock.

    ``family`` is that of the VIP it is about; empty for all of them.
    """

    at: float
    node: str
    healthy: bool
    family: str = ""


class Steer(NamedTuple):
    """The load balancer's report that it changed the nodes to which it sends requests."""

    at: float
    family: str
    nodes: tuple[str, ...]
    why: str = ""


class Cut(NamedTuple):
    """The probes that started from one change to the next.

    ``under_way`` are those that were answered after the next change had begun, by the rules of before or after it.
    """

    until: float
    samples: list[Sample]
    under_way: list[Sample]


def answered(sample: Sample) -> bool:
    """Whether one of our pods answered."""
    return sample.answered


def cut(
    stream: Stream, causes: Sequence[float], end: float, responds: Callable[[Sample], bool] = answered
) -> list[Cut]:
    """A stream, cut at the times of the changes.

    Args:
        stream: the probes.
        causes: when each change was asked for, in order.
        end: when the last stage was over.
        responds: whether something responded to a probe. What nothing responded to belongs to where it began.
    """
    found = []
    for since, until in zip(causes, [*causes[1:], end], strict=True):
        made, late = list[Sample](), list[Sample]()
        for sample in stream.view(since, until):
            (late if responds(sample) and sample.ended > until else made).append(sample)
        found.append(Cut(until, made, late))
    return found


OURS = "error"
"""The prober's outcome for an error of its own: a source port that is taken, for example. It proves nothing."""

MOST_ERRORS = 3
"""The most probes of a stream with such an error, if no verdict depends on a single one of them."""

MOST_GAP = 3.0
"""Seconds without a single probe after which a stream proves nothing: this machine is too busy."""


def prober_failed(
    samples: Collection[Sample], deciding: Sequence[tuple[float, float]] = (), most: int = MOST_ERRORS, name: str = ""
) -> str:
    """A sentence if the prober itself failed too often; empty if not.

    Args:
        samples: all probes.
        deciding: the times in which a single probe may decide.
        most: the number of errors that do not matter at other times.
        name: which probes they are.
    """
    errors = [sample.started for sample in samples if sample.outcome == OURS]
    if len(errors) <= most and not any(since <= at <= until for at in errors for since, until in deciding):
        return ""
    return f"the prober itself failed in {len(errors)} of {len(samples)} probes" + (f" ({name})" if name else "")


def probing_paused(samples: Iterable[Sample], name: str = "", spacing: float = 0.0) -> str:
    """A sentence if this machine was too busy to probe for longer than ``MOST_GAP``; empty if not.

    Args:
        samples: all probes.
        name: which probes they are.
        spacing: seconds between two probes of the stream: one of them may be missing.
    """
    longest, most = longest_gap(samples), max(MOST_GAP, 2 * spacing)
    if longest <= most:
        return ""
    which = f" ({name})" if name else ""
    return f"this machine sent no probe for {longest:.1f} s{which}; at most {most:.0f} s are acceptable"
