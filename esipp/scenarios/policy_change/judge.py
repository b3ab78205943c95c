"""The judge of policy change checks: from the evidence to a verdict. Pure."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import dropwhile

from esipp.checks.check import Status, is_about
from esipp.checks.model import Family, Role, TrafficPolicy
from esipp.checks.policy_change import (
    BESIDE,
    PLACES,
    At,
    ChangingService,
    Isolated,
    IsolatedConnections,
    IsolatedConnectionsCheck,
    IsolatedHealth,
    IsolationCheck,
    IsolationHealthCheck,
    PolicyChange,
    PolicyChangeCheck,
    PolicyClaim,
    WhilePoliciesChange,
    WhilePoliciesChangeCheck,
    judges,
)
from esipp.checks.rights import rights
from esipp.checks.timing import PROMPT, Blur, Held, hold, say_unknown
from esipp.judging.answers import Unchanged, say_bound, say_observed
from esipp.judging.controls import Counts, excused
from esipp.judging.frame import Decision, ours_failed, undecided
from esipp.judging.ingress import strangers
from esipp.judging.observation import Witness, contradicted, say_delivered, say_witnesses
from esipp.judging.scenario import RunThen, Scenario, Typical
from esipp.judging.schedule import PlannedEvent
from esipp.judging.statistics import Distribution
from esipp.judging.timeline import Fits, Sample, SteadyRun, Stream, prober_failed
from esipp.scenarios.paths.connections import decide_connections
from esipp.scenarios.paths.judge import decide as decide_on_path
from esipp.scenarios.policy_change.evidence import (
    ACCEPTED,
    BUDGET,
    DELIVERED,
    LOST,
    UNANSWERED,
    Course,
    Ground,
    Phase,
    PolicyAction,
    PolicyChangeEvidence,
    Shown,
    Window,
    closed,
    due,
    reads,
    says,
    stays,
)

LOCAL, CLUSTER = TrafficPolicy.LOCAL, TrafficPolicy.CLUSTER


def decide(check: WhilePoliciesChangeCheck, seen: PolicyChangeEvidence) -> Decision:
    """The decision on a check about traffic during policy changes."""
    if cut := seen.cut_short(check):
        return cut
    if is_about(check, Isolated):
        return decide_path(check, seen)
    if is_about(check, IsolatedConnections):
        return decide_isolated_connections(check, seen)
    if is_about(check, PolicyChange):
        return _changed(check, seen)
    assert is_about(check, IsolatedHealth)
    return decide_health(check, seen)


def _sees(check: PolicyChangeCheck, course: Course) -> str:
    """What a check can and cannot detect."""
    changes = len(list(course.changes_made()))
    if check.subject.at is None or (check.subject.at, check.subject.family) not in course.data:
        return f"{changes} policy changes of one Service; faults of other Services, or rarer ones, are missed"
    stream = course.data[check.subject.at, check.subject.family]
    apart = f"at most {stream.longest_gap():.2f} s apart"
    return (
        f"{len(stream.samples)} connections of one client over {changes} policy changes, {apart}; a shorter fault, or "
        "one of other clients, is missed"
    )


# ------------------------------------------------------------------------------------- a Service's own changes
@dataclass(frozen=True)
class _Case:
    """A check with the evidence for it."""

    check: PolicyChangeCheck
    course: Course
    ground: Ground
    seen: PolicyChangeEvidence


def _changed(check: PolicyChangeCheck, seen: PolicyChangeEvidence) -> Decision:
    """The decision, with the witnesses that it is based on; packets of none, if the run knows of no captures."""
    course, ground = seen.courses.get(check.subject.service), seen.ground
    if course is None or ground is None:
        return undecided(check, "its policy was never changed")
    streams = _own(check, course)
    witnesses, total = seen.witnesses_of(streams), sum(len(stream.samples) for stream in streams)
    course = seen.witnessed[check.subject.service]
    decided = _decided(check, seen, course, ground)
    if not total or not (seen.witnesses or seen.blind):
        return decided
    lies, broken = contradicted(witnesses)
    said = sorted({each.contradiction for each in lies})
    aside = f"{len(lies)} of {total} set aside: {'; '.join(said)}" if lies and not broken else ""
    view = _delivered(check, course, witnesses) if decided.status is Status.FAIL else ""
    return replace(
        decided,
        reason="; ".join(filter(None, (decided.reason, view))),
        sees="; ".join(filter(None, (decided.sees, aside))),
        witnesses=say_witnesses(witnesses, seen.blind, total),
    )


def _delivered(check: PolicyChangeCheck, course: Course, witnesses: Sequence[Witness]) -> str:
    """The way of the last connection that reached a backend although Local requires silence, as text."""
    if check.subject.at is not At.BARE_NODE or check.subject.claim is PolicyClaim.KEPT:
        return ""
    phases = course.phases(check.subject.at, check.subject.family)
    silent = [sample.seq for phase in phases if phase.change.to is LOCAL for sample in phase.samples
              if sample.outcome == DELIVERED]  # fmt: skip
    return say_delivered([each for each in witnesses if each.seq in silent[-1:]])


def _own(check: PolicyChangeCheck, course: Course) -> list[Stream]:
    """The streams of connections that decide a check; none for one about health checks."""
    at, family = check.subject.at, check.subject.family
    if at is None:
        return []
    if check.subject.claim is PolicyClaim.KEPT:
        return [s for each in course.kept if (each.at, each.family) == (at, family) for s in each.streams]
    return [course.data[at, family]] if (at, family) in course.data else []


def _decided(check: PolicyChangeCheck, seen: PolicyChangeEvidence, course: Course, ground: Ground) -> Decision:
    """The decision on a course as both witnesses have it."""
    if check.subject.at is not None and (check.subject.at, check.subject.family) in course.obstacles:
        return undecided(check, course.obstacles[check.subject.at, check.subject.family])
    refused = next((change for change in course.changes if change.policy != change.to.value), None)
    if refused is not None:
        return undecided(check, f"the API server did not accept policy change {refused.number} to {refused.to}")
    if len(course.changes) < 3:
        return undecided(check, "the policy was not changed in both directions")
    for name, witnesses in _together(check, seen).items():
        if broken := contradicted(witnesses)[1]:
            return ours_failed(check, "two witnesses that contradict each other", f"{name}: {broken}")
    doubt = seen.doubt(check.subject.family)
    if doubt:
        return undecided(check, doubt)
    if check.subject.at is not None and (check.subject.at, check.subject.family) in course.data:
        stream = course.data[check.subject.at, check.subject.family]
        if ours := prober_failed(stream.samples, most=0, name=stream.name):
            return ours_failed(check, "too little", ours)
    decided = _CLAIMS[check.subject.claim](_Case(check, course, ground, seen))
    passed = decided.status is Status.PASS and not decided.sees
    return replace(decided, sees=_sees(check, course)) if passed else decided


def _together(check: PolicyChangeCheck, seen: PolicyChangeEvidence) -> dict[str, list[Witness]]:
    """The witnesses of packets that a check rests on, by what they are of: its own connections, and each control's."""
    own = seen.witnesses_of(_own(check, seen.courses[check.subject.service]))
    of = check.subject.family
    controls = {f"{at}'s control listener": [each] for (at, family), each in seen.controls.items() if family is of}
    return {"its connections": own} | {name: seen.witnesses_of(each) for name, each in controls.items()}


