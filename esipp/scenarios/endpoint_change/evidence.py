"""The evidence of endpoint changes, and the timeline of each: what happened and what followed, on one clock. Pure."""

import math
from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

from esipp.base.plural import counted
from esipp.checks.endpoint_change import Kind, What, judges
from esipp.checks.model import Balancer, Family
from esipp.checks.timing import Checking, Promise, Threshold
from esipp.judging.health_view import State
from esipp.judging.statistics import Distribution, binomial_p, least_share, more_lost_p, power
from esipp.judging.timeline import (
    BURST_SECONDS,
    CLEAN,
    PATIENCE,
    RESOLUTION,
    SILENCE,
    SLICE_GONE,
    Decision,
    Fits,
    Losses,
    Mark,
    Sample,
    Stream,
    count_losses,
    first_clean,
    in_flight,
    last_run,
    lasting,
)

# ------------------------------------------------------------------------------------------------------------ timelines
IN_USE = 0.5
"""Seconds before a pod is removed in which a request through its node shows that the load balancer used the node."""

LEAST_TURNS = 2
"""The number of changes before which a load balancer must have alternated between nodes to count as one that spreads
requests."""

QUIET = 0.3
"""Seconds without any loss or any request through the node after which traffic counts as moved."""


@dataclass(frozen=True)
class Change:
    """An endpoint change: a pod was added (``up``) or removed; ``cause`` is the time of our call to the API server."""

    number: int
    kind: Kind
    up: bool
    node: str
    pod: str
    cause: float

    @property
    def graceful(self) -> bool:
        """Whether the pod keeps serving for a while."""
        return not self.up and self.kind.event.serves


@dataclass(frozen=True)
class Traffic:
    """The traffic at the VIP of one family after a change.

    ``used``: the load balancer sent requests through the node just before. ``at``: when the first (up) or last (down)
    request through the node started, including lost ones, without stray ones; None if there was none. ``steady``: the
    traffic stayed like that. ``decision``: when the load balancer reports its decision.
    """

    used: bool
    at: float | None
    steady: bool
    losses: Losses = field(default_factory=Losses)
    decision: float | None = None


@dataclass(frozen=True)
class Timeline:
    """The timeline of a change; a time is None if the event was not observed.

    ``path_losses`` are requests at the node's nodePort that were lost while a pod kept serving; ``tells`` says whether
    the load balancer reports its decisions. ``other`` is when another node first answered 200 after a removal: from
    then on the load balancer has a node to use.
    """

    change: Change
    until: float
    trigger: float | None = None
    slice: float | None = None
    health: Mapping[Family, float | None] = field(default_factory=dict)
    path: float | None = None
    path_losses: int = 0
    tells: bool = False
    traffic: Mapping[Family, Traffic] = field(default_factory=dict)
    other: Mapping[Family, float | None] = field(default_factory=dict)

    def must_steer(self, family: Family, spreads: bool) -> bool:
        """Whether the load balancer must start (up) or stop (down) sending requests through the node."""
        return spreads if self.change.up else self.traffic[family].used

    def steered(self, family: Family) -> bool:
        """Whether it did so."""
        seen = self.traffic[family]
        return seen.at is not None if self.change.up else seen.steady

    def say_503(self, family: Family) -> str:
        """The time until the node's first 503, which no load balancer can know before, as text."""
        at = self.health.get(family)
        return "the node never said 503" if at is None else f"the node said 503 after {at - self.change.cause:.1f} s"

    @property
    def health_followed(self) -> bool:
        """Whether the node's health check followed, in every family."""
        return all(at is not None for at in self.health.values())

    @property
    def followed_by_node(self) -> bool:
        """Whether the control plane and the node's proxy have followed, so that only the load balancer may be late."""
        if self.trigger is None or self.slice is None or not self.health_followed:
            return False
        return self.path is not None or self.change.graceful

    def complete(self, spreads: bool) -> bool:
        """Whether all expected effects have been observed."""
        change = self.change
        if not self.followed_by_node:
            return False
        due = [family for family in self.traffic if self.must_steer(family, spreads)]
        if self.tells and any(self.traffic[family].decision is None for family in due):
            return False
        calm = all(seen.steady for seen in self.traffic.values()) or change.up
        return calm and all(self.steered(family) for family in due)


