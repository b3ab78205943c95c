"""Registration of the continuity scenario."""

from esipp.checks.catalog import events_of
from esipp.checks.continuity import Continuity, ContinuityCheck, Phase, What
from esipp.checks.rights import GATES, SLICES, rights
from esipp.judging.frame import Decision
from esipp.judging.scenario import RunThen, Scenario, Typical
from esipp.judging.schedule import PlannedEvent, touched_by
from esipp.scenarios.continuity.evidence import ContinuityEvidence
from esipp.scenarios.continuity.judge import Judge
from esipp.scenarios.continuity.numbers import DURATIONS, NUMBERS
from esipp.scenarios.continuity.sections import key_figures, section, summary


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
        return f"nobody was asked who has the VIP of {asked[0].slug} over {asked[1]}"
    return f"no {subject.stream.name if subject.stream else 'request'} was sent through {asked[0].slug} over {asked[1]}"


SECONDS = {
    Phase.QUIET: 5, Phase.ROLLING_UPDATE: 41, Phase.DELETED: 25, Phase.FLAPS: 30, Phase.POLICY_CHANGES: 21,
    Phase.CORDON: 8, Phase.DRAIN: 26, Phase.EXCLUDE: 12, Phase.IDLE_EXCLUDE: 10, Phase.KUBE_PROXY: 8, Phase.SPEAKER: 11,
    Phase.API_SERVER: 58, Phase.KUBELET: 79, Phase.IDLE_KUBELET: 67, Phase.CUT_OFF: 42, Phase.CONNTRACK_FULL: 31,
    Phase.CONNTRACK_DELETED: 10, Phase.SPEAKER_MOVES: 25, Phase.NETWORK_AGENT: 25, Phase.PROXY_UPGRADED: 26,
    Phase.PROXY_MODE: 26, Phase.IDLE_LEFT: 27, Phase.API_SERVERS_IN_TURN: 40, Phase.JOINED: 56,
    Phase.NETWORK_AGENT_UPGRADED: 120,
}  # fmt: skip
"""How long each phase usually takes, on two cores, with the quiet time after it."""


def _planned(phase: Phase) -> PlannedEvent:
    touches = touched_by(events_of("continuity")[phase.value].disruptions)
    return PlannedEvent(phase.value, SECONDS[phase], touches, services="continuity", measures=True)


SCENARIO = Scenario(
    name="continuity",
    suite="continuity",
    record="continuity",
    subjects=(Continuity,),
    evidence=ContinuityEvidence,
    analyse=Judge,
    decide=_decide,
    lacks=_lacks,
    section=section,
    summary=summary,
    key_figures=key_figures,
    numbers=NUMBERS,
    durations=DURATIONS,
    phases=(
        Typical(
            "continuity",
            base=14,
            events=tuple(map(_planned, Phase)),
        ),
    ),
    beside=True,
    rights=(*GATES, *SLICES, *rights("patch", "services"), *rights("create patch", "deployments", "apps")),
)
