"""The judge of the convergence suite: from what was seen of one balancer to a decision on each of its rows. Pure."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from esipp.deciding import Decision
from esipp.loadbalancers.ingress import strangers
from esipp.model import Balancer, Family
from esipp.moves.checks import Checking, Observed
from esipp.moves.counting import all_followed, lost_at_rest, name_of, places, sources
from esipp.moves.losses import RESOLUTION
from esipp.moves.places import spans, wrong_places
from esipp.moves.rows import EXPECTED, PROXIED, REHASHED, SPREADS, WEIGHED, MoveRow, What
from esipp.moves.statistics import Distribution, binomial_p
from esipp.moves.timeline import (
    PHASES,
    QUIET,
    Change,
    Seen,
    Timeline,
    Traffic,
    black_hole,
    hole_began,
    phases,
    timeline,
)
from esipp.rows import Level, Status
from esipp.topology import parse_address

LEAST_P = 0.001
"""Below this p-value a split is not equal: a fair balancer is wrongly accused once in a thousand runs."""

BLAMES = (What.STEERS, What.BLACK_HOLE, What.NO_LOSS)
"""Rows of what the balancer makes of health checks."""

MOMENT = 0.3
"""Seconds around a balancer's decision in which its routes change; and a request is answered in less."""

MOST_ERRORS = 3
"""Probes of a stream that our prober had trouble of its own with, at most, where the verdict does not rest on them."""

MOST_GAP = 3.0
"""Seconds without a single probe after which a stream proves nothing: this machine is too busy to ask."""


class Hole(NamedTuple):
    """For how long a balancer lost requests that it need not; ``blur`` is how well that is known."""

    seconds: float
    line: Timeline
    blur: float


@dataclass(frozen=True)
class Counted:
    """New connections through the VIP, by the node that answered; ``pods`` says how many pods each node had."""

    nodes: Mapping[str, int]
    pods: Mapping[str, int]
    lost: int = 0

    @property
    def p_value(self) -> float:
        """How likely such a split is where both nodes are equally likely."""
        return self._p(0.5)

    @property
    def p_value_weighed(self) -> float:
        """How likely it is where each node gets as much as it has pods."""
        first, *_ = (self.pods[node] for node in sorted(self.pods))
        return self._p(first / sum(self.pods.values()))

    def _p(self, share: float) -> float:
        first, *_ = (self.nodes.get(node, 0) for node in sorted(self.pods))
        total = sum(self.nodes.get(node, 0) for node in self.pods)
        return binomial_p(first, total, share) if total else 0.0


@dataclass(frozen=True)
class Health:
    """The balancer's own view: which nodes it takes for healthy, and which should be."""

    healthy: frozenset[str]
    should: frozenset[str]


@dataclass(frozen=True)
class Result:
    """Everything about one balancer.

    Args:
        balancer: which.
        seen: its streams, marks and decisions.
        changes: its moves, pod by pod, in order; ``ends`` is when what followed each was over.
        opened: pods that were made ready beside the moves, and when.
        sources: the addresses that pods may see as the source, by family; ``own`` those of the client itself.
        told: period and failures as the balancer documents or tells them.
        observed: the same from packets.
        counted: the split between nodes, by family.
        views: the balancer's health view, for a service of each policy; under ``FREED`` the VIPs that it has left of
            one that was deleted.
        obstacle: why nothing could be asked.
        planned: so many changes were to be made; 0 where nobody counts them.
        others: addresses that are known to be a node's, a pod's or a client's.
    """

    balancer: Balancer
    seen: Seen
    changes: Sequence[Change] = ()
    ends: Mapping[int, float] = field(default_factory=dict)
    opened: Sequence[tuple[str, float]] = ()
    sources: Mapping[Family, frozenset[str]] = field(default_factory=dict)
    own: Mapping[Family, frozenset[str]] = field(default_factory=dict)
    told: Checking = field(default_factory=Checking)
    observed: Observed = field(default_factory=Observed)
    counted: Mapping[Family, Counted] = field(default_factory=dict)
    views: Mapping[What, Health] = field(default_factory=dict)
    obstacle: str = ""
    planned: int = 0
    others: frozenset[str] = frozenset()

    @property
    def cut_short(self) -> str:
        """That fewer changes were made than planned; empty if not."""
        made = len(self.changes)
        return f"{made} of {self.planned} moves were made" if made < self.planned else ""

    def with_observed(self, observed: Observed) -> "Result":
        """The same, with what packets show of the balancer's health checks."""
        return replace(self, observed=observed)

    def timelines(self) -> list[Timeline]:
        """What became of each change."""
        return [timeline(change, self.ends[change.number], self.seen) for change in self.changes]


