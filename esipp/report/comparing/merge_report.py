"""The output of ``esipp merge``: a matrix with a column for each run, for people and as JSON."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from esipp.base.document import Cell, Code, Document, Item, Items, Section, Strong, Table, Text
from esipp.base.plural import counted, form
from esipp.checks.check import Level, Status, Verdict
from esipp.checks.patterns import patterns
from esipp.checks.reference import Reference, titles
from esipp.ledger.conclusion import WORST_FIRST
from esipp.ledger.recorded_checks import RecordedCheck
from esipp.report.comparing.checks import FAILING
from esipp.report.comparing.environment import CHECKS, environment, when
from esipp.report.comparing.merge import Column, Merged
from esipp.report.comparing.words import Words, gist, ranges
from esipp.report.matrix import MARKS as SIGNS

LONG = 60
"""The length of a matrix above which only differences are shown, unless all lines are requested."""

MARKS = SIGNS | {Status.PASS: "P"}
"""The signs of the terminal's matrix, and a letter for a pass."""

NO_VERDICT, NOT_ASKED = "∅", "."
LEGEND = (
    "P pass, r recorded, ! fail, ~ flaky, k known difference, u unsupported, ? inconclusive, E suite error, "
    "∅ no verdict, . not selected in that run."
)
FINE = {MARKS[Status.PASS], MARKS[Status.RECORDED], MARKS[Status.KNOWN], MARKS[Status.UNSUPPORTED], NOT_ASKED}
WORDS = {mark: status.value for status, mark in MARKS.items()} | {NO_VERDICT: "unjudged"}
BAD = WORDS.keys() - FINE

Marks = tuple[str, ...]
Stem = tuple[str, str, Level]


def report(merged: Merged, only_differences: bool | None = None) -> Document:
    """The document. The matrix has only differences if requested, or if it is long and nothing is requested."""
    sections = [
        _conclusions(merged.columns),
        _counts(merged.columns),
        *_disagreements(merged.columns),
        _matrix(merged.columns, only_differences),
        reasons_section(merged.columns),
        _environment(merged.columns),
    ]
    title = f"esipp merge: {counted(len(merged.columns), 'run')}"
    return Document(title, merged.sentence, tuple(merged.faults), tuple(sections))


def marks(columns: Sequence[Column]) -> dict[str, Marks]:
    """The marks of all columns for each check, by id."""
    ids = dict.fromkeys(name for column in columns for name in column.checks)
    return {name: tuple(_mark(column, name) for column in columns) for name in ids}


def matters(found: Marks) -> bool:
    """Whether the columns that selected a check differ, or one of them has no good verdict."""
    return len(set(found) - {NOT_ASKED}) > 1 or bool(set(found) - FINE)


def _mark(column: Column, name: str) -> str:
    if name not in column.checks:
        return NOT_ASKED
    return MARKS[column.verdicts[name].status] if name in column.verdicts else NO_VERDICT


# ---------------------------------------------------------------------------------------------------------- matrix
def _matrix(columns: Sequence[Column], only_differences: bool | None) -> Section:
    found = marks(columns)
    checks = {name: check for column in reversed(columns) for name, check in column.checks.items()}
    stems = Counter(_stem(checks[name]) for name in found)
    lines = _lines(found, checks, stems)
    alike = sum(1 for each in found.values() if not matters(each))
    hidden = (len(lines) > LONG if only_differences is None else only_differences) and bool(alike)
    if hidden:
        lines = _lines({name: each for name, each in found.items() if matters(each)}, checks, stems)
    about = LEGEND
    if hidden:
        about += f" {alike:,} checks are not listed: all their runs have the same good verdict."
    head = ("checks", "level", "number", *(each.name for each in columns))
    if not lines:
        return Section("Matrix", (Text(about),))
    return Section("Matrix", (Text(about), Table(head, tuple(lines))))


