"""The evidence of continuity: all requests on one clock, way by way, and the time of each disruption. No I/O."""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from math import inf
from typing import NamedTuple

from esipp.checks.continuity import Phase, Way
from esipp.checks.model import Family, Role
from esipp.checks.timing import Bound, Checking
from esipp.judging.link_owners import LinkAnswer
from esipp.judging.timeline import Mark, Sample, Steer, Stream
from esipp.judging.topology import IPAddress

Asked = tuple[Way, Family]
"""A stream of steady requests: a way, over one family."""

Sent = tuple[Way, Family, str]
"""Any other stream: a way, over one family, and the name of its kind."""


class Exchange(NamedTuple):
    """One exchange on an established connection: ``number`` tells the connections apart.

    ``lost`` is when the connection was lost, if not during the exchange that reports the loss.
    """

    number: tuple[int, int]
    sample: Sample
    lost: float | None = None


class LinkChange(NamedTuple):
    """The client's frames to a VIP go to this link address since ``at``, as its neighbour table says (ARP, NDP).

    ``addresses`` are others that have the link address, such as those of the node that announces the VIP. When more of
    them are known, the same link address comes again.
    """

    at: float
    link: str
    addresses: tuple[str, ...] = ()


def moves(told: Sequence[LinkChange]) -> list[LinkChange]:
    """Those at which the link address became another one."""
    return [after for before, after in pairwise(told) if before.link != after.link]


@dataclass(frozen=True)
class Break:
    """A connection that broke between its last answer and ``at``; ``pod`` had answered on it, and seen ``source``.

    ``sample`` is the exchange that reports the break.
    """

    since: float
    at: float
    pod: str
    sample: Sample
    source: str = ""


