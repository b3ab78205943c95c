"""Steady probes on one clock, and what happens meanwhile: samples, streams, marks, decisions, stages. No I/O.

All times are monotonic seconds of this process.
"""

import json
import math
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from operator import sub
from typing import Any, NamedTuple, TypeVar

from esipp.judging.topology import IPAddress, parse_address

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
            (late if sample.ended > until and responds(sample) else made).append(sample)
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


# --------------------------------------------------------------------------------------------------------------- losses
LATE_ANSWER = 0.9
"""Seconds after which an answer is late. A dropped SYN is retransmitted after one second, so a longer answer shows that
the first SYN was lost."""

SPLIT = 2.0
"""Seconds without a missed request after which another gap begins."""

RESOLUTION = 0.06
"""Seconds by which a time may be off: a request every 20 ms, a health check every 20 ms, and the time in transit."""

CLEAN = 25
"""Requests in a row that must have gone elsewhere, for a load balancer that uses up to three nodes at once and does not
report its decisions: as many miss one of three by chance in 1 of 25,000 cases."""

BURST, BURST_SECONDS = 3, 0.5
"""``BURST`` losses within ``BURST_SECONDS`` are not stray, however long after the decision of the load balancer."""

SERIES, SERIES_GAP = 6, 1.0
"""``SERIES`` losses, each within ``SERIES_GAP`` seconds of the next, are not stray: every Nth request, for long."""


# -------------------------------------------------------------------------------- gaps in a stream of requests
@dataclass(frozen=True)
class Gap:
    """A time in which requests were lost or late: from the start of the first to the start of the last."""

    first: float
    last: float
    missed: int

    @property
    def seconds(self) -> float:
        """How long it was."""
        return self.last - self.first


@dataclass(frozen=True)
class Tally:
    """The number of requests, of lost and late ones, and the longest gap."""

    requests: int = 0
    lost: int = 0
    late: int = 0
    gap: Gap | None = None

    @property
    def words(self) -> str:
        """The numbers as text."""
        said = f"{self.lost} of {self.requests} requests lost, {self.late} late"
        return said + (f", longest gap {self.gap.seconds:.2f} s" if self.gap else "")


def is_late(sample: Sample) -> bool:
    """Whether an answer came late."""
    return sample.answered and sample.ended - sample.started >= LATE_ANSWER


def gaps(samples: Iterable[Sample], causes: Sequence[float] = ()) -> list[Gap]:
    """The gaps, split at the times of the single changes; ``samples`` are in order of start."""
    found: list[Gap] = []
    missed = [s.started for s in samples if s.outcome != ANSWERED or s.ended - s.started >= LATE_ANSWER]
    marks = sorted(causes)
    for at in missed:
        last = found[-1] if found else None
        if last and at - last.last <= SPLIT and bisect_right(marks, at) == bisect_right(marks, last.last):
            found[-1] = Gap(last.first, at, last.missed + 1)
        else:
            found.append(Gap(at, at, 1))
    return found


def tally(samples: Sequence[Sample], causes: Sequence[float] = ()) -> Tally:
    """The numbers of these requests."""
    found = gaps(samples, causes)
    if not found:
        return Tally(len(samples))
    longest = max(found, key=lambda gap: gap.seconds)
    lost = sum(1 for s in samples if not s.answered)
    return Tally(len(samples), lost, sum(1 for s in samples if is_late(s)), longest)


def say_late(samples: Iterable[Sample], gap: Gap) -> str:
    """The late answers in a gap and the nodes of their pods, as text; a busy node may also answer late."""
    late = [sample for sample in samples if gap.first <= sample.started <= gap.last and is_late(sample)]
    nodes = sorted({sample.node for sample in late if sample.node})
    by = f", by pods of {', '.join(nodes)}" if nodes else ""
    return f"{len(late)} of its {gap.missed} requests were answered late{by}" if late else ""