@dataclass(frozen=True)
class BalancerEvidence:
    """The evidence about one load balancer's Service.

    Args:
        vip: requests through the VIP, by family.
        ports: requests at the nodePort of each node.
        health: health checks of each node, by family: each family has its own proxy, and its own listener.
        marks: the events of our watches.
        decisions: the decisions that the load balancer reported.
        spreads: whether the load balancer uses all nodes at once; otherwise it uses one at a time.
        beside: requests at the nodePort of each node in the second family, if there is one.
    """

    vip: Mapping[Family, Stream]
    ports: Mapping[str, Stream]
    health: Mapping[Family, Mapping[str, Stream]]
    marks: Sequence[Mark] = ()
    decisions: Sequence[Decision] = ()
    spreads: bool = True
    beside: Mapping[str, Stream] = field(default_factory=dict)

    @property
    def checks(self) -> list[Stream]:
        """The streams of all health checks."""
        return [stream for nodes in self.health.values() for stream in nodes.values()]


def timeline(change: Change, until: float, seen: BalancerEvidence, now: float | None = None) -> Timeline:
    """The timeline of a change up to ``until``, the next change of the same Service.

    Args:
        now: the current time, while the change is still in progress.
    """
    since, node = change.cause, change.node
    trigger = _mark(seen.marks, change, {"ready"} if change.up else {"unready", "deleting", "gone"}, until)
    in_slice = {"slice-ready"} if change.up else {"slice-unready"}
    status = "200" if change.up else "503"
    health = {
        family: _followed(nodes[node], change, until, now, _says(status)) for family, nodes in seen.health.items()
    }
    served = seen.ports[node].view(since, until, now)
    path = None
    if not change.graceful:
        path = _followed(seen.ports[node], change, until, now, _path(change))
    traffic = {family: _traffic(seen, family, change, until, now) for family in seen.vip}
    steered = max((each.at for each in traffic.values() if each.at is not None), default=until)
    return Timeline(
        change,
        until,
        trigger,
        _last_family(seen.marks, change, in_slice, until, len(seen.vip)),
        health,
        path,
        sum(1 for sample in served if change.graceful and sample.started <= steered and not sample.answered),
        bool(seen.decisions),
        traffic,
        {} if change.up else {family: _other(nodes, change, until, now) for family, nodes in seen.health.items()},
    )


def _says(status: str) -> Fits:
    """A test whether a health check has this status; None without an HTTP answer."""
    return lambda sample: sample.outcome == status if sample.outcome.isdigit() else None


def _other(nodes: Mapping[str, Stream], change: Change, until: float, now: float | None) -> float | None:
    """When another node than that of the removed pod first answered 200."""
    others = (stream.view(change.cause, until, now) for node, stream in nodes.items() if node != change.node)
    firsts = (next((sample.started for sample in seen if sample.outcome == "200"), None) for seen in others)
    return min((at for at in firsts if at is not None), default=None)


def _serves(node: str) -> Callable[[Sample], bool]:
    """Whether the node's own data path answers: with a pod of its own, that is."""
    return lambda sample: sample.answered and sample.node == node


def _path(change: Change) -> Fits:
    """A test whether the node's own nodePort answers with a pod of its own, or does not any more."""
    serves = _serves(change.node)
    if change.up:
        return lambda sample: True if serves(sample) else False if sample.answered else None
    return lambda sample: not serves(sample)


def _mark(marks: Iterable[Mark], change: Change, what: set[str], until: float) -> float | None:
    found = (each.at for each in marks if each.pod == change.pod and each.what in what)
    return next((at for at in found if change.cause <= at < until), None)