def followed(
    course: Course, ground: Ground, at: At, family: Family, *, strictly: bool
) -> list[tuple[Phase, SteadyRun | None]]:
    """Each policy change at one entry, with the last uninterrupted run of answers that fit the new policy."""
    made = course.phases(at, family)[1:]
    return [(phase, phase.last_run(reads(ground, at, phase.change.to, strictly=strictly))) for phase in made]


def _followed(phase: Phase, lasting: SteadyRun | None) -> str:
    """Why a policy change was not followed as required; or an empty string."""
    who = f"policy change {phase.change.number} to {phase.change.to}"
    if lasting is None:
        return f"{who}: never right within {phase.until - phase.change.cause:.1f} s"
    if lasting.since - phase.change.cause > BUDGET:
        return f"{who}: right only after {lasting.since - phase.change.cause:.1f} s"
    if not stays(lasting):
        return f"{who}: not right for good, only for the last {lasting.until - lasting.since:.2f} s"
    return ""


def _settles(case: _Case) -> Decision:
    check, course, ground = case.check, case.course, case.ground
    assert check.subject.at is not None
    strictly = check.subject.claim is PolicyClaim.REWRITES
    made = followed(course, ground, check.subject.at, check.subject.family, strictly=strictly)
    made = [(phase, lasting) for phase, lasting in made if judges(check.subject.claim, phase.change.to)]
    observed = say_times(made)
    wrong = [(phase, why) for phase, lasting in made if (why := _followed(phase, lasting))]
    if not wrong:
        proof = f"{len(made)} policy changes, each followed until the next one"
        return Decision(Status.PASS, check.expected, observed, proof)
    phase, first = wrong[0]
    last = [shown_words(ground, check.subject.at, sample) for sample in phase.samples[-10:]]
    seen_last = Counter(last)
    reason = f"{first}; the last answers: {say_observed(seen_last)}"
    seen = _foremost(ground, check.subject.at, wrong)
    # Answers that fit one of both policies only came late, or not for long enough before the next change.
    late = not any(
        ground.shown(check.subject.at, sample)[0] in (Shown.OTHERWISE, Shown.DELIVERED)
        for phase, _ in wrong
        for sample in phase.samples
    )
    return Decision(Status.FAIL, check.expected, observed, reason, seen, foreign=seen == ANOTHER_SOURCE, late=late)


