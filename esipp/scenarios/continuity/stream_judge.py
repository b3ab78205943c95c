"""The judge of streams beside new TCP connections and those that last: from their probes to a decision. Pure.

New TCP connections of the same client on the same way are the control. A stream may be silent while they are, and for
a bounded time longer. A machine that is too busy keeps both waiting.
"""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Protocol

from esipp.base.plural import counted
from esipp.checks.check import Status
from esipp.checks.continuity import (
    ALL_OF_A_SIZE,
    ONE_PORT,
    SERVED_UNREADY,
    STALE,
    UNREWRITTEN,
    UNTRANSLATED_PORT,
    ContinuityCheck,
    Phase,
    Way,
)
from esipp.checks.model import Family
from esipp.checks.model import Protocol as Transport
from esipp.checks.stream import RECOVERS, STEADY, Reuse, StreamKind
from esipp.checks.timing import Blur, Held, hold, say_unknown
from esipp.judging.controls import Counts, Vantage, excused
from esipp.judging.frame import Decision, ours_failed, undecided
from esipp.judging.timeline import (
    MOST_ERRORS,
    OURS,
    SILENCE,
    SLICE_GONE,
    UNREADY,
    UNREADY_BESIDE,
    Sample,
    Stream,
    is_late,
    longest_gap,
    prober_failed,
    sources,
)
from esipp.judging.topology import IPAddress, parse_address
from esipp.scenarios.continuity.evidence import ContinuityEvidence
from esipp.scenarios.continuity.reasons import entered_untranslated

LEAST = 4
"""The fewest probes of a stream in a phase that allow a decision."""

MOST_LOST = 0.05
"""The share of probes that may be lost while nothing changes: datagrams are not sent again, so single ones may."""

FEW = 2
"""As many lost probes say nothing, whatever their share."""

RENEWS = 0.5
"""Seconds before the end of a phase in which each stream may go on from a new port."""

AROUND = 1.0
"""Seconds before and after a transfer in which new TCP connections are its control."""

TOO_LARGE = "EMSGSIZE"
"""In the prober's details: the network said that a packet is too large for a link, so the next ones are smaller."""


@dataclass(frozen=True)
class Silence:
    """A time without an answer: from the first probe without one to the next answered probe, or the end.

    ``before`` is the last answered probe. Nodes can end the silence from ``known`` on: from its start, or from when the
    EndpointSlice no longer listed the pod of that answer. ``control`` is for how long new TCP connections were answered
    from then on, without a pause.
    """

    since: float
    known: float
    until: float
    probes: int
    before: Sample | None
    control: float

    @property
    def words(self) -> str:
        """For how long TCP was answered meanwhile, as text."""
        listed = ", once its EndpointSlice no longer listed the pod" if self.known > self.since else ""
        return f"{self.control:.1f} s of it while new TCP connections were answered{listed}"


class Judging(Protocol):
    """What it takes from the judge of all others."""

    seen: ContinuityEvidence

    def in_phase(self, phase: Phase, stream: Stream | None) -> list[Sample]:
        """The probes of a stream in a phase, in their order."""

    def vantage(self, family: Family) -> Vantage:
        """The controls of the client without a Service."""

    def allowed(self, way: Way, sample: Sample, lag: float = 0.0) -> frozenset[IPAddress]:
        """The right sources of an answer, where a Service may follow a policy that returns so many seconds later."""

    def when(self, phase: Phase, at: float) -> str:
        """A time in a phase, as text."""


