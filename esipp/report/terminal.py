"""What a run says on a terminal, or in a log: a matrix, the counts, each failure, the last word. No colour needed."""

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
"""Checks of one cause that are shown in a line each, after the first one; all of them are in the ledger."""

MOST_WAYS = 6
"""Ways in that are named where checks of one cause have many."""


def failures(path_checks: Sequence[RecordedCheck], verdicts: Mapping[str, Verdict], repeat: str) -> list[str]:
    """Each check that is not fine, cause by cause: the first whole, a few others in a line each, and how many more."""
    lines: list[str] = []
    for group in causes_of_paths(path_checks, verdicts):
        lines += ["", *_tell(group, path_checks, verdicts, repeat)]
    return lines


def _tell(
    group: Sequence[RecordedCheck], path_checks: Sequence[RecordedCheck], verdicts: Mapping[str, Verdict], repeat: str
) -> list[str]:
    """One cause: the plainest of its most binding checks whole, then what else it hits."""
    first, *others = group
    verdict = verdicts[first.id]
    title = f"{verdict.status.value.upper()} ({first.level.value}) {first.id}"
    by = f" (by the echo server and the prober of {first.place.client})" if verdict.tally and first.place else ""
    seen = {
        "expected": verdict.expected,
        "observed": verdict.observed + by,
        "packets": f"the source changed: {one_of(verdict.change)}" if verdict.change else "",
        "ports": f"source ports {verdict.ports}" if verdict.ports else "",
        "rests on": verdict.witnesses,
        "sees": verdict.sees,
    }
    told = {
        "required": first.requirement,
        **(seen if verdict.status is not Status.INCONCLUSIVE else {}),  # there nothing that was seen is believed
        "reason": verdict.reason,
        "only": common_factor(group, path_checks, verdicts) if verdict.status in (Status.FAIL, Status.FLAKY) else "",
        "likely": verdict.likely,
        "see": titles(first.references),
    }
    lines = [title]
    for label, text in told.items():
        lines += plain.fold(label, text) if text else []
    lines.append(f"  {'repeat':<9} {repeat} {first.id}")
    if not others:
        return lines
    ways = Counter(path_check.way_in for path_check in others).most_common()
    hit = ", ".join(f"{way} ({count})" for way, count in ways[:MOST_WAYS])
    hit += f" and {counted(len(ways) - MOST_WAYS, 'more way')} in" if len(ways) > MOST_WAYS else ""
    lines += plain.fold("also", f"{counted(len(others), 'more check shows', 'more checks show')} the same: {hit}")
    for path_check in _various(others):
        what = verdicts[path_check.id].observed if verdict.status is not Status.INCONCLUSIVE else ""
        lines += plain.fold("", f"({path_check.level.value}) {path_check.id}" + (f": {what}" if what else ""))
    if len(others) > MOST_OTHERS:
        lines += plain.fold("", f"and {len(others) - MOST_OTHERS} more, all in the ledger")
    return lines


def _various(others: Sequence[RecordedCheck]) -> list[RecordedCheck]:
    """A few of many checks, of as many ways in as can be."""
    earlier: Counter[str] = Counter()
    rank = {}
    for path_check in others:
        rank[path_check.id] = earlier[path_check.way_in]
        earlier[path_check.way_in] += 1
    return sorted(others, key=lambda path_check: rank[path_check.id])[:MOST_OTHERS]


def counts(checks: Iterable[RecordedCheck], verdicts: Mapping[str, Verdict]) -> list[str]:
    """How many checks of each level got which verdict."""
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


TOLD_BY_REASON = (
    (Status.KNOWN, "known difference"),
    (Status.INCONCLUSIVE, "undecided"),
    (Status.UNSUPPORTED, "not tested"),
)