def kept_from_asking(samples: Iterable[Sample], gap: Gap) -> float:
    """The longest time between two requests around a gap, which limits how well its length is known."""
    return longest_gap(each for each in samples if gap.first - SPLIT <= each.started <= gap.last + SPLIT)


# --------------------------------------------------------------------------- until a node is left
@dataclass(frozen=True)
class Losses:
    """Requests through the VIP without an answer: ``first`` and ``last`` are when they started.

    ``reset`` are those that had been accepted. ``outage`` is the longest time from the start of a request without an
    answer to the start of the next answered one. ``end`` is the last one lost before the load balancer had left the
    node; ``stray`` counts the isolated ones after it.
    """

    timed_out: int = 0
    refused: int = 0
    reset: int = 0
    wrong: int = 0
    first: float | None = None
    last: float | None = None
    outage: float = 0.0
    end: float | None = None
    stray: int = 0

    @property
    def count(self) -> int:
        """All of them."""
        return self.timed_out + self.refused + self.reset + self.wrong

    @property
    def is_one_stray(self) -> bool:
        """Whether a single request was lost: a stray one that timed out."""
        return self.count == self.stray == self.timed_out == 1


def count_losses(samples: Sequence[Sample], until: float) -> Losses:
    """Count the requests without an answer; samples are in order of start."""
    timed_out = refused = reset = wrong = 0
    first = last = began = None
    outage = 0.0
    for sample in samples:
        if sample.answered:
            outage = max(outage, sample.started - began) if began is not None else outage
            began = None
            continue
        timed_out += sample.outcome in ("timeout", "pending")
        refused += sample.outcome in ("refused", "unreachable")
        reset += sample.outcome == "reset"
        wrong += sample.outcome in ("invalid", "misdirected", "error")
        first = sample.started if first is None else first
        last = sample.started
        began = sample.started if began is None else began
    if began is not None:
        outage = max(outage, min(until, samples[-1].ended) - began)
    return Losses(timed_out, refused, reset, wrong, first, last, outage, last)


def in_flight(sample: Sample, moment: float) -> bool:
    """Whether a lost request may have been lost by an event after its start."""
    under_way = sample.outcome == "reset" or sample.started > moment - RESOLUTION
    return not sample.answered and sample.started < moment < sample.ended and under_way


def first_clean(samples: Sequence[Sample], through: Callable[[Sample], bool]) -> float:
    """The last loss before the first run of clean requests, answered and not through the node; infinite if none."""
    lost: float | None = None
    clean = 0
    for sample in samples:
        if not sample.answered:
            lost, clean = sample.started, 0
        else:
            clean = 0 if through(sample) else clean + 1
        if lost is not None and clean >= CLEAN:
            return lost
    return float("inf")


def lasting(lost: Sequence[float], limit: float) -> float | None:
    """The last loss that belongs to a change that ended at ``limit``; None if all of them are stray.

    A load balancer may report a decision and not act on it: losses after the limit count if they continue steadily.
    """
    end = max((at for at in lost if at <= limit), default=None)
    late = [at for at in lost if at > limit]
    series = 0
    for number, at in enumerate(late):
        series = series + 1 if number and at - late[number - 1] <= SERIES_GAP else 1
        burst = number + 1 >= BURST and at - late[number + 1 - BURST] <= BURST_SECONDS
        if burst or series >= SERIES:
            end = at
    return end


# ---------------------------------------------------------------------------------------------------------- steady runs
SILENCE = 0.9
"""Seconds without an answer that do not end a run of right answers: a lost probe is a loss, and no other answer."""

Fits = Callable[[Sample], bool | None]
"""Whether a probe is right; None for one that neither begins nor ends a run, as it got no answer."""


@dataclass(frozen=True)
class SteadyRun:
    """Right answers without a wrong one in between: from when to when, and how many."""

    since: float
    until: float
    probes: int

    def lasts(self, seconds: float, probes: int) -> bool:
        """Whether it lasted for so many seconds, with so many probes."""
        return self.until - self.since >= seconds and self.probes >= probes


