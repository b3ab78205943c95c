"""What a client's own way to the nodes was worth: reference listeners of several nodes, no Service between. Pure."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from esipp.judging.endpoint_change.samples import Sample, Stream

NEAR = 2.0
"""Seconds around an event in which the controls tell of the same time."""

TROUBLE = 0.9
"""Seconds beyond the usual after which a control is in trouble: its first SYN met nobody, or a machine was busy."""

TWICE = 2
"""Requests of a control in trouble around an event, without which it is well. What stops us or the way meets several of
them, as they begin tenths of a second apart. A way that loses one packet in a hundred meets single ones."""

OURS = "error"
"""The prober's word for trouble of its own, which proves nothing of the way."""

ALPHA = 0.001
"""The chance to blame the product for what the way loses by itself."""


@dataclass(frozen=True)
class Counts:
    """How many requests there were, and how many of them were lost."""

    lost: int = 0
    requests: int = 0

    @property
    def words(self) -> str:
        """The counts for people."""
        return f"{self.lost} of {self.requests}"


class _Control:
    """One node's reference listener: when it was asked, and how much longer than usual each answer took."""

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
        """What answers took beyond the usual in a time: the longest but one, as one packet may be lost by itself."""
        first, last = self.span(since, until)
        longest = sorted(self.excess[first:last])[-TWICE:]
        return longest[0] if longest else 0.0

    def counts(self, since: float, until: float) -> Counts:
        """How many were lost in a time."""
        first, last = self.span(since, until)
        return Counts(self.lost[last] - self.lost[first], last - first)

    def trouble(self, since: float, until: float) -> str:
        """What went wrong in a time, in words; empty where all was well, but for a single request."""
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
        known = {node: _Control(stream.samples) for node, stream in sorted(self.controls.items())}
        return {node: control for node, control in known.items() if control.starts}

    def slow(self, since: float, until: float) -> float:
        """How much longer than usual the controls of every node took around a time: the least of all nodes."""
        return min((each.slow(since - NEAR, until + NEAR) for each in self._known.values()), default=0.0)

    def ours(self, since: float, until: float) -> str:
        """That the controls of every node were lost or late around a time, in words; empty if one was not."""
        told = {node: each.trouble(since - NEAR, until + NEAR) for node, each in self._known.items()}
        if not told or not all(told.values()):
            return ""
        named = ", ".join(f"{node}: {words}" for node, words in told.items())
        if len(told) == 1:
            return f"the only reference listener that was asked was in trouble at that time ({named})"
        return f"the reference listeners of all {len(told)} nodes were in trouble at that time ({named})"

    def cut(self, since: float, until: float) -> str:
        """That requests to some nodes' listeners were lost around a time while other nodes' answered, in words.

        This accuses the nodes. It excuses nobody.
        """
        told = {node: each.counts(since - NEAR, until + NEAR).lost for node, each in self._known.items()}
        lost = {node: count for node, count in told.items() if count}
        fine = [node for node in told if node not in lost]
        if not lost or not fine or self.ours(since, until):
            return ""
        named = ", ".join(f"{count} on {node}" for node, count in lost.items())
        return f"requests with no service in the way were lost as well ({named}), none of those to {', '.join(fine)}"

    def counts(self, spans: Sequence[tuple[float, float]]) -> Counts:
        """What the way itself lost in some times: of all controls, but for nodes that lost far more than the others."""
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
    """The chance that the product loses so many or more, if it loses no more than the control (Fisher's exact test)."""
    from scipy.stats import fisher_exact  # type: ignore[import-untyped]  # slow to load, and most runs lose nothing

    if not product.lost:
        return 1.0
    kept = product.requests - product.lost, control.requests - control.lost
    return float(fisher_exact([[product.lost, kept[0]], [control.lost, kept[1]]], alternative="greater").pvalue)


def excused(product: Counts, control: Counts) -> str:
    """That the control loses as much as the product, in words; empty where the product's losses count.

    Where the control lost nothing every loss counts.
    """
    if not control.lost or (chance := by_chance(product, control)) < ALPHA:
        return ""
    return (
        f"the reference listeners lost {control.words}, with no service in the way: {product.words} may be the way's "
        f"own (Fisher's exact test, p = {chance:.2g})"
    )
