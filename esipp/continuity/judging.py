"""The judge of the continuity suite: from the timeline of all requests to a decision on each row. Pure."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from esipp.continuity.losses import Tally, gaps, kept_from_asking, say_late, tally
from esipp.continuity.places import Spans, misplaced, spans, terminating
from esipp.continuity.rows import (
    MOVED,
    NODEPORT,
    PROXIES,
    REHASHED,
    UNREWRITTEN,
    ContinuityRow,
    Phase,
    Way,
    What,
)
from esipp.continuity.seen import Asked, Break, Seen, Window
from esipp.deciding import Decision, give_verdict, ours_failed, undecided
from esipp.model import Balancer, Family
from esipp.moves.places import SLACK
from esipp.moves.rows import PROXIED
from esipp.moves.samples import Sample, Stream
from esipp.observation import Verdict
from esipp.rows import Feature, Status
from esipp.topology import IPAddress, parse_address

LEAST = 5
"""Requests in a phase without which nothing is said about it."""

OURS = "error"
"""The prober's word for trouble of its own: a source port that is taken, say."""

MOST_ERRORS = 3
"""Probes of a way that our prober had trouble of its own with, at most, in one phase."""

MOST_GAP = 3.0
"""Seconds without a single probe after which a stream proves nothing: this machine is too busy to ask."""

MOMENT = 0.4
"""Seconds around a balancer's change of routes in which it breaks what is open."""

NEAR = 2.0
"""Seconds around a loss in which one of the control shows that nobody could get through."""

MOST_MOVED = 2
"""New connections that one change of a balancer's routes can meet while they are open, at most: they last for
milliseconds, and begin a tenth of a second apart."""

ENDED = 1.5
"""Seconds before our watch tells that a pod is gone in which its connections may already break."""


Sourced = tuple[Sample, frozenset[IPAddress]]
"""An answer, and the sources that are right in it."""