def last_run(samples: Sequence[Sample], until: float, fits: Fits, *, pauses: bool = True) -> SteadyRun | None:
    """The run of right answers that goes on until the end; None if there is none.

    Args:
        samples: the probes, in order of their start.
        until: the end of the time in question.
        fits: whether a probe is right.
        pauses: whether a time without any probe of ours counts as silence. Without it, only probes without an answer
            do: a machine that was too busy to probe then says nothing about the product.
    """
    since, probes = until, 0
    silent: float | None = None  # the last probe without an answer before ``since``
    for sample in reversed(samples):
        right = fits(sample)
        silent = sample.started if right is None and silent is None else silent
        pause = since - sample.started > SILENCE
        silence = right is None and silent is not None and silent - sample.started >= SILENCE
        if right is False or (pause if pauses else silence):
            break
        if right:
            since, silent = sample.started, None
            probes += 1
    return SteadyRun(since, until, probes) if probes else None


def first_run(samples: Sequence[Sample], fits: Fits, seconds: float, probes: int) -> float | None:
    """When the first run of right answers began that lasted for so many seconds, with so many probes."""
    since: float | None = None
    count = 0
    for sample in samples:
        right = fits(sample)
        if right is False:
            since, count = None, 0
        elif right:
            since = sample.started if since is None else since
            count += 1
            if sample.started - since >= seconds and count >= probes:
                return since
    return None


# ---------------------------------------------------------------------------------------------------- expected backends
SLACK = 0.5
"""Seconds after a node's 503 in which a removed pod may still answer: rules change first, then the health check, so
only requests in flight remain."""

LATE = 3.0
"""Seconds after a deleted pod left the EndpointSlices in which it may still answer: the proxy's own lag. Until then it
counts as terminating and serving, so the node's 503 does not mean that it no longer serves."""

STALE = 10.0
"""Seconds after a pod was removed in which it may still answer if its node never said 503: no proxy needs longer."""

EARLY = 1.0
"""Seconds before our watch reports a pod ready in which it may already answer: others may hear of it sooner."""


@dataclass(frozen=True)
class Span:
    """When a pod may answer: from ``since`` until ``here`` through its own node, until ``elsewhere`` through others.

    That is while it is ready, or terminating and serving, and as long as proxies may take to follow.
    """

    since: float
    here: float = math.inf
    elsewhere: float = math.inf


Spans = dict[str, list[Span]]
"""The spans of each pod; one that never was a backend has none, and is not in it."""


@dataclass(frozen=True)
class Removal:
    """A pod that may no longer answer: removed at ``at``, it may answer until ``until``."""

    pod: str
    at: float
    until: float


def spans_of_actions(added: Iterable[tuple[str, float]], removed: Sequence[Removal]) -> Spans:
    """When each pod may answer, where we added and removed all pods: ``added`` has each pod, and when."""
    found: Spans = {}
    for at, pod in sorted((at, pod) for pod, at in added):
        ends = ((each.at, each.until) for each in removed if each.pod == pod and each.at > at)
        _, until = min(ends, default=(0.0, math.inf))
        found.setdefault(pod, []).append(Span(at, until, until))
    return found


