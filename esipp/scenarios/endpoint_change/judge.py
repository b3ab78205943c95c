"""The judge of convergence checks: from the evidence about one load balancer to a decision on each check. Pure."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain, takewhile
from statistics import median
from typing import NamedTuple

from esipp.checks.check import Level, Status
from esipp.checks.endpoint_change import (
    AFTER_503,
    EXPECTED,
    FORWARDED,
    SPREADS,
    WEIGHED,
    EndpointChange,
    EndpointChangeCheck,
    What,
    judges,
    service_name,
)
from esipp.checks.known_differences import PROXIED, REHASHED
from esipp.checks.model import Balancer, Family, Outcome
from esipp.checks.rights import GATES, SLICES
from esipp.checks.timing import LAG, PROMPT, Blur, Checking, Measured, coarsest, compare, needed
from esipp.judging.frame import Decision
from esipp.judging.ingress import strangers
from esipp.judging.scenario import RunThen, Scenario, Typical
from esipp.judging.schedule import PlannedEvent
from esipp.judging.showing import tallied
from esipp.judging.statistics import Distribution, power
from esipp.judging.timeline import (
    RESOLUTION,
    SLACK,
    Sample,
    Sourced,
    Sources,
    Stream,
    prober_failed,
    probing_paused,
    sources,
)
from esipp.judging.topology import parse_address
from esipp.scenarios.endpoint_change.evidence import (
    FOR_POWER,
    LEAST_P,
    LEAST_POWER,
    MOST_NAMED,
    PHASES,
    QUIET,
    RIGHT,
    BalancerEvidence,
    Bystanders,
    Change,
    Counted,
    Moved,
    Rest,
    Result,
    Timeline,
    Traffic,
    at_rest,
    black_hole,
    doubt_about,
    doubt_beside,
    doubts,
    hole_began,
    phases,
    say_doubts,
    spreads_by,
    windows,
)
from esipp.scenarios.endpoint_change.expected_backends import Paths, Wrong, spans, with_evidence, wrong_places

BLAMES = (What.STEERS, What.BLACK_HOLE, What.NO_LOSS)
"""Checks of the load balancer's reaction to health checks."""

ENOUGH = 12.0
"""Seconds after a node's 200 within which an unknown load balancer that was observed to use all nodes must use it: as
long as the driver waits for it."""

MOMENT = 0.3
"""Seconds around a load balancer's decision in which its routes change; a request takes less."""

BETWEEN_TABLES = 0.1
"""Seconds between a wrong source and a refused connection to the nodePort of the node that forwarded it. kube-proxy's
tables were 0.15 s apart on two busy cores; both streams had a probe every 0.05 s."""

LEAST_CLEAR = 0.5
"""The share of the changes to judge that must be free of doubt and of our own gaps, or a check stays undecided."""


LEAST_REMOVALS = 3
"""The fewest removals of a node whose failed health checks packets must show."""

ONE_OFF = 1
"""Health checks by which the threshold may differ: one may reach the node as its answer changes, or as it is left."""

LOSSES = ("timed_out", "refused", "reset", "wrong", "stray")
"""The kinds of lost requests; stray ones are among the others."""


class Lost(NamedTuple):
    """Lost requests by kind, the longest outage, and the longest black hole, in seconds; None without one."""

    kinds: Mapping[str, int]
    outage: float
    black_hole: float | None


class Times(NamedTuple):
    """The seconds that a phase took, in one direction (``up`` or ``down``), where both of its events were observed."""

    family: Family
    direction: str
    phase: str
    of: Distribution


