"""``esipp judge RUN``: what the checks of today say of what was seen then, and what of it is new."""

import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from esipp import __version__
from esipp.base.errors import ExitCode
from esipp.base.plural import counted as many
from esipp.checks.check import Binding, Check, Status, left_out_of
from esipp.checks.observation import Verdict
from esipp.ledger.conclusion import Conclusion, conclude
from esipp.ledger.file import Ledger
from esipp.ledger.reading import LEDGER
from esipp.ledger.recorded_checks import check_record
from esipp.ledger.recorded_run import Past, read_past, records
from esipp.ledger.rejudging import Bench

MOST_NAMED = 5
"""Checks that are named of those that cannot be judged for one reason."""


class Change(StrEnum):
    """What became of a check since the run.

    ``new`` is one that the run did not have; ``gone`` is one that there is no more. ``first`` is one that the run had
    and was killed before it judged it.
    """

    SAME = "same"
    WORDS = "same verdict, told otherwise"
    OTHER = "other verdict"
    FIRST = "judged for the first time"
    NEW = "new"
    GONE = "gone"
    NOT_JUDGED = "not to be judged"


@dataclass
class Again:
    """A run, judged again.

    Args:
        past: the run.
        checks: those of today that were judged; ``verdicts``: what was said of each, by id.
        left_out: core checks of today that were not judged.
        changes: what became of each check, those that are gone included, by id.
        lacking: of checks that could not be judged, or not any more, why.
    """

    past: Past
    checks: list[Check] = field(default_factory=list)
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    left_out: int = 0
    changes: dict[str, Change] = field(default_factory=dict)
    lacking: dict[str, str] = field(default_factory=dict)

    @property
    def conclusion(self) -> Conclusion:
        """The last word on the new verdicts; what went wrong with the run itself goes on being wrong."""
        header, end = self.past.run.header, self.past.run.end
        fail_on, accepted = Binding(header["fail_on"]), bool(header["accept_known_defects"])
        said = conclude(self.verdicts.values(), self.left_out, fail_on, accept_known_defects=accepted)
        if said.exit_code is ExitCode.NOT_CONFORMANT:
            return said
        if end is None:
            why = "the run has no closing record: it was killed"
            return replace(said, result="incomplete", exit_code=ExitCode.HARNESS, why=why)
        if end["result"] != self.past.run.judged.result:  # its teardown failed, say, or it was interrupted
            code = ExitCode(end["exit_code"])
            return replace(said, result=end["result"], exit_code=code or ExitCode.HARNESS, why=end["why"])
        return said


def judge_again(past: Past, checks: Sequence[Check], named: Collection[str] = ()) -> Again:
    """Judge a run by the checks of today.

    Args:
        past: the run.
        checks: all checks of today.
        named: the ids of those that are to be judged; with none, those that the run had, and those of its suites for
            which it kept all that is needed. A check that the run had, or that is named, is always judged; for want of
            what must be seen it is inconclusive. A core check that is not judged counts as left out.
    """
    bench, made = Bench(past, checks), Again(past)
    then, suites = {check.id for check in past.run.checks}, {check.suite for check in past.run.checks}
    for check in checks:
        if check.id not in named if named else check.id not in then and check.suite not in suites:
            continue
        why = bench.lacks(check)
        if why:
            made.lacking[check.id] = why
            made.changes[check.id] = Change.NOT_JUDGED
            if not named and check.id not in then:
                continue
        made.checks.append(check)
        verdict = made.verdicts[check.id] = bench.verdict(check)
        if not why:
            made.changes[check.id] = (
                _compared(past.run.verdicts.get(check.id), verdict) if check.id in then else Change.NEW
            )
    today = {check.id for check in checks}
    for identity in () if named else sorted(then - today):
        made.changes[identity] = Change.GONE
    made.left_out = left_out_of(checks, made.verdicts)
    return made


def _compared(then: Verdict | None, now: Verdict) -> Change:
    if then is None:
        return Change.FIRST
    if then.status is not now.status:
        return Change.OTHER
    return Change.SAME if then.as_json() == now.as_json() else Change.WORDS