class Judge:
    """Decides the rows of one balancer; what several rows need is found once."""

    def __init__(self, result: Result) -> None:
        self.result = result
        self.lines = result.timelines()
        self.spreads = result.balancer in SPREADS
        allowed = spans(self.lines, result.seen.marks, result.opened)
        self.wrong_at_vip = {
            family: wrong_places(stream, allowed) for family, stream in result.seen.vip.items()
        }  # fmt: skip
        ports = [wrong_places(stream, allowed, node) for node, stream in result.seen.ports.items()]
        self.wrong_at_ports = [each for found in ports for each in found]

    @property
    def checking(self) -> Checking:
        """What the bound rests on: what the balancer tells, or else what packets show."""
        return self.result.told if self.result.told.bound is not None else self.result.observed.checking

    def holes(self, family: Family) -> list[Hole]:
        """The black hole of each node in use that lost its last pod, where another node said that it serves."""
        seconds = ((line, black_hole(line, family)) for line in self.lines)
        return [Hole(hole, line, self.blur(line, family)) for line, hole in seconds if hole is not None]

    def blur(self, line: Timeline, family: Family) -> float:
        """How well a hole is known: for so many seconds, at most, the machine did not let us ask in it."""
        began, end = hole_began(line, family), line.traffic[family].losses.end
        if began is None or end is None:
            return RESOLUTION
        return max(RESOLUTION, self.result.seen.vip[family].longest_gap(began, end))

    def decide(self, row: MoveRow) -> Decision:
        """What was seen of a row."""
        expected = EXPECTED[row.what]
        if self.result.obstacle:
            return Decision(Status.INCONCLUSIVE, expected, "nothing", self.result.obstacle)
        if row.family is not None and row.family not in self.result.seen.vip:
            return Decision(Status.INCONCLUSIVE, expected, "nothing", f"the service has no {row.family} VIP")
        trouble = self._trouble(row)
        if trouble:
            return Decision(Status.ERROR, expected, "too little", trouble)
        decided = self._decide(row)
        if decided.status is Status.PASS and self.result.cut_short:
            decided = replace(decided, status=Status.INCONCLUSIVE, reason=self.result.cut_short)
        if row.level is Level.RECORD and decided.status is Status.INCONCLUSIVE:
            return replace(decided, status=Status.PASS)
        return decided

    def _misled(self) -> str:
        """Why the balancer cannot be blamed: it goes by health checks, and they are wrong."""
        wrong = [line for line in self.lines if not line.told]
        if not wrong or self.checking.bound is None:
            return ""
        return f"the health checks that the balancer goes by are wrong, from {name_of(wrong[0].change)} on"

    def _decide(self, row: MoveRow) -> Decision:
        family = row.family
        if row.what in BLAMES and (misled := self._misled()):
            return Decision(Status.INCONCLUSIVE, EXPECTED[row.what], "nothing of its own", misled)
        if row.what in (What.VIEW_LOCAL, What.VIEW_CLUSTER):
            return self._view(row.what)
        if row.what is What.FREED:
            return self._freed()
        if family is None:
            by_what = {What.HEALTH: self._health, What.PATH: self._path, What.PLACE: self._place_at_ports}
            return by_what[row.what]() if row.what in by_what else self._source_at_ports()
        at_vip: dict[What, Callable[[Family], Decision]] = {
            What.STEERS: self._steers,
            What.PLACE: lambda of: places(self.wrong_at_vip[of], len(self.result.seen.vip[of].samples)),
            What.SOURCE: self._source,
            What.BLACK_HOLE: self._black_hole,
            What.NO_LOSS: self._no_loss,
            What.BALANCE: self._balance,
            What.TIMES_UP: lambda of: self._times(of, True),
            What.TIMES_DOWN: lambda of: self._times(of, False),
        }
        return at_vip[row.what](family)

    def _trouble(self, row: MoveRow) -> str:
        """Our own fault, that leaves a row open."""
        seen = self.result.seen
        streams = [seen.vip[row.family]] if row.family else [*seen.ports.values(), *seen.checks]
        if row.family and row.what in (What.STEERS, What.BLACK_HOLE):  # they rest on what the nodes said
            streams += seen.health[row.family].values()
        windows = self._windows(row)
        for stream in streams:
            errors = [sample.started for sample in stream.samples if sample.outcome == "error"]
            if len(errors) > MOST_ERRORS or any(since <= at <= until for at in errors for since, until in windows):
                return (
                    f"the prober had trouble of its own with {len(errors)} of {len(stream.samples)} probes "
                    f"({stream.name})"
                )
            if stream.longest_gap() > MOST_GAP:
                return f"for {stream.longest_gap():.1f} s no probe was sent ({stream.name})"
            if not stream.samples:
                return f"there was no probe ({stream.name})"
        return ""

    def _windows(self, row: MoveRow) -> list[tuple[float, float]]:
        """The times in which a single probe may decide a row of a VIP: until what a change brings has been seen."""
        family = row.family
        if family is None or row.what not in (*BLAMES, What.TIMES_UP, What.TIMES_DOWN):
            return []
        found = []
        for line in self.lines:
            seen = line.traffic[family]
            moments = [line.change.cause, line.health[family], seen.at, seen.decision]
            over = max(at for at in moments if at is not None) + QUIET
            whole = row.what is What.NO_LOSS or not line.steered(family)
            found.append((line.change.cause, line.until if whole else min(line.until, over)))
        return found

    # --------------------------------------------------------------------------------------------- the rows' claims
    def _steers(self, family: Family) -> Decision:
        due = [line for line in self.lines if line.must_steer(family, self.spreads)]
        late = [line for line in due if not line.steered(family)]
        followed = all_followed(due, late, "traffic followed", What.STEERS)
        counted = self.result.counted.get(family)
        return lost_at_rest(followed, counted.lost, sum(counted.nodes.values())) if counted else followed

    def _health(self) -> Decision:
        late = [line for line in self.lines if not line.told]
        return all_followed(self.lines, late, "the health check followed", What.HEALTH)

    def _path(self) -> Decision:
        due = [line for line in self.lines if not line.change.graceful]
        late = [line for line in due if line.path is None]
        return all_followed(due, late, "the nodePort followed", What.PATH)

    def _place_at_ports(self) -> Decision:
        return places(self.wrong_at_ports, sum(len(each.samples) for each in self.result.seen.ports.values()))

    def _source(self, family: Family) -> Decision:
        decided = sources({family: [self.result.seen.vip[family].samples]}, self.result.sources)
        if self.result.balancer is not Balancer.DEFAULT or decided.status is not Status.FAIL:
            return decided
        right = {parse_address(each) for each in self.result.sources.get(family, ())}
        told = Counter(sample.source for sample in self.result.seen.vip[family].samples if sample.source)
        wrong = {source: count for source, count in told.items() if parse_address(source) not in right}
        found = strangers(wrong, {parse_address(each) for each in self.result.others})
        if not found.foreign:
            return decided
        whole = len(wrong) == len(told)  # the client's own address beside them is no proxy's way
        return replace(decided, seen=PROXIED if found.proxied and whole else "", foreign=True)

    def _source_at_ports(self) -> Decision:
        samples = [stream.samples for stream in self.result.seen.ports.values()]
        return sources({next(iter(self.result.seen.vip)): samples}, self.result.own)

    def _black_hole(self, family: Family) -> Decision:
        expected = EXPECTED[What.BLACK_HOLE]
        found = self.holes(family)
        if not found:
            return Decision(Status.INCONCLUSIVE, expected, "nothing", "no node in use lost its last pod at once")
        worst = max(found, key=lambda each: each.seconds)
        line, bound = worst.line, self.checking.bound
        lag = (line.health[family] or line.change.cause) - (line.trigger or line.change.cause)
        said = (
            f"at most {worst.seconds:.2f} s after the node's 503 "
            f"(move {line.change.number}, where the proxy took {lag:.2f} s)"
        )
        stray = sum(each.line.traffic[family].losses.stray for each in found)
        said += f", {stray} stray" if stray else ""
        if bound is None:
            return Decision(Status.FAIL, expected, said, "the balancer makes no health checks: there is no bound")
        said += f"; {self.bound_words()}, known within {worst.blur:.2f} s"
        over = [each for each in found if each.seconds > bound + each.blur]
        status = Status.FAIL if over else Status.PASS
        reason = f"{len(over)} of {len(found)} are above the bound" if over else ""
        return Decision(status, expected, said, reason, tally={"kept": len(found) - len(over), "broken": len(over)})

    def bound_words(self) -> str:
        """The bound and what it rests on: the balancer's word, with what was observed beside it; or that alone."""
        told, seen = self.checking, self.result.observed.checking
        words = f"bound {told.bound or 0.0:.2f} s, N={told.failures}, period {told.period or 0.0:.2f} s"
        if self.result.told.bound is None:
            return f"{words}, as observed"
        count = "unknown" if seen.failures is None else str(seen.failures)
        period = "unknown" if seen.period is None else f"{seen.period:.2f} s"
        return f"{words}, as the balancer tells (observed: N={count}, period {period})"

    def _no_loss(self, family: Family) -> Decision:
        expected = EXPECTED[What.NO_LOSS]
        downs = [line for line in self.lines if line.change.graceful and line.traffic[family].used]
        if not downs:
            return Decision(Status.INCONCLUSIVE, expected, "nothing", "no node in use had its last pod deleted")
        lost = [(line, line.traffic[family].losses.count) for line in downs]
        total, hit = sum(count for _, count in lost), [line for line, count in lost if count]
        said = f"{total} requests lost in {len(hit)} of {len(downs)} deletions"
        ports = sum(line.path_losses for line in downs)
        said += f"; {ports} lost at the nodes' own nodePorts meanwhile" if ports else ""
        stray = sum(line.traffic[family].losses.stray for line in downs)
        said += f"; {stray} of them stray" if stray else ""
        where = ", ".join(f"move {line.change.number} ({line.say_told(family)})" for line in hit[:5])
        seen = REHASHED if all(_only_rehashed(line.traffic[family]) for line in hit) else ""
        said += ", all of them open while it steered, and reset" if hit and seen else ""
        return Decision(Status.FAIL if hit else Status.PASS, expected, said, where, seen)

    def _balance(self, family: Family) -> Decision:
        expected = EXPECTED[What.BALANCE]
        counted = self.result.counted.get(family)
        if counted is None:
            return Decision(Status.INCONCLUSIVE, expected, "nothing", "two nodes could not be made ready for it")
        said = split_words(counted)
        if sum(counted.nodes.values()) < 100:
            return Decision(Status.INCONCLUSIVE, expected, said, "fewer than 100 answers")
        fair = counted.p_value >= LEAST_P
        reason = "" if fair else f"so uneven a split comes by chance in less than 1 of {1 / LEAST_P:.0f} runs"
        seen = WEIGHED if counted.p_value_weighed >= LEAST_P else ""
        return Decision(Status.PASS if fair else Status.FAIL, expected, said, reason, seen, dict(counted.nodes))

    def _view(self, what: What) -> Decision:
        view = self.result.views.get(what)
        if view is None:
            return Decision(Status.INCONCLUSIVE, EXPECTED[what], "nothing", "the balancer's view could not be had")
        said = f"{len(view.healthy)} nodes healthy: {', '.join(sorted(view.healthy)) or 'none'}"
        wrong = sorted(view.healthy ^ view.should)
        reason = f"not as it should be: {', '.join(wrong)}" if wrong else "" if view.healthy else "it knows no node"
        return Decision(Status.FAIL if reason else Status.PASS, EXPECTED[what], said, reason)

    def _freed(self) -> Decision:
        view = self.result.views.get(What.FREED)
        if view is None:
            return Decision(Status.INCONCLUSIVE, EXPECTED[What.FREED], "nothing", "the balancer could not be asked")
        left = ", ".join(sorted(view.healthy))
        said = f"it still has {left}" if left else "it has none any more"
        return Decision(Status.FAIL if left else Status.PASS, EXPECTED[What.FREED], said)

    def _times(self, family: Family, up: bool) -> Decision:
        times = distributions(self.lines, family, up)
        whole = times["trigger to traffic"]
        words = times_words(whole) if whole.samples else "never seen"
        return Decision(Status.PASS, "recorded", f"from trigger to traffic: {words}")