class Judge:
    """Decides the checks of one load balancer; shared results are computed once.

    ``others`` are the answers of nodes without endpoint changes, if its Service's health check was asked there.
    """

    def __init__(self, result: Result, others: Bystanders | None = None) -> None:
        self.result, self.others = result, others
        self.lines = result.timelines()
        self.must_spread = result.balancer in SPREADS or result.promise.spreads is True
        self.spreads = self.must_spread or (result.promise.spreads is None and spreads_by(result.seen, result.changes))
        self.doubts = doubts(self.lines) if self.by_checks else []
        allowed = spans(self.lines, result.seen.marks, result.opened)
        seen, families = result.seen, list(result.seen.vip)
        first = {node: Paths(stream, seen.beside[node]) for node, stream in seen.ports.items() if node in seen.beside}
        second = {node: Paths(paths.other, paths.own) for node, paths in first.items()}
        self.wrong_at_vip = {
            family: with_evidence(wrong_places(stream, allowed), first if family is families[0] else second)
            for family, stream in seen.vip.items()
        }
        ports = [with_evidence(wrong_places(stream, allowed, node), first) for node, stream in seen.ports.items()]
        ports += [with_evidence(wrong_places(stream, allowed, node), second) for node, stream in seen.beside.items()]
        self.wrong_at_ports = [each for found in ports for each in found]

    @property
    def checking(self) -> Checking:
        """The load balancer's health-check settings: reported, or else from packets. No bound depends on them."""
        return self.result.reported if self.result.reported.bound is not None else self.result.observed.checking

    @property
    def by_checks(self) -> bool:
        """Whether the load balancer relies on the nodes' health checks, by its profile, its own report, or packets."""
        return self.result.promise.by_checks or self.checking.bound is not None

    @property
    def bound(self) -> float | None:
        """Seconds within which the load balancer must leave a node; None without a promise."""
        return self.result.promise.seconds

    def unpromised(self, what: What) -> str:
        """Why nothing is required of the cluster's own load balancer here; empty if something is."""
        promise = self.result.promise
        if self.result.balancer is not Balancer.DEFAULT:
            return ""
        if what in (What.BLACK_HOLE, What.NO_LOSS) and promise.seconds is None:
            return f"nothing is required: {promise.source} (set it with --bound SECONDS)"
        if what is What.BALANCE and promise.spreads is not True:
            how = "uses one node at a time" if promise.spreads is False else "is not known to use all nodes at once"
            return f"nothing is required: according to its profile, this load balancer {how}"
        return ""

    def holes(self, family: Family) -> list[tuple[Timeline, Measured]]:
        """The black hole of each node in use that lost its last pod while another node answered 200.

        That is the time for which a load balancer lost requests without need. It is in doubt if a health check was
        wrong meanwhile: the losses may then not be the load balancer's.
        """
        found = []
        for line in self.lines:
            seconds = black_hole(line, family)
            if seconds is not None and doubt_about(line, family, self.doubts) is None:
                doubt = doubt_beside(line, family, self.doubts)
                words = say_doubts([doubt]) if doubt else ""
                found.append((line, Measured(seconds, Blur(self.resolution(line, family)), words)))
        return found

    def losses(self, family: Family) -> Lost:
        """The lost requests during all endpoint changes.

        A pod that goes to another node is two changes in one window: its losses are those of the removal.
        """
        own = [line for line in self.lines if not (line.change.up and line.change.kind.event.removes)]
        found = [line.traffic[family].losses for line in own]
        kinds = {kind: sum(getattr(each, kind) for each in found) for kind in LOSSES}
        holes = [hole for line in own if (hole := black_hole(line, family)) is not None]
        return Lost(kinds, max((each.outage for each in found), default=0.0), max(holes, default=None))

    @cached_property
    def times(self) -> list[Times]:
        """The times of all phases, also of those that were never observed."""
        return [
            Times(family, direction, phase, of)
            for family in self.result.seen.vip
            for direction in ("up", "down")
            for phase, of in distributions(self.lines, family, direction == "up").items()
        ]

    def resolution(self, line: Timeline, family: Family) -> float:
        """The resolution of a hole: the longest time between two of our probes from just before its begin to its end.

        Begin and end are on one prober's clock. If nothing was lost, a hole could be in any gap until the bound.
        """
        seen = self.result.seen
        began, end = hole_began(line, family), line.traffic[family].losses.end
        if began is None:
            return RESOLUTION
        over = end if end is not None and end > began else min(line.until, began + (self.bound or QUIET))
        health = seen.health[family][line.change.node].gap_around(began, began)
        return max(RESOLUTION, health, seen.vip[family].gap_around(min(began, over), over))

    def decide(self, check: EndpointChangeCheck) -> Decision:
        """The decision on a check."""
        expected = EXPECTED[check.subject.what]
        if self.result.obstacle:
            return Decision(Status.INCONCLUSIVE, expected, "nothing", self.result.obstacle)
        if check.subject.family is not None and check.subject.family not in self.result.seen.vip:
            return Decision(Status.INCONCLUSIVE, expected, "nothing", f"the service has no {check.subject.family} VIP")
        ours = self._trouble(check)
        if ours:
            return Decision(Status.ERROR, expected, "too little", ours)
        coarse = self._coarse(check)
        if coarse:
            return Decision(Status.INCONCLUSIVE, expected, "too little", coarse)
        decided = self._decide(check)
        if decided.status is Status.PASS and self.result.cut_short:
            decided = replace(decided, status=Status.INCONCLUSIVE, reason=self.result.cut_short)
        if unpromised := self.unpromised(check.subject.what):
            open_for = f"; {decided.reason}" if decided.status is Status.INCONCLUSIVE else ""
            return replace(decided, status=Status.RECORDED, reason=unpromised + open_for)
        if check.level is Level.RECORD and decided.status is Status.INCONCLUSIVE:
            return replace(decided, status=Status.PASS)
        return decided

    def _decide(self, check: EndpointChangeCheck) -> Decision:
        family = check.subject.family
        if check.subject.what in (What.VIEW_LOCAL, What.VIEW_CLUSTER):
            return self._view(check.subject.what)
        if check.subject.what is What.FREED:
            return self._freed()
        if check.subject.what is What.THRESHOLD:
            return self._threshold()
        if family is None:
            by_what = {
                What.HEALTH: self._health,
                What.HEALTH_PROMPT: self._health_prompt,
                What.OTHERS: self._other_nodes,
                What.PATH: self._path,
                What.PATH_PROMPT: self._path_prompt,
                What.PLACE: self._place_at_ports,
            }
            return by_what[check.subject.what]() if check.subject.what in by_what else self._source_at_ports()
        at_vip: dict[What, Callable[[Family], Decision]] = {
            What.STEERS: self._steers,
            What.PLACE: self._place_at_vip,
            What.SOURCE: self._source,
            What.BLACK_HOLE: self._black_hole,
            What.NO_LOSS: self._no_loss,
            What.BALANCE: self._balance,
            What.TIMES_UP: lambda of: self._times(of, True),
            What.TIMES_DOWN: lambda of: self._times(of, False),
        }
        return at_vip[check.subject.what](family)

    def _streams(self, check: EndpointChangeCheck) -> list[Stream]:
        """The streams on which a check depends."""
        seen = self.result.seen
        streams = [seen.vip[check.subject.family]] if check.subject.family else [*seen.ports.values(), *seen.checks]
        if check.subject.family and check.subject.what in (
            What.STEERS,
            What.BLACK_HOLE,
        ):  # they depend on the nodes' health checks
            streams += seen.health[check.subject.family].values()
        return streams

    def _coarse(self, check: EndpointChangeCheck) -> str:
        """A sentence if this machine was too busy to probe; empty if not."""
        found = (probing_paused(stream.samples, stream.name) for stream in self._streams(check))
        return next((why for why in found if why), "")

    def _trouble(self, check: EndpointChangeCheck) -> str:
        """An error of our own that leaves a check unjudged."""
        windows = self._windows(check)
        for stream in self._streams(check):
            if why := prober_failed(stream.samples, windows, name=stream.name):
                return why
            if not stream.samples:
                return f"there was no probe ({stream.name})"
        return ""

    def _windows(self, check: EndpointChangeCheck) -> list[tuple[float, float]]:
        """The times in which a single probe may decide a check of a VIP: from each change until its effect."""
        family = check.subject.family
        if family is None or check.subject.what not in (*BLAMES, What.TIMES_UP, What.TIMES_DOWN):
            return []
        found = []
        for line in self.lines:
            seen = line.traffic[family]
            moments = [line.change.cause, line.health[family], seen.at, seen.decision]
            over = max(at for at in moments if at is not None) + QUIET
            whole = check.subject.what is What.NO_LOSS or not line.steered(family)
            found.append((line.change.cause, line.until if whole else min(line.until, over)))
        return found

    # --------------------------------------------------------------------------------------------- the checks' claims
    def _steers(self, family: Family) -> Decision:
        due = [line for line in self.lines if self._must_steer(line, family)]
        clear = [line for line in due if doubt_about(line, family, self.doubts) is None]
        late = [line for line in clear if not line.steered(family)]
        open_ones = [line for line in late if doubt_beside(line, family, self.doubts)]
        judged = [line for line in clear if line not in open_ones]
        if due and len(judged) < LEAST_CLEAR * len(due):
            return self._misled(What.STEERS, len(due) - len(judged), len(due))
        late = [line for line in late if line not in open_ones]
        followed = _all_followed(judged, late, "traffic followed", What.STEERS)
        followed = replace(followed, observed=followed.observed + self._left_out(len(due) - len(judged)))
        still = self.rest(family)
        how = "had to be used" if self.spreads else "had to be used if it was the only one"
        sees = (
            f"{len(judged)} changes were judged, each new node {how}; {still.sees}; longest time without a request "
            f"{self._gap(family):.2f} s"
        )
        decided = replace(_with_rest(followed, still), sees=sees)
        return replace(decided, late=bool(late) and not still.blames)

    def _must_steer(self, line: Timeline, family: Family) -> bool:
        if not line.change.up:
            return line.traffic[family].used
        return self.must_spread or self._alone(line) or (self.spreads and self._had_time(line, family))

    def _had_time(self, line: Timeline, family: Family) -> bool:
        """Whether a load balancer that was only observed to use all nodes used a new one, or had the time for it."""
        answered_503 = line.health.get(family)
        return line.steered(family) or (
            answered_503 is not None and line.until - answered_503 >= max(ENOUGH, self.bound or 0.0)
        )

    def _alone(self, line: Timeline) -> bool:
        """Whether an added pod was the only ready one after its change."""
        changes = self.result.changes
        over = [change for change in changes if change.number <= line.change.number]
        first = sum(1 for _, at in self.result.opened if at < min((each.cause for each in changes), default=0.0))
        return first + sum(1 if change.up else -1 for change in over) == 1

    def rest(self, family: Family) -> Rest:
        """The losses between endpoint changes, and those of a control meanwhile."""
        result = self.result
        found = windows(self.lines, result.seen.marks, self.doubts)
        still = at_rest(result.seen, family, result.changes, found)
        counted = result.counted.get(family)
        return still + counted.rest if counted else still

    def _misled(self, what: What, open_ones: int, of: int) -> Decision:
        reason = f"{open_ones} of {of} changes say nothing about the load balancer: {say_doubts(self.doubts)}"
        return Decision(Status.INCONCLUSIVE, EXPECTED[what], "too little", reason)

    def _left_out(self, count: int) -> str:
        return f" ({count} more were not judged: {say_doubts(self.doubts)})" if count else ""

    def _gap(self, family: Family) -> float:
        return self.result.seen.vip[family].longest_gap()

    def _health(self) -> Decision:
        late = [line for line in self.lines if not line.health_followed]
        decided = _all_followed(self.lines, late, "the health check followed", What.HEALTH)
        return _with_lags(decided, _health_lags(self.lines, self.result.seen, self.result.uncertainty))

    def _other_nodes(self) -> Decision:
        """The health checks of the nodes that never had a pod: those of the client outside, and of the agents."""
        seen, said = self.result.seen, dict[str, Counter[str]]()
        answered = (sample.node for stream in (*seen.vip.values(), *seen.ports.values()) for sample in stream.samples)
        had = {*answered, *(change.node for change in self.result.changes)}
        for nodes in seen.health.values():
            for node, stream in nodes.items():
                if node not in had:
                    found = Counter(sample.outcome for sample in stream.samples if sample.outcome.isdigit())
                    said[node] = said.get(node, Counter()) + found
        for node, answers in (self.others.answers if self.others else {}).items():
            own = said.setdefault(node, Counter())
            for each in answers:
                own.update({each.said: each.count} if each.said.isdigit() else {})
        wrong = {node: statuses for node, statuses in said.items() if set(statuses) != {RIGHT}}
        expected, total = EXPECTED[What.OTHERS], sum(statuses.total() for statuses in said.values())
        observed = f"{total} answers of {len(said)} nodes, {len(said) - len(wrong)} of them always said {RIGHT}"
        if not said or (self.others and self.others.trouble and not wrong):
            why = self.others.trouble if self.others else "no node without a pod was probed"
            return Decision(Status.INCONCLUSIVE, expected, observed, why)
        named = "; ".join(f"{node}: {tallied(statuses)}" for node, statuses in sorted(wrong.items())[:MOST_NAMED])
        return Decision(Status.FAIL if wrong else Status.PASS, expected, observed, named)

    def _path(self) -> Decision:
        due = [line for line in self.lines if judges(What.PATH, line.change.kind.event)]
        late = [line for line in due if line.path is None]
        decided = _all_followed(due, late, "the nodePort followed", What.PATH)
        return _with_lags(decided, _path_lags(self.lines, self.result.seen, self.result.uncertainty))

    def _health_prompt(self) -> Decision:
        return _prompt(What.HEALTH_PROMPT, _health_lags(self.lines, self.result.seen, self.result.uncertainty))

    def _path_prompt(self) -> Decision:
        return _prompt(What.PATH_PROMPT, _path_lags(self.lines, self.result.seen, self.result.uncertainty))

    def _place_at_vip(self, family: Family) -> Decision:
        decided = say_places(self.wrong_at_vip[family], len(self.result.seen.vip[family].samples))
        return self._with_sight(decided, [(line, self.result.seen.vip[family]) for line in self.lines])

    def _with_sight(self, decided: Decision, looked: Sequence[tuple[Timeline, Stream]]) -> Decision:
        """The same decision with its resolution after a node's 503, which must suffice for half of the changes."""
        gaps = []
        for line, stream in looked:
            answered_503 = [at for at in line.health.values() if at is not None]
            if not line.change.up and line.health_followed and answered_503:
                allowed = max(answered_503) + SLACK
                gaps.append(stream.gap_around(allowed, min(line.until, allowed + SLACK)))
        seen = sum(gap <= SLACK for gap in gaps)
        sees = (
            f"an answer later than {SLACK} s after the node's 503 is detected within {SLACK} s in {seen} of "
            f"{len(gaps)} changes (longest time without a request then: {max(gaps, default=0.0):.2f} s)"
        )
        decided = replace(decided, sees=sees)
        if decided.status is Status.PASS and gaps and seen < LEAST_CLEAR * len(gaps):
            why = f"the resolution is {sorted(gaps)[len(gaps) // 2]:.2f} s, {SLACK} s or better is needed"
            return replace(decided, status=Status.INCONCLUSIVE, reason=why)
        return decided

    def _place_at_ports(self) -> Decision:
        seen = self.result.seen
        asked = sum(len(each.samples) for each in (*seen.ports.values(), *seen.beside.values()))
        looked = [(line, seen.ports[line.change.node]) for line in self.lines]
        return self._with_sight(say_places(self.wrong_at_ports, asked), looked)

    def _source(self, family: Family) -> Decision:
        result = self.result
        found = sources(self._sourced([result.seen.vip[family]], result.sources.get(family, ())))
        decided = _sources(found)
        if found.wrong and self._forwarded(family):
            return replace(decided, evidence=FORWARDED)
        if result.balancer is not Balancer.DEFAULT or not found.wrong:
            return decided
        origin = strangers(found.wrong, {parse_address(each) for each in result.others}, is_proxy=result.proxy)
        if found.right:  # no proxy shows its own address in only some answers
            return replace(decided, foreign=origin.foreign)
        if not origin.proxied:
            return replace(decided, reason=f"{decided.reason}; {origin.why}", foreign=origin.foreign)
        return replace(decided, evidence=PROXIED, foreign=origin.foreign)

    def _forwarded(self, family: Family) -> bool:
        """Whether each wrong source is a node's, seen while a node refused what it was about to serve.

        kube-proxy in iptables mode then no longer drops what comes to the node, and does not translate it yet.
        """
        seen, others = self.result.seen, {parse_address(each) for each in self.result.others}
        right = {parse_address(each) for each in self.result.sources.get(family, ())}
        ports = seen.ports if family is next(iter(seen.vip)) else seen.beside
        refusals = [
            (change.node, sample.started)
            for change in self.result.changes
            if change.up and change.node in ports
            for sample in _before_the_first_answer(ports[change.node], change.cause)
            if sample.outcome == Outcome.REFUSED
        ]

        def between(sample: Sample) -> bool:
            return any(sample.node != node and abs(at - sample.started) <= BETWEEN_TABLES for node, at in refusals)

        wrong = (each for each in seen.vip[family].samples if each.source and parse_address(each.source) not in right)
        return all(parse_address(each.source) in others and between(each) for each in wrong)

    def _source_at_ports(self) -> Decision:
        seen = self.result.seen
        streams = zip(seen.vip, (seen.ports, seen.beside), strict=False)
        answers = (self._sourced(ports.values(), self.result.own.get(family, ())) for family, ports in streams)
        return _sources(sources(chain.from_iterable(answers)))

    @staticmethod
    def _sourced(streams: Iterable[Stream], allowed: Iterable[str]) -> Iterator[Sourced]:
        """Every probe of these streams, with its right sources."""
        right = frozenset(parse_address(each) for each in allowed)
        return ((sample, right) for stream in streams for sample in stream.samples)

    def _black_hole(self, family: Family) -> Decision:
        expected = EXPECTED[What.BLACK_HOLE]
        found = self.holes(family)
        if not found:
            why = f"; {say_doubts(self.doubts)}" if self.doubts else ""
            return Decision(Status.INCONCLUSIVE, expected, "nothing", f"no node in use lost its last pod abruptly{why}")
        line, worst = max(found, key=lambda each: each[1].seconds)
        bound = self.bound
        lag = (line.health[family] or line.change.cause) - (line.trigger or line.change.cause)
        said = (
            f"at most {worst.seconds:.2f} s after the node's 503 "
            f"(change {line.change.number}, where the proxy took {lag:.2f} s)"
        )
        stray = sum(each.traffic[family].losses.stray for each, _ in found)
        said += f", {stray} stray losses" if stray else ""
        said += f"; {self.bound_words()}"
        sees = f"{len(found)} times were measured, each within {coarsest(found):.2f} s or better"
        if bound is None:
            return Decision(Status.PASS, expected, said, sees=sees)
        sees += f" ({needed(bound):.2f} s are needed); {self.result.promise.words}"
        compared = compare(found, bound)
        sees += f"; {len(compared.unknown)} of them are too uncertain" if compared.unknown else ""
        if compared.over:
            reason = f"{len(compared.over)} of {len(found)} are above the bound"
            return Decision(Status.FAIL, expected, said, reason, tally=compared.kept, sees=sees, late=True)
        if vague := compared.vague(bound, LEAST_CLEAR):
            return Decision(
                Status.INCONCLUSIVE, expected, said, vague.too_coarse(bound), tally=compared.kept, sees=sees
            )
        return Decision(Status.PASS, expected, said, tally=compared.kept, sees=sees)

    def bound_words(self) -> str:
        """The bound and its source, with the load balancer's reported settings and those from packets."""
        reported, seen = self.result.reported, self.result.observed.checking
        parts = [self.result.promise.words]
        for whose, each in (("reported", reported), ("packets", seen)):
            count = "unknown" if each.failures is None else str(each.failures)
            period = "unknown" if each.period is None else f"{each.period:.2f} s"
            parts.append(f"{whose}: N={count}, period {period}")
        return "; ".join(parts)

    def _no_loss(self, family: Family) -> Decision:
        expected = EXPECTED[What.NO_LOSS]
        graceful = [line for line in self.lines if judges(What.NO_LOSS, line.change.kind.event)]
        used = [line for line in graceful if line.traffic[family].used]
        downs = [line for line in used if doubt_about(line, family, self.doubts) is None]
        downs = [
            line
            for line in downs
            if not (line.traffic[family].losses.count and doubt_beside(line, family, self.doubts))
        ]
        if not used:
            return Decision(Status.INCONCLUSIVE, expected, "nothing", "no node in use had its last pod deleted")
        if len(downs) < LEAST_CLEAR * len(used):
            return self._misled(What.NO_LOSS, len(used) - len(downs), len(used))
        lost = [(line, line.traffic[family].losses.count) for line in downs]
        total, hit = sum(count for _, count in lost), [line for line, count in lost if count]
        said = f"{total} requests lost in {len(hit)} of {len(downs)} deletions{self._left_out(len(used) - len(downs))}"
        ports = sum(line.path_losses for line in downs)
        said += f"; {ports} lost at the nodes' own nodePorts meanwhile" if ports else ""
        stray = sum(line.traffic[family].losses.stray for line in downs)
        said += f"; {stray} of the requests were stray losses" if stray else ""
        where = ", ".join(f"change {line.change.number} ({line.say_503(family)})" for line in hit[:5])
        seen = REHASHED if hit and all(_only_rehashed(line.traffic[family]) for line in hit) else ""
        said += "; all of them were open while its routes changed, and were reset" if seen else ""
        stream = self.result.seen.vip[family]
        gap = max(stream.gap_around(line.change.cause, line.until) for line in downs)
        sees = f"an outage of more than {gap:.2f} s is detected in {len(downs)} deletions; {self.bound_words()}"
        # A pod serves for LAG longer than a load balancer needs that knows its node's 503 at once. A single request
        # that times out after the node was left is late as well (one, at 31 tasks per core: docs/soak.md, run 81).
        slow = [(line.health.get(family) or line.until) - line.change.cause > LAG for line in hit]
        late = all(each or line.traffic[family].losses.is_one_stray for each, line in zip(slow, hit, strict=True))
        return Decision(Status.FAIL if hit else Status.PASS, expected, said, where, seen, sees=sees, late=late)

    def _balance(self, family: Family) -> Decision:
        expected = EXPECTED[What.BALANCE]
        counted = self.result.counted.get(family)
        if counted is None:
            return Decision(Status.INCONCLUSIVE, expected, "nothing", "no two nodes could get ready pods for it")
        said = split_words(counted)
        sees = (
            f"with {counted.total} connections, the power to detect a split of 55:45 is {counted.power:.2f}, and of "
            f"60:40 {power(counted.total, LEAST_P, 0.6) if counted.total else 0.0:.2f}; "
            f"an equal split fails once in {1 / LEAST_P:.0f} tests"
        )
        fair = counted.p_value >= LEAST_P
        if fair and counted.power < LEAST_POWER:
            why = f"{counted.total} connections are too few: a power of {LEAST_POWER} at 55:45 needs {FOR_POWER}"
            return Decision(Status.INCONCLUSIVE, expected, said, why, tally=dict(counted.nodes), sees=sees)
        reason = "" if fair else f"chance causes such an uneven split in less than 1 of {1 / LEAST_P:.0f} runs"
        weighed = counted.p_value_weighed
        seen = WEIGHED if not fair and weighed is not None and weighed >= LEAST_P else ""
        # A load balancer gives less to a node whose health check, or whose connections, are late.
        return Decision(
            Status.PASS if fair else Status.FAIL,
            expected,
            said,
            reason,
            seen,
            dict(counted.nodes),
            sees=sees,
            late=True,
        )

    def _view(self, what: What) -> Decision:
        view = self.result.views.get(what)
        if view is None:
            return Decision(Status.INCONCLUSIVE, EXPECTED[what], "nothing", "the load balancer gave no health view")
        said = f"{len(view.healthy)} nodes healthy: {', '.join(sorted(view.healthy)) or 'none'}"
        wrong = sorted(view.healthy ^ view.should)
        reason = f"wrong: {', '.join(wrong)}" if wrong else "" if view.healthy else "it reports no healthy node"
        return Decision(Status.FAIL if reason else Status.PASS, EXPECTED[what], said, reason)

    def _freed(self) -> Decision:
        view = self.result.views.get(What.FREED)
        if view is None:
            return Decision(Status.INCONCLUSIVE, EXPECTED[What.FREED], "nothing", "the load balancer did not answer")
        left = ", ".join(sorted(view.healthy))
        said = f"it still has {left}" if left else "it no longer has any"
        return Decision(Status.FAIL if left else Status.PASS, EXPECTED[What.FREED], said)

    def _threshold(self) -> Decision:
        """Compare the failed health checks before it left a node with its profile, by their median."""
        expected, said = EXPECTED[What.THRESHOLD], self.result.threshold
        found = sorted(Counter(self.result.observed.failures).items())
        removals = sum(number for _, number in found)
        observed = ", ".join(f"{number} x after {count} failed health checks" for count, number in found) or "nothing"
        counts = " or ".join(map(str, said.counts))
        if removals < LEAST_REMOVALS:
            status = Status.INCONCLUSIVE
            reason = f"packets show {removals} removals of nodes with failed health checks; {LEAST_REMOVALS} are needed"
        else:
            usual = median(self.result.observed.failures)
            right = any(abs(usual - count) <= ONE_OFF for count in said.counts)
            status = Status.PASS if right else Status.FAIL
            reason = f"{said.source} says {counts}; packets show {usual:g}"
        if said.unbound:
            compared = f"; {reason}" if said.counts else ""
            return Decision(Status.RECORDED, expected, observed, f"nothing is required: {said.unbound}{compared}")
        # A check of a busy load balancer may be late, and its decision, too.
        return Decision(status, expected, observed, reason, tally={f"after {n}": many for n, many in found}, late=True)

    def _times(self, family: Family, up: bool) -> Decision:
        times = distributions(self.lines, family, up)
        whole = times["trigger to traffic"]
        words = times_words(whole) if whole.samples else "never observed"
        return Decision(Status.PASS, "recorded", f"from trigger to traffic: {words}")


