"""What became of every check from one run to the next: which changes of verdict are worse, better, or neither."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum, StrEnum
from typing import Any

from esipp.checks.check import Binding, Level, Status
from esipp.checks.observation import Verdict
from esipp.ledger.conclusion import is_defect
from esipp.ledger.reading import RecordedRun
from esipp.ledger.recorded_checks import RecordedCheck
from esipp.report.comparing.words import Shape, Words, gist


class Kind(StrEnum):
    """What became of a check. Every kind but the last three has its mirror image when the runs change places."""

    REGRESSED = "regressed"
    FAILS_NOW = "fails, could not be told before"
    NOT_SHOWN = "not shown any more"
    FIXED = "fixed"
    SHOWN_NOW = "shown now"
    FAILED_ONCE = "failed, cannot be told any more"
    KNOWN_NOW = "a known difference now"
    KNOWN_ONCE = "a known difference no more"
    OTHERWISE = "changed otherwise"
    NEW = "new"
    GONE = "gone"
    NO_VERDICT = "without a verdict in one of the runs"
    OBSERVED = "same verdict, other observation"


class _Word(Enum):
    """What a verdict says about the product."""

    HOLDS = "holds"
    KNOWN = "differs as the API allows"
    DEFECT = "differs by a known defect or finding"
    FAILS = "fails"
    OPEN = "says nothing"
    RECORDED = "nothing is required"


_WORD = {
    Status.PASS: _Word.HOLDS,
    Status.RECORDED: _Word.RECORDED,
    Status.KNOWN: _Word.KNOWN,
    Status.FAIL: _Word.FAILS,
    Status.FLAKY: _Word.FAILS,
    Status.UNSUPPORTED: _Word.OPEN,
    Status.INCONCLUSIVE: _Word.OPEN,
    Status.ERROR: _Word.OPEN,
}

_KIND = {
    (_Word.HOLDS, _Word.FAILS): Kind.REGRESSED,
    (_Word.KNOWN, _Word.FAILS): Kind.REGRESSED,
    (_Word.OPEN, _Word.FAILS): Kind.FAILS_NOW,
    (_Word.HOLDS, _Word.OPEN): Kind.NOT_SHOWN,
    (_Word.KNOWN, _Word.OPEN): Kind.NOT_SHOWN,
    (_Word.FAILS, _Word.HOLDS): Kind.FIXED,
    (_Word.FAILS, _Word.KNOWN): Kind.FIXED,
    (_Word.OPEN, _Word.HOLDS): Kind.SHOWN_NOW,
    (_Word.OPEN, _Word.KNOWN): Kind.SHOWN_NOW,
    (_Word.FAILS, _Word.OPEN): Kind.FAILED_ONCE,
    (_Word.HOLDS, _Word.KNOWN): Kind.KNOWN_NOW,
    (_Word.KNOWN, _Word.HOLDS): Kind.KNOWN_ONCE,
    (_Word.HOLDS, _Word.DEFECT): Kind.REGRESSED,
    (_Word.KNOWN, _Word.DEFECT): Kind.REGRESSED,
    (_Word.OPEN, _Word.DEFECT): Kind.FAILS_NOW,
    (_Word.RECORDED, _Word.DEFECT): Kind.FAILS_NOW,
    (_Word.DEFECT, _Word.HOLDS): Kind.FIXED,
    (_Word.DEFECT, _Word.KNOWN): Kind.FIXED,
    (_Word.DEFECT, _Word.OPEN): Kind.FAILED_ONCE,
    (_Word.DEFECT, _Word.RECORDED): Kind.FAILED_ONCE,
    (_Word.HOLDS, _Word.RECORDED): Kind.NOT_SHOWN,
    (_Word.KNOWN, _Word.RECORDED): Kind.NOT_SHOWN,
    (_Word.RECORDED, _Word.FAILS): Kind.FAILS_NOW,
    (_Word.RECORDED, _Word.HOLDS): Kind.SHOWN_NOW,
    (_Word.RECORDED, _Word.KNOWN): Kind.SHOWN_NOW,
    (_Word.FAILS, _Word.RECORDED): Kind.FAILED_ONCE,
}
"""What is not named here has the same weight: a known defect, and a failure, both end a run with exit code 1."""

FAILING = (Status.FAIL, Status.FLAKY)

WORSE = (Kind.REGRESSED, Kind.FAILS_NOW, Kind.NOT_SHOWN)
"""Changes that make ``esipp diff`` fail where the check binds: it fails now, or no longer shows what held."""

DEFINITIONS = {
    Kind.REGRESSED: "pass or allowed before; fail, flaky or a known defect now",
    Kind.FAILS_NOW: "unsupported, inconclusive, error or recorded before; fail, flaky or a known defect now",
    Kind.NOT_SHOWN: "pass or allowed before; unsupported, inconclusive, error or recorded now: a loss of coverage, "
    "which counts as regressed where the check is core",
    Kind.FIXED: "fail, flaky or a known defect before; pass or allowed now",
    Kind.SHOWN_NOW: "unsupported, inconclusive, error or recorded before; pass or allowed now",
    Kind.FAILED_ONCE: "fail, flaky or a known defect before; unsupported, inconclusive, error or recorded now: nothing "
    "says that it was fixed",
    Kind.KNOWN_NOW: "pass before; now it differs as the API allows",
    Kind.KNOWN_ONCE: "it differed as the API allows, and passes now",
    Kind.OTHERWISE: "another verdict of the same weight",
    Kind.NEW: "only the new run was asked for it",
    Kind.GONE: "only the old run was asked for it",
    Kind.NO_VERDICT: "a run that is not whole names the check and says nothing of it",
    Kind.OBSERVED: "the verdict is the same, what was seen is not; addresses, ports, counts and names of pods and "
    "nodes are left out of account",
}


@dataclass(frozen=True)
class Change:
    """What became of one check. ``old`` and ``new`` are None where a run has no verdict on it.

    Args:
        id, level: the check; the level is the stricter of the two where suites disagree.
        before, after: what was seen, in few words that hold on every cluster.
        why_before, why_after: the reason, of a verdict that is known, or says nothing.
        aspect: of another observation: what of it is another.
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

    def binds(self, fail_on: Binding) -> bool:
        """Whether the check makes a comparison fail that is asked to ``--fail-on`` so much."""
        if self.level is not Level.EXTENDED:
            return self.level is Level.CORE
        return fail_on is Binding.EXTENDED

    @property
    def counts_as_regressed(self) -> bool:
        """Whether the check is worse than it was: it fails now, or is core and what held is not shown any more."""
        return self.kind is Kind.REGRESSED or (self.kind is Kind.NOT_SHOWN and self.level is Level.CORE)

    @property
    def counts_as_fixed(self) -> bool:
        """The mirror image: what counts as regressed when the runs change places."""
        return self.kind is Kind.FIXED or (self.kind is Kind.SHOWN_NOW and self.level is Level.CORE)


