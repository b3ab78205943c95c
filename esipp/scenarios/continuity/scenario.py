"""Registration of the continuity scenario."""

from esipp.checks.continuity import Continuity, ContinuityCheck
from esipp.checks.rights import GATES, SLICES, rights
from esipp.judging.frame import Decision
from esipp.judging.scenario import RunThen, Scenario, Typical
from esipp.scenarios.continuity.evidence import Seen
from esipp.scenarios.continuity.figures import section
from esipp.scenarios.continuity.judge import Judge


def _decide(check: ContinuityCheck, judge: Judge) -> Decision:
    return judge.decide(check)


def _lacks(check: ContinuityCheck, seen: Seen, then: RunThen) -> str:
    asked = (check.subject.way, check.subject.family)
    known = then.asked(check) or asked in seen.streams or asked in seen.obstacles or seen.trouble
    return "" if known else f"no request was sent through {check.subject.way.slug} over {check.subject.family}"


SCENARIO = Scenario(
    name="continuity",
    suite="continuity",
    record="continuity",
    subjects=(Continuity,),
    evidence=Seen,
    analyse=Judge,
    decide=_decide,
    lacks=_lacks,
    section=section,
    phases=(
        Typical(
            "continuity",
            base=14,
            parts={
                "quiet": 5,
                "rolling-update": 31,
                "deleted": 18,
                "readiness-flaps": 24,
                "policy-flips": 18,
                "cordon": 7,
                "drain": 23,
                "exclude": 9,
                "kube-proxy": 10,
                "speaker": 6,
                "api-server": 54,
                "kubelet": 75,
            },
        ),
    ),
    rights=(*GATES, *SLICES, *rights("patch", "services"), *rights("create patch", "deployments", "apps")),
)
