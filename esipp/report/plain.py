"""Text about checks that are not path checks: explanations, and the table of docs/cells.md."""

import textwrap
from collections.abc import Sequence

from esipp.base.document import WIDTH
from esipp.checks.check import KUBERNETES, Check, Level, is_about
from esipp.checks.explain import cite, explain, say_since
from esipp.checks.path import OnPath
from esipp.checks.patterns import patterns
from esipp.checks.reference import Reference


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
    lines += fold("level", check.level.value) + cite("because", check.references)
    for label, text in details.items():
        lines += fold(label, text) if text else []
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


def fold(label: str, text: str) -> list[str]:
    """A label and its text, wrapped and indented."""
    start = f"{label:<12}"
    return textwrap.wrap(
        text,
        WIDTH,
        initial_indent=start,
        subsequent_indent=" " * 12,
        break_long_words=False,
        break_on_hyphens=False,
    )
