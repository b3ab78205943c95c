"""The judges of today, before whom a run of the past is brought: (row, what was seen then) -> verdict. Pure."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from esipp.checks.api import EditRow
from esipp.checks.check import Feature, Row, Status, missing_features
from esipp.checks.continuity import ContinuityRow
from esipp.checks.endpoint_change import MoveRow
from esipp.checks.health import About, HealthTrialRow, QuestionRow
from esipp.checks.interoperability import InteropRow
from esipp.checks.model import Balancer
from esipp.checks.observation import Verdict
from esipp.checks.path import Cell
from esipp.checks.policy_change import BesideHealthRow, BesideRow, FlipClaim, FlippedRow, FlipRow
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
from esipp.ledger.recorded_checks import ToldRow
from esipp.ledger.recorded_run import Known, Past

KINDS: tuple[tuple[type[Row], str], ...] = (
    (Cell, PATHS),
    (QuestionRow, HEALTH),
    (HealthTrialRow, HEALTH),
    (InteropRow, INTEROPERABILITY),
    (EditRow, API),
    (FlipRow, FLIPS),
    (MoveRow, CONVERGENCE),
    (ContinuityRow, CONTINUITY),
)
"""Which judge decides which rows."""

NOT_SEEN: Mapping[str, Any] = {
    HEALTH: Health(),
    INTEROPERABILITY: InterOperated(),
    API: Edited(),
    FLIPS: Flipped(),
    CONVERGENCE: Moved({}),
    CONTINUITY: Flowed(),
}


def judge_of(row: Row) -> str:
    """The name of the judge who decides a row."""
    return next(name for of, name in KINDS if isinstance(row, of))


@dataclass
class Bench:
    """All judges, with what was seen in one run.

    ``rows`` are those of today.
    """

    past: Past
    rows: Sequence[Row]
    _balancers: dict[Balancer, MovesJudge] = field(default_factory=dict)
    _completed: dict[int, Known] = field(default_factory=dict)

    # ------------------------------------------------------------------------------------------- what was there then
    def known(self, row: Row) -> Known:
        """What was known when the row was judged, or in the end; features that only rows of today need are added."""
        then = self.past.known.get(row.id, self.past.at_last)
        if id(then) not in self._completed:
            self._completed[id(then)] = Known(then.facts, self._all_features(then))
        return self._completed[id(then)]

    def _all_features(self, then: Known) -> dict[str, Feature]:
        wanted = {name for row in self.rows for name in row.features}
        unknown = Feature(False, "nobody looked for it in that run", ours=True)
        version = version_features(then.facts.get("kubernetes", ""), self.rows)
        return {**dict.fromkeys(wanted, unknown), **version, **then.features}

    def lacks(self, row: Row) -> str:
        """Why a row cannot be judged from what was seen in that run; empty if it can."""
        if missing_features(row, self.known(row).features):
            return ""  # it is not asked on that cluster, whatever was seen
        name = judge_of(row)
        if name in self.past.unread:
            return f"what the judge of {name} was given cannot be read ({self.past.unread[name]})"
        if name not in self.past.judged:
            return f"the run kept nothing for the judge of {name}"
        if isinstance(row, EditRow):
            return self._lacks_requests(row)
        return "" if self._asked_then(row) else _LACKS[name](row, self.past)

    def _asked_then(self, row: Row) -> bool:
        """Whether the run had this row, and asked it in the same way: then what was seen is what there was to see."""
        then = self._rows_then.get(row.id)
        if then is None or then.asked != row.asked:
            return False
        if not isinstance(row, Cell):
            return True
        controls = {each["path"] for each in then.data["controls"]}
        return then.path == row.path.key and controls == {each.path.key for each in row.controls}

    def _lacks_requests(self, row: EditRow) -> str:
        """The requests themselves are not kept but in words, by the rows of then that were about the same ones."""
        seen: Edited = self.past.judged[API]
        known = {each.id for each in self.rows if isinstance(each, EditRow) and each.trial == row.trial}
        made = {then.asked for identity, then in self._rows_then.items() if identity in known}
        tried = row.trial in seen.answers or row.trial in seen.trouble or row.trial in seen.broken
        return "" if tried and made == {row.asked} else f"its requests were not made, or other ones ({row.trial})"

    @cached_property
    def _rows_then(self) -> Mapping[str, ToldRow]:
        return {row.id: row for row in self.past.run.rows}

    # ---------------------------------------------------------------------------------------------------- the judges
    def verdict(self, row: Row) -> Verdict:
        """The verdict on a row, from what was seen in that run; open where that is not enough."""
        known, why = self.known(row), self.lacks(row)
        if why:
            return _left_open(row, Status.INCONCLUSIVE, f"not observed in that run: {why}")
        try:
            found = self._decide(row, known)
        except Exception as broken:  # rows of today may look for what nobody looked for then
            ours = f"esipp itself failed: {type(broken).__name__}: {broken}"
            found = _left_open(row, Status.ERROR, ours)
        if found.status is Status.ERROR and row.id not in self._rows_then:
            found = replace(found, status=Status.INCONCLUSIVE, reason=f"not observed in that run: {found.reason}")
        return replace(found, likely=where_to_look(row, found))

    def _decide(self, row: Row, known: Known) -> Verdict:
        name = judge_of(row)
        if isinstance(row, Cell):
            return judge(row, replace(self._paths, features=known.features, facts=known.facts))
        seen = self.past.judged.get(name, NOT_SEEN[name])
        if isinstance(row, MoveRow):
            moved = self._moved
            return give_verdict(
                row, known.features, known.facts, lambda: moved(row.balancer).decide(row), row.differences
            )
        if isinstance(row, ContinuityRow):
            return self._flowed.verdict(row, known.features, known.facts)
        if isinstance(row, FlipRow):
            return judge_flips(row, seen, known.features, known.facts)
        return _OTHERS[name](row, seen, known.features, known.facts)

    @cached_property
    def _paths(self) -> Evidence:
        """What was seen of paths; each observation is read once, whatever features and facts are put beside it."""
        past, window = self.past, self.past.judged.get(PATHS)
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
        return ContinuityJudge(self.past.judged.get(CONTINUITY, NOT_SEEN[CONTINUITY]))

    def _moved(self, balancer: Balancer) -> MovesJudge:
        if balancer not in self._balancers:
            self._balancers[balancer] = MovesJudge(self.past.judged[CONVERGENCE].results[balancer])
        return self._balancers[balancer]


_OTHERS: Mapping[str, Callable[[Row, Any, Mapping[str, Feature], Mapping[str, str]], Verdict]] = {
    HEALTH: judge_health,
    INTEROPERABILITY: judge_interoperability,
    API: judge_api,
}


def _left_open(row: Row, status: Status, why: str) -> Verdict:
    return Verdict(row.id, row.level, status, row.expected, "nothing", why)


# ----------------------------------------------------------------------------------- what of today was not seen then
def _path(row: Row, past: Past) -> str:
    assert isinstance(row, Cell)
    known = past.observations.keys() | past.judged[PATHS].obstacles.keys()
    return next((f"{path.key} was not dialled" for path in row.paths if path.key not in known), "")


def _health(row: Row, past: Past) -> str:
    seen: Health = past.judged[HEALTH]
    if isinstance(row, QuestionRow):
        key = row.question.key
        if key in seen.obstacles or (key in seen.answers and (row.about is not About.TRUTH or key in seen.served)):
            return ""
        return f"the question {key} was not asked"
    assert isinstance(row, HealthTrialRow)
    shown: Mapping[str, object] = {
        "lifecycle": seen.life, "terminating": seen.leaving, "placement": seen.rounds, "stable": seen.stable,
        "cordoned": seen.cordoned,
    }  # fmt: skip
    tried = row.trial in seen.trouble or row.trial in seen.broken or shown.get(row.trial)
    return "" if tried else f"the trial {row.trial} was not made"


def _interoperability(row: Row, past: Past) -> str:
    assert isinstance(row, InteropRow)
    seen: InterOperated = past.judged[INTEROPERABILITY]
    tried = row.trial in seen.trouble or row.trial in seen.broken or getattr(seen, row.trial, None)
    return "" if tried else f"the trial {row.trial} was not made"


def _flips(row: Row, past: Past) -> str:
    seen: Flipped = past.judged[FLIPS]
    if isinstance(row, FlippedRow):
        return _flipped(row, seen)
    if BESIDE in seen.trouble or BESIDE in seen.broken:
        return ""
    window = seen.window
    if window is None:
        return "steady services were not dialled while neighbours flipped"
    if isinstance(row, BesideRow):
        known = window.evidence.observations.keys() | window.evidence.obstacles.keys()
        return next((f"{path.key} was not dialled" for path in row.paths if path.key not in known), "")
    assert isinstance(row, BesideHealthRow)
    asked = (row.place, row.family) in window.health
    return "" if asked else f"the health check of the {row.place} was not asked over {row.family}"


def _flipped(row: FlippedRow, seen: Flipped) -> str:
    service = row.service.value
    if service in seen.trouble or service in seen.broken:
        return ""
    course = seen.courses.get(row.service)
    if course is None:
        return f"the policy of {service} was not flipped"
    if row.claim is FlipClaim.KEPT:
        dialled = any((each.at, each.family) == (row.at, row.family) for each in course.kept)
    elif row.at is None:
        dialled = any(family is row.family for _, _, family in course.health)
    else:
        dialled = (row.at, row.family) in course.data or (row.at, row.family) in course.obstacles
    return "" if dialled else f"{service} was not dialled there over {row.family}"


def _convergence(row: Row, past: Past) -> str:
    assert isinstance(row, MoveRow)
    seen: Moved = past.judged[CONVERGENCE]
    return "" if row.balancer in seen.results else f"no pods moved behind {row.balancer}"


def _continuity(row: Row, past: Past) -> str:
    assert isinstance(row, ContinuityRow)
    seen: Flowed = past.judged[CONTINUITY]
    asked = (row.way, row.family)
    known = asked in seen.streams or asked in seen.obstacles or seen.trouble
    return "" if known else f"nothing was sent by way of {row.way.slug} over {row.family}"


_LACKS: Mapping[str, Callable[[Row, Past], str]] = {
    PATHS: _path,
    HEALTH: _health,
    INTEROPERABILITY: _interoperability,
    FLIPS: _flips,
    CONVERGENCE: _convergence,
    CONTINUITY: _continuity,
}