def _last_family(marks: Iterable[Mark], change: Change, what: set[str], until: float, families: int) -> float | None:
    """When the EndpointSlices of all families had it."""
    first: dict[str, float] = {}
    for each in marks:
        if each.pod == change.pod and each.what in what and change.cause <= each.at < until:
            first.setdefault(each.family, each.at)
    return max(first.values()) if len(first) >= families else None


def _followed(stream: Stream, change: Change, until: float, now: float | None, fits: Fits) -> float | None:
    """When the right answers began that go on until the end; None if there are none, or if nothing changed.

    A state that existed before the cause did not follow it.
    """
    before = stream.view(change.cause - 5 * stream.spacing, change.cause, now)
    if before and all(fits(sample) for sample in before):
        return None
    samples = stream.view(change.cause, until, now)
    # a wrong answer that came after the next change began may be that change's
    run = last_run([s for s in samples if s.ended <= until or fits(s) is not False], until, fits, pauses=False)
    return run.since if run else None


def _traffic(seen: BalancerEvidence, family: Family, change: Change, until: float, now: float | None) -> Traffic:
    stream = seen.vip[family]
    before = [sample for sample in stream.view(change.cause - IN_USE, change.cause, now) if sample.answered]
    spreads = seen.spreads or takes_turns(before)
    used = any(sample.node == change.node for sample in (before if spreads else before[-1:]))
    about = (each for each in seen.decisions if each.node == change.node and each.family in ("", family.value))
    decided = (each.at for each in about if each.healthy is change.up and change.cause <= each.at < until)
    decision = next(decided, None)
    # a request in flight when the next change began belongs to that change
    early = [each for each in stream.view(change.cause - SILENCE, change.cause, now) if in_flight(each, change.cause)]
    after = [*early, *(each for each in stream.view(change.cause, until, now) if not in_flight(each, until))]
    through = [sample.started for sample in after if _serves(change.node)(sample)]
    losses = count_losses(after, until)
    if change.up:
        return Traffic(used, through[0] if through else None, bool(through), losses, decision)
    limit = decision + RESOLUTION if decision is not None else first_clean(after, _serves(change.node))
    idle = _idle(seen, family, change, after, (limit, until))
    lost = [sample.started for sample in after if not sample.answered and not limit < sample.started < idle]
    # A load balancer of one node at a time that uses another node has left this one: later losses happen on that other
    # node, whose own pod may be terminating.
    left = decision is None and not spreads and limit < float("inf")
    lasted = lasting([at for at in lost if not left or at <= limit], limit)
    losses = replace(losses, end=lasted, stray=sum(1 for at in lost if lasted is None or at > lasted))
    last = max([*through, *([lasted] if lasted is not None else [])], default=None)
    # while it goes on, what started in the last moments may still be lost
    end = until if now is None else min(until, now - PATIENCE)
    since = last or change.cause
    clean = sum(1 for sample in after if since < sample.started <= end and sample.answered)
    # if it uses several nodes, a few requests in a row that avoid this one prove nothing; a reported decision helps
    sure = not spreads or clean >= CLEAN or (decision is not None and decision <= end)
    return Traffic(used, last, sure and clean > 0 and end - since >= QUIET * 0.8, losses, decision)


def takes_turns(samples: Sequence[Sample]) -> bool:
    """Whether requests alternated between nodes: a load balancer of one node at a time does not return so soon."""
    return sum(one.node != next_.node for one, next_ in pairwise(samples)) >= 2


def spreads_by(seen: BalancerEvidence, changes: Sequence[Change]) -> bool:
    """Whether the load balancer used several nodes at once before more than one of the changes."""
    return sum(took_turns(seen, at) for at in {change.cause for change in changes}) >= LEAST_TURNS