def _prompt(case: _Case) -> Decision:
    """Whether each change was followed soon after the API server took it, as far as that was measured well enough."""
    check, course, ground = case.check, case.course, case.ground
    assert check.subject.at is not None
    stream = course.data[check.subject.at, check.subject.family]
    made = followed(course, ground, check.subject.at, check.subject.family, strictly=False)
    return _soon(case, [(phase.change, lasting, stream) for phase, lasting in made], say_times(made))


def _health_prompt(case: _Case) -> Decision:
    """The same of the health-check port on every node: closed under Cluster, open under Local."""
    check, course = case.check, case.course
    claims = (PolicyClaim.HEALTH_CLOSED, PolicyClaim.HEALTH_AGAIN)
    ports = [
        each for claim in claims for each in _ports(course, case.ground, check.subject.family, claim) if each.samples
    ]
    made = [(each.change, each.lasting, Stream(each.node, 0.0, each.samples)) for each in ports]
    figures = (f"{c.value}: {say_port_times(course, case.ground, check.subject.family, c) or 'never'}" for c in claims)
    return _soon(case, made, "; ".join(figures))


def _soon(case: _Case, made: Sequence[tuple[PolicyAction, SteadyRun | None, Stream]], figures: str) -> Decision:
    """Compare with the bound how long after each accepted policy change a stream became right for good."""
    check, vantage = case.check, case.seen.vantage(case.check.subject.family)
    observed, unknown, blurs = f"{figures}; bound {PROMPT:.0f} s", list[Blur](), list[Blur]()
    if not made:
        return undecided(check, "no probe was made there", observed)
    for change, lasting, stream in made:
        until = lasting.since if lasting else stream.samples[-1].started if stream.samples else change.answered
        lag = max(0.0, until - change.answered)
        blur = Blur(stream.longest_gap(change.answered, until), vantage.slow(change.answered, until))
        held = hold(lag, PROMPT, blur) if lasting or lag > PROMPT else Held.OVER
        blurs.append(blur)
        if held is Held.OVER:
            when = f"right only {lag:.2f} s after it was accepted" if lasting else f"never right in {lag:.1f} s"
            reason = f"policy change {change.number} to {change.to}, {stream.name}: {when}; {blur.words}"
            return Decision(Status.FAIL, check.expected, observed, reason, late=True)
        unknown += [blur] if held is Held.UNKNOWN else []
    if unknown:
        return undecided(check, say_unknown(PROMPT, max(unknown, key=lambda blur: blur.seconds)), observed)
    worst = max(blurs, key=lambda blur: blur.seconds)
    sees = f"{len(made)} changes; {worst.words}; nodes that are not dialled may follow later"
    return Decision(Status.PASS, check.expected, observed, sees=sees)


