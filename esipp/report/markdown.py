"""report.md: a short report for a pull request or a job summary. The conclusion comes first, then the failures.

Text from outside is escaped (escaping.py). The number of lines is limited, so that the report fits a comment.
"""

from collections.abc import Iterable, Iterator, Sequence

from esipp.base.customisation import INTERNAL
from esipp.base.document import (
    Block,
    Cell,
    Code,
    Command,
    Document,
    Inline,
    Item,
    Items,
    Link,
    Section,
    Strong,
    Table,
    Text,
    Words,
)
from esipp.base.plural import counted
from esipp.checks.check import PROXY_SKEW, PROXY_VERSION, Level, Profile, Status, title_of
from esipp.checks.known_differences import Nature
from esipp.checks.reference import Reference
from esipp.ledger.conclusion import WORST_FIRST, tally
from esipp.ledger.reading import RecordedRun
from esipp.report.causes import Cause, causes, reasons
from esipp.report.escaping import one_line
from esipp.report.profiles import NOT_JUDGED, ended, faults, missing, moment, parts
from esipp.report.rendering.markdown import as_markdown
from esipp.report.sections import briefs
from esipp.report.terminal import contradictions

MOST_CAUSES, MOST_REASONS, MOST_FACTS, MOST_PARTS, MOST_FAULTS = 10, 5, 16, 8, 3
"""Limits of each list; the report names the number of the rest, and report.json has all."""

MOST_INSTRUMENT_CAUSES = 3
"""Limit of the causes listed for the reference load balancer."""

FIRST_FACTS = (
    *("kubernetes", "service-proxy", PROXY_VERSION, PROXY_SKEW, "proxy-mode", "network-add-on", INTERNAL),
    *("nodes", "kernel", "runtime"),
)
FIRST_KINDS = ("service-proxy", "network-add-on", "load-balancer")
"""Facts and kinds of components that come first; all others follow by name."""

ORDER = (*(status.value for status in reversed(WORST_FIRST)), NOT_JUDGED)
"""The columns of the table of verdicts."""


def render(run: RecordedRun) -> str:
    """The text of report.md."""
    result = run.conclusion.result.upper()
    return as_markdown(Document(f"Source IP qualification: {result}", blocks=tuple(_blocks(run, result))))


def _blocks(run: RecordedRun, result: str) -> Iterator[Block]:
    last = run.conclusion
    yield Text((Strong(result), ": ", one_line(last.why)))
    if not run.whole:
        yield Text(Strong("INCOMPLETE: the ledger of this run is incomplete. Do not sign anything below."))
        yield _some(map(one_line, faults(run)), MOST_FAULTS, "faults")
    if last.lines:
        yield _some(last.lines, len(last.lines), "")
    if run.power:
        yield Text(run.power)
    yield _verdicts(run)
    if left_out := run.header["left_out_core_rows"]:
        yield Text(f"Not selected: {counted(left_out, 'core check')}.")
    yield from _failures(run)
    yield Section("What was tested", tuple(_tested(run)))
    yield _known(run)
    yield _not_tested(run)
    yield _instrument(run)
    yield from briefs(run)
    yield Section("Repeat", (Command(run.command),))


def _some(lines: Iterable[Words], most: int, what: str) -> Items:
    """The first few lines, and how many more there are."""
    found = list(lines)
    left = len(found) - most
    more = [f"and {left} more {what}, in report.json"] if left > 0 else []
    return Items(tuple(map(Item, [*found[:most], *more])))


def _code(text: str, most: int = 120) -> Code:
    return Code(one_line(text, most))


def _table(head: Sequence[str], rows: Sequence[Sequence[Cell]], most: int) -> Table:
    """The first few rows, and how many more there are."""
    left = len(rows) - most
    return Table(
        tuple(head), tuple(map(tuple, rows[:most])), more=f"And {left} more in report.json." if left > 0 else ""
    )


def _verdicts(run: RecordedRun) -> Table:
    """The table of verdicts by profile and level; verdicts that no check has are left out."""
    found = {key: part.counts(run) for key, part in parts(run).items()}
    columns = [each for each in ORDER if each == Status.PASS or any(each in counts for counts in found.values())]
    rows = tuple(
        (profile.value, level.words, sum(counts.values()), *(counts.get(each, 0) for each in columns))
        for profile in Profile
        for level in Level
        if (counts := found[profile.value, level])
    )
    return Table(("profile", "level", "checks", *columns), rows)