def judges_of(moved: Moved) -> dict[Balancer, Judge]:
    """The judge of each load balancer."""
    others = {moved.bystanders.service: moved.bystanders} if moved.bystanders else {}
    return {balancer: Judge(each, others.get(service_name(balancer))) for balancer, each in moved.results.items()}


def distributions(lines: Iterable[Timeline], family: Family, up: bool) -> dict[str, Distribution]:
    """The distribution of each phase, for changes in one direction."""
    taken = [phases(line, family) for line in lines if line.change.up is up]
    return {phase: Distribution.of(each[phase] for each in taken if phase in each) for phase in PHASES}


def times_words(of: Distribution) -> str:
    """The key figures of a distribution as text."""
    figures = f"p50 {of.p50:.2f} s, p95 {of.p95:.2f} s, max {of.most:.2f} s"
    return f"{figures} (n={len(of.samples)})"


def split_words(counted: Counted) -> str:
    """The split between nodes as text, with its p-value, and that for the weights that the nodes reported."""
    parts = [
        f"{node} ({counted.pods[node]} pod{'s' if counted.pods[node] > 1 else ''}) {counted.nodes.get(node, 0)}"
        for node in sorted(counted.pods)
    ]
    said = f"{', '.join(parts)} of {counted.total}, p={counted.p_value:.3g}"
    weighed = counted.p_value_weighed
    if weighed is not None:
        weights = ":".join(str(counted.weights[node]) for node in sorted(counted.pods))
        said += f"; for the weights from health checks, {weights}, p={weighed:.3g}"
    return said + (f"; {counted.lost} lost" if counted.lost else "")


