"""Everything that was seen while traffic flowed: on one clock, way by way, and what was done when. No I/O."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from esipp.checks.continuity import Phase, Way
from esipp.checks.model import Family
from esipp.judging.endpoint_change.health_probes import Checking
from esipp.judging.endpoint_change.samples import Sample, Stream
from esipp.judging.endpoint_change.timeline import Mark
from esipp.judging.promise import Bound
from esipp.judging.topology import IPAddress

Asked = tuple[Way, Family]
"""What is asked all the time: a way, over one family."""


class Exchange(NamedTuple):
    """One exchange on a connection that lasts: ``number`` tells the connections apart.

    ``lost`` is when the connection was lost, where that was not during the exchange that tells of it.
    """

    number: tuple[int, int]
    sample: Sample
    lost: float | None = None


@dataclass(frozen=True)
class Break:
    """A connection that broke: between its last answer and ``at``. ``pod`` had answered on it, and seen ``source``.

    ``sample`` is the exchange that tells of it.
    """

    since: float
    at: float
    pod: str
    sample: Sample
    source: str = ""


class Steer(NamedTuple):
    """The balancer's own word that it changed the nodes it sends requests to."""

    at: float
    family: str
    nodes: tuple[str, ...]
    why: str = ""


@dataclass(frozen=True)
class Window:
    """When something was done.

    Args:
        phase: what.
        began: before anything was done.
        until: when traffic had settled afterwards, or was waited for no longer.
        happened: when it had been done and proven; ``ended``: when it was undone, or complete.
        causes: the moments of the single changes in it, from which gaps are counted.
        either: from when to when either policy's source is right.
        returned: when the API server had taken the return to Local, of all services.
        words: what proves that it happened.
        trouble: why it says nothing: it did not happen, or was not proven.
        unsettled: which ways did not answer again in time.
    """

    phase: Phase
    began: float
    until: float
    happened: float | None = None
    ended: float | None = None
    causes: tuple[float, ...] = ()
    either: tuple[tuple[float, float], ...] = ()
    words: str = ""
    trouble: str = ""
    unsettled: str = ""
    returned: float | None = None

    def as_json(self) -> dict[str, Any]:
        """The window as the ledger keeps it."""
        times = {name: getattr(self, name) for name in ("began", "happened", "ended", "until", "returned")}
        return {
            "phase": self.phase.value,
            **{name: None if at is None else round(at, 4) for name, at in times.items()},
            "causes": [round(at, 4) for at in self.causes],
            "either": [[round(at, 4) for at in each] for each in self.either],
            "words": self.words,
            "trouble": self.trouble,
            "unsettled": self.unsettled,
        }


@dataclass(frozen=True)
class Places:
    """The nodes that play a part: two have a pod, one has none."""

    endpoint: str
    other: str
    bare: str


@dataclass(frozen=True)
class Seen:
    """All of it.

    Args:
        places: which node is which.
        streams: new connections, by way and family; ``lasting``: exchanges on connections that last.
        control: the reference listener of the endpoint node: the same client and node, no service in the way.
        others: those of other nodes, by node and family.
        health: the health checks of the nodes with pods, by family.
        windows: what was done when; what falls into none of them is quiet.
        marks: what our watch saw of the pods; ``nodes``: where each of them was.
        steers: the balancer's own word, by way.
        checking: the settings of the reference balancer's health checks, as it tells them.
        bound: within what time the cluster's own load balancer must have left a node, where somebody promises that.
        serves: seconds for which a pod serves on when it is told to end.
        own: the client's addresses; ``of_nodes``: those of all nodes; ``of_balancer``: those of the reference balancer.
        addresses: those of each node.
        obstacles: why a way could not be asked. ``trouble``: why nothing was done at all.
        since: when traffic had settled at first; what was before is not judged.
        details: the prober's words on requests that had no answer, by stream and number.
    """

    places: Places = field(default_factory=lambda: Places("", "", ""))
    streams: Mapping[Asked, Stream] = field(default_factory=dict)
    lasting: Mapping[Asked, Sequence[Exchange]] = field(default_factory=dict)
    control: Mapping[Family, Stream] = field(default_factory=dict)
    health: Mapping[Family, Mapping[str, Stream]] = field(default_factory=dict)
    windows: Sequence[Window] = ()
    marks: Sequence[Mark] = ()
    nodes: Mapping[str, str] = field(default_factory=dict)
    steers: Mapping[Way, Sequence[Steer]] = field(default_factory=dict)
    checking: Checking = field(default_factory=Checking)
    serves: float = 0.0
    own: frozenset[IPAddress] = frozenset()
    of_nodes: frozenset[IPAddress] = frozenset()
    of_balancer: frozenset[IPAddress] = frozenset()
    obstacles: Mapping[Asked, str] = field(default_factory=dict)
    trouble: str = ""
    since: float = 0.0
    details: Mapping[tuple[str, int], str] = field(default_factory=dict)
    others: Mapping[tuple[str, Family], Stream] = field(default_factory=dict)
    bound: Bound | None = None
    addresses: Mapping[str, frozenset[IPAddress]] = field(default_factory=dict)

    def owner(self, address: IPAddress) -> str:
        """Whose address it is, of the nodes; empty for any other."""
        return next((node for node, own in self.addresses.items() if address in own), "")

    def window(self, phase: Phase) -> Window | None:
        """When something was done; None where it was not, and for quiet, which is all else."""
        return next((each for each in self.windows if each.phase is phase), None)

    @cached_property
    def quiet(self) -> list[tuple[float, float]]:
        """The times in which nothing was done."""
        windows = sorted(self.windows, key=lambda each: each.began)
        begins = [self.since, *(each.until for each in windows)]
        ends = [*(each.began for each in windows), float("inf")]
        return [(since, until) for since, until in zip(begins, ends, strict=True) if since < until]

    def phase_of(self, started: float, ended: float) -> Phase | None:
        """In which phase something counts that took so long; None before anything counts.

        What began in one belongs to it; else what ended in one, which may have touched it.
        """
        windows, begins = self._windows
        for at in (started, ended):
            position = bisect_right(begins, at) - 1
            if position >= 0 and started < windows[position].until:
                return windows[position].phase
        return Phase.QUIET if started >= self.since else None

    @cached_property
    def _windows(self) -> tuple[list[Window], list[float]]:
        windows = sorted(self.windows, key=lambda each: each.began)
        return windows, [each.began for each in windows]

    def in_phase(self, phase: Phase, samples: Iterable[Sample]) -> list[Sample]:
        """Those of these probes that count in a phase, in their order."""
        return [sample for sample in samples if self.phase_of(sample.started, sample.ended) is phase]

    def breaks(self, asked: Asked) -> list[tuple[Phase | None, Break]]:
        """The connections of a way that broke, and in which phase; one that could not be opened anew is no break."""
        last: dict[tuple[int, int], Sample] = {}
        found = []
        for each in self.lasting.get(asked, ()):
            if each.sample.answered:
                last[each.number] = each.sample
            elif each.number in last and each.sample.outcome != "error":
                before = last.pop(each.number)
                at = each.sample.ended if each.lost is None else each.lost
                broken = Break(before.ended, at, before.pod, each.sample, before.source)
                found.append((self.phase_of(broken.since, broken.at), broken))
        return found
