"""The judge of Services and pods that change: from the evidence to a verdict. Pure."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from esipp.checks.catalog import events_of
from esipp.checks.check import Status
from esipp.checks.disruption import Disruption
from esipp.checks.model import Outcome
from esipp.checks.rights import DISCOVERY, rights
from esipp.checks.stream import Reuse
from esipp.checks.timing import FIELD_LIMIT
from esipp.judging.answers import say_observed
from esipp.judging.controls import Vantage
from esipp.judging.frame import Decision, few, ours_failed, undecided
from esipp.judging.scenario import Scenario, Typical
from esipp.judging.schedule import planned
from esipp.judging.timeline import OURS, Fits, Sample, Stream, prober_failed, probing_paused
from esipp.scenarios.service_change.evidence import (
    Asked,
    InStage,
    ServiceChangeEvidence,
    Stage,
    Stages,
    gone,
    reached,
    refused,
    rejects,
    says,
    served,
    steady,
    stuck,
    wanted,
)
from esipp.scenarios.service_change.subject import (
    AFFINE,
    AFFINITY_SECONDS,
    LARGE_LOST,
    NAMESAKE_LOST,
    NEVER_LED,
    OWN_NODE_GONE,
    STALE,
    Claim,
    Do,
    ServiceChange,
    ServiceChangeCheck,
)


@dataclass(frozen=True)
class _Compared:
    """A stage of the stream that a check's own is compared with, and whether that ended as it must."""

    stage: InStage
    right: bool


@dataclass(frozen=True)
class _Case:
    """A check with the evidence for it."""

    check: ServiceChangeCheck
    event: Stages
    stream: Stream
    vantage: Vantage

    @property
    def subject(self) -> ServiceChange:
        """What the check is about."""
        return self.check.subject

    @property
    def stages(self) -> list[InStage]:
        """The stream, stage by stage."""
        return self.event.of_stages((self.subject.at, self.subject.stream.name, self.subject.family))

    @property
    def required(self) -> list[InStage]:
        """Those that the stream sees, and in which the entry can follow."""
        seen = self.stages[self.subject.begins :]
        return [each for each in seen if self.subject.at.value not in each.stage.stuck]

    def number_of(self, each: InStage) -> int:
        """The number of a stage of the stream, from 0 on."""
        return next(number for number, one in enumerate(self.stages) if one.until == each.until)

    def compared(self, each: InStage) -> _Compared | None:
        """The same stage of the stream that this one is compared with; None if there is no such stream."""
        other = self.subject.compared
        asked: Asked | None = (self.subject.at, other.name, self.subject.family) if other else None
        if asked is None or asked not in self.event.streams:
            return None
        found = self.event.of_stages(asked)[self.number_of(each)]
        return _Compared(found, steady(found, wanted(each.stage, asked[1])) is not None)

    def untold(self, each: InStage, followed: float | None = None) -> str:
        """Why nodes had not heard of a stage in time; empty if they had, or if they do something else than before.

        EndpointSlices that changed too late explain only answers from the pods of one earlier stage, or silence if that
        had none: until the stage was ``followed``, or to its end.
        """
        unwritten, until = each.stage.unwritten, each.until if followed is None else followed
        if unwritten is None or until - unwritten >= each.stage.within:
            return ""
        earlier = [one.stage for one in self.stages[: self.number_of(each)]]
        told = max(at for at, stage in enumerate(earlier) if stage.unwritten is None)
        answered = {sample.pod for sample in each.samples if sample.answered and sample.started < until}
        as_before = any(answered <= {*one.pods} and bool(answered) == bool(one.pods) for one in earlier[told:])
        then = "that stage ended" if followed is None else "this was followed"
        late = f"{UNCHANGED} {until - unwritten:.1f} s before {then}, so no node could follow in time"
        return f"the Service {each.stage.words}, but {late}" if as_before else ""

    def ours(self, each: InStage) -> str:
        """Why what this stage lacks may be the fault of this machine; empty if it is not."""
        paused = probing_paused(each.samples, self.stream.name, self.stream.spacing)
        return self.vantage.ours(each.until - 2.0, each.until) or paused


UNCHANGED = "its EndpointSlices were still unchanged"
"""The beginning of the reason why nodes had too little time to follow a stage."""

ENOUGH = 12
"""Requests for each of several pods after which one that has not answered is left out: of five, by chance in one of
a hundred thousand."""

FEWEST = 7
"""Answers by the same one of five pods, each drawn anew, that are no chance: one of 15,000."""