def _lines(
    found: Mapping[str, Marks], checks: Mapping[str, RecordedCheck], stems: Mapping[Stem, int]
) -> list[tuple[Cell, ...]]:
    """One line for all checks of a kind with equal marks; ``stems`` has the number of checks of each kind."""
    groups: dict[tuple[Stem, Marks], list[str]] = {}
    for name, each in found.items():
        groups.setdefault((_stem(checks[name]), each), []).append(name)
    lines: list[tuple[Cell, ...]] = []
    for (stem, each), names in groups.items():
        marked = [Strong(mark, WORDS[mark]) if mark in BAD else mark for mark in each]
        if len(names) > 1 and len(names) == stems[stem]:
            lines.append((Code(f"{stem[1]}.*"), stem[2].words, len(names), *marked))
        else:
            lines += [(Code(one), stem[2].words, _number(one), *marked) for one in patterns(names)]
    return lines


def _stem(check: RecordedCheck) -> Stem:
    """The kind of a check: suite, start of the id, level."""
    service = check.place.service if check.place else ""
    begins = service if service and check.id.startswith(f"{service}.") else ".".join(check.id.split(".")[:2])
    return check.suite, begins, check.level


def _number(pattern: str) -> int:
    """The number of ids of a pattern."""
    number = 1
    for part in pattern.split("{")[1:]:
        number *= part.partition("}")[0].count(",") + 1
    return number


# ---------------------------------------------------------------------------------------------------------- beside
def _conclusions(columns: Sequence[Column]) -> Section:
    checks = tuple(
        (
            each.name,
            ", ".join(str(run.header.get("run", "?")) for run in each.runs),
            when(each.runs[0]),
            len(each.checks),
            each.conclusion.result.upper(),
            each.conclusion.why,
        )
        for each in columns
    )
    return Section("Conclusions", (Table(("column", "run", "when", "checks", "result", "reason"), checks),))


def _counts(columns: Sequence[Column]) -> Section:
    counted = [Counter((column.checks[name].level, said.status) for name, said in column.verdicts.items())
               for column in columns]  # fmt: skip
    checks = tuple(
        (level.words, status.value, *(each[level, status] for each in counted))
        for level in Level
        for status in reversed(WORST_FIRST)
        if any(each[level, status] for each in counted)
    )
    return Section("Verdicts", (Table(("level", "verdict", *(each.name for each in columns)), checks),))


def _disagreements(columns: Sequence[Column]) -> Iterable[Section]:
    for column in columns:
        groups: dict[str, list[str]] = {}
        for name, words in column.disagreements.items():
            groups.setdefault(words, []).append(name)
        if groups:
            items = tuple(Item(words, (), tuple(patterns(names))) for words, names in groups.items())
            about = "Contradicting verdicts are flaky. If one part could not decide, the check is undecided."
            yield Section("Checks on which the parts disagree", (Text(about), Items(items)))


def _environment(columns: Sequence[Column]) -> Section:
    runs = [run for column in columns for run in column.runs]
    names = [column.name for column in columns for _ in column.runs]
    if len(columns) < len(runs):
        names = [str(run.header.get("run", "?")) for run in runs]
    settings = environment(runs)
    same = [each for each in settings if not each.differs and each.group in ("fact", "component", "run")]
    common = "; ".join(f"{each.name} {each.short[0]}" for each in same if each.name != CHECKS)
    checks = tuple((each.group, each.name, *each.short) for each in settings if each.differs)
    about = f"The same in all runs: {common}." if common else ""
    table = [Table(("kind", "name", *names), checks)] if checks else []
    return Section("Environment", (*([Text(about)] if about else []), *table))


# ------------------------------------------------------------------------------------------------------------ JSON
def as_json(merged: Merged) -> str:
    """The JSON: each check with its verdict in each column."""
    columns = merged.columns
    checks = {name: check for column in reversed(columns) for name, check in column.checks.items()}
    content = {
        "kind": "esipp.merge",
        "version": 1,
        "sentence": merged.sentence,
        "result": merged.worst.conclusion.result,
        "exit_code": int(merged.exit_code),
        "incomplete": merged.faults,
        "columns": [_column(each) for each in columns],
        "rows": [
            {
                "id": name,
                "suite": checks[name].suite,
                "level": checks[name].level.value,
                "verdicts": [_said(column, name) for column in columns],
            }
            for name in marks(columns)
        ],
        "reasons": [
            {"verdict": each.status.value, "why": each.why, "nature": each.nature}
            | {"references": [one.as_json() for one in each.references]}
            | {"rows": each.checks}
            for each in reasons(columns)
        ],
        "environment": [
            {"group": each.group, "name": each.name, "values": list(each.values)}
            for each in environment([run for column in columns for run in column.runs])
        ],
    }
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _column(each: Column) -> dict[str, object]:
    said = each.conclusion
    return {
        "name": each.name,
        "runs": [str(run.header.get("run", "?")) for run in each.runs],
        "conclusion": {"result": said.result, "exit_code": int(said.exit_code), "why": said.why}
        | {"lines": list(said.lines)},
        "counts": dict(sorted(said.counts.items())),
        "faults": list(each.faults),
        "disagreements": dict(each.disagreements),
    }


