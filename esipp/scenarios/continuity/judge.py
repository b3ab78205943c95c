"""The judge of continuity checks: from the timeline of all requests to a decision on each check. Pure."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf

from esipp.checks.catalog import events_of
from esipp.checks.check import Level, Status
from esipp.checks.continuity import (
    CLAIMED_TWICE,
    MOVED,
    NODEPORT,
    NOT_YET,
    ONE_NODE_WITHIN,
    PROXIES,
    STARTING,
    UNREWRITTEN,
    UNTRANSLATED,
    Continuity,
    ContinuityCheck,
    Phase,
    Way,
    What,
)
from esipp.checks.disruption import Disruption
from esipp.checks.known_differences import PROXIED, REHASHED
from esipp.checks.model import Balancer, Family, TrafficPolicy
from esipp.checks.rights import GATES, SLICES, rights
from esipp.checks.timing import AT_ONCE, FIELD_LIMIT, PROMPT, Blur, Bound, Held, hold, needed, say_unknown
from esipp.judging.controls import Counts, Uncertain, Vantage, excused, uncertain
from esipp.judging.frame import Decision, few, ours_failed, undecided
from esipp.judging.ingress import strangers
from esipp.judging.link_owners import ANSWERED_WITHIN, decide_one_node, decide_one_node_again, nodes_by_link
from esipp.judging.scenario import RunThen, Scenario, Typical
from esipp.judging.schedule import planned
from esipp.judging.timeline import (
    LOST,
    OURS,
    SLACK,
    Sample,
    Sourced,
    Spans,
    Stream,
    Tally,
    first_503,
    longest_gap,
    misplaced,
    prober_failed,
    probing_paused,
    say_late,
    say_sources,
    sources,
    spans_of_marks,
    tally,
)
from esipp.judging.topology import IPAddress, parse_address
from esipp.scenarios.continuity.evidence import Asked, Break, ContinuityEvidence, Window
from esipp.scenarios.continuity.reasons import (
    by_links,
    claimed_twice,
    hides_its_node,
    late_nodes,
    perhaps_rerouted,
    rerouted,
    served_late,
    taken_by,
    taker,
    untranslated,
    used_too_early,
    why_moved,
)
from esipp.scenarios.continuity.stream_judge import StreamJudge

LEAST = 5
"""The fewest requests in a phase that allow a decision."""

MOMENT = 0.4
"""Seconds around a load balancer's change of routes in which it breaks open connections."""

MOST_MOVED = 2
"""The most new connections that one change of a load balancer's routes can break: they last for milliseconds, and begin
a tenth of a second apart."""

ELSEWHERE = 1.0
"""Seconds. Shorter times without any answer say nothing: a VIP at another node sends half of its requests to the pod of
the lost one."""

BUSY = 5.0
"""Seconds before a VIP moves in which starved nodes may have taken each other for dead."""

UNSHOWN = (
    "the client's neighbour table has no node for the VIP, so a short move to another node does not show: what was "
    "done may have moved it, which breaks open connections"
)

OVERDUE = 10.0
"""Seconds by which an answer of a removed pod is late, and not wrong for another reason. With 28 tasks for each core,
one came 0.05 s after all nodes should have known (2026-11-27)."""

ENDED = 1.5
"""Seconds before our watch reports a pod gone in which its connections may already break."""


