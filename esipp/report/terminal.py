"""summary.txt, and the end of a run's output: the matrix, the counts, each failure, the conclusion. No colours."""

import textwrap
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from esipp.base.plural import counted, form
from esipp.checks.check import Level, Status
from esipp.checks.observation import Verdict
from esipp.checks.profile import ABOUT
from esipp.checks.reference import titles
from esipp.ledger.conclusion import LEVELS, WORST_FIRST
from esipp.ledger.reading import LEDGER, RecordedRun
from esipp.ledger.recorded_checks import RecordedCheck
from esipp.report import plain
from esipp.report.causes import causes_of_paths, one_of, reasons
from esipp.report.matrix import LEGEND, WIDTH, matrix
from esipp.report.shared import common_factor

MOST_OTHERS = 5
"""How many more checks of a cause have a line each, after the first; the ledger has all."""

MOST_WAYS = 6
"""How many ways in are named for the checks of a cause."""


def failures(path_checks: Sequence[RecordedCheck], verdicts: Mapping[str, Verdict], repeat: str) -> list[str]:
    """Failed and undecided path checks by cause: the first in full, a few more in a line each."""
    lines: list[str] = []
    for group in causes_of_paths(path_checks, verdicts):
        lines += ["", *_describe_cause(group, path_checks, verdicts, repeat)]
    return lines


def _describe_cause(
    group: Sequence[RecordedCheck], path_checks: Sequence[RecordedCheck], verdicts: Mapping[str, Verdict], repeat: str
) -> list[str]:
    """One cause: the shortest of its strictest checks in full, then the other checks."""
    first, *others = group
    verdict = verdicts[first.id]
    title = f"{verdict.status.value.upper()} ({first.level.value}) {first.id}"
    by = f" (from the echo server and the prober of {first.place.client})" if verdict.tally and first.place else ""
    seen = {
        "expected": verdict.expected,
        "observed": verdict.observed + by,
        "packets": f"the source changed: {one_of(verdict.change)}" if verdict.change else "",
        "ports": f"source ports {verdict.ports}" if verdict.ports else "",
        "based on": verdict.witnesses,
        "precision": verdict.sees,
    }
    details = {
        "required": first.requirement,
        **(seen if verdict.status is not Status.INCONCLUSIVE else {}),  # no observation of it counts
        "reason": verdict.reason,
        "only": common_factor(group, path_checks, verdicts) if verdict.status in (Status.FAIL, Status.FLAKY) else "",
        "likely": verdict.likely,
        "see": titles(first.references),
    }
    lines = [title]
    for label, text in details.items():
        lines += plain.fold(label, text) if text else []
    lines.append(f"  {'repeat':<9} {repeat} {first.id}")
    if not others:
        return lines
    ways = Counter(path_check.way_in for path_check in others).most_common()
    hit = ", ".join(f"{way} ({count})" for way, count in ways[:MOST_WAYS])
    hit += f" and {counted(len(ways) - MOST_WAYS, 'more way')} in" if len(ways) > MOST_WAYS else ""
    lines += plain.fold("also", f"{counted(len(others), 'more check has', 'more checks have')} this cause: {hit}")
    for path_check in _various(others):
        what = verdicts[path_check.id].observed if verdict.status is not Status.INCONCLUSIVE else ""
        lines += plain.fold("", f"({path_check.level.value}) {path_check.id}" + (f": {what}" if what else ""))
    if len(others) > MOST_OTHERS:
        lines += plain.fold("", f"and {len(others) - MOST_OTHERS} more (see the ledger)")
    return lines


def _various(others: Sequence[RecordedCheck]) -> list[RecordedCheck]:
    """A few of the checks, from as many different ways in as possible."""
    earlier: Counter[str] = Counter()
    rank = {}
    for path_check in others:
        rank[path_check.id] = earlier[path_check.way_in]
        earlier[path_check.way_in] += 1
    return sorted(others, key=lambda path_check: rank[path_check.id])[:MOST_OTHERS]


def counts(checks: Iterable[RecordedCheck], verdicts: Mapping[str, Verdict]) -> list[str]:
    """The number of checks by level and verdict."""
    table: dict[Level, dict[Status, int]] = {}
    for check in checks:
        if check.id in verdicts:
            level = table.setdefault(check.level, {})
            status = verdicts[check.id].status
            level[status] = level.get(status, 0) + 1
    return [
        f"{LEVELS[level]:<13} {sum(found.values()):>4} {form(sum(found.values()), 'check') + ':':<7} "
        + ", ".join(f"{found[status]} {status.value}" for status in reversed(WORST_FIRST) if status in found)
        for level, found in sorted(table.items())
    ]