# ------------------------------------------------------------------------------------------------------------- told
def tell(again: Again) -> Iterator[str]:
    """Line by line: what changed, check by check; how many checks of each kind; the last word."""
    header = again.past.run.header
    when = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(header["at"]))
    yield f"run {header['run']} of {when}, by esipp {header['suite']}; judged again by esipp {__version__}"
    then = again.past.run.verdicts
    for identity, change in again.changes.items():
        if change is Change.OTHER:
            yield f"{then[identity].status.value} is now {_words(again.verdicts[identity])}"
        elif change in (Change.NEW, Change.FIRST) and again.verdicts[identity].status is not Status.UNSUPPORTED:
            yield f"{change.value}: {_words(again.verdicts[identity])}"
        elif change is Change.GONE:
            yield f"gone: {identity}, which was {then[identity].status.value if identity in then else 'not judged'}"
        elif change is Change.WORDS:
            yield f"{then[identity].status.value} as before, told otherwise: {_differing(then[identity], again)}"
    for change in (Change.NEW, Change.FIRST):
        added = [again.verdicts[name] for name, found in again.changes.items() if found is change]
        unsupported = {each.check_id: each.reason for each in added if each.status is Status.UNSUPPORTED}
        yield from _by_reason(f"{change.value} and unsupported,", unsupported)
    yield from _by_reason("not to be judged, as", again.lacking)
    counted = Counter(again.changes.values())
    parts = ", ".join(f"{counted[each]} {each.value}" for each in Change if counted[each] or each is Change.SAME)
    yield f"{many(sum(counted.values()), 'check')}: {parts}"
    yield again.conclusion.sentence


def _words(verdict: Verdict) -> str:
    why = f" ({verdict.reason})" if verdict.reason else ""
    said = f"expected {verdict.expected}; observed {verdict.observed}{why}"
    return f"{verdict.status.value}: ({verdict.level.value}) {verdict.check_id}: {said}"


def _differing(then: Verdict, again: Again) -> str:
    """What of a verdict is told otherwise."""
    now = again.verdicts[then.check_id].as_json()
    told = [f"{name} {now[name]!r}, was {was!r}" for name, was in then.as_json().items() if now[name] != was]
    return f"{then.check_id}: {'; '.join(told)}"


UNDIALLED = " was not dialled"
"""How the reason ends where one path is missing: checks are told together, whichever path it is."""


def _by_reason(what: str, reasons: Mapping[str, str]) -> Iterator[str]:
    """Checks and why, reason by reason."""
    by_reason: dict[str, list[str]] = {}
    for identity, why in reasons.items():
        what_lacks = "a path of theirs was not dialled" if why.endswith(UNDIALLED) else why
        by_reason.setdefault(what_lacks, []).append(identity)
    for why, checks in by_reason.items():
        told = ", ".join(checks[:MOST_NAMED]) + (
            f" and {len(checks) - MOST_NAMED} more" if len(checks) > MOST_NAMED else ""
        )
        yield f"{what} {why}: {told}"


# ---------------------------------------------------------------------------------------------------------- written
KEPT_ANEW = ("header", "verdict", "end")
"""Records that are written anew; all others are what was seen, and are copied."""


def write_again(again: Again, folder: Path) -> Path:
    """Write a ledger of the run with the new verdicts.

    Raises:
        PreflightError: there is one already, or the folder cannot be written.
        HarnessError: the disk is full.
    """
    past = again.past
    ledger = Ledger(folder / LEDGER)
    header = {name: value for name, value in past.run.header.items() if name != "record"}
    header |= {
        "suite": __version__,
        "rows": [check_record(check) for check in again.checks],
        "left_out_core_rows": again.left_out,
        "judged_again": {"at": round(time.time(), 6), "run": header["run"], "suite": header["suite"]},
    }
    ledger.write("header", **header)
    for told in records(past.ledger):
        kind = told.pop("record")
        if kind not in KEPT_ANEW:
            ledger.write(kind, **told)
    for verdict in again.verdicts.values():
        ledger.write("verdict", **verdict.as_json())
    said, end = again.conclusion, past.run.end or {}
    ledger.seal(
        result=said.result,
        why=said.why,
        counts=dict(said.counts),
        exit_code=int(said.exit_code),
        seconds=end.get("seconds", {}),
    )
    ledger.close()
    return ledger.path


def command(path: Path, checks: Sequence[Check], named: Collection[str], out: Path | None) -> int:
    """The command: judge, tell, write; returns the exit code.

    Raises:
        PreflightError: the ledger cannot be read, or ``out`` not be written.
    """
    again = judge_again(read_past(path), checks, named)
    for line in tell(again):
        print(line)
    if out is not None:
        print(f"ledger: {write_again(again, out)}")
    return int(again.conclusion.exit_code)
