"""Runs as a ledger tells them, made without a ledger."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from esipp.base.document import Section
from esipp.checks.check import Binding, Check, Verdict
from esipp.judging.scenario import where_to_look
from esipp.ledger.conclusion import conclude
from esipp.ledger.reading import RecordedRun
from esipp.ledger.recorded_checks import RecordedCheck, check_record, read_check
from esipp.report.rendering.terminal import as_lines


@cache
def recorded_check(check: Check) -> RecordedCheck:
    return read_check(check_record(check))


def recorded_checks(checks: Iterable[Check]) -> list[RecordedCheck]:
    return [recorded_check(check) for check in checks]


def with_looks(checks: Iterable[Check], verdicts: Mapping[str, Verdict]) -> dict[str, Verdict]:
    """The verdicts as a run keeps them: with where to look first."""
    by_id = {check.id: check for check in checks}
    return {name: replace(each, likely=where_to_look(by_id[name], each)) for name, each in verdicts.items()}


def recorded(
    checks: Sequence[Check],
    verdicts: Mapping[str, Verdict],
    folder: Path = Path("run"),
    left_out: int = 0,
    **header: Any,
) -> RecordedRun:
    """A run that is whole and has these verdicts."""
    found = {"command": "esipp run --context x", "left_out_core_rows": left_out, "fail_on": "core"}
    found |= {"accept_known_defects": False, **header}
    run = RecordedRun(folder, found, recorded_checks(checks), with_looks(checks, verdicts))
    said = conclude(verdicts.values(), left_out, Binding(found["fail_on"]))
    run.end = {"result": said.result, "why": said.why, "exit_code": int(said.exit_code)}
    return run


def summary_lines(summary: Callable[[RecordedRun], Section], seen: Any) -> list[str]:
    """What the summary of a run with this evidence shows."""
    run = RecordedRun(Path(), {"seed": 7, "moves": 30}, [], judged={"it": seen})
    return as_lines(summary(run))