def _with_lags(decided: Decision, found: Sequence[tuple[Timeline, Measured]]) -> Decision:
    """The same decision with the nodes' lag from the EndpointSlice on."""
    if not found:
        return decided
    lags = Distribution.of(each.seconds for _, each in found)
    said = f"{decided.observed}; the nodes took {times_words(lags)} from the EndpointSlice"
    sees = f"another check judges how late a node follows; times are known within {coarsest(found):.2f} s"
    return replace(decided, observed=said, sees=sees)


def _prompt(what: What, found: Sequence[tuple[Timeline, Measured]]) -> Decision:
    """Whether the nodes' own lag is within the budget each time."""
    expected = EXPECTED[what]
    if not found:
        return Decision(Status.INCONCLUSIVE, expected, "nothing", "no change of an EndpointSlice was observed")
    lags = Distribution.of(each.seconds for _, each in found)
    said = f"the nodes took {times_words(lags)} from the EndpointSlice"
    sees = (
        f"{len(found)} changes, measured within {coarsest(found):.2f} s or better ({needed(PROMPT):.2f} s are needed); "
        f"the limit of {PROMPT:.0f} s is esipp's, Kubernetes promises none"
    )
    compared = compare(found, PROMPT)
    if compared.over:
        line, worst = max(compared.over, key=lambda each: each[1].seconds)
        reason = (
            f"{len(compared.over)} of {len(found)} changes took longer than {PROMPT:.0f} s, the longest "
            f"{worst.seconds:.2f} s: {_name_of(line.change)}"
        )
        return Decision(Status.FAIL, expected, said, reason, tally=compared.kept, sees=sees, late=True)
    if vague := compared.vague(PROMPT, LEAST_CLEAR):
        return Decision(Status.INCONCLUSIVE, expected, said, vague.too_coarse(PROMPT), tally=compared.kept, sees=sees)
    return Decision(Status.PASS, expected, said, tally=compared.kept, sees=sees)