def distributions(lines: Iterable[Timeline], family: Family, up: bool) -> dict[str, Distribution]:
    """The distribution of each phase, of moves in one direction."""
    taken = [phases(line, family) for line in lines if line.change.up is up]
    return {phase: Distribution.of(each[phase] for each in taken if phase in each) for phase in PHASES}


def times_words(of: Distribution) -> str:
    """The usual numbers of a distribution."""
    told = f"p50 {of.quantile(0.5):.2f} s, p95 {of.quantile(0.95):.2f} s, max {of.samples[-1]:.2f} s"
    return f"{told} (n={len(of.samples)})"


def split_words(counted: Counted) -> str:
    """The split between nodes, its p-value, and what a balancer that weighs nodes by their pods would do."""
    total, pods = sum(counted.nodes.values()), sum(counted.pods.values())
    parts = [
        f"{node} ({counted.pods[node]} pod{'s' if counted.pods[node] > 1 else ''}) {counted.nodes.get(node, 0)}"
        for node in sorted(counted.pods)
    ]
    weighed = ":".join(str(round(total * counted.pods[node] / pods)) for node in sorted(counted.pods))
    said = f"{', '.join(parts)} of {total}, p={counted.p_value:.3g}; by the weight header it would be {weighed}"
    return said + (f"; {counted.lost} lost" if counted.lost else "")


def _only_rehashed(seen: Traffic) -> bool:
    """Whether all that was lost are connections that had been accepted, in the moment at which the balancer steered."""
    losses, moment = seen.losses, seen.decision if seen.decision is not None else seen.at
    if losses.first is None or losses.last is None or moment is None or losses.reset < losses.count:
        return False
    return moment - MOMENT <= losses.first and losses.last <= moment + MOMENT
