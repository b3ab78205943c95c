"""``esipp judge RUN``: re-evaluates a recorded run with the current checks, and reports what changed."""

import time
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path

from esipp import __version__
from esipp.base.errors import ExitCode
from esipp.base.plural import counted as number_of
from esipp.checks.check import Binding, Check, Status, Verdict, left_out_of
from esipp.checks.waivers import recorded
from esipp.ledger.codec import record_of
from esipp.ledger.conclusion import Conclusion, conclude
from esipp.ledger.file import Ledger
from esipp.ledger.reading import LEDGER
from esipp.ledger.recorded_checks import check_record
from esipp.ledger.rejudging import Bench, Past, read_past, records

MOST_NAMED = 5
"""The maximum number of checks to name for each reason that they cannot be judged."""


class Change(StrEnum):
    """How a check changed since the run.

    The run did not have a ``new`` check. A ``gone`` check no longer exists. A ``first`` check was part of the run, but
    the run was killed before it judged the check.
    """

    SAME = "same"
    WORDS = "same verdict, other text"
    OTHER = "other verdict"
    FIRST = "judged for the first time"
    NEW = "new"
    GONE = "gone"
    NOT_JUDGED = "not judged"


@dataclass
class Rejudged:
    """A re-evaluated run.

    Args:
        past: the run.
        checks: the current checks that were judged; ``verdicts`` are their verdicts, by id.
        left_out: the number of current core checks that were not judged.
        changes: how each check changed, including checks that are gone, by id.
        lacking: why checks could not be judged, by id.
    """

    past: Past
    checks: list[Check] = field(default_factory=list)
    verdicts: dict[str, Verdict] = field(default_factory=dict)
    left_out: int = 0
    changes: dict[str, Change] = field(default_factory=dict)
    lacking: dict[str, str] = field(default_factory=dict)

    @property
    def conclusion(self) -> Conclusion:
        """The conclusion of the new verdicts; problems of the run itself remain."""
        header, end = self.past.run.header, self.past.run.end
        fail_on, accepted = Binding(header["fail_on"]), bool(header["accept_known_defects"])
        waivers = recorded(header)
        said = conclude(self.verdicts.values(), self.left_out, fail_on, accept_known_defects=accepted, waivers=waivers)
        if said.exit_code is ExitCode.NOT_CONFORMANT:
            return said
        if end is None:
            why = "the run has no closing record: it was killed"
            return replace(said, result="incomplete", exit_code=ExitCode.HARNESS, why=why)
        if end["result"] != self.past.run.by_verdicts.result:  # its teardown failed, say, or it was interrupted
            code = ExitCode(end["exit_code"])
            return replace(said, result=end["result"], exit_code=code or ExitCode.HARNESS, why=end["why"])
        return said


def rejudge(past: Past, checks: Sequence[Check], named: Collection[str] = ()) -> Rejudged:
    """Re-evaluate a run with the current checks.

    Args:
        past: the run.
        checks: all current checks.
        named: ids of the checks to judge. Without ids, these are the checks of the run, and other checks of its suites
            that it recorded enough evidence for. A check that the run had, or that is named, is always judged; without
            enough evidence it is inconclusive. A core check that is not judged counts as left out.
    """
    bench, made = Bench(past, checks), Rejudged(past)
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
    return Change.SAME if then == now else Change.WORDS


# ---------------------------------------------------------------------------------------------------------- reported
def report(rejudged: Rejudged) -> Iterator[str]:
    """The report, line by line: what changed for each check, the counts, and the conclusion."""
    header = rejudged.past.run.header
    when = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(header["at"]))
    yield f"run {header['run']} of {when}, by esipp {header['suite']}; re-evaluated by esipp {__version__}"
    then = rejudged.past.run.verdicts
    for identity, change in rejudged.changes.items():
        if change is Change.OTHER:
            yield f"{then[identity].status.value} is now {_words(rejudged.verdicts[identity])}"
        elif change in (Change.NEW, Change.FIRST) and rejudged.verdicts[identity].status is not Status.UNSUPPORTED:
            yield f"{change.value}: {_words(rejudged.verdicts[identity])}"
        elif change is Change.GONE:
            yield f"gone: {identity}, which was {then[identity].status.value if identity in then else 'not judged'}"
        elif change is Change.WORDS:
            yield f"{then[identity].status.value} as before, other text: {_differing(then[identity], rejudged)}"
    for change in (Change.NEW, Change.FIRST):
        added = [rejudged.verdicts[name] for name, found in rejudged.changes.items() if found is change]
        unsupported = {each.check_id: each.reason for each in added if each.status is Status.UNSUPPORTED}
        yield from _by_reason(f"{change.value} and unsupported,", unsupported)
    yield from _by_reason("not judged, because", rejudged.lacking)
    counted = Counter(rejudged.changes.values())
    parts = ", ".join(f"{counted[each]} {each.value}" for each in Change if counted[each] or each is Change.SAME)
    yield f"{number_of(sum(counted.values()), 'check')}: {parts}"
    yield rejudged.conclusion.sentence