def _only_rehashed(seen: Traffic) -> bool:
    """Whether all lost requests were accepted connections, lost while the load balancer changed its routes."""
    losses, moment = seen.losses, seen.decision if seen.decision is not None else seen.at
    if losses.first is None or losses.last is None or moment is None or losses.reset < losses.count:
        return False
    return moment - MOMENT <= losses.first and losses.last <= moment + MOMENT


# ------------------------------------------------------------------------- decisions by counting
def _all_followed(due: Sequence[Timeline], late: Sequence[Timeline], what: str, check: What) -> Decision:
    """Whether each of the due changes was followed."""
    if not due:
        return Decision(Status.INCONCLUSIVE, EXPECTED[check], "nothing", "no endpoint change had to be followed")
    ups = sum(1 for line in due if line.change.up)
    said = f"{what} in {len(due) - len(late)} of {len(due)} changes ({ups} up, {len(due) - ups} down)"
    first = ", ".join(_name_of(line.change) for line in late[:4]) + (" …" if len(late) > 4 else "")
    return Decision(Status.FAIL if late else Status.PASS, EXPECTED[check], said, first and f"not followed: {first}")


def _with_rest(followed: Decision, rest: Rest) -> Decision:
    """The same decision with the losses between endpoint changes, and those of a control meanwhile.

    A load balancer that keeps a removed node for one connection in fifty loses few requests during changes, as others
    do by chance.
    """
    followed = replace(followed, observed=f"{followed.observed}; {rest.words}") if rest.asked else followed
    if rest.blames:
        why = "requests are lost between endpoint changes, and the control lost fewer"
        reason = f"{followed.reason}; {why}" if followed.reason else why
        return replace(followed, status=Status.FAIL, reason=reason)
    if rest.open and followed.status is Status.PASS:
        why = f"{rest.lost} requests were lost between endpoint changes, with too few control requests to compare"
        return replace(followed, status=Status.INCONCLUSIVE, reason=why)
    return followed


