"""A static site of many runs: implementations by suites, checks by implementations, and the reports behind both."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from esipp.base.document import Cell, Document, Link, Section, Table, Text
from esipp.base.hashing import file_name
from esipp.base.plural import counted
from esipp.checks.check import Level, Status, Verdict
from esipp.ledger.conclusion import tally
from esipp.ledger.reading import RecordedRun
from esipp.report.comparing.environment import when
from esipp.report.comparing.merge import Column, merge
from esipp.report.formats import FORMATS, written
from esipp.report.rendering import render

INDEX = "index.html"
REPORTS = ("html", "json", "conformance")
"""The reports of each run that the site has."""


def write(runs: Sequence[RecordedRun], folder: Path) -> list[Path]:
    """Write the site.

    Args:
        runs: one for each implementation.
        folder: where to; existing files of the same names are replaced.

    Returns:
        The pages, the index first.

    Raises:
        OSError: a file cannot be written.
    """
    columns = merge(runs).columns
    pages = {INDEX: _index(columns)} | {f"{suite}.html": _suite(suite, columns) for suite in _suites(columns)}
    for run in runs:
        (folder / _place(run)).mkdir(parents=True, exist_ok=True)
        for name in REPORTS:
            written(folder / _place(run) / FORMATS[name].file, FORMATS[name].render(run))
    for name, page in pages.items():
        written(folder / name, render(page, "html"))
    return [folder / name for name in pages]


def _place(run: RecordedRun) -> str:
    return file_name(str(run.header["run"]))


def _suites(columns: Sequence[Column]) -> list[str]:
    return list(dict.fromkeys(check.suite for column in columns for check in column.checks.values()))


def _index(columns: Sequence[Column]) -> Document:
    suites = _suites(columns)
    rows = []
    for column in columns:
        (run,) = column.runs
        report = f"{_place(run)}/{FORMATS['html'].file}"
        result = Link(column.conclusion.result, report)
        rows.append((Link(column.name, report), result, *(_share(column, suite) for suite in suites), when(run)))
    links = tuple(Link(suite, f"{suite}.html") for suite in suites)
    table = Table(("implementation", "result", *suites, "tested"), tuple(rows))
    said = Text(
        "Core and extended checks that are as required, of those that were judged. Each result leads to its report."
    )
    checks = Table(("checks of a suite, by implementation",), tuple((each,) for each in links))
    return Document(
        "Implementations",
        f"{counted(len(columns), 'implementation')}, qualified by esipp.",
        (),
        (
            Section("Implementations by suites", (said, table), "implementations"),
            Section("Checks", (checks,), "checks"),
        ),
    )


def _share(column: Column, suite: str) -> Cell:
    """The core and extended checks of a suite that are as required, with the way to them in the report."""
    found = tally(
        verdict
        for name, verdict in column.verdicts.items()
        if column.checks[name].suite == suite and verdict.level is not Level.RECORD
    )
    return f"{found.required:,} of {found.judged:,}" if found.judged else None


def _suite(suite: str, columns: Sequence[Column]) -> Document:
    """The checks of a suite, each with its verdict at each implementation and the evidence behind it."""
    levels = {name: check.level for each in columns for name, check in each.checks.items() if check.suite == suite}
    rows = [(name, level.words, *_verdicts(name, columns)) for name, level in levels.items()]
    table = Table(("check", "level", *(column.name for column in columns)), tuple(rows))
    back = Text((Link("All implementations", INDEX),))
    return Document(
        f"{suite} by implementation",
        f"{counted(len(rows), 'check')}; each verdict leads to its evidence.",
        (),
        (Section(suite, (back, table), "checks"),),
    )


def _verdicts(name: str, columns: Sequence[Column]) -> Iterator[Cell]:
    for column in columns:
        verdict: Verdict | None = column.verdicts.get(name)
        (run,) = column.runs
        where = f"{_place(run)}/{FORMATS['html'].file}#row={name}"
        yield None if verdict is None or verdict.status is Status.UNSUPPORTED else Link(verdict.status.value, where)