@dataclass
class Judge:
    """Decides every check; shared results are computed once."""

    seen: ContinuityEvidence
    _by_phase: dict[int, dict[Phase | None, list[Sample]]] = field(default_factory=dict)
    _made: dict[tuple[Phase, Way, Family], list[Sample]] = field(default_factory=dict)
    _exchanged: dict[Asked, dict[Phase | None, list[Sourced]]] = field(default_factory=dict)
    _broken: dict[Asked, list[tuple[Phase | None, Break]]] = field(default_factory=dict)

    def decide(self, check: ContinuityCheck) -> Decision:
        """The decision on a check."""
        why = self._open(check)
        if why:
            return undecided(check, why)
        if check.subject.stream is not None:
            return StreamJudge(self, check, check.subject.stream).decide()
        trouble = self._trouble(check)
        if trouble:
            return ours_failed(check, "too little", trouble)
        by_what: dict[What, Callable[[ContinuityCheck], Decision]] = {
            What.NO_LOSS: self._no_loss,
            What.NO_DELAY: self._no_delay,
            What.GAP: self._gap,
            What.LOSSES: self._losses,
            What.FAIL_OVER: self._fail_over,
            What.ONE_NODE: self._one_node,
            What.SOURCE: self._source,
            What.PROMPT: self._prompt,
            What.PLACE: self._place,
            What.LASTING: self._lasting,
            What.TERMINATING: self._terminating,
            What.JOINED_NODE: self._joined_silent if check.subject.way.local else self._joined_serves,
        }
        decided = by_what[check.subject.what](check)
        return decided if decided.sees or decided.status is not Status.PASS else replace(decided, sees=self.sees(check))

    # -------------------------------------------------------------------------------------------- what checks rest on
    def requests(self, check: ContinuityCheck) -> list[Sample]:
        """The new connections of a check."""
        return self.of_phase(check.subject.phase, check.subject.way, check.subject.family)

    def of_phase(self, phase: Phase, way: Way, family: Family) -> list[Sample]:
        """The new connections of a way in a phase, without those that our prober could not make."""
        asked = phase, way, family
        if asked not in self._made:
            found = self.in_phase(phase, self.seen.streams.get((way, family)))
            self._made[asked] = [sample for sample in found if sample.outcome != OURS]
        return self._made[asked]

    def in_phase(self, phase: Phase, stream: Stream | None) -> list[Sample]:
        """The probes of one of the evidence's streams in a phase, in their order; each stream is divided once."""
        if stream is None:
            return []
        if id(stream) not in self._by_phase:
            self._by_phase[id(stream)] = self.seen.by_phase(stream.samples)
        return self._by_phase[id(stream)].get(phase, [])

    def tally(self, phase: Phase, way: Way, family: Family) -> Tally:
        """The numbers of a way in a phase."""
        window = self.seen.window(phase)
        return tally(self.of_phase(phase, way, family), window.causes if window else ())

    def every_break(self, phase: Phase, way: Way, family: Family) -> list[Break]:
        """All connections that broke in a phase."""
        if (way, family) not in self._broken:
            self._broken[way, family] = self.seen.breaks((way, family))
        return [broken for of, broken in self._broken[way, family] if of is phase]

    def breaks(self, phase: Phase, way: Way, family: Family) -> list[Break]:
        """The broken connections in a phase whose pod still had to serve."""
        found = self.every_break(phase, way, family)
        return [each for each in found if not self._was_ending(each) and not self._was_cut(phase, way, each)]

    def sourced(self, check: ContinuityCheck) -> list[Sourced]:
        """Every answer of a check, with its right sources."""
        found = [(each, self.allowed(check.subject.way, each)) for each in self.requests(check) if each.answered]
        return found + self.exchanges(check.subject.way, check.subject.family).get(check.subject.phase, [])

    def exchanges(self, way: Way, family: Family) -> dict[Phase | None, list[Sourced]]:
        """The answers on established connections, by phase.

        The right source is that of the connection's first answer: a connection keeps its source until it closes.
        """
        known = self._exchanged.get((way, family))
        if known is None:
            known = self._exchanged[way, family] = {}
            first: dict[tuple[int, int], frozenset[IPAddress]] = {}
            for number, sample, _ in self.seen.lasting.get((way, family), ()):
                if sample.answered:
                    right = first.get(number) or self.allowed(way, sample)
                    first.setdefault(number, frozenset({parse_address(sample.source)}))
                    known.setdefault(self.seen.phase_of(sample.started, sample.ended), []).append((sample, right))
        return known

    @cached_property
    def spans(self) -> Spans:
        """The times in which each pod may answer."""
        return spans_of_marks(self.seen.marks, self.seen.nodes, self.seen.health.values())

    def _open(self, check: ContinuityCheck) -> str:
        """Why a check cannot be decided."""
        seen, asked = self.seen, (check.subject.way, check.subject.family)
        if seen.trouble or asked in seen.obstacles:
            return seen.trouble or seen.obstacles[asked]
        if check.subject.phase is not Phase.QUIET:
            window = seen.window(check.subject.phase)
            if window is None:
                return "this phase did not take place"
            if window.trouble:
                return window.trouble
        made = len(self.requests(check))
        return f"only {made} requests were made in this phase" if made < LEAST else ""

    def _trouble(self, check: ContinuityCheck) -> str:
        """An error of our own that leaves a check unjudged."""
        made = self.in_phase(check.subject.phase, self.seen.streams.get((check.subject.way, check.subject.family)))
        if why := prober_failed(made):
            return why
        # the quiet phase is interrupted by other phases, so its pauses say nothing
        return "" if check.subject.phase is Phase.QUIET else probing_paused(self.requests(check))

    def vantage(self, family: Family) -> Vantage:
        """The controls of the client over a family: how well it reached nodes without a Service."""
        own = self.seen.control.get(family)
        controls = {self.seen.places.endpoint: own} if own else {}
        return Vantage(controls | {node: stream for (node, of), stream in self.seen.others.items() if of is family})

    def _beside(self, check: ContinuityCheck, lost: Sequence[tuple[float, float]]) -> str:
        """A sentence if no node's control listener answered around any of these losses; empty otherwise.

        A loss counts if the controls do not share it. It also counts if only some nodes' listeners share it while
        others answer the same client: then the traffic of these nodes was cut.
        """
        return self.vantage(check.subject.family).all_ours(lost)

    def _cut(self, check: ContinuityCheck, lost: Sequence[tuple[float, float]]) -> str:
        """The nodes whose control listeners were cut off as well, as an addition to a reason; empty if none."""
        cuts = (self.vantage(check.subject.family).cut(since, until) for since, until in lost)
        return next((f"; {words}" for words in cuts if words), "")

    def sees(self, check: ContinuityCheck) -> str:
        """What a check can and cannot detect."""
        made = len(self.requests(check))
        longest = 0.0 if check.subject.phase is Phase.QUIET else longest_gap(self.requests(check))
        said = f"{made} new connections of one client"
        said += f", at most {longest:.2f} s apart" if longest else ""
        kept = len(self.exchanges(check.subject.way, check.subject.family).get(check.subject.phase, ()))
        if check.subject.what is What.LASTING:
            return f"{kept} exchanges on three connections of one client: a break of only some of them may be missed"
        if check.subject.what is What.NO_LOSS:
            return f"{said}: a shorter outage is missed, and so is one below 3 s that lets SYNs through"
        if check.subject.what in (What.SOURCE, What.PROMPT):
            return (
                f"{said}, and {kept} exchanges on established ones: a fault that affects fewer than one in some "
                "hundreds is missed"
            )
        return f"{said}: a shorter fault, or one of other clients, is missed"

    def _own_doing(self, check: ContinuityCheck, since: float, until: float) -> bool:
        """Whether the load balancer reports a change of its routes at that time."""
        return any(
            since - MOMENT <= steer.at <= until + MOMENT and steer.family in ("", check.subject.family.value)
            for steer in self.seen.steers.get(check.subject.way, ())
        )

    def _steered_nowhere(self, check: ContinuityCheck, at: float) -> str:
        """A sentence if the load balancer reports that it sent requests to no node at that time, and why."""
        steers = [
            s
            for s in self.seen.steers.get(check.subject.way, ())
            if s.family in ("", check.subject.family.value) and s.at <= at
        ]
        last = max(steers, key=lambda steer: steer.at, default=None)
        return "" if last is None or last.nodes else f"; the load balancer reports that it had no node left: {last.why}"

    def _changes(self, check: ContinuityCheck) -> int:
        """The number of route changes that the load balancer reports for a phase."""
        steers = self.seen.steers.get(check.subject.way, ())
        mine = [steer.at for steer in steers if steer.family in ("", check.subject.family.value)]
        return sum(1 for at in mine if self.seen.phase_of(at, at) is check.subject.phase)

    # -------------------------------------------------------------------------------------------------------- losses
    def _no_loss(self, check: ContinuityCheck) -> Decision:
        samples = self.requests(check)
        lost = [sample for sample in samples if not sample.answered]
        numbers = tally(samples)
        counts = {"answered": numbers.requests - numbers.lost, "lost": numbers.lost}
        if not lost:
            return Decision(Status.PASS, check.expected, numbers.words, tally=counts)
        moments = [(sample.started, sample.started) for sample in lost]
        why = self._beside(check, moments) or self._by_chance(check, len(lost), len(samples))
        if why:
            return undecided(check, why, numbers.words)
        vantage = self.vantage(check.subject.family)
        late = late_nodes(self.seen, check, min(sample.started for sample in lost), vantage)
        if late and late.doubt:
            return undecided(check, late.doubt, numbers.words)
        others = [s for s in lost if s.outcome != "reset" or not self._own_doing(check, s.started, s.ended)]
        if len(lost) - len(others) > MOST_MOVED * self._changes(check):
            others = lost
        by_words = Counter(self.words(check.subject.way, check.subject.family, sample) for sample in lost)
        outcomes = ", ".join(f"{count} {words}" for words, count in by_words.items())
        reason = f"{outcomes}; the first {self.when(check.subject.phase, lost[0].started)}"
        if check.subject.phase is not Phase.QUIET and (
            also := self.tally(Phase.QUIET, check.subject.way, check.subject.family).lost
        ):
            reason += f"; {also} were also lost in the quiet phase"
        reason += self._cut(check, moments)
        reason += f"; {late.words}" if late else ""
        # A proxy resets a client's connection when its own, to a node, is not accepted in time.
        in_vain = {"timeout", "reset"} if check.subject.way.by in PROXIES else {"timeout"}
        # A node that said 503 too late had its last requests refused (two, at 20 tasks per core: docs/soak.md, run 87).
        few_late = few(len(lost), len(samples)) and all(
            sample.outcome in in_vain
            or (sample.outcome == "refused" and late_nodes(self.seen, check, sample.started, vantage))
            for sample in lost
        )
        own = check.subject.way.by == Balancer.DEFAULT.value
        evidence, said = "lost" if others else REHASHED, numbers.words
        if own and (why := claimed_twice(self.seen, check, lost)):
            evidence, said = CLAIMED_TWICE, f"{said}; {why}"
        elif why := served_late(self.seen, check, lost):
            evidence, said = STARTING, f"{said}; {why}"
        elif why := used_too_early(self.seen, check, others):
            evidence, said = NOT_YET, f"{said}; {why}"
        return Decision(Status.FAIL, check.expected, said, reason, evidence=evidence, tally=counts, late=few_late)

    def _by_chance(self, check: ContinuityCheck, lost: int, made: int) -> str:
        """A sentence if the network itself loses as much in the quiet phase; empty if not, and in other phases."""
        if check.subject.phase is not Phase.QUIET:
            return ""
        return excused(Counts(lost, made), self.vantage(check.subject.family).counts(self.seen.quiet))

    def _no_delay(self, check: ContinuityCheck) -> Decision:
        """Whether answers are late for longer than a single lost SYN explains; lost requests have another check."""
        answered = [sample for sample in self.requests(check) if sample.answered]
        decided = self._within(check, Bound(AT_ONCE, "as a network may lose single SYNs"), answered)
        return replace(decided, late=decided.status is Status.FAIL)

    def _gap(self, check: ContinuityCheck) -> Decision:
        if check.subject.event.may_lose_new:
            return self._within(check, Bound(FIELD_LIMIT, "as long as Kubernetes' own tests wait for endpoints"))
        checking = self.seen.checking
        silent = check.subject.event.refuses
        bound = checking.silent_bound if silent else checking.bound
        if bound is None:
            numbers = tally(self.requests(check), self._window(check).causes)
            return undecided(check, "the load balancer does not report its health-check settings", numbers.words)
        whose = f"reported: N={checking.failures}, period {checking.period or 0:.2f} s"
        whose += f", timeout {checking.timeout:.2f} s" if silent else ""
        return self._within(check, Bound(bound, whose))

    def _losses(self, check: ContinuityCheck) -> Decision:
        """The losses of the cluster's own load balancer: judged by its bound, or recorded without one."""
        numbers = self.tally(check.subject.phase, check.subject.way, check.subject.family)
        if check.level is Level.RECORD:
            return Decision(Status.RECORDED, "recorded", numbers.words, "informational: nothing is required")
        if self.seen.bound is None:
            why = "no bound is promised, neither by --bound nor by a load balancer profile"
            return Decision(Status.RECORDED, check.expected, numbers.words, why)
        return self._within(check, self.seen.bound)

    def _fail_over(self, check: ContinuityCheck) -> Decision:
        """Whether another node took over the VIP in time: by the longest time without any answer."""
        window, bound = self._window(check), self.seen.fails_over
        since, seconds = self._outage(self.requests(check), window)
        said = f"no answer for at most {seconds:.1f} s"
        if seconds < ELSEWHERE:
            gone = f"the node that was {check.subject.event.loses}"
            why = f"nothing shows that the VIP was at {gone}: such an outage lasts {ELSEWHERE:g} s"
            return Decision(Status.RECORDED, check.expected, said, why)
        if bound is None:
            return Decision(Status.RECORDED, check.expected, said, "no load balancer profile promises a time")
        said += f"; bound {bound.seconds:g} s, {bound.source}"
        vantage = self.vantage(check.subject.family)
        if why := vantage.ours(since, since):
            return undecided(check, why, said)
        between = longest_gap(each for each in self.requests(check) if each.started >= since)
        blur = Blur(between, vantage.slow(since, since + seconds))
        held = hold(seconds, bound.seconds, blur)
        if held is Held.UNKNOWN:
            return undecided(check, say_unknown(bound.seconds, blur), said)
        if held is Held.WITHIN:
            return Decision(Status.PASS, check.expected, said, tally={"kept": 1})
        reason = f"no request was answered for {seconds:.1f} s, {self.when(check.subject.phase, since)}"
        return Decision(Status.FAIL, check.expected, said, reason, evidence="lost", tally={"broken": 1}, late=True)

    def _one_node(self, check: ContinuityCheck) -> Decision:
        """Whether one node at a time answers on the client's link that it has the VIP."""
        told = self.seen.owners.get((check.subject.way, check.subject.family), ())
        nodes = nodes_by_link(self.seen.own_links)
        if check.subject.phase is Phase.QUIET:
            first = min((each.began for each in self.seen.windows), default=inf)  # later, speakers may still follow it
            quiet = [each for each in told if self.seen.since <= each.at < first - ANSWERED_WITHIN]
            return decide_one_node(check, {"the VIP": quiet}, nodes)
        window = self._window(check)
        over = window.until if window.ended is None else window.ended
        following = min((each.began for each in self.seen.windows if each.began >= window.until), default=inf)
        later = [each for each in told if over <= each.at < following - ANSWERED_WITHIN]
        return decide_one_node_again(check, later, nodes, over, ONE_NODE_WITHIN)

    def _outage(self, samples: Sequence[Sample], window: Window) -> tuple[float, float]:
        """When the longest time without any answer began while a node was cut off, and its seconds."""
        longest, first = (0.0, 0.0), None
        for sample in sorted(samples, key=lambda each: each.started):
            if not sample.answered:
                first = sample.started if first is None and sample.started < (window.ended or window.until) else first
            elif first is not None:
                longest, first = max(longest, (first, sample.ended - first), key=lambda each: each[1]), None
        if first is not None:
            longest = max(longest, (first, window.until - first), key=lambda each: each[1])
        return longest

    def _within(self, check: ContinuityCheck, bound: Bound, those: Sequence[Sample] | None = None) -> Decision:
        """Whether no gap is longer than a bound, if that was measured well enough; of all requests, or of those."""
        window, made = self._window(check), self.requests(check)
        samples = made if those is None else those
        found = uncertain(samples, window.causes, self.vantage(check.subject.family))
        numbers = tally(samples, window.causes)
        said = f"{numbers.words}; bound {bound.seconds:.2f} s, {bound.source}"
        held = [(each, each.held(bound.seconds)) for each in found]
        over = [each for each, word in held if word is Held.OVER]
        if over:
            return self._too_long(check, over, len(found), said)
        unknown = [each.blur for each, word in held if word is Held.UNKNOWN]
        # the quiet phase is interrupted by other phases, so its pauses say nothing. A request from before is alone
        quiet = check.subject.phase is Phase.QUIET
        between = Blur(0.0 if quiet else longest_gap(each for each in made if each.started >= window.began))
        if hold(0.0, bound.seconds, between) is Held.UNKNOWN:
            unknown.append(between)
        if unknown:
            return undecided(check, say_unknown(bound.seconds, max(unknown, key=lambda blur: blur.seconds)), said)
        worst = max((each.blur.seconds for each in found), default=between.seconds)
        sees = f"{numbers.requests} new connections of one client; gaps are known within {worst:.2f} s "
        sees += f"({needed(bound.seconds):.2f} s are needed near the bound)"
        longest = (window.until - window.began) if window.until else 0.0
        sees += f"; the phase lasted {longest:.0f} s, so longer gaps are missed" if longest < 2 * bound.seconds else ""
        return Decision(Status.PASS, check.expected, said, tally={"kept": len(found)}, sees=sees)

    def _too_long(self, check: ContinuityCheck, over: Sequence[Uncertain], of: int, said: str) -> Decision:
        first, samples = over[0], self.requests(check)
        when = self.when(check.subject.phase, first.gap.first)
        reason = f"a gap of {first.gap.seconds:.2f} s, {when}; {first.blur.words}"
        if late := say_late(samples, first.gap):
            reason += f"; {late}"
        reason += self._cut(check, [(first.gap.first, first.gap.last)])
        reason += self._steered_nowhere(check, first.gap.last)
        counts = {"kept": of - len(over), "broken": len(over)}
        return Decision(Status.FAIL, check.expected, said, reason, tally=counts)

    def words(self, way: Way, family: Family, sample: Sample) -> str:
        """The outcome of a request without an answer, with the prober's details."""
        detail = self.seen.details.get((self.seen.streams[way, family].name, sample.seq), "")
        return f"{sample.outcome} ({detail})" if detail else sample.outcome

    def when(self, phase: Phase, at: float) -> str:
        """A time in a phase, as text."""
        window = self.seen.window(phase)
        return "in the quiet phase" if window is None else f"{at - window.began:+.2f} s after the phase began"

    def _window(self, check: ContinuityCheck) -> Window:
        return self.seen.window(check.subject.phase) or Window(check.subject.phase, 0.0, 0.0)

    # ------------------------------------------------------------------------------------------- source and place
    def _prompt(self, check: ContinuityCheck) -> Decision:
        """Whether no answer shows the other policy's source any more ``PROMPT`` seconds after the return to Local."""
        returned = self._window(check).returned
        if returned is None:
            return undecided(check, "the policy did not return to Local")
        own = self.seen.of_balancer if check.subject.way.by in PROXIES else self.seen.own
        later = [s for s in self.requests(check) if s.answered and s.started >= returned]
        wrong = [s for s in later if parse_address(s.source) not in own]
        lag = wrong[-1].started - returned if wrong else 0.0
        said = f"the last wrong source {lag:.2f} s after the return" if wrong else "no wrong source after the return"
        said += f"; bound {PROMPT:.0f} s"
        if not any(sample.started >= returned + PROMPT for sample in later):
            return undecided(check, f"no request was answered later than {PROMPT:.0f} s after the return", said)
        between = longest_gap(s for s in self.requests(check) if s.started >= returned)
        blur = Blur(between, self.vantage(check.subject.family).slow(returned, returned + lag))
        held = hold(lag, PROMPT, blur)
        if held is Held.UNKNOWN:
            return undecided(check, say_unknown(PROMPT, blur), said)
        if held is Held.WITHIN:
            sees = f"{len(later)} answers; {blur.words}; late rewriting on other nodes is missed"
            return Decision(Status.PASS, check.expected, said, sees=sees)
        late = Counter(s.source for s in wrong if s.started >= returned + PROMPT)
        reason = f"wrong sources later than {PROMPT:.0f} s: {say_sources(late)}; {blur.words}"
        decided = Decision(Status.FAIL, check.expected, said, reason, evidence="wrong", late=True)
        return self._strange(check, decided, late, len(wrong) < len(later))

    def _source(self, check: ContinuityCheck) -> Decision:
        found = sources(self.sourced(check))
        if not found.total:
            return undecided(check, "no request was answered", found.words)
        if not found.wrong:
            return Decision(Status.PASS, check.expected, found.words, tally={"right": found.total})
        control = self.seen.control.get(check.subject.family)
        heard = [s for s in self.in_phase(check.subject.phase, control) if s.answered]
        if check.subject.way.local and any(parse_address(s.source) not in self.seen.own for s in heard):
            return undecided(check, "the node's control listener does not see the client's address either", found.words)
        assert found.first is not None
        reason = f"{found.fault}; the first {self.when(check.subject.phase, found.first.started)}"
        kept = not check.subject.way.local and {parse_address(source) for source in found.wrong} <= self.seen.own
        counts = {"right": found.right.total(), "wrong": found.wrong.total()}
        decided = Decision(
            Status.FAIL, check.expected, found.words, reason, evidence=UNREWRITTEN if kept else "wrong", tally=counts
        )
        own = check.subject.way.local and any(
            parse_address(each.source) in self.seen.own for each, _ in self.sourced(check)
        )
        return self._strange(check, decided, found.wrong, own)

    def _strange(self, check: ContinuityCheck, decided: Decision, wrong: Mapping[str, int], mixed: bool) -> Decision:
        """The same decision, with whether the wrong sources can be the cluster's own load balancer's addresses.

        They cannot if some answers show the client's own address (``mixed``).
        """
        found = strangers(wrong, self.seen.held | self.seen.of_nodes | self.seen.own)
        if check.subject.way.by != Balancer.DEFAULT.value or not found.foreign:
            return decided
        return replace(decided, evidence=PROXIED if found.proxied and not mixed else decided.evidence, foreign=True)

    def allowed(self, way: Way, sample: Sample, lag: float = 0.0) -> frozenset[IPAddress]:
        """The source addresses that a pod may see through this way at that time.

        Args:
            lag: seconds that a Service has to follow the return of its policy. Without them, it has followed when new
                TCP connections show the sources of that policy.
        """
        seen = self.seen
        if not way.local:
            return seen.of_nodes
        own = seen.of_balancer if way.by in PROXIES else seen.own
        return own | seen.of_nodes if seen.is_either(sample, lag) else own

    def _place(self, check: ContinuityCheck) -> Decision:
        wrong = [
            (s, why) for s in self.requests(check) if s.answered and (why := self.wrong_place(check.subject.way, s))
        ]
        total = sum(1 for s in self.requests(check) if s.answered)
        said = f"{len(wrong)} of {total} answers came from a wrong backend"
        if not total:
            return undecided(check, "no request was answered", said)
        if not wrong:
            return Decision(Status.PASS, check.expected, said)
        reason = f"{wrong[0][1]}, {self.when(check.subject.phase, wrong[0][0].started)}"
        late = not any(self.wrong_place(check.subject.way, s, OVERDUE) for s, _ in wrong)
        return Decision(Status.FAIL, check.expected, said, reason, late=late)

    def wrong_place(self, way: Way, sample: Sample, overdue: float = 0.0) -> str:
        """Why an answer comes from a wrong backend, or from one whose time is over for longer; else empty."""
        local = way.local and not self.seen.is_either(sample)
        node = self.seen.places.endpoint if local and way.by == NODEPORT else ""
        return misplaced(sample, self.spans, local=local, node=node, overdue=overdue)

    # --------------------------------------------------------------------------------------- connections that last
    def _was_ending(self, broken: Break) -> bool:
        """Whether its pod had terminated, and served for as long as it must."""
        after = {"deleting": self.seen.serves - SLACK, "gone": -ENDED}
        mine = (mark for mark in self.seen.marks if mark.pod == broken.pod and mark.what in after)
        return any(mark.at + after[mark.what] <= broken.at for mark in mine)

    def _was_cut(self, phase: Phase, way: Way, broken: Break) -> bool:
        """Whether it led to a pod of the node that was cut off, or through that node."""
        window, home = self.seen.window(phase), self.seen.nodes.get(broken.pod, "")
        cut = window.cut if window else ""
        return bool(cut) and cut in (home, taker(self.seen, home, broken.source, way.local))

    def _lasting(self, check: ContinuityCheck) -> Decision:
        broken = self.breaks(check.subject.phase, check.subject.way, check.subject.family)
        ended = len(self.every_break(check.subject.phase, check.subject.way, check.subject.family)) - len(broken)
        made = len(self.exchanges(check.subject.way, check.subject.family).get(check.subject.phase, ()))
        window = self.seen.window(check.subject.phase)
        whose = f"pod, or the node that was {check.subject.event.loses}" if window and window.cut else "pod"
        said = f"{len(broken)} connections broke, {ended} ended with their {whose} ({made} exchanges)"
        if not made + len(broken):
            return undecided(check, "no connection was established", said)
        if not broken:
            return Decision(Status.PASS, check.expected, said)
        beside = self._beside(check, [(each.at, each.at) for each in broken])
        if beside:
            return undecided(check, beside, said)
        own, through_proxy = check.subject.way.by == Balancer.DEFAULT.value, check.subject.way.by in PROXIES
        if own and (busy := self._busy_before(check, broken)):
            return undecided(check, busy, said)
        moved = {id(each): why_moved(self.seen, check, each) for each in broken} if own else {}
        stayed = [each for each in broken if not moved.get(id(each))]
        sent_elsewhere = {id(each): rerouted(self.seen, check, each) for each in stayed} if own else {}
        left = [each for each in stayed if not sent_elsewhere.get(id(each))]
        if own and self._is_unshown(check, [each for each in broken if not sent_elsewhere.get(id(each))], left):
            return undecided(check, UNSHOWN, said)
        perhaps = [perhaps_rerouted(self.seen, check, each) for each in left] if own else []
        if perhaps and all(perhaps):
            return undecided(check, perhaps[0], said)
        shown = "broken"
        if not left and stayed:
            shown, said = REHASHED, f"{said}; {sent_elsewhere[id(stayed[0])]}"
        elif not left:
            shown, said = MOVED, f"{said}; {moved[id(broken[0])]}"
        elif not through_proxy and all(self._own_doing(check, each.since, each.at) for each in broken):
            shown = REHASHED
        elif silent := untranslated(self.seen, check, left):
            shown, said = UNTRANSLATED, f"{said}; {silent}"
        first = left[0] if left else broken[0]
        reason = (
            f"{first.sample.outcome} while {first.pod} still had to serve, {self.when(check.subject.phase, first.at)}"
        )
        if own and left:
            reason += f"; {taken_by(self.seen, check, first)}"
        reason += self._cut(check, [(each.at, each.at) for each in left])
        late = all(each.sample.outcome == LOST for each in left or broken)
        return Decision(Status.FAIL, check.expected, said, reason, evidence=shown, late=late)

    def _is_unshown(self, check: ContinuityCheck, broken: Sequence[Break], left: Sequence[Break]) -> bool:
        """Whether the VIP may have moved as a connection broke, and that does not show.

        A restarted speaker of MetalLB claims VIPs of others until it has joined the other speakers. In one of eight
        runs, new connections did not show it (2026-11-27).
        """
        event = check.subject.event
        if not event.frees_vip:
            return False
        unseen = left if event.disruption is Disruption.SPEAKER else []
        hidden = any(hides_its_node(self.seen, check, each) for each in broken)
        return hidden or any(not by_links(self.seen, check, each) for each in unseen)

    def _busy_before(self, check: ContinuityCheck, broken: Sequence[Break]) -> str:
        """A sentence if machines were so busy before each break that nodes may have taken each other for dead."""
        return self.vantage(check.subject.family).all_ours((each.since - BUSY, each.at) for each in broken)

    def _protected(self, checks: Stream, window: Window) -> list[tuple[str, float, float]]:
        """The terminating pods of the endpoint node in a phase, each with the time in which only KEP-1669 protects it.

        That time begins with the node's first 503 (infinite if there was none) and ends when the pod may stop serving.
        """
        return [
            (mark.pod, first_503(checks, mark.at), mark.at + self.seen.serves - SLACK)
            for mark in self.seen.marks
            if mark.what == "deleting"
            and window.began <= mark.at < window.until
            and self.seen.nodes.get(mark.pod) == self.seen.places.endpoint
        ]

    def _terminating(self, check: ContinuityCheck) -> Decision:
        window = self._window(check)
        checks = self.seen.health.get(check.subject.family, {}).get(self.seen.places.endpoint)
        if checks is None:
            return undecided(check, "there is no health check to probe: only a Local LoadBalancer Service has one")
        protected = self._protected(checks, window)
        samples = self.requests(check)
        served = others = 0
        missed: list[float] = []
        for pod, since, until in protected:
            for sample in samples:
                if since <= sample.started < until:
                    served += sample.answered and sample.pod == pod
                    others += sample.answered and sample.pod != pod
                    if not sample.answered:
                        missed.append(sample.started)
        said = f"{served} answered by the terminating pod, {len(missed)} lost, while its node answered 503"
        if not protected:
            return undecided(check, f"no pod on node {self.seen.places.endpoint} was deleted", said)
        said += f", {others} answered by other pods" if others else ""
        if not served + len(missed) + others:
            return undecided(check, "the node did not answer 503 while its pod still had to serve", said)
        if missed and not others and (beside := self._beside(check, [(at, at) for at in missed])):
            return undecided(check, beside, said)
        status = Status.PASS if served and not missed and not others else Status.FAIL
        reason = f"the first loss {self.when(check.subject.phase, missed[0])}" if missed else ""
        return Decision(status, check.expected, said, reason, tally={"served": served, "lost": len(missed)})

    # ------------------------------------------------------------------------------------------- a node that joins
    def _joined(self, check: ContinuityCheck) -> tuple[list[Sample], list[Sample]]:
        """What the nodePort and the health check of the node that joins answered, in order."""
        asked = (check.subject.way, check.subject.family)
        streams = (self.seen.joined.get(asked), self.seen.joined_health.get(asked))
        dialled, health = ([each for each in of.samples if each.outcome != OURS] if of else [] for of in streams)
        return dialled, health

    def _joined_serves(self, check: ContinuityCheck) -> Decision:
        """Whether the nodePort answers in time after the node says that it can serve, and every time from then on."""
        samples, health = self._joined(check)
        window = self._window(check)
        if len(samples) < LEAST or window.happened is None:
            return undecided(check, f"only {len(samples)} requests went to the node that joined")
        first = next((each for each in samples if each.answered), None)
        says = next((each.ended for each in health if each.outcome == "200"), None)
        since, word = (window.happened, "was ready") if says is None else (says, "first said 200")
        until = samples[-1].started if first is None else first.started
        lag = max(0.0, until - since)
        said = f"{'no' if first is None else 'the first'} answer {lag:.1f} s after the node {word}"
        blur = Blur(longest_gap(samples), self.vantage(check.subject.family).slow(since, until))
        held = hold(lag, FIELD_LIMIT, blur)
        if held is Held.UNKNOWN:
            return undecided(check, say_unknown(FIELD_LIMIT, blur), said)
        if first is None and held is Held.WITHIN:
            return undecided(check, "the node was taken away before its time to serve was over", said)
        if held is Held.OVER:
            return Decision(Status.FAIL, check.expected, said, said, evidence="lost", late=True)
        assert first is not None
        served = [each for each in samples if each.started >= first.started]
        lost = [each for each in served if not each.answered]
        wrong = [each for each in served if each.answered and parse_address(each.source) not in self.seen.of_nodes]
        said += f"; {len(served) - len(lost)} of {len(served)} answered from then on"
        if lost and (why := self._beside(check, [(each.started, each.started) for each in lost])):
            return undecided(check, why, said)
        counts = {"answered": len(served) - len(lost), "lost": len(lost), "wrong": len(wrong)}
        if lost:
            reason = f"{lost[0].outcome}, {self.when(check.subject.phase, lost[0].started)}"
            return Decision(Status.FAIL, check.expected, said, reason, evidence="lost", tally=counts)
        if wrong:
            shown = f"a pod saw {wrong[0].source}, which is no node's address"
            reason = f"{shown}, {self.when(check.subject.phase, wrong[0].started)}"
            kept = {parse_address(each.source) for each in wrong} <= self.seen.own
            shows = UNREWRITTEN if kept else "wrong"
            return Decision(Status.FAIL, check.expected, said, reason, evidence=shows, tally=counts)
        return Decision(Status.PASS, check.expected, said, tally=counts)

    def _joined_silent(self, check: ContinuityCheck) -> Decision:
        """Whether a node without endpoints never answers at a Local nodePort, and its health check says so.

        The control is its 503: who says that knows the Service.
        """
        samples, health = self._joined(check)
        if not health:
            return undecided(check, "there is no health check to probe: only a Local LoadBalancer Service has one")
        last = next((each.outcome for each in reversed(health)), "")
        knows = next((each.started for each in health if each.outcome == "503"), None)
        while_known = [each for each in samples if knows is not None and each.started >= knows]
        answered = [each for each in samples if each.answered]
        lying = [each for each in health if each.outcome == "200"]
        said = f"{len(answered)} of {len(samples)} answered, {len(while_known)} asked after the first 503"
        counts = {"silent": len(samples) - len(answered), "answered": len(answered), "200": len(lying)}
        if answered:
            reason = f"pod {answered[0].pod} on node {answered[0].node} answered"
            reason += f", {self.when(check.subject.phase, answered[0].started)}"
            return Decision(Status.FAIL, check.expected, said, reason, evidence="wrong", tally=counts)
        if lying:
            reason = f"its health check said 200, {self.when(check.subject.phase, lying[0].started)}"
            return Decision(Status.FAIL, check.expected, said, reason, evidence="wrong", tally=counts)
        cluster = self.seen.joined.get((Way(NODEPORT, TrafficPolicy.CLUSTER), check.subject.family))
        serves = cluster is not None and any(each.answered for each in cluster.samples)
        if serves and last != "503":
            reason = f"the node serves a Cluster Service, and its health check of the Local one says {last} in the end"
            return Decision(Status.FAIL, check.expected, said, reason, evidence="wrong", tally=counts)
        if len(while_known) < LEAST:
            return undecided(check, "the node that joined never said 503, so it may not know the Service", said)
        return Decision(Status.PASS, check.expected, said, tally=counts)


