"""What a run leaves beside its ledger: every report, each rendered from the ledger and from nothing else."""

import contextlib
import importlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from esipp.ledger.reading import RecordedRun
from esipp.report.terminal import appendix, summary

Render = Callable[[RecordedRun], str]


@dataclass(frozen=True)
class Format:
    """A form of the report: its file's name, what it is for, and the module whose ``render`` makes it."""

    file: str
    what: str
    module: str

    def render(self, run: RecordedRun) -> str:
        """The report's text."""
        render: Render = importlib.import_module(self.module).render  # only what is asked for is loaded
        return render(run)


FORMATS = {
    "html": Format("report.html", "one page, for people", "esipp.report.html"),
    "terminal": Format("summary.txt", "what is said at the end of a run", "esipp.report.terminal"),
    "json": Format("report.json", "everything, for programs", "esipp.report.document"),
    "markdown": Format("report.md", "for a pull request", "esipp.report.markdown"),
    "junit": Format("junit.xml", "for CI", "esipp.report.junit"),
    "conformance": Format("conformance.yaml", "a conformance report as Gateway API has it", "esipp.report.conformance"),
    "in-toto": Format("statement.json", "an unsigned in-toto test result", "esipp.report.statement"),
}
"""The forms, by the names that ``esipp report --format`` takes."""

CANNOT = (Exception,)
"""What may keep one report from being made, and hinders no other: whatever it stumbles over."""


def write_reports(run: RecordedRun) -> list[str]:
    """Write every report into the run's folder, and return what is to be said on the terminal.

    A report that cannot be written is told, and hinders no other.
    """
    done, trouble = [], []
    for name, form in FORMATS.items():
        try:
            written(run.folder / form.file, form.render(run))
            done.append(form.file)
        except CANNOT as broken:
            trouble.append(f"no {name} report: {broken}")
    told = [f"reports: {run.folder / done[0]}, {', '.join(done[1:])}"] if done else []
    try:
        said = [*summary(run), *appendix(run)]
    except CANNOT:
        said = [run.conclusion.sentence]
    return [*said, *told, *trouble]


def written(path: Path, text: str) -> None:
    """Write a file whole or not at all; what is no file, as /dev/null, is written to and stays what it is."""
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