def _said(column: Column, name: str) -> str | None:
    """The verdict; empty if it is missing, None if the column did not select the check."""
    if name not in column.checks:
        return None
    return column.verdicts[name].status.value if name in column.verdicts else ""


TITLE = "Verdicts other than pass, by reason"


@dataclass
class Reason:
    """A reason with its checks in each column.

    Args:
        status: the verdict; never `pass` or `recorded`.
        why: the reason in words that hold for all clusters; for failures, the observation.
        references: the references of a known difference.
        nature: the nature of a known difference.
        checks: ids by column.
        observed, stated: for failures, the observations and the reasons with their numbers.
        likely: for failures, where to look.
    """

    status: Status
    why: str
    references: tuple[Reference, ...]
    nature: str = ""
    checks: dict[str, list[str]] = field(default_factory=dict)
    observed: list[str] = field(default_factory=list)
    stated: list[str] = field(default_factory=list)
    likely: str = ""

    @property
    def text(self) -> str:
        """The reason for people; for failures the observation, with ranges of its numbers over all checks."""
        return ranges(self.observed) if self.observed else self.why

    @property
    def number(self) -> int:
        """How many verdicts have this reason."""
        return sum(map(len, self.checks.values()))


def reasons(columns: Sequence[Column]) -> list[Reason]:
    """All reasons, the worst verdict first, then the most frequent."""
    found: dict[tuple[Status, str, tuple[Reference, ...], str], Reason] = {}
    for column in columns:
        words = Words(column.runs[0])
        for name, verdict in column.verdicts.items():
            if verdict.status not in (Status.PASS, Status.RECORDED):
                key = (verdict.status, _why(verdict, words), verdict.references, verdict.nature)
                reason = found.setdefault(key, Reason(*key))
                reason.checks.setdefault(column.name, []).append(name)
                if verdict.status in FAILING:
                    reason.observed.append(words.measured(verdict) or gist(words.shape(verdict)))
                    reason.stated += [words.plain(verdict.reason)] if verdict.reason else []
                    reason.likely = verdict.likely
    return sorted(found.values(), key=lambda each: (WORST_FIRST.index(each.status), -each.number, each.why))


def _why(verdict: Verdict, words: Words) -> str:
    """The reason without measurements, so that equal reasons of several runs meet."""
    if why := words.why(verdict):
        return why
    causes = "; ".join(part for part in (verdict.likely, words.unmeasured(verdict.reason)) if part)
    return gist(words.shape(verdict)) + (f" ({causes})" if causes else "")


def reasons_section(columns: Sequence[Column]) -> Section:
    """The section; without items if every check passed."""
    found = reasons(columns)
    total = Counter(each.status for each in found for _ in range(each.number))
    items = tuple(_item(each, columns) for each in found)
    counts = ", ".join(f"{total[status]:,} {status.value}" for status in WORST_FIRST if total[status])
    about = (
        f"{total.total():,} {form(total.total(), 'verdict')}: {counts}."
        if items
        else "Every check of every run passed."
    )
    return Section(TITLE, (Text(about), Items(items)))


def _item(each: Reason, columns: Sequence[Column]) -> Item:
    where = ", ".join(
        f"{len(each.checks[column.name]):,} in {column.name}" for column in columns if column.name in each.checks
    )
    texts = {
        "checks": where,
        "reason": ranges(each.stated) if each.stated else "",
        "likely": each.likely,
        "see": titles(each.references),
    }
    details = tuple((label, text) for label, text in texts.items() if text)
    ids = dict.fromkeys(name for names in each.checks.values() for name in names)
    what = f"{each.status.value} ({each.nature})" if each.nature else each.status.value
    return Item(f"{what}: {each.text}", details, tuple(patterns(list(ids))))