def _name_of(change: Change) -> str:
    """A change as text."""
    direction = f" {'up' if change.up else 'down'}" if change.kind.event.adds and change.kind.event.removes else ""
    return f"change {change.number} ({change.kind.value}{direction}, {change.node})"


def say_places(wrong: Sequence[Wrong], requests: int) -> Decision:
    """Whether only expected backends answered."""
    said = f"{len(wrong)} of {requests} requests were answered by a wrong backend"
    reason = f"{wrong[0].why} ({wrong[0].stream})" if wrong else ""
    excused = [each for each in wrong if each.evidence]
    seen = AFTER_503 if wrong and len(excused) == len(wrong) else ""
    reason += f"; {excused[0].evidence}" if seen else ""
    # Nodes of an overloaded machine follow later: with 31 tasks for each core, 4 of 3,712 answers came so (flannel).
    late = bool(wrong) and all(each.late for each in wrong)
    return Decision(Status.FAIL if wrong else Status.PASS, EXPECTED[What.PLACE], said, reason, seen, late=late)


def _before_the_first_answer(stream: Stream, since: float) -> Iterator[Sample]:
    """The probes of a stream from a moment on, until one is answered."""
    return takewhile(lambda sample: not sample.answered, (each for each in stream.samples if each.started >= since))