MOSTLY = 0.9
"""The share of the planned silence for which a connection must have been idle. A first SYN that comes before nodes know
the Service is sent again, and answered 3 s later: 57 s of 60 were left (kind-iptables, 2026-11-28)."""

ONE_IDLE, ONE_SOCKET = "one connection of one client", "one socket of one client"

WINDOW = 10
"""The last requests of a stage that a reason quotes."""

RETURNS = 5.0
"""Seconds after a Node object is back until the nodes know the way to its pods again: Cilium took about one."""

LAST = 5
"""The last requests before a stage was followed, or before its end. If an older flow is to explain them, all their
answers are from pods of before."""


def decide(check: ServiceChangeCheck, seen: ServiceChangeEvidence) -> Decision:
    """The decision on a check."""
    subject = check.subject
    if cut := seen.cut_short(check):
        return cut
    event = seen.events.get(subject.event.name)
    if event is None or not event.stages:
        return undecided(check, "the event did not happen")
    if why := event.obstacles.get((subject.at, subject.family)):
        return undecided(check, why)
    stream = event.streams.get((subject.at, subject.stream.name, subject.family))
    if stream is None:
        return undecided(check, "this stream was not sent")
    if len(event.stages) < len(subject.event.changes):
        return undecided(check, "the event broke off")
    if ours := prober_failed(stream.samples, name=stream.name):
        return ours_failed(check, "too little", ours)
    case = _Case(check, event, stream, seen.vantage(subject.at.client.name, subject.family))
    return _CLAIMS[subject.claim](case)


def _served(case: _Case) -> Decision:
    """In each stage with pods, these answer within the limit, and go on to the end of the stage."""
    made = [each for each in case.required if each.stage.pods]
    return _followed(case, made, served, "answered by a pod of the Service")


def _gone(case: _Case) -> Decision:
    """In each stage, no other pod answers after the limit. Something must have answered before it was gone."""
    first, *made = case.required
    if steady(first, served(first.stage)) is None:
        return undecided(case.check, "it was not answered before the change, so silence proves nothing", _words(made))
    for each in made:
        control = case.vantage.counts([(each.stage.accepted, each.until)])
        if 2 * control.lost >= control.requests:
            why = f"the control listeners answered too little in the same time: {control.words} lost"
            return undecided(case.check, why, _words(made))
    return _followed(case, made, gone, "not answered by another pod")


def _followed(case: _Case, made: Sequence[InStage], fits_of: Callable[[Stage], Fits], words: str) -> Decision:
    check, lags = case.check, list[float]()
    begun = case.stream.samples[0].started if case.stream.samples else 0.0  # of some, late in the first stage
    for each in made:
        if each.stage.refused and fits_of is served:
            free = "though its ports and addresses were free"
            reason = f"the API server refused that the Service {each.stage.words}, {free}: {each.stage.refused}"
            return Decision(Status.FAIL, check.expected, _words(made), reason)
        run = steady(each, fits_of(each.stage))
        since = max(each.stage.accepted, begun)
        lag = max(0.0, run.since - since) if run else each.until - since
        if run is not None and lag <= each.stage.within:
            lags.append(lag)
            continue
        if why := case.ours(each) or case.untold(each, run.since if run else None):
            return undecided(check, why, _words(made))
        if run is None and lag < each.stage.within:
            left = f"{max(0.0, lag):.1f} s"
            why = f"the Service {each.stage.words} for only {left}, as this stream had not shown an earlier stage"
            return undecided(check, why, _words(made))
        if other := _other_connection(case, each):
            return undecided(check, other, _words(made))
        when = f"only {lag:.1f} s later" if run else f"never in {lag:.1f} s"
        last = say_observed(_answers(each.samples[-WINDOW:]))
        reason = f"the Service {each.stage.words}: {words} {when}; the last answers: {last}"
        late = run is not None or _only_late(case, each, fits_of(each.stage))
        shown = _shown(case, each, run.since if run else each.until)
        return Decision(Status.FAIL, check.expected, _words(made), reason, shown, late=late)
    most = f"{len(lags)} changes followed, after {max(lags, default=0.0):.1f} s at most"
    sees = f"{len(case.stream.samples)} requests of one client; nodes that are not dialled may follow later"
    return Decision(Status.PASS, check.expected, _words(made), most, sees=sees)