def took_turns(seen: BalancerEvidence, at: float) -> bool:
    """Whether the load balancer used several nodes at once just before a time."""
    return any(takes_turns(_answered(each, at)) for each in seen.vip.values())


def _answered(stream: Stream, at: float) -> list[Sample]:
    return [sample for sample in stream.view(at - IN_USE, at) if sample.answered]


def _idle(
    seen: BalancerEvidence, family: Family, change: Change, samples: Sequence[Sample], window: tuple[float, float]
) -> float:
    """The end of the time in which the load balancer, after its decision, reported no other healthy node.

    Losses in that time were not lost on the node of the removed pod.
    """
    since, until = window
    about = (each for each in seen.decisions if each.node != change.node and each.family in ("", family.value))
    taken = next((each.at for each in about if each.healthy and since < each.at < until), None)
    served = next((each.started for each in samples if each.started > since and each.answered), None)
    return since if taken is None or served is None else min(served, taken + BURST_SECONDS)


PHASES = (
    "call to trigger",
    "trigger to EndpointSlice",
    "EndpointSlice to health check",
    "EndpointSlice to node's path",
    "health check to decision",
    "decision to traffic",
    "health check to traffic",
    "trigger to traffic",
)
"""The phases, each from one event to another; without one of the two events there is no sample."""


def phases(line: Timeline, family: Family) -> dict[str, float]:
    """The seconds of each phase of a change; negative if the later event was observed first."""
    seen = line.traffic.get(family)
    moved = seen is not None and seen.at is not None and (line.change.up or (seen.used and seen.steady))
    moments = {
        "call": line.change.cause,
        "trigger": line.trigger,
        "EndpointSlice": line.slice,
        "health check": line.health.get(family),
        "node's path": line.path,
        "decision": seen.decision if seen is not None else None,
        "traffic": seen.at if seen is not None and moved else None,
    }
    found = {}
    for phase in PHASES:
        first, _, then = phase.partition(" to ")
        begin, end = moments[first], moments[then]
        if begin is not None and end is not None:
            found[phase] = end - begin
    return found


def hole_began(line: Timeline, family: Family) -> float | None:
    """The time from which on losses count against the load balancer; None if there is none.

    By then the node answered 503, and another one 200. The time until then is the proxy's lag: the load balancer only
    knows the health checks.
    """
    answered_503, other = line.health.get(family), line.other.get(family)
    return None if answered_503 is None or other is None else max(answered_503, other)


def black_hole(line: Timeline, family: Family) -> float | None:
    """The seconds for which the load balancer lost requests; None for other kinds of change or without another node."""
    seen = line.traffic.get(family)
    if line.change.up or not judges(What.BLACK_HOLE, line.change.kind.event) or seen is None or not seen.used:
        return None
    if seen.losses.end is None:
        return 0.0
    began = hole_began(line, family)
    return None if began is None else max(0.0, seen.losses.end - began)


@dataclass(frozen=True)
class Doubt:
    """A node with a wrong health check in a family, from the endpoint change ``number`` on."""

    node: str
    family: Family
    since: float
    until: float
    number: int


def doubts(lines: Sequence[Timeline]) -> list[Doubt]:
    """All doubts; each lasts until the node's next change."""
    found = []
    for place, line in enumerate(lines):
        later = [each.change.cause for each in lines[place + 1 :] if each.change.node == line.change.node]
        until = min(later, default=math.inf)
        found += [
            Doubt(line.change.node, family, line.change.cause, until, line.change.number)
            for family, at in line.health.items()
            if at is None
        ]
    return found


def _meets(doubt: Doubt, line: Timeline, family: Family) -> bool:
    return doubt.family is family and doubt.since < line.until and line.change.cause < doubt.until


def doubt_about(line: Timeline, family: Family, all_doubts: Sequence[Doubt]) -> Doubt | None:
    """The doubt about the node of a change during that change: then the change says nothing about the load balancer."""
    return next((each for each in all_doubts if each.node == line.change.node and _meets(each, line, family)), None)