def by_reason(checks: Iterable[RecordedCheck], verdicts: Mapping[str, Verdict]) -> list[str]:
    """What differs for a known reason, what could not be decided, and what was not tested, each reason once."""
    checks, lines = list(checks), []
    for status, title in TOLD_BY_REASON:
        for reason in reasons(checks, verdicts, status):
            why = reason.why + (f" [{titles(reason.references)}]" if reason.references else "")
            said = ("needs " if status is Status.UNSUPPORTED else "") + ", ".join(reason.of)
            what = f"{title} ({reason.nature})" if reason.nature else title
            text = f"{what}, {counted(len(reason.checks), 'check')} ({reason.told_levels}): "
            text += f"{said}: {why}" if said else why
            lines += textwrap.wrap(text, WIDTH, subsequent_indent="  ", break_on_hyphens=False)
    return lines


def contradictions(run: RecordedRun) -> list[str]:
    """What was seen of the load balancer that is not as is known of it; no verdict rests on it."""
    return [f"found of the load balancer: {note}" for about, note in run.notes if about == ABOUT]


def _matrices(path_checks: Sequence[RecordedCheck], verdicts: Mapping[str, Verdict]) -> list[str]:
    """A matrix for each suite that has checks of paths; where there are several, each says whose it is."""
    by_suite: dict[str, list[RecordedCheck]] = {}
    for path_check in path_checks:
        by_suite.setdefault(path_check.suite, []).append(path_check)
    told = {suite: lines for suite, own in by_suite.items() if (lines := matrix(own, verdicts))}
    found: list[str] = []
    for suite, lines in told.items():
        found += [""] if found else []
        found += [f"suite {suite}"] if len(told) > 1 else []
        found += lines
    return found


def summary(run: RecordedRun) -> list[str]:
    """Everything that is said at the end of a run, from its ledger."""
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
        lines += ["", "what is wrong with the ledger itself:"]
        lines += [part for each in run.trouble for part in plain.fold("", each)]
    return [*lines, "", *last_word(run)]


def last_word(run: RecordedRun) -> list[str]:
    """The result and why; below it the counts, a line each, and what the run can have missed."""
    said = run.conclusion
    told = [*said.lines, *([run.power] if run.power else [])]
    below = [part for text in told for part in _wrapped(text, "  ", "    ")]
    return [*_wrapped(said.headline, "", "  "), *below]


def _wrapped(text: str, first: str, others: str) -> list[str]:
    return textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=others, break_on_hyphens=False)


def _failures(run: RecordedRun, checks: Sequence[RecordedCheck]) -> list[str]:
    """Each of these checks that is not fine, those of paths first."""
    repeat = str(run.header["command"])
    paths, others = ([check for check in checks if bool(check.place) is which] for which in (True, False))
    return [*failures(paths, run.verdicts, repeat), *plain.failures(others, run.verdicts, repeat)]


def _instrument(run: RecordedRun) -> list[str]:
    """The checks of our own reference load balancer, in a section of their own."""
    checks = run.instruments
    if not checks:
        return []
    lines = ["", "our own reference load balancer (an instrument: none of this is in the verdict)"]
    told = _matrices([check for check in checks if check.place], run.verdicts)
    lines += ["", *told, ""] * bool(told)
    return [*lines, *counts(checks, run.verdicts), *by_reason(checks, run.verdicts), *_failures(run, checks)]


def render(run: RecordedRun) -> str:
    """The whole of summary.txt: what is said at the end of a run, and where its files are."""
    return "\n".join([*summary(run), *appendix(run)]) + "\n"


def appendix(run: RecordedRun) -> list[str]:
    """Where the run's time went, and where its files are."""
    lines = ["phases: " + ", ".join(f"{phase.name} {phase.seconds:.1f} s" for phase in run.phases)]
    lines.append(f"ledger: {run.folder / LEDGER}")
    kept = (run.folder / "rows").is_dir()
    return lines + ([f"artefacts: {run.folder / 'rows'} and {run.folder / 'artefacts'}"] if kept else [])
