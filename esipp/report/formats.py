"""The list of reports, each rendered from the ledger alone."""

import contextlib
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from esipp.ledger.reading import RecordedRun
from esipp.report.ending import Detail, ending

Render = Callable[[RecordedRun], str]


@dataclass(frozen=True)
class Format:
    """A report format: the file name, the purpose, and the module with its ``render``."""

    file: str
    what: str
    module: str

    def render(self, run: RecordedRun) -> str:
        """The report's text."""
        render: Render = importlib.import_module(self.module).render  # load only the requested formats
        return render(run)


FORMATS = {
    "html": Format("report.html", "one page, for people", "esipp.report.html"),
    "terminal": Format("summary.txt", "all tables, as text", "esipp.report.terminal"),
    "json": Format("report.json", "all results, for programs", "esipp.report.document"),
    "markdown": Format("report.md", "for a pull request", "esipp.report.markdown"),
    "junit": Format("junit.xml", "for CI", "esipp.report.junit"),
    "ctrf": Format("ctrf-report.json", "for CI: the Common Test Report Format", "esipp.report.ctrf"),
    "conformance": Format("conformance.yaml", "a conformance report like Gateway API's", "esipp.report.conformance"),
    "in-toto": Format("statement.json", "an unsigned in-toto test result", "esipp.report.statement"),
}
"""The formats by the names that ``esipp report --format`` accepts."""

CANNOT = (Exception,)
"""The exceptions that skip a single report: the others are still written."""


def write_reports(run: RecordedRun) -> list[str]:
    """Write all reports into the run's folder, and return the lines that say where they are.

    A report that cannot be written is named in these lines; the others are still written.
    """
    done, trouble = [], []
    for name, form in FORMATS.items():
        try:
            written(run.folder / form.file, form.render(run))
            done.append(form.file)
        except CANNOT as broken:
            trouble.append(f"no {name} report: {broken}")
    where = [f"reports: {run.folder / done[0]}, {', '.join(done[1:])}"] if done else []
    return [*where, *trouble]


def said_of(run: RecordedRun, detail: Detail) -> list[str]:
    """The lines that a run ends with, as far as they can be made."""
    try:
        return ending(run, detail)
    except CANNOT:
        return [run.conclusion.sentence]


def written(path: Path, text: str) -> None:
    """Write a file atomically; write to a special file such as /dev/null in place."""
    if path.exists() and not path.is_file() and not path.is_dir():
        path.write_text(text, encoding="utf-8")
        return
    half = path.with_name(f".{path.name}.half")
    try:
        half.write_text(text, encoding="utf-8")
        half.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            half.unlink()
        raise
