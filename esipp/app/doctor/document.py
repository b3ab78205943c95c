"""The report of ``esipp doctor`` as a document and as JSON."""

import json
from collections.abc import Iterator

from esipp.app.doctor.model import Grade, LeftOver, Report
from esipp.app.plan.document import Pair, left, levels_of, things, times, waits, work_as_json
from esipp.app.plan.plan import Work
from esipp.base.document import Cell, Code, Document, Pairs, Strong, Table, rewritten
from esipp.base.json import Json
from esipp.base.plural import counted as number_of
from esipp.base.redaction import KNOWN, redact

TONES = {Grade.OK: "pass", Grade.WARN: "inconclusive", Grade.NO: "fail"}
"""The verdicts in whose colours a page shows the grades."""


def document(report: Report) -> Document:
    """The report: one row for each check, then what a run would do."""
    rows: list[tuple[Cell, ...]] = []
    for check in report.checks:
        rows.append((Strong(check.grade.value, TONES[check.grade]), check.name, check.sentence))
        rows += [("", "", f"hint: {check.hint}")] if check.hint else []
    counts = ", ".join(f"{count} {grade}" for grade, count in counted(report).items())
    result = f"{'fit' if report.fit else 'not fit'} ({counts}); nothing was created"
    blocks = (Table(("", "checked", "result"), tuple(rows)), Pairs.of([*_below(report), ("result", result)]))
    made: Document = rewritten(Document("esipp doctor", blocks=blocks), redact)
    return made


def _below(report: Report) -> Iterator[Pair]:
    if report.work:
        yield from _work(report, report.work)
    else:
        yield "checks", f"unknown which would run: {report.why_no_work}"
    for each in report.left_over:
        yield "leftover", _of_left_over(each)
    if report.fit:
        yield "command", Code(report.command)


def counted(report: Report) -> dict[str, int]:
    """The number of checks of each grade."""
    grades = [check.grade.value for check in report.checks]
    return {grade: grades.count(grade) for grade in dict.fromkeys(("ok", "warn", "no"))}


def _work(report: Report, work: Work) -> Iterator[Pair]:
    yield "checks", f"{len(work.asked)} of {work.checks} would run: {levels_of(work.asked)}"
    if report.left_out:
        which = number_of(report.left_out, "core check is", "core checks are")
        yield "", f"PARTIAL at best: {which} left out because of options, clients or rights"
    for why, checks in sorted(work.unsupported.items(), key=lambda each: -len(each[1])):
        yield "unsupported", f"{len(checks)} ({levels_of(checks)}) {why}"
    for limit, hit in work.limited:
        yield limit.outcome.value, f"{len(hit)} ({levels_of(hit)}) {limit.why}"
    yield "timeouts", "; ".join(waits(work))
    yield "creates", ", ".join([*things(work), *report.created])
    yield from times(work)
    for text in left(work, report.clean):
        yield "if killed", text
    yield "still unknown", "; ".join(report.later)


def age(seconds: float | None) -> str:
    """An age such as ``3 h``; empty if it is unknown."""
    if seconds is None:
        return ""
    for size, unit in ((86400, "d"), (3600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"


def _of_left_over(each: LeftOver) -> str:
    old = f", {age(each.age)} old" if each.age is not None else ""
    whose = f" of run {each.run}" if each.run else ""
    if each.alive:
        return f"{each.what}{whose}{old}: its run may be active"
    return f"{each.what}{whose}{old}: remove with {each.command}"


def as_json(report: Report) -> str:
    """The report as JSON, in one line."""
    document: Json = {
        "fit": report.fit,
        "checks": [
            {"name": check.name, "grade": check.grade.value, "sentence": check.sentence, "hint": check.hint}
            for check in report.checks
        ],
        "work": _work_as_json(report),
        "core_rows_left_out": report.left_out,
        "why_no_work": report.why_no_work,
        "known_later": report.later,
        "left_over": [vars(each) for each in report.left_over],
        "command": report.command,
    }
    return KNOWN.line(json.dumps(document))


def _work_as_json(report: Report) -> Json | None:
    if report.work is None:
        return None
    work = work_as_json(report.work, report.clean)
    for group, checks in zip(work["unsupported"], report.work.unsupported.values(), strict=True):
        levels = [check.level.value for check in checks]
        group["levels"] = {level: levels.count(level) for level in dict.fromkeys(levels)}
    return {**work, "made_besides": report.created}