def _sources(found: Sources) -> Decision:
    """Whether every answer shows a right source."""
    expected = EXPECTED[What.SOURCE]
    if not found.total:
        return Decision(Status.INCONCLUSIVE, expected, found.words, "no request was answered")
    return Decision(Status.FAIL if found.wrong else Status.PASS, expected, found.words, found.fault)


# ---------------------------------------------------------------------------- the lag of a node
def _health_lags(lines: Sequence[Timeline], seen: BalancerEvidence, blur: float) -> list[tuple[Timeline, Measured]]:
    """The longest lag of any family for each change; ``blur`` is the difference that our clocks may have."""
    found = []
    for line in lines:
        each = [
            measured
            for family, at in line.health.items()
            if (measured := _lag(line, at, seen.health[family][line.change.node], blur)) is not None
        ]
        if each:
            found.append((line, max(each, key=lambda measured: measured.seconds)))
    return found


def _path_lags(lines: Sequence[Timeline], seen: BalancerEvidence, blur: float) -> list[tuple[Timeline, Measured]]:
    """The lag of each change that the nodePort must follow."""
    due = [line for line in lines if judges(What.PATH_PROMPT, line.change.kind.event)]
    return list(_paths(due, seen.ports, blur))


def _paths(lines: Sequence[Timeline], ports: Mapping[str, Stream], blur: float) -> Iterator[tuple[Timeline, Measured]]:
    for line in lines:
        measured = _lag(line, line.path, ports[line.change.node], blur)
        if measured is not None:
            yield line, measured


