"""Controls: how well a client reached the nodes without a Service, by the control listeners of several nodes. Pure."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from esipp.checks.timing import Blur, Held, hold
from esipp.judging.statistics import more_lost_p
from esipp.judging.timeline import LATE_ANSWER, OURS, Gap, Sample, Stream, gaps, is_late, kept_from_asking

NEAR = 2.0
"""Seconds around an event for which the controls count."""

TROUBLE = 0.9
"""Seconds beyond the usual from which a control is in trouble: its first SYN was lost, or a machine was busy."""

TWICE = 2
"""Requests of a control around an event that must be in trouble, or the control counts as well. A stall of this machine
or of the network hits several, as they begin tenths of a second apart. A network that loses one packet in a hundred
hits single ones."""

ALPHA = 0.001
"""The chance of blaming the product for losses of the network."""

MOSTLY_CONTROL = 0.95
"""The share of a control's connections that must be right; the others may be lost, but must not show a wrong address.

A control proves that silence is not our fault, or that nothing rewrites the client's address before the cluster. One
lost connection of 200 disproves neither.
"""

LEAST_FAULTS = 5
"""The fewest connections with a fault that count as one of the data plane."""

BY_CHANCE = 1e-6
"""The chance below which connections differ from those without a Service. A run compares some thousand parts."""

HOPS = 2
"""How many times as many faults as its control a Service may have: a node may send connections on to the pod's node,
over one more link that may lose packets."""


@dataclass(frozen=True)
class Counts:
    """The number of requests, and of the lost ones among them."""

    lost: int = 0
    requests: int = 0

    @property
    def words(self) -> str:
        """The counts as text."""
        return f"{self.lost} of {self.requests}"


def but_one(values: Iterable[float]) -> float:
    """The largest value but one: a single packet may be lost by chance. Of a single value it is that one, of none 0."""
    largest = sorted(values)[-TWICE:]
    return largest[0] if largest else 0.0


class _Control:
    """One node's control listener: the start of each request, and how much longer than usual it took."""

    def __init__(self, samples: Iterable[Sample]) -> None:
        made = sorted((s for s in samples if s.outcome != OURS), key=lambda sample: sample.started)
        took = sorted(s.ended - s.started for s in made if s.answered)
        usual = took[len(took) // 2] if took else 0.0
        self.starts = [sample.started for sample in made]
        self.excess = [max(0.0, sample.ended - sample.started - usual) for sample in made]
        self.lost = [0, *accumulate(not sample.answered for sample in made)]

    def span(self, since: float, until: float) -> tuple[int, int]:
        """The positions of the requests that began in a time."""
        return bisect_left(self.starts, since), bisect_right(self.starts, until)

    def slow(self, since: float, until: float) -> float:
        """The time beyond the usual of the slowest answer but one: a single packet may be lost by chance."""
        first, last = self.span(since, until)
        return but_one(self.excess[first:last])

    def counts(self, since: float, until: float) -> Counts:
        """The requests of a time span, and the lost ones."""
        first, last = self.span(since, until)
        return Counts(self.lost[last] - self.lost[first], last - first)

    def trouble(self, since: float, until: float) -> str:
        """What went wrong in a time span, as text; empty if at most a single request did."""
        counts, slow = self.counts(since, until), self.slow(since, until)
        if slow < TROUBLE:
            return ""
        return f"{counts.lost} of {counts.requests} lost" if counts.lost else f"{slow:.1f} s late"


@dataclass(frozen=True)
class Vantage:
    """The controls of one client in one family, by node.

    Trouble at all nodes at once is the client's own, or that of the way to them. Trouble at one node while the others
    answer is that node's: what cuts its traffic cuts its control as well.
    """

    controls: Mapping[str, Stream]

    @cached_property
    def _known(self) -> dict[str, _Control]:
        known = {node: stream.derived(_Control) for node, stream in sorted(self.controls.items())}
        return {node: control for node, control in known.items() if control.starts}

    def slow(self, since: float, until: float) -> float:
        """How much longer than usual the controls took around a time: the smallest value of all nodes."""
        return min((each.slow(since - NEAR, until + NEAR) for each in self._known.values()), default=0.0)

    def ours(self, since: float, until: float) -> str:
        """A sentence if the controls of every node were lost or late around a time; empty if one was not."""
        troubled = {node: each.trouble(since - NEAR, until + NEAR) for node, each in self._known.items()}
        if not troubled or not all(troubled.values()):
            return ""
        named = ", ".join(f"{node}: {words}" for node, words in troubled.items())
        if len(troubled) == 1:
            return f"the only control listener lost or delayed requests at that time ({named})"
        return f"the control listeners of all {len(troubled)} nodes lost or delayed requests at that time ({named})"

    def all_ours(self, spans: Iterable[tuple[float, float]]) -> str:
        """The same sentence about the first of several times, if it is so around each of them; else empty."""
        troubles = [self.ours(*span) for span in spans]
        return troubles[0] if troubles and all(troubles) else ""

    def cut(self, since: float, until: float) -> str:
        """A sentence if some nodes' listeners lost requests around a time while those of other nodes did not.

        This points at these nodes. It excuses no loss.
        """
        counted = {node: each.counts(since - NEAR, until + NEAR).lost for node, each in self._known.items()}
        lost = {node: count for node, count in counted.items() if count}
        fine = [node for node in counted if node not in lost]
        if not lost or not fine or self.ours(since, until):
            return ""
        named = ", ".join(f"{count} on {node}" for node, count in lost.items())
        return f"requests to the nodes' control listeners were lost as well ({named}), but none to {', '.join(fine)}"

    def counts(self, spans: Sequence[tuple[float, float]]) -> Counts:
        """The losses of the network itself: of all controls except nodes that lost far more than the others."""
        own = {node: _sum(each.counts(*span) for span in spans) for node, each in self._known.items()}
        fair = [
            mine
            for node, mine in own.items()
            if len(own) < 2 or by_chance(mine, _sum(each for other, each in own.items() if other != node)) >= ALPHA
        ]
        return _sum(fair)


def _sum(counts: Iterable[Counts]) -> Counts:
    made = list(counts)
    return Counts(sum(each.lost for each in made), sum(each.requests for each in made))


def by_chance(product: Counts, control: Counts) -> float:
    """The chance of at least that many losses if the product loses no more than the control (Fisher's exact test)."""
    return more_lost_p(product.lost, product.requests, control.lost, control.requests)


def excused(product: Counts, control: Counts) -> str:
    """A sentence if the control loses as much as the product; empty if the product's losses count.

    Every loss counts if the control lost nothing.
    """
    if not control.lost or (chance := by_chance(product, control)) < ALPHA:
        return ""
    return (
        f"the control listeners, without a Service, lost {control.words} requests: the network itself may explain the "
        f"{product.words} lost here (Fisher's exact test, p = {chance:.2g})"
    )


@dataclass(frozen=True)
class Uncertain:
    """A gap, the part of it that is certain, and its uncertainty.

    ``certain`` is the longest gap of those of its requests whose loss or delay our own slowness does not explain.
    """

    gap: Gap
    certain: float
    blur: Blur

    def held(self, bound: float) -> Held:
        """Whether it keeps a bound."""
        held = hold(self.certain, bound, self.blur)
        return Held.UNKNOWN if held is Held.WITHIN and self.gap.seconds > bound else held


def uncertain(samples: Sequence[Sample], causes: Sequence[float], vantage: Vantage) -> list[Uncertain]:
    """The gaps of a way, each compared with the controls of the same client at that time.

    A late answer does not count if the controls of all nodes were as late, nor does a lost request while all controls
    were in trouble.
    """
    found = gaps(samples, causes)
    if not found:
        return []
    ours = {id(s) for s in samples if (not s.answered or is_late(s)) and _is_ours(s, vantage)}
    sure = gaps((s for s in samples if id(s) not in ours), causes)
    made = []
    for gap in found:
        inside = [each.seconds for each in sure if gap.first <= each.first and each.last <= gap.last]
        blur = Blur(kept_from_asking(samples, gap), vantage.slow(gap.first, gap.last))
        made.append(Uncertain(gap, max(inside, default=0.0), blur))
    return made


def _is_ours(sample: Sample, vantage: Vantage) -> bool:
    if not sample.answered:
        return bool(vantage.ours(sample.started, sample.started))
    slow = vantage.slow(sample.started, sample.started)
    return sample.ended - sample.started - slow < LATE_ANSWER