@dataclass(frozen=True)
class Window:
    """The time window of one phase.

    Args:
        phase: the phase.
        began: before anything was done.
        until: when traffic had settled afterwards, or the wait for that timed out.
        happened: when the action was done and proven; ``ended``: when it was undone, or complete.
        causes: the times of the single changes in it, from which gaps are counted.
        either: the times in which either policy's source is right.
        returned: when the API server had accepted the return to Local of all Services.
        words: the proof that the action happened.
        trouble: why the window proves nothing: the action did not happen, or was not proven.
        unsettled: the ways that did not answer again in time.
        cut: the node that was cut off or taken away, so that what was open through it breaks.
        over: when traffic had settled, if the window lasts until the next one: what begins from then on and ends
            there, belongs to the next one.
        started: when restarted agents started again.
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
    cut: str = ""
    over: float | None = None
    started: tuple[float, ...] = ()

    def is_either(self, sample: Sample, lag: float = 0.0) -> bool:
        """Whether the source of either policy is right in an answer.

        Args:
            lag: seconds for which it is right at least, once the policy has returned.
        """
        least = -inf if self.returned is None else self.returned + lag
        return any(since <= sample.ended and sample.started <= max(until, least) for since, until in self.either)


@dataclass(frozen=True)
class Places:
    """The nodes with a role: two have a pod, one has none."""

    endpoint: str
    other: str
    bare: str

    def of(self, role: Role) -> str:
        """The node with a role."""
        return {Role.ENDPOINT_NODE: self.endpoint, Role.OTHER_NODE: self.other, Role.BARE_NODE: self.bare}[role]


@dataclass(frozen=True)
class ContinuityEvidence:
    """The whole evidence of the suite.

    Args:
        places: the nodes by role.
        streams: new connections, by way and family; ``lasting``: exchanges on established connections.
        control: the control listener of the endpoint node: the same client and node, without a Service.
        others: those of other nodes, by node and family.
        health: the health checks of the nodes with pods, by family.
        windows: the phases; all other time is quiet.
        marks: the events of our pod watch; ``nodes``: the node of each pod.
        steers: the load balancer's reports, by way.
        checking: the settings of the reference load balancer's health checks, as it reports them.
        bound: the promised time within which the cluster's own load balancer must have left a node; ``fails_over``:
            that within which another node has the VIP of one that is gone.
        serves: seconds for which a pod keeps serving after its deletion began.
        own: the client's addresses; ``of_nodes``: those of all nodes; ``of_balancer``: those of the reference load
            balancer.
        addresses: those of each node.
        obstacles: why a way could not be probed. ``trouble``: why nothing was done at all.
        since: when traffic had first settled; nothing before is judged.
        details: the prober's details on requests without an answer, by stream and number.
        sent: all other streams. One that keeps its port goes on from a new one at the end of each phase.
        held: every known address of a node, a pod or a client; none of them is a load balancer's.
        links: the link addresses of VIPs, in order of time; nothing of a VIP that is not on the client's own link.
        joined: new connections to nodePorts of a node that joins, from before it does until it is taken away;
            ``joined_health``: what it says at port 10256, or at the health check node port of a Local Service.
        counted_until: until when what pods counted is known, if ``uncounted`` says why it is not known later.
        owners: who answered on the client's link that it has the VIP, by way and family, in order of time; empty if
            no check is about that. ``own_links``: the same for addresses of the nodes, by node.
        spacing: seconds between two requests; ``timeout``: after which one is lost; ``uncertainty``: of the clock.
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
    spacing: float = 0.0
    timeout: float = 0.0
    uncertainty: float = 0.0
    sent: Mapping[Sent, Stream] = field(default_factory=dict)
    held: frozenset[IPAddress] = frozenset()
    counted_until: float = 0.0
    uncounted: str = ""
    links: Mapping[Asked, Sequence[LinkChange]] = field(default_factory=dict)
    fails_over: Bound | None = None
    owners: Mapping[Asked, Sequence[LinkAnswer]] = field(default_factory=dict)
    own_links: Mapping[str, Sequence[LinkAnswer]] = field(default_factory=dict)
    joined: Mapping[Asked, Stream] = field(default_factory=dict)
    joined_health: Mapping[Asked, Stream] = field(default_factory=dict)

    def owner(self, address: IPAddress) -> str:
        """The node that holds an address; empty for any other address."""
        return next((node for node, own in self.addresses.items() if address in own), "")

    def window(self, phase: Phase) -> Window | None:
        """The window of a phase; None if it did not happen, and for quiet, which is all other time."""
        return next((each for each in self.windows if each.phase is phase), None)

    @cached_property
    def quiet(self) -> list[tuple[float, float]]:
        """The times in which nothing was done."""
        windows = sorted(self.windows, key=lambda each: each.began)
        begins = [self.since, *(each.until for each in windows)]
        ends = [*(each.began for each in windows), float("inf")]
        return [(since, until) for since, until in zip(begins, ends, strict=True) if since < until]

    def phase_of(self, started: float, ended: float) -> Phase | None:
        """The phase of something that lasted from ``started`` to ``ended``; None before anything is judged.

        It belongs to the phase in which it began, or else to the one in which it ended, which may have affected it. So
        does what began in a phase that was over.
        """
        windows, begins = self._windows
        found = None
        for at in (started, ended):
            position = bisect_right(begins, at) - 1
            if position >= 0 and started < windows[position].until:
                found = windows[position]
                if found.over is None or started < found.over:
                    break
        if found:
            return found.phase
        return Phase.QUIET if started >= self.since else None

    @cached_property
    def _windows(self) -> tuple[list[Window], list[float]]:
        windows = sorted(self.windows, key=lambda each: each.began)
        return windows, [each.began for each in windows]

    def by_phase(self, samples: Iterable[Sample]) -> dict[Phase | None, list[Sample]]:
        """The probes of each phase, in their order."""
        found: dict[Phase | None, list[Sample]] = {}
        for sample in samples:
            found.setdefault(self.phase_of(sample.started, sample.ended), []).append(sample)
        return found

    @cached_property
    def _either(self) -> tuple[list[Window], float, float]:
        """The windows in which either policy's source is right for a time, when that begins and when it ends."""
        found = [window for window in self.windows if window.either]
        begins = [since for window in found for since, _ in window.either]
        ends = [until for window in found for _, until in window.either]
        ends += [window.returned for window in found if window.returned is not None]
        return found, min(begins, default=inf), max(ends, default=-inf)

    def is_either(self, sample: Sample, lag: float = 0.0) -> bool:
        """Whether the source of either policy is right in an answer (``Window.is_either``)."""
        windows, first, last = self._either
        if sample.ended < first or sample.started > last + lag:
            return False
        return any(window.is_either(sample, lag) for window in windows)

    def breaks(self, asked: Asked) -> list[tuple[Phase | None, Break]]:
        """The broken connections of a way and their phases; a failed attempt to reconnect is no break."""
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