def _foremost(ground: Ground, at: At, wrong: list[tuple[Phase, str]]) -> str:
    """The key of the wrong result, if it was the same every time; known differences match it."""
    words: set[str] = set()
    for phase, _ in wrong:
        wanted = due(at, phase.change.to, strictly=True)
        for sample in phase.samples:
            shown, _ = ground.shown(at, sample)
            if shown not in wanted.right | wanted.missing:
                words.add(shown.name.lower() if shown is not Shown.OTHERWISE else _kind(ground, sample))
    return words.pop() if len(words) == 1 else ""


ANOTHER_SOURCE = "another-source"


def _kind(ground: Ground, sample: Sample) -> str:
    """The key of a result that fits neither policy: only an unknown source, or something else."""
    found = {sample.source: 1} if sample.answered and sample.pod == ground.pod and sample.source else {}
    return ANOTHER_SOURCE if strangers(found, ground.held).foreign else "otherwise"


def shown_words(ground: Ground, at: At, sample: Sample) -> str:
    """The result of a probe as text."""
    shown, words = ground.shown(at, sample)
    return words or shown.value


def _otherwise(case: _Case) -> Decision:
    check, course, ground = case.check, case.course, case.ground
    assert check.subject.at is not None
    found: list[tuple[float, Phase, str]] = []
    kinds: set[str] = set()
    tally: Counter[str] = Counter()
    strange: Counter[str] = Counter()
    for phase in course.phases(check.subject.at, check.subject.family):
        since = phase.first_steady(reads(ground, check.subject.at, phase.change.to, strictly=True))
        for sample in (*phase.samples, *phase.under_way):
            shown, words = ground.shown(check.subject.at, sample)
            tally[words or shown.value] += 1
            if shown is Shown.OTHERWISE:
                kinds.add(_kind(ground, sample))
                strange[sample.source] += 1
            elif shown is Shown.KEPT and check.subject.at is At.BARE_NODE:
                words = "answered through the node without local endpoints, with the client's own address"
                stays = phase.change.to is LOCAL and since is not None and sample.started > since
                kinds.add("leaking" if stays else "unrewritten")
            elif sample in phase.under_way or check.subject.at is At.VIP or not phase.change.number:
                continue  # a VIP's nodes need not follow together
            elif since is not None and sample.started > since and _is_back(check.subject.at, phase.change.to, shown):
                back = shown.value if shown is Shown.DELIVERED else _BACK[check.subject.at, phase.change.to]
                words = f"{back}, {sample.started - since:.2f} s after the new policy held"
                kinds.add("delivered" if shown is Shown.DELIVERED else "back")
            else:
                continue
            found.append((sample.started, phase, words))
    observed = say_observed(tally)
    if not found:
        return Decision(Status.PASS, check.expected, observed, say_bound(tally.total()), tally=tally)
    at, phase, words = min(found, key=lambda each: each[0])
    reason = f"{len(found)} of {tally.total()} results; the first {at - phase.change.cause:.2f} s after policy change "
    reason += f"{phase.change.number} to {phase.change.to}: {words}"
    kind = kinds.pop() if len(kinds) == 1 else ""
    foreign, mixed = kind == ANOTHER_SOURCE, bool(tally[Shown.KEPT.value])
    if foreign and (mixed or not strangers(strange, ground.held).proxied):
        kind = ""  # a proxy has few addresses, and never shows the client's own in between
    return Decision(Status.FAIL, check.expected, observed, reason, kind, tally, foreign=foreign)