@dataclass
class Judge:
    """Decides every row; what several rows need is found once."""

    seen: Seen
    _by_phase: dict[Asked, dict[Phase | None, list[Sample]]] = field(default_factory=dict)
    _exchanged: dict[Asked, dict[Phase | None, list[Sourced]]] = field(default_factory=dict)
    _broken: dict[Asked, list[tuple[Phase | None, Break]]] = field(default_factory=dict)

    def verdict(self, row: ContinuityRow, features: Mapping[str, Feature], facts: Mapping[str, str]) -> Verdict:
        """The verdict on a row."""
        return give_verdict(row, features, facts, lambda: self.decide(row), row.differences)

    def decide(self, row: ContinuityRow) -> Decision:
        """What was seen of a row."""
        why = self._open(row)
        if why:
            return undecided(row, why)
        trouble = self._trouble(row)
        if trouble:
            return ours_failed(row, "too little", trouble)
        by_what: dict[What, Callable[[ContinuityRow], Decision]] = {
            What.NO_LOSS: self._no_loss,
            What.GAP: self._gap,
            What.LOSSES: self._losses,
            What.SOURCE: self._source,
            What.PLACE: self._place,
            What.LASTING: self._lasting,
            What.TERMINATING: self._terminating,
        }
        return by_what[row.what](row)

    # -------------------------------------------------------------------------------------------- what rows rest on
    def requests(self, row: ContinuityRow) -> list[Sample]:
        """The new connections that a row is about."""
        return self.of_phase(row.phase, row.way, row.family)

    def of_phase(self, phase: Phase, way: Way, family: Family) -> list[Sample]:
        """The new connections of a way in a phase; none were those that our prober could not make."""
        return [sample for sample in self._split(way, family).get(phase, ()) if sample.outcome != OURS]

    def _split(self, way: Way, family: Family) -> dict[Phase | None, list[Sample]]:
        """The new connections of a way, by phase; sorted out once."""
        known = self._by_phase.get((way, family))
        if known is None:
            known = self._by_phase[way, family] = {}
            stream = self.seen.streams.get((way, family))
            for sample in stream.samples if stream else ():
                known.setdefault(self.seen.phase_of(sample.started, sample.ended), []).append(sample)
        return known

    def tally(self, phase: Phase, way: Way, family: Family) -> Tally:
        """The numbers of a way in a phase."""
        window = self.seen.window(phase)
        return tally(self.of_phase(phase, way, family), window.causes if window else ())

    def every_break(self, phase: Phase, way: Way, family: Family) -> list[Break]:
        """The connections that broke in a phase."""
        if (way, family) not in self._broken:
            self._broken[way, family] = self.seen.breaks((way, family))
        return [broken for of, broken in self._broken[way, family] if of is phase]

    def breaks(self, phase: Phase, way: Way, family: Family) -> list[Break]:
        """Those of them whose pod still had to serve."""
        return [each for each in self.every_break(phase, way, family) if not self._was_ending(each)]

    def sourced(self, row: ContinuityRow) -> list[Sourced]:
        """Every answer that a row is about, with the sources that are right in it."""
        found = [(each, self.allowed(row.way, each)) for each in self.requests(row) if each.answered]
        return found + self.exchanges(row.way, row.family).get(row.phase, [])

    def exchanges(self, way: Way, family: Family) -> dict[Phase | None, list[Sourced]]:
        """The answers on connections that last, by phase.

        The right source is the one that a connection's first answer showed, whatever is done meanwhile.
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
        """When which pod may answer."""
        return spans(self.seen.marks, self.seen.nodes, self.seen.health.values())

    def _open(self, row: ContinuityRow) -> str:
        """Why a row cannot be decided."""
        seen, asked = self.seen, (row.way, row.family)
        if seen.trouble or asked in seen.obstacles:
            return seen.trouble or seen.obstacles[asked]
        if row.phase is not Phase.QUIET:
            window = seen.window(row.phase)
            if window is None:
                return "it was not done"
            if window.trouble:
                return window.trouble
        made = len(self.requests(row))
        return f"only {made} requests were made meanwhile" if made < LEAST else ""

    def _trouble(self, row: ContinuityRow) -> str:
        """Our own fault, that leaves a row open."""
        samples = self.requests(row)
        errors = len(self._split(row.way, row.family).get(row.phase, ())) - len(samples)
        if errors > MOST_ERRORS:
            return f"the prober had trouble of its own with {errors} of {errors + len(samples)} probes"
        # of quiet, the times between two requests of which something else was done are none of its own
        longest = 0.0 if row.phase is Phase.QUIET else Stream("", 0.0, samples).longest_gap()
        return f"for {longest:.1f} s no probe was sent" if longest > MOST_GAP else ""

    def _beside(self, row: ContinuityRow, lost: Sequence[tuple[float, float]]) -> str:
        """That the control was lost beside every one of these losses, each from when to when; empty if not.

        One that the control does not share is one, whatever became of others.
        """
        control = self.seen.control.get(row.family)
        missed = [s.started for s in control.samples if not s.answered and s.outcome != OURS] if control else []
        beside = [[at for at in missed if since - NEAR <= at <= until + NEAR] for since, until in lost]
        if not all(beside):
            return ""
        near = len({at for each in beside for at in each})
        return f"{near} requests to the node's own listener were lost at the same time, with no service in the way"

    def _own_doing(self, row: ContinuityRow, since: float, until: float) -> bool:
        """Whether the balancer changed its routes at that time, as it tells."""
        return any(
            since - MOMENT <= steer.at <= until + MOMENT and steer.family in ("", row.family.value)
            for steer in self.seen.steers.get(row.way, ())
        )

    def _steered_nowhere(self, row: ContinuityRow, at: float) -> str:
        """That the balancer sent requests to no node at that time, and why, as it tells."""
        told = [s for s in self.seen.steers.get(row.way, ()) if s.family in ("", row.family.value) and s.at <= at]
        last = max(told, key=lambda steer: steer.at, default=None)
        return "" if last is None or last.nodes else f"; the balancer tells that no node was left to it: {last.why}"

    def _changes(self, row: ContinuityRow) -> int:
        """How often the balancer changed its routes in a phase, as it tells."""
        steers = self.seen.steers.get(row.way, ())
        mine = [steer.at for steer in steers if steer.family in ("", row.family.value)]
        return sum(1 for at in mine if self.seen.phase_of(at, at) is row.phase)

    def _elsewhere(self, row: ContinuityRow, broken: Break) -> bool:
        """Whether the cluster's own balancer has new requests of a Local service answered on another node by then."""
        if row.way.by != Balancer.DEFAULT.value or not row.way.local:
            return False
        stream = self.seen.streams[row.way, row.family]
        since = [s.node for s in stream.view(broken.at - NEAR, broken.at + NEAR) if s.answered]
        return bool(since) and since[-1] != self.seen.nodes.get(broken.pod)

    # -------------------------------------------------------------------------------------------------------- losses
    def _no_loss(self, row: ContinuityRow) -> Decision:
        samples = self.requests(row)
        lost = [sample for sample in samples if not sample.answered]
        numbers = tally(samples)
        counts = {"answered": numbers.requests - numbers.lost, "lost": numbers.lost}
        if not lost:
            return Decision(Status.PASS, row.expected, numbers.words, tally=counts)
        beside = self._beside(row, [(sample.started, sample.started) for sample in lost])
        if beside:
            return undecided(row, beside, numbers.words)
        rehashed = all(s.outcome == "reset" and self._own_doing(row, s.started, s.ended) for s in lost)
        rehashed = rehashed and len(lost) <= MOST_MOVED * self._changes(row)
        told = Counter(self.words(row.way, row.family, sample) for sample in lost)
        outcomes = ", ".join(f"{count} {words}" for words, count in told.items())
        reason = f"{outcomes}, the first one {self._when(row.phase, lost[0].started)}"
        if row.phase is not Phase.QUIET and (also := self.tally(Phase.QUIET, row.way, row.family).lost):
            reason += f"; {also} were lost while nothing was done, too"
        return Decision(
            Status.FAIL, row.expected, numbers.words, reason, seen=REHASHED if rehashed else "lost", tally=counts
        )

    def _gap(self, row: ContinuityRow) -> Decision:
        window, samples = self._window(row), self.requests(row)
        numbers = tally(samples, window.causes)
        bound = self.seen.checking.bound
        if bound is None:
            return undecided(row, "the balancer does not tell its health checks' settings", numbers.words)
        worst = [(gap, kept_from_asking(samples, gap)) for gap in gaps(samples, window.causes)]
        over = [(gap, blur) for gap, blur in worst if gap.seconds > bound + blur]
        checking = self.seen.checking
        said = f"{numbers.words}; budget {bound:.2f} s, N={checking.failures}, period {checking.period or 0:.2f} s"
        if not over:
            return Decision(Status.PASS, row.expected, said, tally={"kept": len(worst)})
        beside = self._beside(row, [(gap.first, gap.last) for gap, _ in over])
        if beside:
            return undecided(row, beside, said)
        first, blur = over[0]
        reason = f"{first.seconds:.2f} s, known within {blur:.2f} s, {self._when(row.phase, first.first)}"
        if late := say_late(samples, first):
            reason += f"; {late}"
        reason += self._steered_nowhere(row, first.last)
        counts = {"kept": len(worst) - len(over), "broken": len(over)}
        return Decision(Status.FAIL, row.expected, said, reason, tally=counts)

    def words(self, way: Way, family: Family, sample: Sample) -> str:
        """What came of a request that had no answer, with the prober's own words."""
        detail = self.seen.details.get((self.seen.streams[way, family].name, sample.seq), "")
        return f"{sample.outcome} ({detail})" if detail else sample.outcome

    def _losses(self, row: ContinuityRow) -> Decision:
        return Decision(Status.PASS, row.expected, self.tally(row.phase, row.way, row.family).words)

    def _when(self, phase: Phase, at: float) -> str:
        window = self.seen.window(phase)
        return "while nothing was done" if window is None else f"{at - window.began:+.2f} s after it began"

    def _window(self, row: ContinuityRow) -> Window:
        return self.seen.window(row.phase) or Window(row.phase, 0.0, 0.0)

    # ------------------------------------------------------------------------------------------- source and place
    def _source(self, row: ContinuityRow) -> Decision:
        right, wrong, strangers = 0, Counter[str](), list[Sample]()
        for sample, allowed in self.sourced(row):
            if parse_address(sample.source) in allowed:
                right += 1
            else:
                wrong[sample.source] += 1
                strangers.append(sample)
        total = right + wrong.total()
        said = f"the right source in {right} of {total} answers"
        if not total:
            return undecided(row, "nothing was answered", said)
        if not wrong:
            return Decision(Status.PASS, row.expected, said, tally={"right": right})
        control = self.seen.control.get(row.family)
        heard = [s for s in self.seen.in_phase(row.phase, control.samples) if s.answered] if control else []
        if row.way.local and any(parse_address(s.source) not in self.seen.own for s in heard):
            return undecided(row, "the node's own listener does not see the client's address, either", said)
        others = ", ".join(f"{source} x{count}" for source, count in sorted(wrong.items()))
        reason = f"also seen: {others}; first {self._when(row.phase, strangers[0].started)}"
        shown = PROXIED if row.way.by == Balancer.DEFAULT.value else "wrong"
        if not row.way.local and {parse_address(source) for source in wrong} <= self.seen.own:
            shown = UNREWRITTEN
        counts = {"right": right, "wrong": wrong.total()}
        return Decision(Status.FAIL, row.expected, said, reason, seen=shown, tally=counts)

    def allowed(self, way: Way, sample: Sample) -> frozenset[IPAddress]:
        """Whose address a pod may see by this way at that time."""
        seen = self.seen
        if not way.local:
            return seen.of_nodes
        own = seen.of_balancer if way.by in PROXIES else seen.own
        flips = (each for window in seen.windows for each in window.either)
        either = any(since <= sample.ended and sample.started <= until for since, until in flips)
        return own | seen.of_nodes if either else own

    def _place(self, row: ContinuityRow) -> Decision:
        wrong = [(s, why) for s in self.requests(row) if s.answered and (why := self.wrong_place(row.way, s))]
        total = sum(1 for s in self.requests(row) if s.answered)
        said = f"{len(wrong)} of {total} answers by a forbidden pod"
        if not total:
            return undecided(row, "nothing was answered", said)
        reason = f"{wrong[0][1]}, {self._when(row.phase, wrong[0][0].started)}" if wrong else ""
        return Decision(Status.FAIL if wrong else Status.PASS, row.expected, said, reason)

    def wrong_place(self, way: Way, sample: Sample) -> str:
        """Why nobody may have answered like that; empty if it is all right."""
        flips = (each for window in self.seen.windows for each in window.either)
        local = way.local and not any(since <= sample.ended and sample.started <= until for since, until in flips)
        node = self.seen.places.endpoint if local and way.by == NODEPORT else ""
        return misplaced(sample, self.spans, local, node)

    # --------------------------------------------------------------------------------------- connections that last
    def _was_ending(self, broken: Break) -> bool:
        """Whether its pod need not serve any longer: it was told to end, and has served on for as long as it must."""
        after = {"deleting": self.seen.serves - SLACK, "gone": -ENDED}
        mine = (mark for mark in self.seen.marks if mark.pod == broken.pod and mark.what in after)
        return any(mark.at + after[mark.what] <= broken.at for mark in mine)

    def _lasting(self, row: ContinuityRow) -> Decision:
        broken = self.breaks(row.phase, row.way, row.family)
        ended = len(self.every_break(row.phase, row.way, row.family)) - len(broken)
        made = len(self.exchanges(row.way, row.family).get(row.phase, ()))
        said = f"{len(broken)} broke, {ended} ended with their pod ({made} exchanges)"
        if not made + len(broken):
            return undecided(row, "no connection was open", said)
        if not broken:
            return Decision(Status.PASS, row.expected, said)
        beside = self._beside(row, [(each.at, each.at) for each in broken])
        if beside:
            return undecided(row, beside, said)
        shown = "broken"
        if all(self._own_doing(row, each.since, each.at) for each in broken):
            shown = REHASHED
        elif all(self._elsewhere(row, each) for each in broken):
            shown = MOVED
        first = broken[0]
        reason = f"{first.sample.outcome} while {first.pod} had to serve, {self._when(row.phase, first.at)}"
        return Decision(Status.FAIL, row.expected, said, reason, seen=shown)

    def _terminating(self, row: ContinuityRow) -> Decision:
        window = self._window(row)
        checks = self.seen.health.get(row.family, {}).get(self.seen.places.endpoint)
        if checks is None:
            return undecided(row, "no health check could be asked: they are those of a load balancer's Local service")
        told = terminating(self.seen, checks, window.began, window.until)
        samples = self.requests(row)
        served = others = 0
        missed: list[float] = []
        for pod, since, until in told:
            for sample in samples:
                if since <= sample.started < until:
                    served += sample.answered and sample.pod == pod
                    others += sample.answered and sample.pod != pod
                    if not sample.answered:
                        missed.append(sample.started)
        said = f"{served} answered by the pod that ends, {len(missed)} lost, while its node said 503"
        if not told:
            return undecided(row, f"no pod of node {self.seen.places.endpoint} was told to end", said)
        said += f", {others} by others" if others else ""
        if not served + len(missed) + others:
            return undecided(row, "the node did not say 503 while its pod had to serve on", said)
        if missed and not others and (beside := self._beside(row, [(at, at) for at in missed])):
            return undecided(row, beside, said)
        status = Status.PASS if served and not missed and not others else Status.FAIL
        reason = f"the first one {self._when(row.phase, missed[0])}" if missed else ""
        return Decision(status, row.expected, said, reason, tally={"served": served, "lost": len(missed)})
