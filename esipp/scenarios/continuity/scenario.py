"""Registration of the continuity scenario."""

from esipp.checks.catalog import events_of
from esipp.checks.continuity import Continuity, ContinuityCheck, Phase, What
from esipp.checks.rights import GATES, SLICES, rights
from esipp.judging.frame import Decision
from esipp.judging.scenario import RunThen, Scenario, Typical
from esipp.judging.schedule import planned
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
    section=section,
    summary=summary,
    key_figures=key_figures,
    numbers=NUMBERS,
    durations=DURATIONS,
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
