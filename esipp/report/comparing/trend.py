"""The trend of several runs, the oldest first: verdicts, figures, distributions, and what became worse in which run.

``diff.py`` decides what became worse, and whether a distribution differs, on each two runs that follow each other.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise

from esipp.base.document import Block, Cell, Code, Document, Pairs, Section, Strong, Table, Text
from esipp.base.json import Json
from esipp.base.plural import counted, form
from esipp.checks.check import Binding, Level
from esipp.ledger.reading import RecordedRun
from esipp.report.comparing.diff import Diff, compare
from esipp.report.comparing.environment import when
from esipp.report.comparing.merge import Column, merge
from esipp.report.comparing.times import Name, samples
from esipp.report.comparing.words import UNOBSERVED
from esipp.report.sections import figures

MOST = 200
"""The most lines of a table."""


@dataclass(frozen=True)
class Worse:
    """A check that became worse: ``since`` is the first run in which it is, ``still`` whether it is in the last one."""

    id: str
    level: Level
    before: str
    since: int
    observed: str
    still: bool


@dataclass(frozen=True)
class Trend:
    """Runs by the time at which they began, with the differences of each two that follow each other."""

    columns: tuple[Column, ...]
    diffs: tuple[Diff, ...]

    @property
    def runs(self) -> list[RecordedRun]:
        """The runs, the oldest first."""
        return [each.runs[0] for each in self.columns]

    @cached_property
    def worse(self) -> list[Worse]:
        """What regressed from one run to the next, the latest first; what regressed twice is there twice."""
        found = []
        for number, diff in enumerate(self.diffs, start=1):
            for change in diff.changes:
                if change.id not in diff.regressed or change.old is None or change.new is None:
                    continue
                later = {name for each in self.diffs[number:] for name in each.fixed}
                known = change.new.status not in UNOBSERVED and change.new.observed
                observed = known or change.new.reason
                found.append(
                    Worse(change.id, change.level, change.old.status.value, number, observed, change.id not in later)
                )
        return sorted(found, key=lambda each: (not each.still, -each.since, list(Level).index(each.level), each.id))

    @property
    def fails(self) -> bool:
        """Whether a check that binds became worse, and still is."""
        binding = {change.id for diff in self.diffs for change in diff.changes if change.binds(diff.fail_on)}
        return any(each.still and each.id in binding for each in self.worse)

    @property
    def sentence(self) -> str:
        """What became worse and still is, in one sentence."""
        still = [each for each in self.worse if each.still]
        since = f" since {self.columns[still[0].since].name}" if len({each.since for each in still}) == 1 else ""
        runs = counted(len(self.columns), "run")
        if not still:
            return f"Of {runs}: no check that was asked again is worse than it was."
        return (
            f"Of {runs}: {counted(len(still), 'check')} became worse{since}, and still {form(len(still), 'is', 'are')}."
        )


def trend(runs: Iterable[RecordedRun]) -> Trend:
    """The trend of runs, in the order of their beginnings."""
    ordered = sorted(runs, key=lambda run: float(run.header["at"]))
    diffs = (compare(old, new, Binding(new.header["fail_on"])) for old, new in pairwise(ordered))
    return Trend(merge(ordered).columns, tuple(diffs))


# ------------------------------------------------------------------------------------------------------------- output
def since_baseline(run: RecordedRun) -> list[Section]:
    """The section of a run's report that compares it with its baseline; none without one."""
    if run.baseline is None:
        return []
    found = trend([run.baseline, replace(run, baseline=None)])
    return [Section("Since the baseline", (Text(found.sentence), *report(found).blocks), "baseline")]


def report(found: Trend) -> Document:
    """The document."""
    sections = [_runs(found), _figures(found), _worse(found), _verdicts(found), *_distributions(found)]
    return Document(f"esipp trend: {counted(len(found.columns), 'run')}", found.sentence, (), tuple(sections))


def as_json(found: Trend) -> str:
    """The trend for programs."""
    value: Json = {
        "sentence": found.sentence,
        "runs": [
            {
                "name": column.name,
                "run": run.header["run"],
                "began": when(run),
                "result": column.conclusion.result,
                "exit_code": int(column.conclusion.exit_code),
                "levels": {level.value: tally.as_json() for level, tally in column.conclusion.levels.items()},
                "figures": dict(figures(run)),
            }
            for column, run in zip(found.columns, found.runs, strict=True)
        ],
        "worse": [
            {
                "check": each.id,
                "level": each.level.value,
                "before": each.before,
                "first_bad_run": found.runs[each.since].header["run"],
                "observed": each.observed,
                "still": each.still,
            }
            for each in found.worse
        ],
        "distributions": [
            {"of": of, "what": what, "medians": [None if each is None else each[0] for each in rows]}
            for (of, what), rows in _medians(found).items()
        ],
    }
    return json.dumps(value, indent=2) + "\n"