def doubt_beside(line: Timeline, family: Family, all_doubts: Sequence[Doubt]) -> Doubt | None:
    """The doubt about any node during a change: a fault in that change may come from there."""
    return next((each for each in all_doubts if _meets(each, line, family)), None)


def say_doubts(found: Sequence[Doubt]) -> str:
    """The nodes with a wrong health check, and the change from which on, as text."""
    firsts: dict[str, int] = {}
    for each in found:
        firsts.setdefault(each.node, each.number)
    return ", ".join(f"the health check of {node} is wrong from change {number} on" for node, number in firsts.items())


# -------------------------------------------------------------------------------------------------------------- at rest
SETTLING = QUIET
"""Seconds after the last sign of a change that do not count as rest; a deleted pod settles only when it is gone."""

LEAST_LOST, REST_P = 3, 0.01
"""The load balancer is blamed from ``LEAST_LOST`` lost requests on, if a control that loses as often would show such a
difference in less than one of a hundred runs: losses of the network are not blamed on the load balancer."""

POWER = 0.95
"""The probability with which a loss must be detected that the verdict calls detectable."""

LEAST_CONTROL = 100
"""The fewest requests of the control: with fewer, losses cannot be judged."""

Window = tuple[float, float]


@dataclass(frozen=True)
class Rest:
    """Requests through the VIP between endpoint changes, and control requests to nodePorts of serving nodes."""

    asked: int = 0
    lost: int = 0
    control_asked: int = 0
    control_lost: int = 0

    def __add__(self, other: "Rest") -> "Rest":
        return Rest(
            self.asked + other.asked,
            self.lost + other.lost,
            self.control_asked + other.control_asked,
            self.control_lost + other.control_lost,
        )

    @property
    def p_value(self) -> float:
        """The probability of at least this difference to the control, if both lose as often."""
        return more_lost_p(self.lost, self.asked, self.control_lost, self.control_asked)

    @property
    def blames(self) -> bool:
        """Whether the losses count against the load balancer."""
        return self.lost >= LEAST_LOST and self.control_asked >= LEAST_CONTROL and self.p_value < REST_P

    @property
    def open(self) -> bool:
        """Whether there are losses without a sufficient control."""
        return self.lost >= LEAST_LOST and self.control_asked < LEAST_CONTROL

    @property
    def least_blamed(self) -> int:
        """The fewest losses that count against the load balancer if the control has none; 0 if no number does."""
        enough = (
            lost for lost in range(LEAST_LOST, self.asked + 1)
            if more_lost_p(lost, self.asked, 0, self.control_asked) < REST_P
        )  # fmt: skip
        return next(enough, 0) if self.control_asked >= LEAST_CONTROL else 0

    @property
    def sees(self) -> str:
        """The losses that would be detected, as text."""
        least = self.least_blamed
        if not least:
            return f"losses among the {self.asked} requests between changes cannot be distinguished from the control's"
        share = least_share(least, self.asked, POWER)
        return (
            f"with {self.asked} requests between changes, a loss of {share:.2%} or more is detected with a probability "
            f"of {POWER:.0%}"
        )

    @property
    def words(self) -> str:
        """The numbers as text."""
        said = f"{self.lost} of {self.asked} requests lost between endpoint changes"
        control = f"the control at nodePorts lost {self.control_lost} of {self.control_asked}"
        return f"{said}; {control}" + (f" (p={self.p_value:.2g})" if self.lost else "")


def windows(lines: Sequence[Timeline], marks: Iterable[Mark], doubts: Iterable[Doubt]) -> list[Window]:
    """The times of rest: no change in progress, no terminating pod, and no wrong health check."""
    gone: dict[str, float] = {mark.pod: mark.at for mark in marks if mark.what in ("gone", SLICE_GONE)}
    busy = [(line.change.cause - 0.1, _settled(line, gone) + SETTLING) for line in lines]
    busy += [(each.since, each.until) for each in doubts]
    if not lines:
        return []
    found, free = [], min(line.change.cause for line in lines)
    end = max(line.until for line in lines)
    for since, until in sorted(busy):
        if since > free:
            found.append((free, min(since, end)))
        free = max(free, until)
    return [*found, *([(free, end)] if free < end else [])]