def _words(verdict: Verdict) -> str:
    why = f" ({verdict.reason})" if verdict.reason else ""
    said = f"expected {verdict.expected}; observed {verdict.observed}{why}"
    return f"{verdict.status.value}: ({verdict.level.value}) {verdict.check_id}: {said}"


def _differing(then: Verdict, rejudged: Rejudged) -> str:
    """The fields of a verdict that changed."""
    now = record_of(rejudged.verdicts[then.check_id])
    changed = [f"{name} {now[name]!r}, was {was!r}" for name, was in record_of(then).items() if now[name] != was]
    return f"{then.check_id}: {'; '.join(changed)}"


UNDIALLED = " was not dialled"
"""The end of the reason if a path is missing. Such checks are grouped, whichever path it is."""


def _by_reason(what: str, reasons: Mapping[str, str]) -> Iterator[str]:
    """The checks of each reason, one line per reason."""
    by_reason: dict[str, list[str]] = {}
    for identity, why in reasons.items():
        what_lacks = "the run did not dial one of their paths" if why.endswith(UNDIALLED) else why
        by_reason.setdefault(what_lacks, []).append(identity)
    for why, checks in by_reason.items():
        named = ", ".join(checks[:MOST_NAMED]) + (
            f" and {len(checks) - MOST_NAMED} more" if len(checks) > MOST_NAMED else ""
        )
        yield f"{what} {why}: {named}"


# ---------------------------------------------------------------------------------------------------------- written
WRITTEN_ANEW = ("header", "verdict", "end")
"""Records that are written anew. All others are evidence and are copied."""


def write_rejudged(rejudged: Rejudged, folder: Path) -> Path:
    """Write a ledger of the run with the new verdicts.

    Raises:
        PreflightError: there is a ledger already, or the folder is not writable.
        HarnessError: the disk is full.
    """
    past = rejudged.past
    ledger = Ledger(folder / LEDGER)
    header = {name: value for name, value in past.run.header.items() if name != "record"}
    header |= {
        "suite": __version__,
        "rows": [check_record(check) for check in rejudged.checks],
        "left_out_core_rows": rejudged.left_out,
        "judged_again": {"at": round(time.time(), 6), "run": header["run"], "suite": header["suite"]},
    }
    ledger.write("header", **header)
    for record in records(past.ledger):
        kind = record.pop("record")
        if kind not in WRITTEN_ANEW:
            ledger.write(kind, **record)
    for verdict in rejudged.verdicts.values():
        ledger.write("verdict", **record_of(verdict))
    said, end = rejudged.conclusion, past.run.end or {}
    ended = {"at": end["at"]} if "at" in end else {}  # the header has the time of judging
    ledger.seal(
        result=said.result,
        why=said.why,
        counts=dict(said.counts),
        exit_code=int(said.exit_code),
        seconds=end.get("seconds", {}),
        **ended,
    )
    ledger.close()
    return ledger.path


def command(path: Path, checks: Sequence[Check], named: Collection[str], out: Path | None) -> int:
    """Re-evaluate a run, print the report, write the new ledger, and return the exit code.

    Raises:
        PreflightError: the ledger cannot be read, or ``out`` is not writable.
    """
    rejudged = rejudge(read_past(path), checks, named)
    for line in report(rejudged):
        print(line)
    if out is not None:
        print(f"ledger: {write_rejudged(rejudged, out)}")
    return int(rejudged.conclusion.exit_code)