def _other_connection(case: _Case, each: InStage) -> str:
    """Why the last answers of a stream that is one connection say nothing about nodes; empty if they do.

    If the connection breaks, the next one may lead to any pod of that time, and it stays there when the Service no
    longer has the pod: no data plane breaks it. Other checks say that requests were lost meanwhile.
    """
    if case.subject.stream.reuse is not Reuse.LASTING:
        return ""
    staged = [(stage, sample) for stage in case.stages for sample in stage.samples if sample.started <= each.until]
    broke = max((at for at, (_, sample) in enumerate(staged) if not sample.answered), default=len(staged))
    since = staged[broke + 1 :]
    if not since:
        return ""
    stage, first = since[0]
    at, pods = case.number_of(stage), {*stage.stage.pods}
    if at and first.started <= stage.stage.accepted + stage.stage.within:
        pods |= {*case.stages[at - 1].stage.pods}  # nodes may not have followed yet
    if first.pod not in pods or {sample.pod for _, sample in since} != {first.pod}:
        return ""
    lost = staged[broke][1].outcome
    return f"its connection had broken before ({lost}); the next one led to {first.pod}, which the Service had then"


def _only_late(case: _Case, each: InStage, fits: Fits) -> bool:
    """Whether a stage that was not followed ended without a wrong answer, only with requests that got none in time.

    A stream that keeps its port may show an older flow; if the stream that it is compared with ended so, it could not
    show whether that is the cause.
    """
    last = each.samples[-WINDOW:]
    if any(fits(sample) for sample in last) and not any(fits(sample) is False for sample in last):
        return True
    compared = case.compared(each)
    if compared is None or case.subject.stream.size or compared.right:
        return False
    answered = {sample.pod for sample in compared.stage.samples[-WINDOW:] if sample.answered}
    return bool(answered) and answered <= {*each.stage.pods}


def _shown(case: _Case, each: InStage, until: float) -> str:
    """What a stage shows about the cause until it was followed, as evidence for a known difference.

    A client is silent in the end, when no node announces the VIP any more: a stale flow of kube-proxy had been answered
    for 30.1 s by then (kind-iptables, 2026-11-27).
    """
    subject = case.subject
    if subject.event.changes[case.number_of(each)].do is Do.NAMESAKE_LEAVES:
        return _namesake_lost(case, each)
    if subject.compared is None:
        return _affine(case, each)
    compared = case.compared(each)
    if compared is None or not compared.right:
        return ""
    if subject.stream.size:
        return "" if any(sample.answered for sample in case.stream.samples) else LARGE_LOST
    if not any(sample.answered for sample in case.stream.samples if sample.started < until):
        return NEVER_LED
    before = {name for one in case.stages[: case.number_of(each)] for name in one.stage.pods}
    wrong = [sample for sample in each.samples if sample.started < until][-LAST:]
    answered = {sample.pod for sample in wrong if sample.answered}
    return STALE if answered and answered <= before - {*each.stage.pods} else ""


def _affine(case: _Case, each: InStage) -> str:
    """The evidence that a client is kept at the pod that it had by its affinity in the stage before."""
    own, at = case.stages, case.number_of(each)
    if not at or not (each.stage.sticky and own[at - 1].stage.sticky):
        return ""
    before, now = ({sample.pod for sample in one.samples[-LAST:] if sample.answered} for one in (own[at - 1], each))
    return AFFINE if len(now) == 1 and now == before and not now & {*each.stage.pods} else ""


def _namesake_lost(case: _Case, each: InStage) -> str:
    """``NAMESAKE_LOST`` if endpoints answered before the other Service lost them, and nobody does now; else empty."""
    before = case.stages[case.number_of(each) - 1]
    was_served = steady(before, served(before.stage)) is not None
    return NAMESAKE_LOST if was_served and not any(sample.answered for sample in each.samples[-LAST:]) else ""


def _refused(case: _Case) -> Decision:
    """In stages without pods, requests are refused."""
    made = [each for each in case.stages if each.stage.is_there and not each.stage.pods]
    observed = _words(made)
    for each in made:
        if rejects(each):
            continue
        if why := case.untold(each):
            return undecided(case.check, why, observed)
        if any(sample.answered for sample in each.samples[-3:]):
            return Decision(Status.FAIL, case.check.expected, observed, "requests are still answered")
        if why := case.vantage.ours(each.stage.accepted, each.until) or case.untold(each):
            return undecided(case.check, why, observed)
        stray = any(map(refused, each.samples))
        reason = "no request was refused" + (" but one, while the change took effect" if stray else "")
        return Decision(Status.FAIL, case.check.expected, observed, f"{reason}: they got no answer")
    sees = "nodes may limit the rate of ICMP errors, so two refused requests of a stage are enough"
    return Decision(Status.PASS, case.check.expected, observed, sees=sees)