def _tested(run: RecordedRun) -> Iterator[Block]:
    """The facts and components of the cluster, with their sources."""
    over = ended(run)
    at = ("began ", _code(moment(run.header["at"]))) if over is None else (_code(moment(over)),)
    lane, suite, name = (_code(str(run.header[each])) for each in ("lane", "suite", "run"))
    yield Text(("Lane ", lane, ", esipp ", suite, ", run ", name, ", ", *at, ", ledger sha256 ", Code(run.sha256)))
    first = [name for name in FIRST_FACTS if name in run.facts]
    facts = [
        (_code(name), _code(run.facts[name].value), _code(run.facts[name].decided))
        for name in [*first, *sorted(run.facts.keys() - {*first})]
    ]
    if facts:
        yield _table(("fact", "value", "source"), facts, MOST_FACTS)
    if found := contradictions(run):
        yield _some(map(one_line, found), len(found), "")
    components = [
        (_code(each.kind), _code(each.image or each.name), _code(each.digest or "no digest"))
        for each in sorted(run.components, key=lambda each: (each.kind not in FIRST_KINDS, each.kind, each))
    ]
    if components:
        yield _table(("component", "image", "digest"), components, MOST_PARTS)


def _failures(run: RecordedRun) -> Iterator[Section]:
    """Failures and undecided checks by cause, binding ones first."""
    found = causes(run.qualified, run.verdicts)
    if not found:
        return
    found.sort(key=lambda cause: not run.scale.binds(cause.verdict))
    checks = sum(len(cause.checks) for cause in found)
    blocks: list[Block] = [Items(tuple(_cause(run, cause) for cause in found[:MOST_CAUSES]))]
    if rest := found[MOST_CAUSES:]:
        left = sum(len(cause.checks) for cause in rest)
        blocks.append(Text(f"And {counted(len(rest), 'more cause')} ({counted(left, 'check')}) in report.json."))
    yield Section(f"Failures: {counted(checks, 'check')}, {counted(len(found), 'cause')}", tuple(blocks))


AS_CODE = ("expected", "observed", "packets", "ports", "reason")
"""What reports quote; the rest is prose."""


def _cause(run: RecordedRun, cause: Cause) -> Item:
    """One cause, shown by its first check, and the command that repeats it."""
    first, verdict = cause.first, cause.verdict
    details: list[tuple[str, Words]] = [
        (label, _code(text, 200) if label in AS_CODE else one_line(text)) for label, text in cause.details.items()
    ]
    also = f" and {counted(len(cause.others), 'more check')}" if cause.others else ""
    title = (Strong(verdict.status.value.upper()), f" ({first.level.value}) ", _code(first.id, 200), also)
    return Item(title, (*details, ("repeat", _code(f"{run.header['command']} {first.id}", 400))))


def _known(run: RecordedRun) -> Section:
    """The known differences."""
    found = sorted(reasons(run.qualified, run.verdicts, Status.KNOWN), key=lambda each: each.nature == Nature.ALLOWED)
    lines = [
        (
            f"{each.nature or 'known'}, {counted(len(each.checks), 'check')} ({each.say_levels}): ",
            one_line(each.why),
            " (",
            *_links(each.references),
            ")",
        )
        for each in found
    ]
    return Section("Known differences", (_some(lines, MOST_REASONS, "reasons"),) if lines else ())


def _links(references: Sequence[Reference]) -> Iterator[Inline]:
    for at, each in enumerate(references):
        yield from ["; "] if at else []
        yield Link(each.title, each.url)


def _instrument(run: RecordedRun) -> Section:
    """The checks of the reference load balancer, which no table above includes."""
    checks = run.instruments
    if not checks:
        return Section("Reference load balancer")
    found = tally(run.verdicts[check.id] for check in checks if check.id in run.verdicts)
    not_asked = f", {found.not_asked:,} not tested" if found.not_asked else ""
    words = f"{counted(len(checks), 'check')}, not part of the result: {found.words or 'none tested'}{not_asked}."
    failed = Items(tuple(_cause(run, each) for each in causes(checks, run.verdicts)[:MOST_INSTRUMENT_CAUSES]))
    return Section("Reference load balancer", (Text(words), failed))


def _not_tested(run: RecordedRun) -> Section:
    """The untested checks by missing feature, with the reason."""
    unjudged = sum(1 for check in run.checks if check.id not in run.verdicts)
    lines: list[Words] = [f"{counted(unjudged, 'check')} without a verdict: the run ended early"] if unjudged else []
    for each in sorted(missing(run), key=lambda each: (not each.ours, -len(each.checks), each.name)):
        name = title_of(each.name)
        by = " (excluded by user)" if each.ours else ""
        lines.append((f"{counted(len(each.checks), 'check')} without ", _code(name), f"{by}: ", one_line(each.why)))
    return Section("Not tested", (_some(lines, MOST_REASONS, "features"),) if lines else ())
