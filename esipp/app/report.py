"""``esipp report`` and ``esipp summary``: reports of a recorded run, made from its ledger alone."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from esipp.base.errors import EsippError, ExitCode, PreflightError
from esipp.ledger.reading import RecordedRun, read_run
from esipp.report.ending import MOST_LINES, Detail, ending, whereabouts
from esipp.report.formats import CANNOT, FORMATS, written
from esipp.report.profiles import faults

BASELINE = "an earlier run: reports have its figures beside those of this run, and what became worse since"

ALLURE, ALLURE_FOLDER = "allure", "allure-results"

FOLDERS = {ALLURE: (ALLURE_FOLDER, "results for Allure, a folder of files", "esipp.report.allure.replay")}
"""Formats of more than one file: folder name, purpose, and the module whose ``write`` fills the folder."""

EXIT_CODES = """exit codes:
  0  the reports are written, whatever the run's result
  2  interrupted
  3  a report could not be made, or the ledger is incomplete; the reports then say INCOMPLETE
  4  wrong usage, or this esipp can read no ledger there
"""

SUMMARY_EXIT_CODES = """exit codes (those of the run):
  0  conformant, possibly with differences that the API allows; or PARTIAL, because core checks were left out; or
     with known defects or failures that the run accepted: the last lines say which
  1  not conformant: a check fails or is flaky, or a core check has a known defect or finding; or a waiver is stale
  2  the run was interrupted
  3  the harness failed, too many checks could not be decided, or the ledger is incomplete
  4  wrong usage; or this esipp can read no ledger there; or the cluster was not fit for a run
  5  no check was selected
"""


def _formats() -> str:
    """The list of formats for ``--help``."""
    formats = {name: (form.file, form.what) for name, form in FORMATS.items()}
    formats |= {name: (f"{folder}/", what) for name, (folder, what, _) in FOLDERS.items()}
    lines = [f"  {name:<12} {file:<17} {what}" for name, (file, what) in formats.items()]
    return "formats:\n" + "\n".join(lines) + "\n\n"


def add_parsers(commands: Any) -> None:
    """Add both commands to the parser."""
    where = "folder of the run, or its ledger ('runs/latest' is the newest)"

    report = commands.add_parser(
        "report", help="write the reports of a recorded run again; needs no cluster", epilog=_formats() + EXIT_CODES
    )
    report.add_argument("run", type=Path, metavar="RUN", help=where)
    report.add_argument(
        "--format",
        action="append",
        default=[],
        choices=[*FORMATS, *FOLDERS],
        metavar="FORMAT",
        help=f"one of the formats below; repeatable (default: all except {ALLURE})",
    )
    report.add_argument(
        "--out",
        type=Path,
        default=None,
        metavar="PATH",
        help="folder for the reports, or a file if there is one --format (default: the run's folder; with one "
        f"--format standard output, except for {ALLURE})",
    )
    report.add_argument("--baseline", type=Path, default=None, metavar="RUN", help=BASELINE)
    report.set_defaults(command=report_run)

    summary = commands.add_parser(
        "summary",
        help="print the summary of a recorded run, and exit with the run's exit code; needs no cluster",
        epilog=SUMMARY_EXIT_CODES,
    )
    summary.add_argument("run", type=Path, metavar="RUN", help=where)
    add_detail(summary)
    summary.set_defaults(command=summarise_run)


def report_run(options: argparse.Namespace) -> int:
    """Write the requested reports and print their paths. A report that fails does not stop the others.

    Raises:
        PreflightError: there is no ledger to read, or --out is not writable.
    """
    names = list(dict.fromkeys(options.format)) or list(FORMATS)
    run = read_run(options.run, options.baseline)
    _check_writable(options.out or run.folder, options.format)
    single = len(options.format) > 0 and len(names) == 1
    cannot = False
    for name in names:
        make, to = _target(run, name, options.out, single)
        try:
            make(to)
        except BrokenPipeError:
            raise
        except (*CANNOT, EsippError) as broken:
            cannot = True
            print(f"esipp: no {name} report: {broken}", file=sys.stderr)
            continue
        if to is not None:
            print(to)
    for fault in faults(run):
        print(f"esipp: INCOMPLETE: {fault}", file=sys.stderr)
    return int(ExitCode.HARNESS if cannot or not run.whole else ExitCode.CONFORMANT)


def _check_writable(out: Path, formats: Sequence[str]) -> None:
    """Refuse a folder that is not writable; a single report may go to standard output.

    Raises:
        PreflightError: the folder cannot be created, or is not writable.
    """
    folder = next(each for each in (out, *out.absolute().parents) if each.exists())
    if len(formats) != 1 and not (os.access(folder, os.W_OK) and (folder.is_dir() or folder == out)):
        raise PreflightError(f"Cannot write to {out}.", "name another folder with --out.")


def _target(
    run: RecordedRun, name: str, out: Path | None, single: bool
) -> tuple[Callable[[Path | None], None], Path | None]:
    """The function that makes a report, and its target; None is standard output.

    Raises:
        PreflightError: the target of several reports is a file.
    """
    if not single and out is not None and out.exists() and not out.is_dir():
        raise PreflightError(f"--out {out} is a file, but there are several reports to write.", "name a folder.")
    if name in FOLDERS:
        folder, _, module = FOLDERS[name]

        def fill(to: Path | None) -> None:
            import_module(module).write(run, to)

        return fill, out if single and out is not None else (out or run.folder) / folder
    form = FORMATS[name]

    def write(to: Path | None) -> None:
        text = form.render(run)
        if to is None:
            _print(text)
            return
        to.parent.mkdir(parents=True, exist_ok=True)
        written(to, text)

    if single:
        return write, out / form.file if out is not None and out.is_dir() else out
    return write, (out or run.folder) / form.file


def summarise_run(options: argparse.Namespace) -> int:
    """The command ``esipp summary``."""
    return summarise(options.run, detail_of(options))


def summarise(folder: Path, detail: Detail = Detail.SHORT) -> int:
    """Print the run's summary and return its exit code; an incomplete ledger is never conformant.

    Raises:
        PreflightError: there is no ledger to read.
    """
    run = read_run(folder)
    _print("\n".join([*ending(run, detail), *whereabouts(run, detail)]) + "\n")
    return int(run.conclusion.exit_code)


def _print(text: str) -> None:
    """Print a report as UTF-8, whatever the terminal's encoding."""
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode())
    sys.stdout.buffer.flush()


def add_detail(parser: Any) -> None:
    """Add the options to a parser; they exclude each other."""
    add = parser.add_mutually_exclusive_group().add_argument
    add(
        "-v",
        "--verbose",
        "--full",
        action="store_true",
        help=f"print all tables, as in summary.txt (default: at most {MOST_LINES} lines)",
    )
    add("-q", "--quiet", action="store_true", help="print only the sentence that says the result")


def detail_of(options: Any) -> Detail:
    """What the options ask for."""
    return Detail.FULL if options.verbose else Detail.SENTENCE if options.quiet else Detail.SHORT