def _spread(case: _Case) -> Decision:
    """In stages with several pods and no affinity, new requests reach every one."""
    made = [each for each in case.stages if len(each.stage.pods) > 1 and not each.stage.sticky and not each.stage.brief]
    for each in made:
        missing = sorted({*each.stage.pods} - reached(each))
        if not missing:
            continue
        if why := case.vantage.ours(each.stage.accepted, each.until) or case.untold(each):
            return undecided(case.check, why, _words(made))
        if len(each.samples) < ENOUGH * len(each.stage.pods):
            return undecided(case.check, f"only {len(each.samples)} requests were sent in this stage", _words(made))
        reason = f"the Service {each.stage.words}: {', '.join(missing)} did not answer in {len(each.samples)} requests"
        return Decision(Status.FAIL, case.check.expected, _words(made), reason)
    return Decision(
        Status.PASS,
        case.check.expected,
        _words(made),
        sees="a pod that gets far fewer connections than its share goes unnoticed",
    )


def _sticky(case: _Case) -> Decision:
    """In stages with affinity and several pods, one pod answers alone, from the limit on."""
    made = [each for each in case.stages if len(each.stage.pods) > 1 and each.stage.sticky]
    for each in made:
        run = stuck(each)
        if run is not None and run.since - each.stage.accepted <= FIELD_LIMIT:
            continue
        if ours := case.ours(each):
            return undecided(case.check, ours, _words(made))
        last = each.samples[-WINDOW:]
        reason = (
            f"the Service {each.stage.words}: several pods still answer; the last answers: "
            f"{say_observed(_answers(last))}"
        )
        late = run is not None or len({sample.pod for sample in last[-LAST:] if sample.answered}) == 1
        return Decision(Status.FAIL, case.check.expected, _words(made), reason, late=late)
    return Decision(
        Status.PASS, case.check.expected, _words(made), sees="this does not show whether an affinity times out"
    )


def _outlived(case: _Case) -> Decision:
    """In stages whose affinity is over before the next request, several pods answer."""
    made = [each for each in case.stages if each.stage.brief]
    observed = _words(made)
    for each in made:
        if len(reached(each)) > 1:
            continue
        if ours := case.vantage.ours(each.stage.accepted, each.until):
            return undecided(case.check, ours, observed)
        answered = sum(sample.answered for sample in each.samples)
        if answered < FEWEST:
            return undecided(case.check, f"only {answered} requests were answered in this stage", observed)
        only = f"one pod answered all {answered} requests, although the affinity had timed out between them"
        reason = f"the Service {each.stage.words}: {only}"
        return Decision(Status.FAIL, case.check.expected, observed, reason)
    sees = f"only whether a timeout of {AFFINITY_SECONDS} s is over after {case.subject.stream.every:.0f} s"
    return Decision(Status.PASS, case.check.expected, observed, sees=sees)


def _no_loss(case: _Case) -> Decision:
    """From the first answers on every request is answered, as long as the Service has pods."""
    check, first = case.check, case.stages[case.subject.begins]
    begun = steady(first, served(first.stage))
    if begun is None:
        return undecided(check, "it was not answered before the change", _words(case.stages))
    made = [each for each in case.stages if each.stage.pods]
    lost = [
        (each, sample)
        for each in made
        for sample in each.samples
        if sample.started >= begun.since and not sample.answered and sample.outcome != OURS
    ]
    if not lost:
        sees = f"{sum(len(each.samples) for each in made)} requests of one client: a shorter outage is missed"
        return Decision(Status.PASS, check.expected, _words(made), sees=sees)
    if ours := case.vantage.all_ours((sample.started, sample.started) for _, sample in lost):
        return undecided(check, ours, _words(made))
    each, sample = lost[0]
    when = f"{sample.started - each.stage.accepted:+.1f} s after the Service {each.stage.words}"
    reason = f"{len(lost)} requests were lost, the first ({sample.outcome}) {when}"
    if cut := case.vantage.cut(sample.started, sample.started):
        reason += f"; {cut}"
    unanswered = all(at.outcome == Outcome.TIMEOUT for _, at in lost)
    late = unanswered and few(len(lost), sum(len(each.samples) for each in made))
    shown = _own_node_gone(case, [at for _, at in lost])
    return Decision(Status.FAIL, check.expected, _words(made), reason, shown, late=late)