@dataclass(frozen=True)
class StreamJudge:
    """Decides one check of a stream, by the judge of all others."""

    judge: Judging
    check: ContinuityCheck
    kind: StreamKind

    def decide(self) -> Decision:
        """The decision."""
        check, samples = self.check, self.samples
        if self.kind.reuse is Reuse.ONE_WAY and (why := self._uncounted):
            return undecided(check, why)
        if why := prober_failed(self._all, most=self._most_errors):
            return ours_failed(check, "too little", why)
        if self.kind.job_protocol == "bulk":
            return self._bulk()
        if self.kind.ports:
            return self._from_ports()
        if len(samples) < LEAST:
            return undecided(check, f"only {len(samples)} probes were made in this phase")
        silences = self.silences
        longest = max(silences, key=lambda each: each.control, default=None)
        said = self._words(longest)
        if longest and longest.control > self.bound:
            return self._silent(longest, said)
        if decided := self._scattered(said):
            return decided
        if decided := self._sources(said) or self._unready(said) or self._jumped(said):
            return decided
        if not any(sample.answered for sample in samples):
            return undecided(check, "no probe was answered, nor were new TCP connections for long enough", said)
        sees = f"{len(samples)} probes of one client; a silence of less than {self.bound:.0f} s is missed"
        return Decision(Status.PASS, check.expected, said, tally=self._counts, sees=sees)

    # ------------------------------------------------------------------------------------------------- what there is
    @property
    def bound(self) -> float:
        """Seconds for which the stream may be silent while new TCP connections are answered."""
        return STEADY if self.check.subject.phase is Phase.QUIET else self.kind.recovers

    @property
    def _uncounted(self) -> str:
        """Why it is not known what pods counted in this phase; empty if it is, as it is before they cannot be asked."""
        seen, phase = self.judge.seen, self.check.subject.phase
        window = seen.window(phase)
        until = window.until if window else self.judge.seen.since
        return seen.uncounted if until > seen.counted_until else ""

    @cached_property
    def _all(self) -> list[Sample]:
        """The stream's probes in the phase; those of a size are all of the quiet phase."""
        subject, seen = self.check.subject, self.judge.seen
        stream = seen.sent.get((subject.way, subject.family, self.kind.name))
        if stream is None:
            return []
        return stream.samples if self.kind.count else self.judge.in_phase(subject.phase, stream)

    @cached_property
    def samples(self) -> list[Sample]:
        """Those that say something.

        What pods had counted that are gone is not known, so datagrams that nobody answers count from the last one's
        end on.
        """
        found = [sample for sample in self._all if sample.outcome != OURS]
        if self.kind.reuse is not Reuse.ONE_WAY:
            return found
        if self.judge.seen.uncounted:
            found = [sample for sample in found if sample.started <= self.judge.seen.counted_until]
        if self.check.subject.phase is Phase.QUIET:
            return found
        window = self.judge.seen.window(self.check.subject.phase)
        gone = [mark.at for mark in self.judge.seen.marks if mark.what == "gone"]
        last = max((at for at in gone if window and window.began <= at <= window.until), default=0.0)
        return [sample for sample in found if sample.started >= last]

    @property
    def _most_errors(self) -> int:
        """How many errors of the prober do not matter: no connection can have the port that a lost one holds."""
        if not self.kind.ports:
            return MOST_ERRORS
        lost = any(not sample.answered for sample in self.samples)
        return len(self._all) if lost else len(self._all) // 2

    @property
    def _counts(self) -> dict[str, int]:
        answered = sum(1 for sample in self.samples if sample.answered)
        return {"answered": answered, "lost": len(self.samples) - answered}

    def _words(self, longest: Silence | None) -> str:
        counts, name = self._counts, self.judge.seen.details
        said = f"{counts['lost']} of {len(self.samples)} probes lost"
        if longest:
            said += f", silent for at most {max(each.until - each.since for each in self.silences):.1f} s"
            said += f" ({longest.words})"
        own = self._name
        large = sum(TOO_LARGE in name.get((own, sample.seq), "") for sample in self.samples)
        said += f"; {large} too large for a link, as the network said" if large else ""
        pods = len({sample.pod for sample in self.samples if sample.pod})
        return f"{said}; answered by {pods} pods" if pods > 1 else said

    @property
    def _name(self) -> str:
        subject = self.check.subject
        return f"{subject.way.slug} {subject.family.value} {self.kind.name}"

    # ------------------------------------------------------------------------------------------------------- silence
    @cached_property
    def silences(self) -> list[Silence]:
        """All times without an answer; the quiet phase is one time between two phases after the other."""
        return list(self._silences())

    def _silences(self) -> Iterator[Silence]:
        spans = [(float("-inf"), float("inf"))]
        if self.check.subject.phase is Phase.QUIET and not self.kind.count:
            spans = self.judge.seen.quiet
        for since, until in spans:
            own = [sample for sample in self.samples if since <= sample.started < until]
            before: Sample | None = None
            first: Sample | None = None
            lost = 0
            for sample in own:
                if sample.answered:
                    if first is not None:
                        yield self._silence(first, sample.started, lost, before)
                    before, first, lost = sample, None, 0
                else:
                    first, lost = first or sample, lost + 1
            if first is not None:
                yield self._silence(first, own[-1].started + self.kind.every, lost, before)

    def _silence(self, first: Sample, until: float, lost: int, before: Sample | None) -> Silence:
        known = self._known(first.started, until, before)
        return Silence(first.started, known, until, lost, before, self._control(known, until))

    def _known(self, since: float, until: float, before: Sample | None) -> float:
        """From when on nodes can end a silence. A pod that terminates is an endpoint until its kubelet reports its end.

        In healthy runs under load, that took up to 3.3 s, and 8.6 s while the network add-on's agent was away.
        """
        family, pod = self.check.subject.family.value, before.pod if before else ""
        left = (
            mark.at
            for mark in self.judge.seen.marks
            if (mark.pod, mark.what, mark.family) == (pod, SLICE_GONE, family) and since < mark.at < until
        )
        return min(left, default=since)

    def _control(self, since: float, until: float) -> float:
        """For how long new TCP connections on the same way were answered in time, without a pause, in a time."""
        subject = self.check.subject
        stream = self.judge.seen.streams.get((subject.way, subject.family))
        longest, began, last = 0.0, None, 0.0
        for sample in stream.view(since, until) if stream else ():
            fine = sample.answered and not is_late(sample)
            if not fine or (began is not None and sample.started - last > SILENCE):
                began = None
            if fine:
                began = sample.started if began is None else began
                longest, last = max(longest, sample.ended - began), sample.started
        return longest

    def _silent(self, silence: Silence, said: str) -> Decision:
        check, vantage = self.check, self.judge.vantage(self.check.subject.family)
        if why := vantage.ours(silence.since, silence.since):
            return undecided(check, why, said)
        blur = Blur(slow=vantage.slow(silence.since, silence.until))
        if hold(silence.control, self.bound, blur) is Held.UNKNOWN:
            return undecided(check, say_unknown(self.bound, blur), said)
        when = self.judge.when(check.subject.phase, silence.since)
        reason = f"silent for {silence.until - silence.since:.1f} s, {when}, {silence.words}"
        seen = "lost"
        if silence.before is not None:
            reason += f"; the last answer was from {silence.before.pod}"
            if removed := self._removed(silence):
                reason += f", which {removed}"
                beside = self._beside(silence)
                reason += f"; from other ports, {beside} probes were answered meanwhile" if beside else ""
                seen = STALE if self.kind.keeps_port and beside > FEW else seen
            elif entered := self._entered_untranslated():
                said += f"; {entered}; from other ports, {self._beside(silence)} probes were answered meanwhile"
                seen = UNTRANSLATED_PORT
        else:
            reason += "; nothing was answered before"
            seen = ALL_OF_A_SIZE if self.kind.size and not self._counts["answered"] else seen
        return Decision(Status.FAIL, check.expected, said, reason, evidence=seen, tally=self._counts, late=True)

    def _removed(self, silence: Silence) -> str:
        """What happened to the pod of the last answer, as text; empty if nothing did, or if it is ready again."""
        assert silence.before is not None
        words = {"gone": "was gone", "deleting": "was being deleted", "unready": "was unready", "ready": ""}
        removals = [
            words[mark.what]
            for mark in sorted(self.judge.seen.marks, key=lambda mark: mark.at)
            if mark.pod == silence.before.pod and mark.what in words and mark.at < silence.until
        ]
        return removals[-1] if removals else ""

    def _entered_untranslated(self) -> str:
        """That this port's packets went untranslated in each silence that is too long, as text; empty if one did not.

        INITs from other ports show that the node translates what is new.
        """
        found = [
            entered_untranslated(self.judge.seen, self.check, each.before, each.since, each.until)
            if each.before and self._beside(each) > FEW
            else ""
            for each in self.silences
            if each.control > self.bound
        ]
        return found[0] if all(found) and self.kind.keeps_port else ""

    def _beside(self, silence: Silence) -> int:
        """How many probes from other ports were answered meanwhile, on the same way by the same protocol."""
        subject, name = self.check.subject, f"{self.kind.protocol.value.lower()}-{Reuse.NEW.value}"
        stream = self.judge.seen.sent.get((subject.way, subject.family, name))
        return sum(sample.answered for sample in stream.view(silence.since, silence.until)) if stream else 0

    def _scattered(self, said: str) -> Decision | None:
        """A failure if too many single probes are lost while nothing changes."""
        counts = self._counts
        if self.check.subject.phase is not Phase.QUIET or counts["lost"] <= max(FEW, MOST_LOST * len(self.samples)):
            return None
        vantage = self.judge.vantage(self.check.subject.family)
        lost = [sample for sample in self.samples if not sample.answered]
        why = vantage.all_ours((sample.started, sample.started) for sample in lost)
        own = Counts(counts["lost"], len(self.samples))
        if why := why or excused(own, vantage.counts(self.judge.seen.quiet)):
            return undecided(self.check, why, said)
        reason = f"more than {MOST_LOST:.0%} of the probes were lost while nothing changed"
        return Decision(Status.FAIL, self.check.expected, said, reason, evidence="lost", tally=counts)

    def _unready(self, said: str) -> Decision | None:
        """A failure if a pod went on to answer for too long after it had become unready in all EndpointSlices.

        It says nothing of datagrams that pods only count.
        """
        if self.kind.reuse is Reuse.ONE_WAY:
            return None
        late = [
            (sample, sample.started - since)
            for sample in self.samples
            for since, until in self._unready_times.get(sample.pod, ())
            if sample.answered and since + self.kind.recovers < sample.started < until
        ]
        if not late:
            return None
        sample, lag = max(late, key=lambda each: each[1])
        reason = (
            f"{counted(len(late), 'probe was', 'probes were')} answered by {sample.pod} up to {lag:.1f} s after it had "
            f"become unready in all EndpointSlices ({self.kind.recovers:.0f} s allowed)"
        )
        return Decision(
            Status.FAIL, self.check.expected, said, reason, evidence=SERVED_UNREADY, tally=self._counts, late=True
        )

    @cached_property
    def _unready_times(self) -> dict[str, list[tuple[float, float]]]:
        """From when to when pods were unready in all EndpointSlices; one that terminates may go on to serve.

        Slices of other Services are written later. They say nothing once the pod is ready again: two of them told of a
        pod that had been unready for 0.2 s only when that was over (kind-iptables, 2026-11-29).
        """
        found = defaultdict[str, list[tuple[float, float]]](list)
        since: dict[str, float] = {}
        ends: set[str] = set()
        for mark in sorted(self.judge.seen.marks, key=lambda mark: mark.at):
            if (mark.what == UNREADY or (mark.what == UNREADY_BESIDE and mark.pod in since)) and mark.pod not in ends:
                since[mark.pod] = mark.at
            elif mark.what in ("ready", "slice-ready", "deleting") and mark.pod in since:
                found[mark.pod].append((since.pop(mark.pod), mark.at))
            ends |= {mark.pod} if mark.what == "deleting" else set()
        for pod, at in since.items():
            found[pod].append((at, float("inf")))
        return found

    def _jumped(self, said: str) -> Decision | None:
        """A failure if a socket's datagrams went on to another pod although no endpoint changed."""
        if not self.check.subject.keeps_its_pod:
            return None
        ends = [self.judge.seen.since, *(window.until for window in self.judge.seen.windows)]
        for before, after in pairwise(sample for sample in self.samples if sample.answered):
            new_port = any(before.started <= end and end - RENEWS <= after.started for end in ends)
            if before.pod == after.pod or new_port or self._left(before.pod, after.started):
                continue
            reason = (
                f"{self.judge.when(self.check.subject.phase, after.started)}, datagrams of one socket went on from "
                f"{before.pod} to {after.pod}, although no endpoint changed"
            )
            return Decision(Status.FAIL, self.check.expected, said, reason, evidence="jumped", tally=self._counts)
        return None

    def _left(self, pod: str, at: float) -> bool:
        """Whether a pod was no longer ready at a time, although nothing was done that makes it so."""
        marks = sorted((each for each in self.judge.seen.marks if each.pod == pod), key=lambda mark: mark.at)
        last = [each.what for each in marks if each.at <= at and each.what in ("ready", "unready", "deleting", "gone")]
        return bool(last) and last[-1] != "ready"

    # --------------------------------------------------------------------------------------------- sources, transfers
    @property
    def _lag(self) -> float:
        """Seconds in which the stream's Service must follow the return of its policy.

        Another protocol has a Service of its own, of which nodes may write the rules one sync after those of TCP.
        """
        return 0.0 if self.kind.protocol is Transport.TCP else RECOVERS

    def _sources(self, said: str) -> Decision | None:
        """A failure if pods saw a wrong source."""
        way = self.check.subject.way
        answers = [(sample, self.judge.allowed(way, sample, self._lag)) for sample in self.samples if sample.answered]
        found = sources(answers)
        if not found.wrong or found.first is None:
            return None
        wrong = [sample for sample, right in answers if sample.source and parse_address(sample.source) not in right]
        if why := self._barely(wrong):
            return undecided(self.check, why, f"{said}; {found.words}")
        reason = f"{found.fault}; the first {self.judge.when(self.check.subject.phase, found.first.started)}"
        kept = not way.local and {parse_address(source) for source in found.wrong} <= self.judge.seen.own
        counts = {"right": found.right.total(), "wrong": found.wrong.total()}
        shown = UNREWRITTEN if kept else "wrong"
        return Decision(
            Status.FAIL, self.check.expected, f"{said}; {found.words}", reason, evidence=shown, tally=counts
        )

    def _barely(self, wrong: Sequence[Sample]) -> str:
        """Why it is not known whether nodes rewrite the source for too long after the return of a policy; empty if it
        is, and if something else is wrong.
        """
        window, seen = self.judge.seen.window(self.check.subject.phase), self.judge.seen
        returned = window.returned if window else None
        if returned is None or not self._lag:
            return ""
        if any(each.started < returned or parse_address(each.source) not in seen.of_nodes for each in wrong):
            return ""
        last = wrong[-1].started
        between = longest_gap(each for each in self.samples if each.started >= returned)
        blur = Blur(between, self.judge.vantage(self.check.subject.family).slow(returned, last))
        unknown = hold(last - returned, self._lag, blur) is Held.UNKNOWN
        return say_unknown(self._lag, blur) if unknown else ""

    def _from_ports(self) -> Decision:
        """Whether every connection from certain source ports was answered: TCP sends again what is lost."""
        check, lost = self.check, [sample for sample in self.samples if not sample.answered]
        late = sum(is_late(sample) for sample in self.samples)
        said = f"{len(lost)} of {len(self.samples)} probes lost, {late} late"
        if len(self.samples) < LEAST:
            return undecided(check, f"only {len(self.samples)} probes were made", said)
        if decided := self._sources(said):
            return decided
        if not lost:
            span = self.samples[-1].started - self.samples[0].started
            sees = f"{len(self.samples)} probes of one client in {span:.1f} s"
            return Decision(Status.PASS, check.expected, said, tally=self._counts, sees=sees)
        vantage = self.judge.vantage(check.subject.family)
        if why := vantage.all_ours((sample.started, sample.started) for sample in lost):
            return undecided(check, why, said)
        if not any(self._control(sample.started - AROUND, sample.ended + AROUND) for sample in lost):
            return undecided(check, "new TCP connections were not answered at that time either", said)
        details = self.judge.seen.details.get((self._name, lost[0].seq), "no details")
        reason = f"{lost[0].outcome}: {details}; new TCP connections from other ports were answered at that time"
        shared = self.kind.ports == 1 and {sample.outcome for sample in lost} <= {"timeout", "reset"}
        seen = ONE_PORT if shared else "lost"
        return Decision(Status.FAIL, check.expected, said, reason, evidence=seen, tally=self._counts)

    def _bulk(self) -> Decision:
        """Whether every transfer was complete."""
        check, made = self.check, self.samples
        broken = [sample for sample in made if not sample.answered]
        said = f"{len(made) - len(broken)} of {len(made)} transfers complete"
        if not made:
            return undecided(check, "no transfer was made, as smaller ones took too long or were not complete", said)
        said += f", {', '.join(f'{sample.ended - sample.started:.2f} s' for sample in made)}"
        if not broken:
            return Decision(Status.PASS, check.expected, said, sees=f"{len(made)} transfers of one client")
        vantage = self.judge.vantage(check.subject.family)
        if why := vantage.all_ours((sample.started, sample.ended) for sample in broken):
            return undecided(check, why, said)
        if not any(self._control(sample.started - AROUND, sample.ended + AROUND) for sample in broken):
            return undecided(check, "new TCP connections were not answered at that time either", said)
        reason = f"{broken[0].outcome}: {self.judge.seen.details.get((self._name, broken[0].seq), 'no details')}"
        return Decision(Status.FAIL, check.expected, said, reason, evidence="lost", tally={"broken": len(broken)})
