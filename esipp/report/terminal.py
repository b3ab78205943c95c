"""summary.txt: the matrix, the counts, each failure, the conclusion. ``ending.py`` has the end of a run's output."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from esipp.base.document import Block, Code, Item, Items, Pairs, Section, Text, Words
from esipp.base.plural import counted
from esipp.checks.check import Level, Status, Verdict
from esipp.checks.profile import ABOUT
from esipp.checks.reference import titles
from esipp.ledger.conclusion import WORST_FIRST
from esipp.ledger.reading import LEDGER, RecordedRun
from esipp.ledger.recorded_checks import RecordedCheck
from esipp.report.causes import Cause, causes, is_believed, reasons
from esipp.report.matrix import LEGEND, tables
from esipp.report.rendering.terminal import apart, as_lines
from esipp.report.sections import summaries

MOST_OTHERS = 5
"""How many more checks of a cause have a line each, after the first; the ledger has all."""

MOST_WAYS = 6
"""How many ways in are named for the checks of a cause."""

Detail = tuple[str, Words]


def failures(checks: Iterable[RecordedCheck], verdicts: Mapping[str, Verdict], repeat: str) -> Items:
    """Failed and undecided checks by cause: the first in full, a few more in a line each."""
    return Items(tuple(_item(cause, verdicts, repeat) for cause in causes(checks, verdicts)))


def _item(cause: Cause, verdicts: Mapping[str, Verdict], repeat: str) -> Item:
    first = cause.first
    details: dict[str, Words] = {**cause.details, "see": titles(first.references)}
    known = [(label, text) for label, text in details.items() if text]
    title = f"{cause.verdict.status.value.upper()} ({first.level.value}) {first.id}"
    return Item(title, (*known, *_also(cause.others, verdicts), ("repeat", Code(f"{repeat} {first.id}"))))


def _also(others: Sequence[RecordedCheck], verdicts: Mapping[str, Verdict]) -> Iterator[Detail]:
    """The other checks of a cause: the number, and a few of them."""
    if not others:
        return
    if others[0].place:
        ways = Counter(check.way_in for check in others).most_common()
        hit = ", ".join(f"{way} ({count})" for way, count in ways[:MOST_WAYS])
        hit += f" and {counted(len(ways) - MOST_WAYS, 'more way')} in" if len(ways) > MOST_WAYS else ""
        yield "also", f"{counted(len(others), 'more check has', 'more checks have')} this cause: {hit}"
    else:
        yield "also", f"{counted(len(others), 'more check')} with this requirement:"
    for check in _various(others):
        verdict = verdicts[check.id]
        what = f": {verdict.observed}" if is_believed(check, verdict) else ""
        yield "", f"({check.level.value}) {check.id}{what}"
    if len(others) > MOST_OTHERS:
        yield "", f"and {len(others) - MOST_OTHERS} more (see the ledger)"


def _various(others: Sequence[RecordedCheck]) -> list[RecordedCheck]:
    """A few of the checks, from as many different ways in as possible."""
    earlier: Counter[str] = Counter()
    rank = {}
    for check in others:
        rank[check.id] = earlier[check.way_in]
        earlier[check.way_in] += 1
    return sorted(others, key=lambda check: rank[check.id])[:MOST_OTHERS]


def counts(checks: Iterable[RecordedCheck], verdicts: Mapping[str, Verdict]) -> Pairs:
    """The number of checks by level and verdict."""
    table: dict[Level, Counter[Status]] = {}
    for check in checks:
        if check.id in verdicts:
            table.setdefault(check.level, Counter())[verdicts[check.id].status] += 1
    return Pairs.of(
        (
            level.words,
            f"{counted(found.total(), 'check')}: "
            + ", ".join(f"{found[status]} {status.value}" for status in reversed(WORST_FIRST) if status in found),
        )
        for level, found in sorted(table.items())
    )


TITLES_OF_REASONS = (
    (Status.KNOWN, "known difference"),
    (Status.INCONCLUSIVE, "inconclusive"),
    (Status.UNSUPPORTED, "not tested"),
)


def by_reason(checks: Iterable[RecordedCheck], verdicts: Mapping[str, Verdict]) -> Iterator[Text]:
    """Known differences, inconclusive checks and untested checks; each reason once."""
    checks = list(checks)
    for status, title in TITLES_OF_REASONS:
        for reason in reasons(checks, verdicts, status):
            why = reason.why + (f" [{titles(reason.references)}]" if reason.references else "")
            of = ("needs " if status is Status.UNSUPPORTED else "") + ", ".join(reason.of)
            what = f"{title} ({reason.nature})" if reason.nature else title
            text = f"{what}, {counted(len(reason.checks), 'check')} ({reason.say_levels}): "
            yield Text(text + (f"{of}: {why}" if of else why))


def contradictions(run: RecordedRun) -> list[str]:
    """Observations that contradict the load balancer's profile; no verdict depends on them."""
    return [f"load balancer profile: {note}" for about, note in run.notes if about == ABOUT]