def _own_node_gone(case: _Case, lost: Sequence[Sample]) -> str:
    """The evidence that requests were lost only while the client's own node had no Node object, and only by it."""
    own = case.subject.at.client.role
    times = [
        (each.stage.accepted, each.until + RETURNS)
        for each, change in zip(case.stages, case.subject.event.changes, strict=True)
        if change.disruption is Disruption.NODE_DELETED and own is change.node
    ]

    def away(at: Sample) -> bool:
        return any(began <= at.started < ended for began, ended in times)

    elsewhere = (
        sample
        for (at, name, family), stream in case.event.streams.items()
        if (name, family) == (case.subject.stream.name, case.subject.family) and at.client.role is not own
        for sample in stream.samples
    )
    shared = any(away(sample) and not sample.answered and sample.outcome != OURS for sample in elsewhere)
    return OWN_NODE_GONE if all(map(away, lost)) and not shared else ""


def _status(case: _Case) -> Decision:
    """In each stage, the health check says what it must, within the limit."""
    if steady(case.stages[0], says(case.stages[0].stage, case.subject.stream.name)) is None:
        why = "the health check did not say 200 before the change: other checks are about that"
        return undecided(case.check, why, _words(case.stages))
    return _followed(
        case,
        [each for each in case.stages if not each.stage.is_silent(case.subject.at)],
        lambda stage: says(stage, case.subject.stream.name),
        "its health check gave the required answers",
    )


def _lives(case: _Case) -> Decision:
    """The exchange after a long silence is answered by the same pod, on the same connection."""
    check, every, made = case.check, case.subject.stream.every, case.stream.samples
    observed = _words(case.stages)
    if not made or not made[0].answered:
        return undecided(check, "the connection could not be made", observed)
    if len(made) < 2 or made[1].started - made[0].ended < MOSTLY * every:
        return undecided(check, f"the connection was not idle for {every:.0f} s", observed)
    first, last = made[:2]
    idle = last.started - first.ended
    if last.answered and last.pod == first.pod:
        return Decision(
            Status.PASS, check.expected, observed, f"{first.pod} answered after {idle:.0f} s", sees=ONE_IDLE
        )
    if ours := prober_failed(made, name=case.stream.name) or case.vantage.ours(last.started, last.ended):
        return undecided(check, ours, observed)
    said = last.pod if last.answered else last.outcome
    reason = (
        f"after {idle:.0f} s without traffic, the next exchange on the connection to {first.pod} ended with: {said}"
    )
    return Decision(Status.FAIL, check.expected, observed, reason)


def _forgotten(case: _Case) -> Decision:
    """A datagram from a socket that was silent until all entries of its flow have expired is not answered any more."""
    check, every, made = case.check, case.subject.stream.every, case.stream.samples
    observed, gone_since = _words(case.stages), case.event.stages[-1].accepted
    if not made or not made[0].answered:
        return undecided(check, "the first datagram was not answered", observed)
    if len(made) < 2 or made[1].started - made[0].ended < MOSTLY * every or made[1].started < gone_since:
        return undecided(check, f"the socket was not silent for {every:.0f} s", observed)
    first, last = made[:2]
    if last.outcome == OURS:
        return ours_failed(check, observed, "the prober could not send the second datagram")
    idle = f"{last.started - first.ended:.0f} s after its first datagram"
    if last.answered:
        reason = f"{last.pod} answered the second datagram of a socket, {idle}, although the Service was gone"
        return Decision(Status.FAIL, check.expected, observed, reason)
    if ours := case.vantage.ours(last.started, last.ended):
        return undecided(check, ours, observed)
    return Decision(Status.PASS, check.expected, observed, f"no pod answered {idle}", sees=ONE_SOCKET)


def _answers(samples: Iterable[Sample]) -> Mapping[str, int]:
    return Counter(sample.pod if sample.answered else sample.outcome for sample in samples)


def _words(made: Iterable[InStage]) -> str:
    return "; ".join(f"{each.stage.words}: {say_observed(_answers(each.samples))}" for each in made)


_CLAIMS: Mapping[Claim, Callable[[_Case], Decision]] = {
    Claim.SERVED: _served,
    Claim.GONE: _gone,
    Claim.REFUSED: _refused,
    Claim.SPREAD: _spread,
    Claim.STICKY: _sticky,
    Claim.OUTLIVED: _outlived,
    Claim.NO_LOSS: _no_loss,
    Claim.STATUS: _status,
    Claim.LIVES: _lives,
    Claim.FORGOTTEN: _forgotten,
}


# -------------------------------------------------------------------------------------------------------- registration
SCENARIO = Scenario(
    name="service_change",
    suite="changes",
    record="changes",
    subjects=(ServiceChange,),
    evidence=ServiceChangeEvidence,
    decide=decide,
    phases=(Typical("changes", base=2, events=tuple(map(planned, events_of("changes").values()))),),
    rights=(
        *rights("create delete get list patch", "services"),
        *rights("create delete get", "pods"),
        *rights("list", "endpointslices", DISCOVERY),
    ),
)