def _settled(line: Timeline, gone: Mapping[str, float]) -> float:
    if not line.health_followed or (
        not line.change.up and any(not seen.steady for seen in line.traffic.values() if seen.used)
    ):
        return line.until
    moments = [line.change.cause, line.trigger, line.slice, line.path, *line.health.values()]
    moments += [each for seen in line.traffic.values() for each in (seen.at, seen.decision)]
    if line.change.graceful:
        moments.append(gone.get(line.change.pod, math.inf))
    return max(at for at in moments if at is not None)


def at_rest(seen: BalancerEvidence, family: Family, changes: Sequence[Change], found: Sequence[Window]) -> Rest:
    """The losses in these windows at the VIP, and at the nodePorts of nodes with a ready pod."""
    vip = _count([seen.vip[family]], found)
    control = Rest()
    streams = seen.ports if family is next(iter(seen.vip)) or not seen.beside else seen.beside
    for node, stream in streams.items():
        control += _count([stream], [window for window in found if serves(node, window[0], changes)])
    return Rest(vip.asked, vip.lost, control.asked, control.lost)


def serves(node: str, at: float, changes: Sequence[Change]) -> bool:
    """Whether a node has a ready pod at a time: its last change added one, or its first change will remove one."""
    own = [change for change in changes if change.node == node]
    before = bisect_right([change.cause for change in own], at)
    return own[before - 1].up if before else bool(own) and not own[0].up


def _count(streams: Iterable[Stream], found: Iterable[Window]) -> Rest:
    samples = [each for stream in streams for since, until in found for each in stream.view(since, until)]
    return Rest(len(samples), sum(not each.answered for each in samples))


# ------------------------------------------------------------------------------------------------------------ all of it
LEAST_P = 0.001
"""Below this p-value a split is uneven: a fair load balancer fails once in a thousand tests."""

LEAST_POWER, UNEVEN = 0.95, 0.55
"""The power with which the test must tell a split of 55:45 from an equal one, or no split passes."""

FOR_POWER = 2463
"""Connections from which on it has this power (exact binomial test at ``LEAST_P``)."""

RIGHT = "503"
MOST_NAMED = 5


@dataclass(frozen=True)
class Observed:
    """Health probes in packets: the gaps between those of a node, and the failed ones before it was left."""

    sources: tuple[str, ...] = ()
    gaps: Distribution = field(default_factory=Distribution)
    failures: tuple[int, ...] = ()

    @property
    def checking(self) -> Checking:
        """The median gap, and the most failures before any node was left."""
        period = self.gaps.p50 if self.gaps.samples else None
        return Checking(period, max(self.failures) if self.failures else None)


@dataclass(frozen=True)
class Counted:
    """New connections through the VIP, by the node that answered; ``pods`` is the number of pods on each node.

    ``weights`` are those that the nodes' health checks reported meanwhile. ``control`` connections were made directly
    to nodePorts of these nodes at the same time; ``control_lost`` of them were lost.
    """

    nodes: Mapping[str, int]
    pods: Mapping[str, int]
    lost: int = 0
    weights: Mapping[str, int] = field(default_factory=dict)
    control: int = 0
    control_lost: int = 0

    @property
    def total(self) -> int:
        """The connections that were answered."""
        return sum(self.nodes.get(node, 0) for node in self.pods)

    @property
    def power(self) -> float:
        """The power to tell a split of 55:45 from an equal one with this number of connections."""
        return power(self.total, LEAST_P, UNEVEN) if self.total else 0.0

    @property
    def rest(self) -> Rest:
        """Their losses, which happened between endpoint changes."""
        return Rest(self.total + self.lost, self.lost, self.control, self.control_lost)

    @property
    def p_value(self) -> float:
        """The p-value of the split if both nodes are equally likely."""
        return self._p(0.5)

    @property
    def p_value_weighed(self) -> float | None:
        """The p-value of the split if each node gets the share of its weight; None without different weights."""
        weights = [self.weights.get(node, 0) for node in sorted(self.pods)]
        if len(weights) != 2 or set(self.weights) != set(self.pods) or not all(weights) or weights[0] == weights[1]:
            return None
        return self._p(weights[0] / sum(weights))

    def _p(self, share: float) -> float:
        first, *_ = (self.nodes.get(node, 0) for node in sorted(self.pods))
        return binomial_p(first, self.total, share) if self.total else 0.0