def _lag(line: Timeline, at: float | None, stream: Stream, blur: float) -> Measured | None:
    """The time since the node could know; if it never followed, the time for which it was observed."""
    begin = line.slice if line.slice is not None else line.trigger
    if begin is None:
        return None
    end = at if at is not None else line.until
    return Measured(max(0.0, end - begin), Blur(stream.gap_around(end, end) + blur))


# -------------------------------------------------------------------------------------------------------- registration
def _decide(check: EndpointChangeCheck, judges: Mapping[Balancer, Judge]) -> Decision:
    return judges[check.subject.balancer].decide(check)


def _lacks(check: EndpointChangeCheck, moved: Moved, then: RunThen) -> str:
    known = then.asked(check) or check.subject.balancer in moved.results
    return "" if known else f"there were no endpoint changes behind {check.subject.balancer}"


BALANCERS = (Balancer.DEFAULT, Balancer.ECMP, Balancer.PROXY)

SCENARIO = Scenario(
    name="endpoint_change",
    suite="convergence",
    record="convergence",
    subjects=(EndpointChange,),
    evidence=Moved,
    analyse=judges_of,
    decide=_decide,
    lacks=_lacks,
    phases=(
        Typical(
            "endpoint changes",
            base=75,
            move=6.8,
            events=tuple(PlannedEvent(each.value, measures=True) for each in BALANCERS),
        ),
    ),
    rights=(*GATES, *SLICES),
)