def _is_back(at: At, to: TrafficPolicy, shown: Shown) -> bool:
    """Whether an answer, or what packets show, fits the other policy and not this one; a loss fits both."""
    old, new = due(at, CLUSTER if to is LOCAL else LOCAL, strictly=True), due(at, to, strictly=True)
    return shown in old.right | {Shown.DELIVERED} and shown not in new.right | new.missing


_BACK = {
    (At.BARE_NODE, LOCAL): "answered through the node without local endpoints",
    (At.ENDPOINT_NODE, LOCAL): "the source was rewritten again",
    (At.ENDPOINT_NODE, CLUSTER): "the source was the client's own again",
    (At.BARE_NODE, CLUSTER): "",
}


def _times(case: _Case) -> Decision:
    check, course, ground = case.check, case.course, case.ground
    assert check.subject.at is not None
    made = followed(course, ground, check.subject.at, check.subject.family, strictly=True)
    return Decision(Status.PASS, check.expected, say_times(made), "recorded")


def times(made: list[tuple[Phase, SteadyRun | None]], to: TrafficPolicy) -> tuple[Distribution, int]:
    """Seconds from the patch to the start of the final run of right answers, and the number of changes without one."""
    found = [lasting.since - phase.change.cause for phase, lasting in made if phase.change.to is to and lasting]
    never = sum(1 for phase, lasting in made if phase.change.to is to and lasting is None)
    return Distribution.of(found), never


def say_times(made: list[tuple[Phase, SteadyRun | None]]) -> str:
    """The times of both directions as text."""
    parts = []
    for to in (CLUSTER, LOCAL):
        of, never = times(made, to)
        if of.samples:
            figures = f"p50 {of.p50:.2f} s, max {of.most:.2f} s ({len(of.samples)})"
            parts.append(f"to {to}: {figures}" + (f", {never} never" if never else ""))
        elif never:
            parts.append(f"to {to}: never ({never})")
    return "; ".join(parts)


def _no_loss(case: _Case) -> Decision:
    check, course, ground = case.check, case.course, case.ground
    assert check.subject.at is not None
    made = course.phases(check.subject.at, check.subject.family)
    tally: Counter[str] = Counter()
    lost: list[tuple[Phase, Sample]] = []
    for phase in made:
        for sample in (*phase.samples, *phase.under_way):
            none = ground.shown(check.subject.at, sample)[0] in UNANSWERED
            tally["no answer" if none else "answered"] += 1
            lost += [(phase, sample)] if none else []
    observed = say_observed(tally)
    if not tally["answered"]:
        return undecided(check, "no request was ever answered there", observed)
    if not lost:
        return Decision(Status.PASS, check.expected, observed, say_bound(tally.total()), tally=tally)
    vantage = case.seen.vantage(check.subject.family)
    ours = [(sample, vantage.ours(sample.started, sample.started)) for _, sample in lost]
    left = [each for each, (_, why) in zip(lost, ours, strict=True) if not why]
    if not left:
        return undecided(check, ours[0][1], observed)
    why = excused(Counts(len(left), tally.total()), vantage.counts([(0.0, course.end)]))
    if why:
        return undecided(check, why, observed)
    phase, sample = left[0]
    reason = f"{len(lost)} of {tally.total()} lost ({sample.outcome}); the first "
    reason += (
        f"{sample.started - phase.change.cause:.2f} s after policy change {phase.change.number} to {phase.change.to}"
    )
    if cut := vantage.cut(sample.started, sample.started):
        reason += f"; {cut}"
    return Decision(Status.FAIL, check.expected, observed, reason, tally=tally)