def _matrices(checks: Sequence[RecordedCheck], verdicts: Mapping[str, Verdict]) -> list[Block]:
    """The matrix of each suite with path checks; several carry the names of their suites."""
    by_suite: dict[str, list[RecordedCheck]] = {}
    for check in checks:
        if check.place:
            by_suite.setdefault(check.suite, []).append(check)
    found = {suite: made for suite, own in by_suite.items() if (made := tables(own, verdicts))}
    if len(found) > 1:
        return [Section(f"suite {suite}", made) for suite, made in found.items()]
    return [table for made in found.values() for table in made]


def _checks(checks: Sequence[RecordedCheck], run: RecordedRun) -> list[Block]:
    """The counts of some checks, and the reasons of those that did not pass."""
    return [counts(checks, run.verdicts), *by_reason(checks, run.verdicts)]


def blocks(run: RecordedRun) -> Iterator[Block]:
    """The summary, but the conclusion."""
    matrices = _matrices(run.qualified, run.verdicts)
    yield from matrices
    if matrices:
        yield Section("How to read the matrix", tuple(map(Text, LEGEND)))
    yield from summaries(run)
    yield Section("checks", (*_checks(run.qualified, run), *(Text(note) for note in contradictions(run))))
    yield failures(run.qualified, run.verdicts, str(run.header["command"]))
    if run.instruments:
        title = "reference load balancer (an instrument of the suite; not part of the result)"
        yield Section(title, (*_matrices(run.instruments, run.verdicts), *_checks(run.instruments, run)))
        yield failures(run.instruments, run.verdicts, str(run.header["command"]))
    if run.trouble:
        yield Section("faults of the ledger", tuple(map(Text, run.trouble)))


def summary(run: RecordedRun) -> list[str]:
    """The lines of the summary, from the ledger."""
    return [*apart(blocks(run)), "", *last_word(run)]


def last_word(run: RecordedRun) -> list[str]:
    """The conclusion: result and reason, the counts, and what the run may have missed."""
    said = run.conclusion
    more = [*said.lines, *([run.power] if run.power else [])]
    return as_lines(Section(said.headline, tuple(map(Text, more)))) if more else as_lines(Text(said.headline))


def render(run: RecordedRun) -> str:
    """The text of summary.txt."""
    return "\n".join([*summary(run), *appendix(run)]) + "\n"


def appendix(run: RecordedRun) -> list[str]:
    """The duration of each phase, and where the files of the run are."""
    lines = ["phases: " + ", ".join(f"{phase.name} {phase.seconds:.1f} s" for phase in run.phases)]
    lines.append(f"ledger: {run.folder / LEDGER}")
    kept = (run.folder / "rows").is_dir()
    return lines + ([f"artefacts: {run.folder / 'rows'} and {run.folder / 'artefacts'}"] if kept else [])