def kind_of_change(old: Verdict, new: Verdict) -> Kind | None:
    """What a change of verdict is; None where it is the same."""
    words = _word(old), _word(new)
    return None if old.status is new.status and words[0] is words[1] else _KIND.get(words, Kind.OTHERWISE)


def _word(verdict: Verdict) -> _Word:
    return _Word.DEFECT if is_defect(verdict) else _WORD[verdict.status]


def compare_checks(old: RecordedRun, new: RecordedRun) -> list[Change]:
    """What became of every check that is not as it was, in the order of the checks."""
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
    told = [gist(each) if each else "" for each in shapes]
    was, now = (word.why(each) if each else "" for each, word in zip((old, new), words, strict=True))

    def change(kind: Kind, before: str = told[0], after: str = told[1], aspect: str = "") -> Change:
        return Change(name, kind, level, old, new, before, after, was, now, aspect)

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
    """In what two observations of one verdict differ: at most one thing, the one that says most."""
    if old.why != new.why:
        yield "reason", old.why, new.why
    elif old.seen != new.seen:
        before, after = gist(old), gist(new)
        if before == after:  # the owners are others of the same sort: another node
            before, after = (" and ".join(sorted(each.seen)) for each in (old, new))
        yield "seen", before, after
    elif old.ports != new.ports and old.ports and new.ports:
        yield "source ports", old.ports, new.ports
    elif len(old.seen) == 1 and old.change and new.change and not old.change & new.change:
        # which connections were sampled is chance: it is another way only where no place is common to both, and not
        # where several nodes take turns
        yield "where the source changed", "; ".join(sorted(old.change)), "; ".join(sorted(new.change))


@dataclass(frozen=True)
class Redefined:
    """A check that another version of the suite defines otherwise: ``what`` of it, and both words."""

    id: str
    what: str
    old: str
    new: str


def redefined(old: RecordedRun, new: RecordedRun) -> list[Redefined]:
    """What the two suites require differently of checks that both have."""
    before = {check.id: check for check in old.checks}
    found = []
    for check in new.checks:
        if check.id in before:
            pairs = zip(_definition(before[check.id]).items(), _definition(check).values(), strict=True)
            found += [Redefined(check.id, what, was, now) for (what, was), now in pairs if was != now]
    return found


def _definition(check: RecordedCheck) -> Mapping[str, str]:
    told: Mapping[str, Any] = check.data
    return {
        "level": check.level.value,
        "requirement": check.requirement,
        "must be seen": check.expect,
        "needs": ", ".join(check.features),
        "how it is asked": check.asked,
        "controls": "; ".join(each["path"] for each in told.get("controls", ())),
    }