@dataclass(frozen=True)
class Health:
    """The load balancer's health view: the nodes that it reports as healthy, and those that should be."""

    healthy: frozenset[str]
    should: frozenset[str]


@dataclass(frozen=True)
class Result:
    """All results about one load balancer.

    Args:
        balancer: the load balancer.
        seen: its streams, marks and decisions.
        changes: its endpoint changes, pod by pod, in order; ``ends`` is the end of the time that belongs to each.
        opened: pods that were made ready apart from the changes, and when.
        sources: the addresses that pods may see as the source, by family; ``own`` are those of the client itself.
        reported: period and failures as the load balancer documents or reports them.
        observed: the same from packets.
        counted: the split between nodes, by family.
        views: the load balancer's health view, for a Service of each policy; under ``FREED`` the VIPs that it still has
            of a deleted Service.
        obstacle: why nothing could be probed.
        planned: the number of planned changes; 0 if unknown.
        promise: how fast it must follow, and who promises that.
        threshold: after how many failed health checks it leaves a node, by its profile.
        uncertainty: seconds by which the prober's clock may differ from ours.
        others: every known address of a node, a pod or a client.
        proxy: whether ``--provider`` says that the cluster's own load balancer is a proxy.
    """

    balancer: Balancer
    seen: BalancerEvidence
    changes: Sequence[Change] = ()
    ends: Mapping[int, float] = field(default_factory=dict)
    opened: Sequence[tuple[str, float]] = ()
    sources: Mapping[Family, frozenset[str]] = field(default_factory=dict)
    own: Mapping[Family, frozenset[str]] = field(default_factory=dict)
    reported: Checking = field(default_factory=Checking)
    observed: Observed = field(default_factory=Observed)
    counted: Mapping[Family, Counted] = field(default_factory=dict)
    views: Mapping[What, Health] = field(default_factory=dict)
    obstacle: str = ""
    planned: int = 0
    promise: Promise = field(default_factory=Promise)
    threshold: Threshold = field(default_factory=Threshold)
    uncertainty: float = 0.0
    others: frozenset[str] = frozenset()
    proxy: bool = False

    @property
    def cut_short(self) -> str:
        """A sentence if fewer changes were made than planned; empty if not."""
        made = len(self.changes)
        return f"only {made} of {self.planned} endpoint changes were made" if made < self.planned else ""

    def with_observed(self, observed: Observed) -> "Result":
        """The same result, with the load balancer's health checks as packets show them."""
        return replace(self, observed=observed)

    def timelines(self) -> list[Timeline]:
        """The timeline of each change."""
        return [timeline(change, self.ends[change.number], self.seen) for change in self.changes]


@dataclass(frozen=True)
class Poll:
    """One request and its answer, in seconds of our monotonic clock.

    Args:
        asked: when the request began.
        answered: when it was over.
        service: the Service of the load balancer.
        states: the reported state of each node that is a target.
        words: the provider's own terms, by node.
        times: the time of each state, by node, in seconds since the epoch, if the provider gives one.
        trouble: why there was no answer; empty if there was one.
    """

    asked: float
    answered: float
    service: str
    states: Mapping[str, State] = field(default_factory=dict)
    words: Mapping[str, str] = field(default_factory=dict)
    times: Mapping[str, float] = field(default_factory=dict)
    trouble: str = ""

    @property
    def healthy(self) -> frozenset[str]:
        """The nodes that it reported as healthy."""
        return frozenset(node for node, state in self.states.items() if state is State.HEALTHY)