# -------------------------------------------------------------------------------------------------------- registration
def _decide(check: ContinuityCheck, judge: Judge) -> Decision:
    return judge.decide(check)


def _lacks(check: ContinuityCheck, seen: ContinuityEvidence, then: RunThen) -> str:
    subject = check.subject
    is_younger = check.id not in then.checks and subject.phase is not Phase.QUIET
    if is_younger and seen.windows and seen.window(subject.phase) is None:
        return f"the event {subject.phase.value} did not take place"
    asked = (subject.way, subject.family)
    of_link = subject.what is What.ONE_NODE
    sent = (*asked, subject.stream.name) in seen.sent if subject.stream else asked in seen.streams
    sent = asked in seen.owners if of_link else sent
    if then.asked(check) or sent or asked in seen.obstacles or seen.trouble:
        return ""
    if of_link:
        return f"the run did not ask the client's link which node has the VIP of {asked[0].slug} over {asked[1]}"
    return f"no {subject.stream.name if subject.stream else 'request'} was sent through {asked[0].slug} over {asked[1]}"


EVENTS = events_of("continuity").values()

SCENARIO = Scenario(
    name="continuity",
    suite="continuity",
    record="continuity",
    subjects=(Continuity,),
    evidence=ContinuityEvidence,
    analyse=Judge,
    decide=_decide,
    lacks=_lacks,
    phases=(
        Typical(
            "continuity",
            base=14,
            events=tuple(planned(event, services="continuity", measures=True) for event in EVENTS),
        ),
    ),
    beside=True,
    rights=(*GATES, *SLICES, *rights("patch", "services"), *rights("create patch", "deployments", "apps")),
)