TITLES_OF_REASONS = (
    (Status.KNOWN, "known difference"),
    (Status.INCONCLUSIVE, "inconclusive"),
    (Status.UNSUPPORTED, "not tested"),
)


def by_reason(checks: Iterable[RecordedCheck], verdicts: Mapping[str, Verdict]) -> list[str]:
    """Known differences, inconclusive checks and untested checks; each reason once."""
    checks, lines = list(checks), []
    for status, title in TITLES_OF_REASONS:
        for reason in reasons(checks, verdicts, status):
            why = reason.why + (f" [{titles(reason.references)}]" if reason.references else "")
            said = ("needs " if status is Status.UNSUPPORTED else "") + ", ".join(reason.of)
            what = f"{title} ({reason.nature})" if reason.nature else title
            text = f"{what}, {counted(len(reason.checks), 'check')} ({reason.told_levels}): "
            text += f"{said}: {why}" if said else why
            lines += textwrap.wrap(text, WIDTH, subsequent_indent="  ", break_on_hyphens=False)
    return lines


def contradictions(run: RecordedRun) -> list[str]:
    """Observations that contradict the load balancer's profile; no verdict depends on them."""
    return [f"load balancer profile: {note}" for about, note in run.notes if about == ABOUT]


def _matrices(path_checks: Sequence[RecordedCheck], verdicts: Mapping[str, Verdict]) -> list[str]:
    """A matrix for each suite with path checks; several matrices carry the name of their suite."""
    by_suite: dict[str, list[RecordedCheck]] = {}
    for path_check in path_checks:
        by_suite.setdefault(path_check.suite, []).append(path_check)
    matrices = {suite: lines for suite, own in by_suite.items() if (lines := matrix(own, verdicts))}
    found: list[str] = []
    for suite, lines in matrices.items():
        found += [""] if found else []
        found += [f"suite {suite}"] if len(matrices) > 1 else []
        found += lines
    return found


def summary(run: RecordedRun) -> list[str]:
    """The lines that end a run's output, from its ledger."""
    checks = run.qualified
    lines = _matrices([check for check in checks if check.place], run.verdicts)
    if lines:
        lines += [""] + [part for text in LEGEND for part in textwrap.wrap(text, WIDTH)]
    for section in run.sections.values():
        lines += ["", *section]
    lines += ["", *counts(checks, run.verdicts)]
    lines += by_reason(checks, run.verdicts)
    lines += [part for note in contradictions(run) for part in textwrap.wrap(note, WIDTH, subsequent_indent="  ")]
    lines += _failures(run, checks)
    lines += _instrument(run)
    if run.trouble:
        lines += ["", "faults of the ledger:"]
        lines += [part for each in run.trouble for part in plain.fold("", each)]
    return [*lines, "", *last_word(run)]


def last_word(run: RecordedRun) -> list[str]:
    """The conclusion: result and reason, the counts, and what the run may have missed."""
    said = run.conclusion
    more = [*said.lines, *([run.power] if run.power else [])]
    below = [part for text in more for part in _wrapped(text, "  ", "    ")]
    return [*_wrapped(said.headline, "", "  "), *below]


def _wrapped(text: str, first: str, others: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=others, break_on_hyphens=False)


def _failures(run: RecordedRun, checks: Sequence[RecordedCheck]) -> list[str]:
    """The failed and undecided checks, path checks first."""
    repeat = str(run.header["command"])
    paths, others = ([check for check in checks if bool(check.place) is which] for which in (True, False))
    return [*failures(paths, run.verdicts, repeat), *plain.failures(others, run.verdicts, repeat)]


def _instrument(run: RecordedRun) -> list[str]:
    """The section on the reference load balancer."""
    checks = run.instruments
    if not checks:
        return []
    lines = ["", "reference load balancer (an instrument of the suite; not part of the result)"]
    matrices = _matrices([check for check in checks if check.place], run.verdicts)
    lines += ["", *matrices, ""] * bool(matrices)
    return [*lines, *counts(checks, run.verdicts), *by_reason(checks, run.verdicts), *_failures(run, checks)]


def render(run: RecordedRun) -> str:
    """The text of summary.txt."""
    return "\n".join([*summary(run), *appendix(run)]) + "\n"


def appendix(run: RecordedRun) -> list[str]:
    """The duration of each phase, and where the files of the run are."""
    lines = ["phases: " + ", ".join(f"{phase.name} {phase.seconds:.1f} s" for phase in run.phases)]
    lines.append(f"ledger: {run.folder / LEDGER}")
    kept = (run.folder / "rows").is_dir()
    return lines + ([f"artefacts: {run.folder / 'rows'} and {run.folder / 'artefacts'}"] if kept else [])