# ------------------------------------------------------------------------------------------ health-check ports
def _health(case: _Case) -> Decision:
    """The decision on health-check node ports: closed after each change to Cluster, a new one open after one to Local.

    A port that was never open cannot be observed to close.
    """
    check, course = case.check, case.course
    again = check.subject.claim is PolicyClaim.HEALTH_AGAIN
    faults, seen = [], list(_ports(course, case.ground, check.subject.family, check.subject.claim))
    for change in course.changes_made():
        if judges(check.subject.claim, change.to) and bool(change.health_port) is not again:
            has = "has no health-check node port" if again else f"keeps health-check node port {change.health_port}"
            faults.append(f"policy change {change.number}: under {change.to} the Service {has}")
    if not again:
        opened = {each.change.number for each in seen if each.was_open}
        never = [
            change.number for change in course.changes_made() if change.to is CLUSTER and change.number not in opened
        ]
        if never:
            return undecided(check, f"no node answered at the health-check node port before policy change {never[0]}")
        seen = [each for each in seen if each.was_open]  # elsewhere there is nothing that could be closed
    for each in seen:
        if not each.samples:
            faults.append(f"the port on {each.node} was not probed after policy change {each.change.number}")
        elif each.fault:
            answers = say_observed(Counter(sample.outcome for sample in each.last))
            faults.append(f"{each.node}, {each.fault}; the last answers: {answers}")
    if not seen and not faults:
        return undecided(check, "its health-check node port was never probed")
    figures = say_port_times(course, case.ground, check.subject.family, check.subject.claim) or "never"
    if faults:
        more = f"; and {len(faults) - 1} more" if len(faults) > 1 else ""
        faulty = [each for each in seen if each.fault]
        late = len(faulty) == len(faults) and all(each.in_vain for each in faulty)
        return Decision(Status.FAIL, check.expected, figures, faults[0] + more, late=late)
    proof = f"{len({each.change.number for each in seen})} policy changes, on every node"
    return Decision(Status.PASS, check.expected, figures, proof)


@dataclass(frozen=True)
class _Port:
    """The answers of one node at a health-check node port after a policy change, and before one that closes it."""

    node: str
    change: PolicyAction
    before: Sequence[Sample]
    samples: Sequence[Sample]
    lasting: SteadyRun | None
    fault: str
    good: Fits

    @property
    def last(self) -> Sequence[Sample]:
        """The last answers of its time."""
        return self.samples[-10:]

    @property
    def in_vain(self) -> bool:
        """Whether all are right from the first right one on, some of the last, too, but for some that did not come."""
        since = list(dropwhile(lambda sample: not self.good(sample), self.samples))
        others = {sample.outcome for sample in since if not self.good(sample)}
        return others <= {ACCEPTED, *LOST} and any(map(self.good, self.last))

    @property
    def was_open(self) -> bool:
        """Whether it answered before."""
        return any(sample.outcome in ("200", "503") for sample in self.before)


def _ports(course: Course, ground: Ground, family: Family, claim: PolicyClaim) -> Iterator[_Port]:
    """Every node after every policy change of one direction."""
    again = claim is PolicyClaim.HEALTH_AGAIN
    home = ground.topology.roles[Role.ENDPOINT_NODE]
    for change in course.changes_made():
        if not judges(claim, change.to) or (again and not change.health_port):
            continue
        number = change.number if again else change.number - 1
        for node in dict.fromkeys(ground.topology.roles[role] for role in PLACES):
            good = closed if not again else says("200" if node == home else "503")
            found = course.health_phases(number, node, family)
            phase, before = found.get(change.number), found.get(number)
            lasting = phase.last_run(good) if phase else None
            fault = _followed(phase, lasting) if phase else ""
            answers = phase.samples if phase else ()
            yield _Port(node, change, before.samples if before else (), answers, lasting, fault, good)


