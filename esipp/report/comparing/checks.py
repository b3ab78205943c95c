"""Changes of each check between two runs: worse, better, or neither."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Any

from esipp.checks.check import Binding, Level, Status, Verdict
from esipp.ledger.conclusion import is_defect
from esipp.ledger.reading import RecordedRun
from esipp.ledger.recorded_checks import RecordedCheck
from esipp.report.comparing.words import Shape, Words, gist


class Kind(StrEnum):
    """The kind of a change. All but the last three have a mirror image if the runs are swapped. The values are JSON."""

    REGRESSED = "regressed"
    FAILS_NOW = "fails, could not be decided before"
    NOT_SHOWN = "no longer shown to hold"
    FIXED = "fixed"
    SHOWN_NOW = "shown now"
    FAILED_ONCE = "failed, can no longer be decided"
    KNOWN_NOW = "a known difference now"
    KNOWN_ONCE = "no longer a known difference"
    OTHERWISE = "changed otherwise"
    NEW = "new"
    GONE = "gone"
    NO_VERDICT = "without a verdict in one of the runs"
    OBSERVED = "same verdict, other observation"


class _Meaning(Enum):
    """What a verdict says about the product."""

    HOLDS = "holds"
    KNOWN = "differs as the API allows"
    DEFECT = "differs by a known defect or finding"
    FAILS = "fails"
    OPEN = "decides nothing"
    RECORDED = "nothing is required"


_MEANING = {
    Status.PASS: _Meaning.HOLDS,
    Status.RECORDED: _Meaning.RECORDED,
    Status.KNOWN: _Meaning.KNOWN,
    Status.FAIL: _Meaning.FAILS,
    Status.FLAKY: _Meaning.FAILS,
    Status.UNSUPPORTED: _Meaning.OPEN,
    Status.INCONCLUSIVE: _Meaning.OPEN,
    Status.ERROR: _Meaning.OPEN,
}

_KIND = {
    (_Meaning.HOLDS, _Meaning.FAILS): Kind.REGRESSED,
    (_Meaning.KNOWN, _Meaning.FAILS): Kind.REGRESSED,
    (_Meaning.OPEN, _Meaning.FAILS): Kind.FAILS_NOW,
    (_Meaning.HOLDS, _Meaning.OPEN): Kind.NOT_SHOWN,
    (_Meaning.KNOWN, _Meaning.OPEN): Kind.NOT_SHOWN,
    (_Meaning.FAILS, _Meaning.HOLDS): Kind.FIXED,
    (_Meaning.FAILS, _Meaning.KNOWN): Kind.FIXED,
    (_Meaning.OPEN, _Meaning.HOLDS): Kind.SHOWN_NOW,
    (_Meaning.OPEN, _Meaning.KNOWN): Kind.SHOWN_NOW,
    (_Meaning.FAILS, _Meaning.OPEN): Kind.FAILED_ONCE,
    (_Meaning.HOLDS, _Meaning.KNOWN): Kind.KNOWN_NOW,
    (_Meaning.KNOWN, _Meaning.HOLDS): Kind.KNOWN_ONCE,
    (_Meaning.HOLDS, _Meaning.DEFECT): Kind.REGRESSED,
    (_Meaning.KNOWN, _Meaning.DEFECT): Kind.REGRESSED,
    (_Meaning.OPEN, _Meaning.DEFECT): Kind.FAILS_NOW,
    (_Meaning.RECORDED, _Meaning.DEFECT): Kind.FAILS_NOW,
    (_Meaning.DEFECT, _Meaning.HOLDS): Kind.FIXED,
    (_Meaning.DEFECT, _Meaning.KNOWN): Kind.FIXED,
    (_Meaning.DEFECT, _Meaning.OPEN): Kind.FAILED_ONCE,
    (_Meaning.DEFECT, _Meaning.RECORDED): Kind.FAILED_ONCE,
    (_Meaning.HOLDS, _Meaning.RECORDED): Kind.NOT_SHOWN,
    (_Meaning.KNOWN, _Meaning.RECORDED): Kind.NOT_SHOWN,
    (_Meaning.RECORDED, _Meaning.FAILS): Kind.FAILS_NOW,
    (_Meaning.RECORDED, _Meaning.HOLDS): Kind.SHOWN_NOW,
    (_Meaning.RECORDED, _Meaning.KNOWN): Kind.SHOWN_NOW,
    (_Meaning.FAILS, _Meaning.RECORDED): Kind.FAILED_ONCE,
}
"""Other pairs have the same weight: a known defect and a failure both make a run exit with code 1."""

SEEN = "seen"
"""The aspect of changes of the observation itself; a value of the JSON."""

FAILING = (Status.FAIL, Status.FLAKY)

WORSE = (Kind.REGRESSED, Kind.FAILS_NOW, Kind.NOT_SHOWN)
"""Changes that make ``esipp diff`` fail for a binding check: it fails now, or is no longer shown to hold."""

TITLES = {
    Kind.REGRESSED: "Regressed",
    Kind.FAILS_NOW: "Fails now, undecided before",
    Kind.NOT_SHOWN: "Held before, undecided now",
    Kind.FIXED: "Fixed",
    Kind.SHOWN_NOW: "Holds now, undecided before",
    Kind.FAILED_ONCE: "Failed before, undecided now",
    Kind.KNOWN_NOW: "Now a known difference",
    Kind.KNOWN_ONCE: "No longer a known difference",
    Kind.OTHERWISE: "Other changes of verdict",
    Kind.NEW: "Only in the new run",
    Kind.GONE: "Only in the old run",
    Kind.NO_VERDICT: "Verdict missing in one run",
    Kind.OBSERVED: "Same verdict, different observation",
}
"""The headings of the report."""

DEFINITIONS = {
    Kind.REGRESSED: "pass or allowed before; fail, flaky or a known defect now",
    Kind.FAILS_NOW: "unsupported, inconclusive, error or recorded before; fail, flaky or a known defect now",
    Kind.NOT_SHOWN: "pass or allowed before; unsupported, inconclusive, error or recorded now. This loss of coverage "
    "counts as regressed for a core check",
    Kind.FIXED: "fail, flaky or a known defect before; pass or allowed now",
    Kind.SHOWN_NOW: "unsupported, inconclusive, error or recorded before; pass or allowed now",
    Kind.FAILED_ONCE: "fail, flaky or a known defect before; unsupported, inconclusive, error or recorded now. This "
    "does not show a fix",
    Kind.KNOWN_NOW: "pass before; a difference that the API allows now",
    Kind.KNOWN_ONCE: "a difference that the API allows before; pass now",
    Kind.OTHERWISE: "a different verdict of the same weight",
    Kind.NEW: "only the new run selected these checks",
    Kind.GONE: "only the old run selected these checks",
    Kind.NO_VERDICT: "an incomplete run selected the check but has no verdict on it",
    Kind.OBSERVED: "the verdict is the same, the observation differs. Addresses, ports, counts and the names of pods "
    "and nodes are not compared",
}


@dataclass(frozen=True)
class Change:
    """The change of one check. ``old`` and ``new`` are None if a run has no verdict on it.

    Args:
        id, level: the check; the stricter level if the versions of the suite disagree.
        before, after: the observations in few words that hold on every cluster.
        why_before, why_after: the reasons of known differences and undecided verdicts.
        aspect: the aspect that differs between two observations.
        measured_before, measured_after: the observations with their numbers, if they have any.
    """

    id: str
    kind: Kind
    level: Level
    old: Verdict | None
    new: Verdict | None
    before: str = ""
    after: str = ""
    why_before: str = ""
    why_after: str = ""
    aspect: str = ""
    measured_before: str = ""
    measured_after: str = ""

    def binds(self, fail_on: Binding) -> bool:
        """Whether the check can make a comparison fail with this ``--fail-on``."""
        if self.level is not Level.EXTENDED:
            return self.level is Level.CORE
        return fail_on is Binding.EXTENDED

    @property
    def counts_as_regressed(self) -> bool:
        """Whether the check is worse: it fails now, or it is core and no longer shown to hold."""
        return self.kind is Kind.REGRESSED or (self.kind is Kind.NOT_SHOWN and self.level is Level.CORE)

    @property
    def counts_as_fixed(self) -> bool:
        """Whether the check would count as regressed if the runs were swapped."""
        return self.kind is Kind.FIXED or (self.kind is Kind.SHOWN_NOW and self.level is Level.CORE)


def kind_of_change(old: Verdict, new: Verdict) -> Kind | None:
    """The kind of a change of verdict; None without a change."""
    meanings = _meaning(old), _meaning(new)
    if old.status is new.status and meanings[0] is meanings[1]:
        return None
    return _KIND.get(meanings, Kind.OTHERWISE)


def _meaning(verdict: Verdict) -> _Meaning:
    return _Meaning.DEFECT if is_defect(verdict) else _MEANING[verdict.status]


def compare_checks(old: RecordedRun, new: RecordedRun) -> list[Change]:
    """All changes, in the order of the checks."""
    words = Words(old), Words(new)
    before = {check.id: check for check in old.checks}
    after = {check.id: check for check in new.checks}
    changes: list[Change] = []
    for name in [*before, *(each for each in after if each not in before)]:
        checks = [check for check in (before.get(name), after.get(name)) if check is not None]
        only = Kind.GONE if name not in after else Kind.NEW if name not in before else None
        changes += _compare(name, checks, only, (old, new), words)
    return changes


def _compare(
    name: str,
    checks: list[RecordedCheck],
    only: Kind | None,
    runs: tuple[RecordedRun, RecordedRun],
    words: tuple[Words, Words],
) -> Iterator[Change]:
    old, new = (run.verdicts.get(name) for run in runs)
    levels = list(Level)
    level = min((check.level for check in checks), key=levels.index)
    shapes = [each and word.shape(each) for each, word in zip((old, new), words, strict=True)]
    gists = [gist(each) if each else "" for each in shapes]
    measured = [word.measured(each) if each else "" for each, word in zip((old, new), words, strict=True)]
    was, now = (word.why(each) if each else "" for each, word in zip((old, new), words, strict=True))

    def change(kind: Kind, before: str = gists[0], after: str = gists[1], aspect: str = "") -> Change:
        numbers = measured if aspect in ("", SEEN) else ("", "")
        return Change(name, kind, level, old, new, before, after, was, now, aspect, *numbers)

    if only:
        yield change(only)
    elif old is None or new is None:
        if old is not new:
            yield change(Kind.NO_VERDICT)
    elif kind := kind_of_change(old, new):
        yield change(kind)
    else:
        assert shapes[0]
        assert shapes[1]
        for aspect, before, after in _differing(shapes[0], shapes[1]):
            yield change(Kind.OBSERVED, before, after, aspect)


def _differing(old: Shape, new: Shape) -> Iterator[tuple[str, str, str]]:
    """The difference of two observations with one verdict: at most one aspect, the most telling."""
    if old.why != new.why:
        yield "reason", old.why, new.why
    elif old.seen != new.seen:
        before, after = gist(old), gist(new)
        if before == after:  # the owners are of the same kind, such as another node
            before, after = (" and ".join(sorted(each.seen)) for each in (old, new))
        yield SEEN, before, after
    elif old.ports != new.ports and old.ports and new.ports:
        yield "source ports", old.ports, new.ports
    elif len(old.seen) == 1 and old.change and new.change and not old.change & new.change:
        # which connections were captured is chance: the route differs only if both have no place in common, and not
        # if several nodes take turns
        yield "where the source changed", "; ".join(sorted(old.change)), "; ".join(sorted(new.change))


@dataclass(frozen=True)
class Redefined:
    """A check that the other version of the suite defines differently: ``what`` differs, and both texts."""

    id: str
    what: str
    old: str
    new: str


def redefined(old: RecordedRun, new: RecordedRun) -> list[Redefined]:
    """The checks of both runs that the two versions of the suite define differently."""
    before = {check.id: check for check in old.checks}
    found = []
    for check in new.checks:
        if check.id in before:
            pairs = zip(_definition(before[check.id]).items(), _definition(check).values(), strict=True)
            found += [Redefined(check.id, what, was, now) for (what, was), now in pairs if was != now]
    return found


def _definition(check: RecordedCheck) -> Mapping[str, str]:
    data: Mapping[str, Any] = check.data
    return {
        "level": check.level.value,
        "requirement": check.requirement,
        "expected": check.expect,
        "needs": ", ".join(check.features),
        "method": check.asked,
        "controls": "; ".join(each["path"] for each in data.get("controls", ())),
    }