def _runs(found: Trend) -> Section:
    rows = [
        (column.name, when(run), Strong(column.conclusion.result), run.header["suite"])
        for column, run in zip(found.columns, found.runs, strict=True)
    ]
    why = Pairs.of((column.name, column.conclusion.why) for column in found.columns)
    return Section("Runs", (Table(("run", "began", "result", "esipp"), tuple(rows)), why), "runs")


def _figures(found: Trend) -> Section:
    of_runs = [dict(figures(run)) for run in found.runs]
    labels = dict.fromkeys(label for each in of_runs for label in each)
    rows: list[tuple[Cell, ...]] = [(label, *(each.get(label) for each in of_runs)) for label in labels]
    for level in (Level.CORE, Level.EXTENDED):
        tallies = [column.conclusion.levels.get(level) for column in found.columns]
        cells = (f"{each.required:,} of {each.judged:,}" if each and each.judged else None for each in tallies)
        rows.append((f"{level.words} as required", *cells))
    return Section("Figures", (Table(("", *_names(found)), tuple(rows)),), "figures")


def _worse(found: Trend) -> Section:
    if not found.worse:
        return Section(
            "What became worse", (Text("Nothing: no check regressed from any run to the next one."),), "worse"
        )
    rows = [
        (
            *(Code(each.id), each.level.words, each.before, found.columns[each.since].name, each.observed),
            Strong("still worse", "fail") if each.still else "fixed since",
        )
        for each in found.worse[:MOST]
    ]
    head = ("check", "level", "before", "first bad run", "observed, or why not", "now")
    more = len(found.worse) - MOST
    blocks: list[Block] = [Table(head, tuple(rows)), *([Text(f"and {more} more")] if more > 0 else [])]
    return Section("What became worse", tuple(blocks), "worse")


def _verdicts(found: Trend) -> Section:
    """Each check whose verdict is not the same in all runs that have one."""
    ids = dict.fromkeys(name for column in found.columns for name in column.checks)
    rows: list[tuple[Cell, ...]] = []
    for name in ids:
        verdicts = [column.verdicts.get(name) for column in found.columns]
        statuses = [each.status.value if each else None for each in verdicts]
        if len({each for each in statuses if each}) > 1:
            rows.append((Code(name), *(Strong(each, each) if each else None for each in statuses)))
    said = Text(f"{len(ids) - len(rows):,} of {len(ids):,} checks have the same verdict in all runs that asked them.")
    table = [Table(("check", *_names(found)), tuple(rows[:MOST]))] if rows else []
    return Section("Verdicts that changed", (said, *table), "verdicts")


def _medians(found: Trend) -> Mapping[Name, Sequence[tuple[float, float] | None]]:
    """Median and largest value of each distribution, by run; those that at least two runs have."""
    of_runs = [samples(run) for run in found.runs]
    names = dict.fromkeys(name for each in of_runs for name in each)
    made = {name: [_middle(each.get(name, ())) for each in of_runs] for name in names}
    return {name: values for name, values in made.items() if sum(each is not None for each in values) > 1}


def _middle(values: Sequence[float]) -> tuple[float, float] | None:
    ordered = sorted(values)
    return (ordered[(len(ordered) - 1) // 2], ordered[-1]) if ordered else None


def _distributions(found: Trend) -> list[Section]:
    medians = _medians(found)
    if not medians:
        return []
    differs = {(each.of, each.what): number for number, diff in enumerate(found.diffs, 1) for each in diff.later}
    rows = []
    for (of, what), values in medians.items():
        changed = found.columns[differs[of, what]].name if (of, what) in differs else ""
        rows.append((of, what, *(f"{each[0]:.2f} ({each[1]:.2f})" if each else None for each in values), changed))
    head = ("measure", "of", *_names(found), "last proven change")
    said = Text("Median and, in brackets, largest value in seconds. A change is proven as in 'esipp diff'.")
    return [Section("Distributions", (said, Table(head, tuple(rows[:MOST]))), "distributions")]


def _names(found: Trend) -> list[str]:
    return [column.name for column in found.columns]