def say_port_times(course: Course, ground: Ground, family: Family, claim: PolicyClaim) -> str:
    """The times that health-check node ports took, as text; empty if there are none."""
    ports = list(_ports(course, ground, family, claim)) if course.health else []
    of = Distribution.of(each.lasting.since - each.change.cause for each in ports if each.lasting)
    never = sum(each.lasting is None for each in ports)
    figures = [f"p50 {of.p50:.2f} s, max {of.most:.2f} s ({len(of.samples)})"] if of.samples else []
    return ", ".join([*figures, *([f"{never} never"] if never else [])])


# ----------------------------------------------------------------------------------- connections that were open
def _kept(case: _Case) -> Decision:
    """The decision on established connections: each is answered by the same pod for the same source until the end."""
    check, course = case.check, case.course
    streams = _own(check, course)
    made = [stream for stream in streams if stream.samples and stream.samples[0].answered]
    if not made:
        return undecided(check, f"none of {len(streams)} connections could be established")
    faults = [fault for stream in made if (fault := end_of(stream, course))]
    sources = Counter(_whose(case.ground, stream.samples[0]) for stream in made)
    exchanges = sum(sample.answered for stream in made for sample in stream.samples)
    observed = f"{len(made) - len(faults)} of {len(made)} connections kept; source: {say_observed(sources)}"
    if faults:
        return Decision(Status.FAIL, check.expected, observed, faults[0])
    return Decision(Status.PASS, check.expected, observed, f"{exchanges} exchanges, none lost")


LAST_SECOND = 1.0
"""Seconds before the end in which every established connection must have answered."""


def end_of(stream: Stream, course: Course) -> str:
    """How an established connection ended, or what changed on it, as text; empty if nothing did."""
    first = stream.samples[0]
    for sample in stream.samples:
        if sample.started > course.end:
            break
        same = (sample.pod, sample.source) == (first.pod, first.source)
        if sample.answered and same:
            continue
        change = [each for each in course.changes if each.cause <= sample.ended][-1]
        what = f"pod {sample.pod} saw {sample.source}, not {first.source}" if sample.answered else sample.outcome
        when = f"{sample.ended - change.cause:.2f} s after policy change {change.number} to {change.to}"
        return f"{stream.name}: {what} {when}"
    if not any(sample.answered and sample.started >= course.end - LAST_SECOND for sample in stream.samples):
        return f"{stream.name}: no answer in the last second"
    return ""


def _whose(ground: Ground, sample: Sample) -> str:
    return "the client's own address" if ground.whose(sample) is Shown.KEPT else sample.source


_CLAIMS: Mapping[PolicyClaim, Callable[[_Case], Decision]] = {
    PolicyClaim.SETTLES: _settles,
    PolicyClaim.REWRITES: _settles,
    PolicyClaim.OTHERWISE: _otherwise,
    PolicyClaim.TIME: _times,
    PolicyClaim.NO_LOSS: _no_loss,
    PolicyClaim.PROMPT: _prompt,
    PolicyClaim.HEALTH_PROMPT: _health_prompt,
    PolicyClaim.HEALTH_CLOSED: _health,
    PolicyClaim.HEALTH_AGAIN: _health,
    PolicyClaim.KEPT: _kept,
}


# ------------------------------------------------------------------------- unchanged Services while others change
def decide_path(check: IsolationCheck, seen: PolicyChangeEvidence) -> Decision:
    """The path judge's decision, if other policies really changed meanwhile."""
    window = seen.window
    if window is None:
        return undecided(check, "its path was never dialled")
    if window.doubt():
        return undecided(check, window.doubt())
    decided = decide_on_path(check.with_subject(check.subject.on_path), window.evidence)
    if decided.status not in (Status.FAIL, Status.FLAKY):
        return decided
    reason = "; ".join(filter(None, (decided.reason, _when(check, window))))
    return replace(decided, reason=reason, environment=decided.environment or None)


