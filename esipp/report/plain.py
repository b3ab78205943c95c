"""Text about checks that are not path checks: explanations, the table of docs/cells.md, failures on the terminal."""

import textwrap
from collections.abc import Iterable, Mapping, Sequence

from esipp.base.plural import counted
from esipp.checks.check import KUBERNETES, Check, Level, is_about
from esipp.checks.explain import cite, explain, say_since
from esipp.checks.observation import Verdict
from esipp.checks.path import OnPath
from esipp.checks.patterns import patterns
from esipp.checks.reference import Reference, titles
from esipp.ledger.recorded_checks import RecordedCheck
from esipp.report.causes import causes_of_others
from esipp.report.matrix import WIDTH

MOST_OTHERS = 5
"""How many more checks of a cause have a line each, after the first; the ledger has all."""


def explain_check(check: Check) -> str:
    """The explanation of a check: its requirement, its references and its expectation."""
    if is_about(check, OnPath):
        return explain(check)
    details = {
        "method": check.asked,
        "holds if": check.expected
        if check.level is not Level.RECORD
        else "nothing is required: the observation is recorded",
        "fails if": check.fails_if,
        "since": say_since(check),
        "needs": ", ".join(sorted(each for each in check.features if not each.startswith(KUBERNETES))),
    }
    lines = [check.id, "=" * len(check.id), *textwrap.wrap(check.requirement, WIDTH, break_on_hyphens=False), ""]
    lines += fold("level", check.level.value, 12) + cite("because", check.references)
    for label, text in details.items():
        lines += fold(label, text, 12) if text else []
    return "\n".join(lines)


# ------------------------------------------------------------------------------------------------- docs/cells.md
def table(checks: Sequence[Check], references: Sequence[Reference]) -> list[str]:
    """The checks as a table; checks that differ only in their ids share a line, with braces in the id."""
    lines = ["| checks | level | expected | requirement | references |", "|---|---|---|---|---|"]
    alike: dict[tuple[object, ...], list[Check]] = {}
    for check in checks:
        key = (check.requirement, check.level, check.expected, check.references)
        alike.setdefault(key, []).append(check)
    for group in alike.values():
        because = ", ".join(str(references.index(each) + 1) for each in group[0].references)
        for pattern in patterns([check.id for check in group]):
            first = group[0]
            lines.append(f"| `{pattern}` | {first.level.value} | {first.expected} | {first.requirement} | {because} |")
    return lines


# --------------------------------------------------------------------------------------------------- the terminal
def failures(checks: Iterable[RecordedCheck], verdicts: Mapping[str, Verdict], repeat: str) -> list[str]:
    """Failed and undecided checks by cause: the first in full, the others in a line each."""
    lines: list[str] = []
    for group in causes_of_others(checks, verdicts):
        lines += ["", *_describe_cause(group, verdicts, repeat)]
    return lines


def _describe_cause(group: Sequence[RecordedCheck], verdicts: Mapping[str, Verdict], repeat: str) -> list[str]:
    first, *others = group
    verdict = verdicts[first.id]
    details = {
        "required": first.requirement,
        "expected": verdict.expected,
        "observed": verdict.observed,
        "precision": verdict.sees,
        "reason": verdict.reason,
        "likely": verdict.likely,
        "see": titles(first.references),
    }
    lines = [f"{verdict.status.value.upper()} ({first.level.value}) {first.id}"]
    for label, text in details.items():
        lines += fold(label, text) if text else []
    lines.append(f"  {'repeat':<9} {repeat} {first.id}")
    if others:
        lines += fold("also", f"{counted(len(others), 'more check')} with this requirement:")
    for check in others[:MOST_OTHERS]:
        lines += fold("", f"({check.level.value}) {check.id}: {verdicts[check.id].observed}")
    if len(others) > MOST_OTHERS:
        lines += fold("", f"and {len(others) - MOST_OTHERS} more (see the ledger)")
    return lines


def fold(label: str, text: str, width: int = 9) -> list[str]:
    """A label and its text, wrapped and indented."""
    start = f"  {label:<9} " if width == 9 else f"{label:<12}"
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=start,
        subsequent_indent=" " * 12,
        break_long_words=False,
        break_on_hyphens=False,
    )
