"""Re-judging: the current judges on the evidence of a recorded run. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from esipp.checks.api import ApiCheck
from esipp.checks.check import Check, Feature, Status, missing_features
from esipp.checks.continuity import ContinuityCheck
from esipp.checks.endpoint_change import EndpointChangeCheck
from esipp.checks.health import About, HealthAnswerCheck, HealthScenarioCheck
from esipp.checks.interoperability import InteroperabilityCheck
from esipp.checks.model import Balancer
from esipp.checks.observation import Verdict
from esipp.checks.path import PathCheck
from esipp.checks.policy_change import FlipClaim, FlippedCheck, IsolationCheck, IsolationHealthCheck, PolicyChangeCheck
from esipp.checks.versions import version_features
from esipp.judging.api import Seen as Edited
from esipp.judging.api import judge as judge_api
from esipp.judging.continuity.evidence import Seen as Flowed
from esipp.judging.continuity.judge import Judge as ContinuityJudge
from esipp.judging.diagnosis import where_to_look
from esipp.judging.endpoint_change.judge import Judge as MovesJudge
from esipp.judging.frame import give_verdict
from esipp.judging.health.evidence import Seen as Health
from esipp.judging.health.judge import judge as judge_health
from esipp.judging.interoperability.evidence import Seen as InterOperated
from esipp.judging.interoperability.judge import judge as judge_interoperability
from esipp.judging.paths import Evidence, judge
from esipp.judging.policy_change.evidence import Seen as Flipped
from esipp.judging.policy_change.isolation import BESIDE
from esipp.judging.policy_change.judge import judge as judge_flips
from esipp.judging.topology import Topology
from esipp.ledger.evidence import API, CONTINUITY, CONVERGENCE, FLIPS, HEALTH, INTEROPERABILITY, PATHS, Moved
from esipp.ledger.recorded_checks import RecordedCheck
from esipp.ledger.recorded_run import Known, Past

KINDS: tuple[tuple[type[Check], str], ...] = (
    (PathCheck, PATHS),
    (HealthAnswerCheck, HEALTH),
    (HealthScenarioCheck, HEALTH),
    (InteroperabilityCheck, INTEROPERABILITY),
    (ApiCheck, API),
    (PolicyChangeCheck, FLIPS),
    (EndpointChangeCheck, CONVERGENCE),
    (ContinuityCheck, CONTINUITY),
)
"""Which judge decides which checks."""

NOT_SEEN: Mapping[str, Any] = {
    HEALTH: Health(),
    INTEROPERABILITY: InterOperated(),
    API: Edited(),
    FLIPS: Flipped(),
    CONVERGENCE: Moved({}),
    CONTINUITY: Flowed(),
}


def judge_of(check: Check) -> str:
    """The name of the judge who decides a check."""
    return next(name for of, name in KINDS if isinstance(check, of))


@dataclass
class Bench:
    """All judges, with the evidence of one run.

    ``rows`` are those of today.
    """

    past: Past
    checks: Sequence[Check]
    _balancers: dict[Balancer, MovesJudge] = field(default_factory=dict)
    _completed: dict[int, Known] = field(default_factory=dict)

    # ------------------------------------------------------------------------------------------- what was there then
    def known(self, check: Check) -> Known:
        """Facts and features when the check was judged, with those that only current checks need."""
        then = self.past.known.get(check.id, self.past.at_last)
        if id(then) not in self._completed:
            self._completed[id(then)] = Known(then.facts, self._all_features(then))
        return self._completed[id(then)]

    def _all_features(self, then: Known) -> dict[str, Feature]:
        wanted = {name for check in self.checks for name in check.features}
        unknown = Feature(False, "not determined in that run", ours=True)
        version = version_features(then.facts.get("kubernetes", ""), self.checks)
        return {**dict.fromkeys(wanted, unknown), **version, **then.features}

    def lacks(self, check: Check) -> str:
        """Why a check cannot be judged from the evidence of that run; empty if it can."""
        if missing_features(check, self.known(check).features):
            return ""  # it is not asked on that cluster, whatever was seen
        name = judge_of(check)
        if name in self.past.run.unread:
            return self.past.run.unread[name]
        if name not in self.past.run.judged:
            return f"the run has no evidence for the judge of {name}"
        if isinstance(check, ApiCheck):
            return self._lacks_requests(check)
        return "" if self._asked_then(check) else _LACKS[name](check, self.past)

    def _asked_then(self, check: Check) -> bool:
        """Whether the run had this check in the same form, so that its evidence is complete."""
        then = self._checks_then.get(check.id)
        if then is None or then.asked != check.asked:
            return False
        if not isinstance(check, PathCheck):
            return True
        controls = {each["path"] for each in then.data["controls"]}
        return then.path == check.path.key and controls == {each.path.key for each in check.controls}

    def _lacks_requests(self, check: ApiCheck) -> str:
        """Whether the requests of a check differ; the ledger has them only as text, in the checks of that run."""
        seen: Edited = self.past.run.judged[API]
        known = {each.id for each in self.checks if isinstance(each, ApiCheck) and each.trial == check.trial}
        made = {then.asked for identity, then in self._checks_then.items() if identity in known}
        tried = check.trial in seen.answers or check.trial in seen.trouble or check.trial in seen.broken
        return "" if tried and made == {check.asked} else f"its requests were not sent, or others were ({check.trial})"

    @cached_property
    def _checks_then(self) -> Mapping[str, RecordedCheck]:
        return {check.id: check for check in self.past.run.checks}

    # ---------------------------------------------------------------------------------------------------- the judges
    def verdict(self, check: Check) -> Verdict:
        """The verdict on a check, from the evidence of that run; undecided if that is not enough."""
        known, why = self.known(check), self.lacks(check)
        if why:
            return _left_open(check, Status.INCONCLUSIVE, f"not observed in that run: {why}")
        try:
            found = self._decide(check, known)
        except Exception as broken:  # current checks may need evidence that the run does not have
            ours = f"esipp itself failed: {type(broken).__name__}: {broken}"
            found = _left_open(check, Status.ERROR, ours)
        if found.status is Status.ERROR and check.id not in self._checks_then:
            found = replace(found, status=Status.INCONCLUSIVE, reason=f"not observed in that run: {found.reason}")
        return replace(found, likely=where_to_look(check, found))

    def _decide(self, check: Check, known: Known) -> Verdict:
        name = judge_of(check)
        if isinstance(check, PathCheck):
            return judge(check, replace(self._paths, features=known.features, facts=known.facts))
        seen = self.past.run.judged.get(name, NOT_SEEN[name])
        if isinstance(check, EndpointChangeCheck):
            moved = self._moved
            return give_verdict(
                check, known.features, known.facts, lambda: moved(check.balancer).decide(check), check.differences
            )
        if isinstance(check, ContinuityCheck):
            return self._flowed.verdict(check, known.features, known.facts)
        if isinstance(check, PolicyChangeCheck):
            return judge_flips(check, seen, known.features, known.facts)
        return _OTHERS[name](check, seen, known.features, known.facts)

    @cached_property
    def _paths(self) -> Evidence:
        """The evidence of paths; each observation is read once, whatever the features and facts."""
        past, window = self.past, self.past.run.judged.get(PATHS)
        if window is None:
            return Evidence({}, Topology(), {}, int(past.run.header["samples"]))
        return Evidence(
            past.observations,
            window.topology,
            {},
            window.samples,
            obstacles=window.obstacles,
            witnesses=past.run.witnesses,
            blind=window.blind,
            steers=window.steers,
            clocks=window.clocks,
            doubts=window.doubts,
            windows=window.windows,
        )

    @cached_property
    def _flowed(self) -> ContinuityJudge:
        return ContinuityJudge(self.past.run.judged.get(CONTINUITY, NOT_SEEN[CONTINUITY]))

    def _moved(self, balancer: Balancer) -> MovesJudge:
        if balancer not in self._balancers:
            self._balancers[balancer] = MovesJudge(self.past.run.judged[CONVERGENCE].results[balancer])
        return self._balancers[balancer]


_OTHERS: Mapping[str, Callable[[Check, Any, Mapping[str, Feature], Mapping[str, str]], Verdict]] = {
    HEALTH: judge_health,
    INTEROPERABILITY: judge_interoperability,
    API: judge_api,
}


def _left_open(check: Check, status: Status, why: str) -> Verdict:
    return Verdict(check.id, check.level, status, check.expected, "nothing", why)


# ----------------------------------------------------------------------------------- what of today was not seen then
def _path(check: Check, past: Past) -> str:
    assert isinstance(check, PathCheck)
    known = past.observations.keys() | past.run.judged[PATHS].obstacles.keys()
    return next((f"{path.key} was not dialled" for path in check.paths if path.key not in known), "")


def _health(check: Check, past: Past) -> str:
    seen: Health = past.run.judged[HEALTH]
    if isinstance(check, HealthAnswerCheck):
        key = check.question.key
        if key in seen.obstacles or (key in seen.answers and (check.about is not About.TRUTH or key in seen.served)):
            return ""
        return f"the health check {key} was not probed"
    assert isinstance(check, HealthScenarioCheck)
    shown: Mapping[str, object] = {
        "lifecycle": seen.life, "terminating": seen.leaving, "placement": seen.rounds, "stable": seen.stable,
        "cordoned": seen.cordoned,
    }  # fmt: skip
    tried = check.trial in seen.trouble or check.trial in seen.broken or shown.get(check.trial)
    return "" if tried else f"the scenario {check.trial} did not run"


def _interoperability(check: Check, past: Past) -> str:
    assert isinstance(check, InteroperabilityCheck)
    seen: InterOperated = past.run.judged[INTEROPERABILITY]
    tried = check.trial in seen.trouble or check.trial in seen.broken or getattr(seen, check.trial, None)
    return "" if tried else f"the scenario {check.trial} did not run"


def _flips(check: Check, past: Past) -> str:
    seen: Flipped = past.run.judged[FLIPS]
    if isinstance(check, FlippedCheck):
        return _flipped(check, seen)
    if BESIDE in seen.trouble or BESIDE in seen.broken:
        return ""
    window = seen.window
    if window is None:
        return "no Services were dialled while others changed their policy"
    if isinstance(check, IsolationCheck):
        known = window.evidence.observations.keys() | window.evidence.obstacles.keys()
        return next((f"{path.key} was not dialled" for path in check.paths if path.key not in known), "")
    assert isinstance(check, IsolationHealthCheck)
    asked = (check.place, check.family) in window.health
    return "" if asked else f"the health check of the {check.place} was not probed over {check.family}"


def _flipped(check: FlippedCheck, seen: Flipped) -> str:
    service = check.service.value
    if service in seen.trouble or service in seen.broken:
        return ""
    course = seen.courses.get(check.service)
    if course is None:
        return f"the policy of {service} was not changed"
    if check.claim is FlipClaim.KEPT:
        dialled = any((each.at, each.family) == (check.at, check.family) for each in course.kept)
    elif check.at is None:
        dialled = any(family is check.family for _, _, family in course.health)
    else:
        dialled = (check.at, check.family) in course.data or (check.at, check.family) in course.obstacles
    return "" if dialled else f"{service} was not dialled there over {check.family}"


def _convergence(check: Check, past: Past) -> str:
    assert isinstance(check, EndpointChangeCheck)
    seen: Moved = past.run.judged[CONVERGENCE]
    return "" if check.balancer in seen.results else f"there were no endpoint changes behind {check.balancer}"


def _continuity(check: Check, past: Past) -> str:
    assert isinstance(check, ContinuityCheck)
    seen: Flowed = past.run.judged[CONTINUITY]
    asked = (check.way, check.family)
    known = asked in seen.streams or asked in seen.obstacles or seen.trouble
    return "" if known else f"no request was sent through {check.way.slug} over {check.family}"


_LACKS: Mapping[str, Callable[[Check, Past], str]] = {
    PATHS: _path,
    HEALTH: _health,
    INTEROPERABILITY: _interoperability,
    FLIPS: _flips,
    CONVERGENCE: _convergence,
    CONTINUITY: _continuity,
}