def spans_of_marks(marks: Iterable[Mark], nodes: Mapping[str, str], health: Iterable[Mapping[str, Stream]]) -> Spans:
    """When each pod may answer, by the events of our watches, where controllers add and remove pods.

    Args:
        marks: the events.
        nodes: the node of each pod.
        health: the health checks of nodes, once for each family.
    """
    checks = list(health)
    found: Spans = {}
    ending: set[str] = set()
    for mark in sorted(marks, key=lambda each: each.at):
        own = found.setdefault(mark.pod, [])
        is_open = bool(own) and own[-1].here == math.inf
        if mark.what == "ready" and not is_open:
            own.append(Span(mark.at - EARLY))
        elif mark.what == "deleting":
            ending.add(mark.pod)
        elif mark.what == "unready" and is_open and mark.pod not in ending:
            answered_503 = [first_503(each.get(nodes.get(mark.pod, "")), mark.at) for each in checks]
            own[-1] = replace(own[-1], here=until_followed(mark.at, answered_503), elsewhere=mark.at + STALE)
        elif mark.what == UNREADY_BESIDE and own and own[-1].here < math.inf:
            # the Service whose health checks were probed lost it sooner; the proxy follows for this one only now
            own[-1] = replace(
                own[-1], here=max(own[-1].here, mark.at + LATE), elsewhere=max(own[-1].elsewhere, mark.at + LATE)
            )
        elif mark.what == "gone" and is_open:
            own[-1] = replace(own[-1], here=mark.at + LATE, elsewhere=mark.at + LATE)
    return found


def until_followed(removed: float, answered_503: Sequence[float]) -> float:
    """Until when a pod that became unready may answer.

    Args:
        removed: when it became unready.
        answered_503: when its node said 503, in each family; infinite where it did not.
    """
    return max(answered_503) + SLACK if answered_503 and max(answered_503) < math.inf else removed + STALE


def first_503(checks: Stream | None, after: float) -> float:
    """When a node first answered 503 after a time; infinite if it never did."""
    if checks is None:
        return math.inf
    return next((s.started for s in checks.samples if s.started >= after and s.outcome == "503"), math.inf)


def misplaced(
    sample: Sample, allowed: Mapping[str, Sequence[Span]], *, local: bool = True, node: str = "", overdue: float = 0.0
) -> str:
    """Why an answer comes from a wrong backend; empty if the backend is an expected one.

    Args:
        sample: an answered request.
        allowed: when which pod may answer.
        local: whether the pod's own node decides, as under Local.
        node: the only node whose pods may answer; empty for any.
        overdue: seconds for which a pod may answer beyond its time.
    """
    if sample.pod not in allowed:
        return f"{sample.pod or 'an unknown pod'} is not a backend"
    if node and sample.node != node:
        return f"node {node} forwarded it to a pod on node {sample.node}"
    for span in allowed[sample.pod]:
        if span.since <= sample.ended and sample.started <= (span.here if local else span.elsewhere) + overdue:
            return ""
    return f"{sample.pod} was neither ready nor terminating and serving"


# -------------------------------------------------------------------------------------------------------------- sources
Sourced = tuple[Sample, Collection[IPAddress]]
"""An answer, and its right sources."""


@dataclass
class Sources:
    """The number of answers by their source; ``first`` is the first answer with a wrong one."""

    right: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    first: Sample | None = None

    @property
    def total(self) -> int:
        """The answers with a source."""
        return self.right.total() + self.wrong.total()

    @property
    def words(self) -> str:
        """How many are right, as text."""
        return f"the right source in {self.right.total()} of {self.total} answers"

    @property
    def fault(self) -> str:
        """The wrong sources, as text; empty if there are none."""
        return f"wrong sources: {say_sources(self.wrong)}" if self.wrong else ""


def say_sources(counts: Counter[str]) -> str:
    """Addresses and their numbers, as text."""
    return ", ".join(f"{source} x{count}" for source, count in sorted(counts.items()))


def sources(answers: Iterable[Sourced]) -> Sources:
    """Count the answers by their source."""
    found = Sources()
    known: dict[tuple[str, int], tuple[bool, Collection[IPAddress]]] = {}  # many answers share few of both
    for sample, allowed in answers:
        if not sample.source:
            continue
        pair = sample.source, id(allowed)
        if pair not in known:
            known[pair] = parse_address(sample.source) in allowed, allowed
        if known[pair][0]:
            found.right[sample.source] += 1
        else:
            found.wrong[sample.source] += 1
            found.first = found.first or sample
    return found