def decide_isolated_connections(check: IsolatedConnectionsCheck, seen: PolicyChangeEvidence) -> Decision:
    """The decision on all paths of one kind together: connections without a Service are the control."""
    window = seen.window
    if window is None:
        return undecided(check, "no path of this kind was dialled")
    if window.doubt():
        return undecided(check, window.doubt())
    return decide_connections(check.with_subject(check.subject.on_connections), window.evidence)


def _when(check: IsolationCheck, window: Window) -> str:
    """When the first wrong answers came, relative to the policy changes, as text."""
    path, evidence = check.subject.on_path.path, window.evidence
    clock = window.clocks.get(path.client.name)
    pairs = zip(evidence.observations[path.key], evidence.readings(path), strict=True)
    wrong = [each for each, read in pairs if read.product_fault or not read.classes & check.subject.on_path.accept]
    if clock is None or not wrong:
        return ""
    said = [window.after(clock.ours(each.started)) for each in sorted(wrong, key=lambda each: each.started)[:3]]
    return f"the first wrong results: {'; '.join(said)}"


def decide_health(check: IsolationHealthCheck, seen: PolicyChangeEvidence) -> Decision:
    """The decision on all answers of one node's health check while other policies changed."""
    window = seen.window
    found = Counter(window.health.get((check.subject.place, check.subject.family), {})) if window else Counter[str]()
    if window is None or not found:
        return undecided(check, "its health check was never probed")
    if found["error"]:
        return ours_failed(check, say_observed(found), "the prober failed")
    return Unchanged(found, check.expected, window.doubt()).decide(check)


# -------------------------------------------------------------------------------------------------------- registration
def _lacks(check: WhilePoliciesChangeCheck, seen: PolicyChangeEvidence, then: RunThen) -> str:
    if then.asked(check):
        return ""
    if is_about(check, PolicyChange):
        return _lacks_change(check, seen)
    if BESIDE in seen.trouble or BESIDE in seen.broken:
        return ""
    window = seen.window
    if window is None:
        return "no Services were dialled while others changed their policy"
    if is_about(check, Isolated):
        known = window.evidence.observations.keys() | window.evidence.obstacles.keys()
        return next((f"{path.key} was not dialled" for path in check.subject.paths if path.key not in known), "")
    if is_about(check, IsolatedConnections):
        return ""
    assert is_about(check, IsolatedHealth)
    asked = (check.subject.place, check.subject.family) in window.health
    return "" if asked else f"the health check of the {check.subject.place} was not probed over {check.subject.family}"


def _lacks_change(check: PolicyChangeCheck, seen: PolicyChangeEvidence) -> str:
    service = check.subject.service.value
    if service in seen.trouble or service in seen.broken:
        return ""
    course = seen.courses.get(check.subject.service)
    if course is None:
        return f"the policy of {service} was not changed"
    if check.subject.claim is PolicyClaim.KEPT:
        dialled = any((each.at, each.family) == (check.subject.at, check.subject.family) for each in course.kept)
    elif check.subject.at is None:
        dialled = any(family is check.subject.family for _, _, family in course.health)
    else:
        dialled = (check.subject.at, check.subject.family) in course.data or (
            check.subject.at,
            check.subject.family,
        ) in course.obstacles
    return "" if dialled else f"{service} was not dialled there over {check.subject.family}"


SCENARIO = Scenario(
    name="policy_change",
    suite="compatibility",
    order=1,
    record="flips",
    subjects=(WhilePoliciesChange,),
    evidence=PolicyChangeEvidence,
    decide=decide,
    lacks=_lacks,
    phases=(
        Typical("settle side by side", (Isolated, IsolatedConnections, IsolatedHealth), base=1),
        Typical("side by side", (Isolated, IsolatedConnections, IsolatedHealth), base=14),
        Typical(
            "policy changes",
            (PolicyChange,),
            base=3,
            events=tuple(PlannedEvent(each.value, 21, measures=True) for each in ChangingService),
        ),
    ),
    rights=rights("get patch", "services"),
)
