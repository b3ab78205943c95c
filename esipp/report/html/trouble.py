"""Failures by cause, and known differences and untested checks by reason."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from esipp.checks.check import Level, Status
from esipp.checks.observation import Verdict
from esipp.checks.reference import Reference
from esipp.ledger.reading import RecordedRun
from esipp.ledger.recorded_checks import RecordedCheck
from esipp.report.causes import Cause, causes, is_believed, reasons
from esipp.report.html.head import repeat
from esipp.report.html.marks import MARKS, WORDS, counts


class Trouble(NamedTuple):
    """Checks with one cause: the first with all its details, and links to all."""

    verdict: str
    mark: str
    word: str
    first: RecordedCheck
    details: dict[str, str]
    references: tuple[Reference, ...]
    likely: str
    repeat: str
    others: list[tuple[str, str, str]]
    short: str


def troubles_of(run: RecordedRun, checks: list[RecordedCheck]) -> list[Trouble]:
    """Every cause among these checks: the worst first, then the strictest level."""
    order, levels = (Status.FAIL, Status.FLAKY, Status.ERROR, Status.INCONCLUSIVE), list(Level)
    found = causes(checks, run.verdicts)
    found.sort(key=lambda cause: (order.index(cause.verdict.status), levels.index(cause.first.level)))
    return [_trouble(run, cause) for cause in found]


def _trouble(run: RecordedRun, cause: Cause) -> Trouble:
    first, verdict, said = cause.first, cause.verdict, cause.verdict.status.value
    every = ((check, run.verdicts[check.id]) for check in cause.checks)
    return Trouble(
        said,
        MARKS[said],
        WORDS[said],
        first,
        {label.capitalize(): text for label, text in cause.details.items() if label != "likely"},
        first.references,
        verdict.likely,
        repeat(run, first.id),
        [(check.id, check.level.value, one.observed if is_believed(check, one) else "") for check, one in every],
        _short(verdict, cause.details),
    )


def _short(verdict: Verdict, details: Mapping[str, str]) -> str:
    """A cause in one line: the observation, the requirement and the packets; else the reason."""
    if verdict.status in (Status.INCONCLUSIVE, Status.ERROR):
        return verdict.reason
    seen = f"observed {verdict.observed}; expected {verdict.expected}"
    return f"{seen}; {details['packets']}" if "packets" in details else seen


def missing_of(run: RecordedRun, status: str) -> list[dict[str, Any]]:
    """Each reason of known differences or of untested checks, with its checks."""
    return [
        {"why": reason.why, "references": reason.references, "of": ", ".join(reason.of), "rows": reason.checks}
        | {"nature": reason.nature, "levels": reason.told_levels}
        for reason in reasons(run.qualified, run.verdicts, Status(status))
    ]


def instrument_of(run: RecordedRun) -> dict[str, Any]:
    """The checks of the reference load balancer: number, verdicts and causes."""
    checks = run.instruments
    return {"rows": len(checks), "counts": counts(checks, run.verdicts), "troubles": troubles_of(run, checks)}
