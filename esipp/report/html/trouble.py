"""Failures by cause, and known differences and untested checks by reason."""

from typing import Any, NamedTuple

from esipp.checks.check import Level, Status
from esipp.checks.observation import Verdict
from esipp.checks.reference import Reference
from esipp.ledger.reading import RecordedRun
from esipp.ledger.recorded_checks import RecordedCheck
from esipp.report.causes import causes_of_others, causes_of_paths, one_of, reasons
from esipp.report.html.head import repeat
from esipp.report.html.marks import MARKS, WORDS, counts
from esipp.report.shared import common_factor


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
    paths = [check for check in checks if check.place]
    groups = [*causes_of_paths(paths, run.verdicts)]
    groups += causes_of_others([check for check in checks if not check.place], run.verdicts)
    order, levels = (Status.FAIL, Status.FLAKY, Status.ERROR, Status.INCONCLUSIVE), list(Level)
    groups.sort(key=lambda group: (order.index(run.verdicts[group[0].id].status), levels.index(group[0].level)))
    return [_trouble(run, list(group), paths) for group in groups]


def _trouble(run: RecordedRun, group: list[RecordedCheck], paths: list[RecordedCheck]) -> Trouble:
    first = group[0]
    verdict = run.verdicts[first.id]
    by = f" (from the echo server and the prober of {first.place.client})" if verdict.tally and first.place else ""
    believed = verdict.status is not Status.INCONCLUSIVE  # no observation of it counts
    compared = verdict.status in (Status.FAIL, Status.FLAKY) and first.place is not None
    details = {
        "Required": first.requirement,
        "Expected": verdict.expected if believed else "",
        "Observed": verdict.observed + by if believed else "",
        "Packets": f"the source changed: {one_of(verdict.change)}" if believed and verdict.change else "",
        "Source ports": verdict.ports if believed else "",
        "Based on": verdict.witnesses if believed else "",
        "Precision": verdict.sees,
        "Reason": verdict.reason,
        "Only affects": common_factor(group, paths, run.verdicts) if compared else "",
    }
    said = verdict.status.value
    return Trouble(
        said,
        MARKS[said],
        WORDS[said],
        first,
        {name: text for name, text in details.items() if text},
        first.references,
        verdict.likely,
        repeat(run, first.id),
        [(check.id, check.level.value, run.verdicts[check.id].observed if believed else "") for check in group],
        _short(verdict, details),
    )


def _short(verdict: Verdict, details: dict[str, str]) -> str:
    """A cause in one line: the observation, the requirement and the packets; else the reason."""
    if verdict.status in (Status.INCONCLUSIVE, Status.ERROR):
        return verdict.reason
    seen = f"observed {verdict.observed}; expected {verdict.expected}"
    return f"{seen}; {details['Packets']}" if details["Packets"] else seen


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