@dataclass(frozen=True)
class Answers:
    """Equal answers of a node in a row, on our clock: a status or a failure, the time span, and the number.

    Where two of a node overlap, its answers took turns.
    """

    said: str
    since: float
    until: float
    count: int


@dataclass(frozen=True)
class Bystanders:
    """The answers of nodes without endpoint changes in a large cluster, which must say 503 all the time.

    Args:
        service: the Service of the health check.
        agents: the number of probing agents.
        pace: seconds between two probes of a node.
        answers: the answers of each probed node.
        asked: the number of nodes to probe.
        trouble: why they were not probed, or not to the end.
    """

    service: str
    agents: int
    pace: float
    answers: Mapping[str, Sequence[Answers]]
    asked: int
    trouble: str = ""

    @property
    def wrong(self) -> dict[str, list[Answers]]:
        """The nodes with other answers than 503, and these answers."""
        found = {
            node: [each for each in answers if each.said != RIGHT] for node, answers in sorted(self.answers.items())
        }
        return {node: stretches for node, stretches in found.items() if stretches}

    @property
    def finding(self) -> str:
        """The fault as a sentence; empty if there is none."""
        named = [f"{node} ({_said(answers)})" for node, answers in list(self.wrong.items())[:MOST_NAMED]]
        more = f" and {len(self.wrong) - MOST_NAMED} more" if len(self.wrong) > MOST_NAMED else ""
        if not named:
            return ""
        return (
            f"of {counted(len(self.answers), 'node')} that never had a pod of {self.service}, {len(self.wrong)} "
            f"answered its health check with something other than {RIGHT}: {', '.join(named)}{more}"
        )

    def lines(self) -> list[str]:
        """The lines of the summary; empty without such nodes."""
        if not self.asked:
            return []
        answers = sum(each.count for stretches in self.answers.values() for each in stretches)
        said = f"{counted(self.asked, 'node')} without endpoint changes, probed by {counted(self.agents, 'agent')}"
        said += f" every {self.pace:.1f} s"
        said += f": {counted(answers, 'answer')} from {counted(len(self.answers), 'node')}"
        said += f", all {RIGHT}" if self.answers and not self.wrong else ""
        lines = [said, *([f"  {self.finding}"] if self.wrong else [])]
        return lines + ([f"  incomplete: {self.trouble}"] if self.trouble else [])


def _said(stretches: Sequence[Answers]) -> str:
    counts: dict[str, int] = {}
    for each in stretches:
        counts[each.said] = counts.get(each.said, 0) + each.count
    return ", ".join(f"{said} x{count}" for said, count in sorted(counts.items()))


@dataclass(frozen=True)
class Moved:
    """The whole evidence: the results behind each load balancer, and how they were measured.

    Args:
        results: those of each load balancer.
        spacing: seconds between two requests through a VIP; ``timeout``: after which one is lost.
        packets: why the load balancers' own health checks were not captured on every node; empty if they were.
        bystanders: the answers of nodes without endpoint changes, if there were any to probe.
        polls: the polled health views of each load balancer that must be polled.
    """

    results: Mapping[Balancer, Result] = field(default_factory=dict)
    spacing: float = 0.0
    timeout: float = 0.0
    packets: str = ""
    bystanders: Bystanders | None = None
    polls: Mapping[Balancer, Sequence[Poll]] = field(default_factory=dict)

    @property
    def uncertainty(self) -> float:
        """Seconds by which the clock of any prober may differ from ours."""
        return max((result.uncertainty for result in self.results.values()), default=0.0)
