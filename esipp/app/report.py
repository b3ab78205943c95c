"""``esipp report`` and ``esipp summary``: a recorded run in other forms, from its ledger alone."""

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from esipp.base.errors import EsippError, ExitCode, PreflightError
from esipp.ledger.reading import RecordedRun, read_run
from esipp.report.formats import CANNOT, FORMATS, written
from esipp.report.profiles import faults

ALLURE, ALLURE_FOLDER = "allure", "allure-results"

FOLDERS = {ALLURE: (ALLURE_FOLDER, "results for Allure, a folder of files", "esipp.report.allure.replay")}
"""Forms that are more than one file: the folder's name, what it is for, the module whose ``write`` fills a folder."""

EXIT_CODES = """exit codes:
  0  the reports are written, whatever they say of the run
  2  interrupted
  3  a report could not be made, or the ledger is not whole: the reports then say INCOMPLETE
  4  wrong usage, or there is no ledger that this esipp reads
"""

SUMMARY_EXIT_CODES = """exit codes are those of the run, asked again:
  0  conformant, also with differences that the API allows; PARTIAL, if core checks were left out; or known defects
     that the run accepted: the last lines say which
  1  not conformant: a check fails or is flaky, or a core check differs by a known defect or finding
  2  the run was interrupted
  3  the harness failed, too much could not be decided, or the ledger is not whole
  4  wrong usage, or there is no ledger that this esipp reads; or the cluster was not fit to be asked
  5  no check was selected
"""


def _forms() -> str:
    """What --help says of each form."""
    told = {name: (form.file, form.what) for name, form in FORMATS.items()}
    told |= {name: (f"{folder}/", what) for name, (folder, what, _) in FOLDERS.items()}
    return "forms:\n" + "\n".join(f"  {name:<12} {file:<17} {what}" for name, (file, what) in told.items()) + "\n\n"


def add_parsers(commands: Any) -> None:
    """Add both commands to those of ``esipp``."""
    plain = argparse.RawDescriptionHelpFormatter
    where = "the run's folder, or its ledger ('runs/latest' is the newest)"

    report = commands.add_parser(
        "report",
        help="write a run's reports again, from its ledger; needs no cluster",
        epilog=_forms() + EXIT_CODES,
        formatter_class=plain,
    )
    report.add_argument("run", type=Path, metavar="RUN", help=where)
    report.add_argument(
        "--format",
        action="append",
        default=[],
        choices=[*FORMATS, *FOLDERS],
        metavar="FORM",
        help=f"one of the forms below; repeatable (default: all but {ALLURE})",
    )
    report.add_argument(
        "--out",
        type=Path,
        default=None,
        metavar="PATH",
        help="a folder for the reports, or with one --format a file (default: the run's folder; with one --format "
        f"standard output, but for {ALLURE})",
    )
    report.set_defaults(command=report_run)

    summary = commands.add_parser(
        "summary",
        help="what a run said at its end, with its exit code; needs no cluster",
        epilog=SUMMARY_EXIT_CODES,
        formatter_class=plain,
    )
    summary.add_argument("run", type=Path, metavar="RUN", help=where)
    summary.set_defaults(command=summarise_run)


def report_run(options: argparse.Namespace) -> int:
    """Write what was asked for, tell where, and go on where one cannot be made.

    Raises:
        PreflightError: there is no ledger to read, or --out is no place to write to.
    """
    names = list(dict.fromkeys(options.format)) or list(FORMATS)
    run = read_run(options.run)
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
    """Refuse at once a place where nothing can be written; a single report may go to standard output.

    Raises:
        PreflightError: the folder cannot be made, or not be written to.
    """
    folder = next(each for each in (out, *out.absolute().parents) if each.exists())
    if len(formats) != 1 and not (os.access(folder, os.W_OK) and (folder.is_dir() or folder == out)):
        raise PreflightError(f"Nothing can be written to {out}.", "name another folder with --out.")


def _target(
    run: RecordedRun, name: str, out: Path | None, single: bool
) -> tuple[Callable[[Path | None], None], Path | None]:
    """What makes a report, and where to; None is standard output.

    Raises:
        PreflightError: several reports are to go where a file is.
    """
    if not single and out is not None and out.exists() and not out.is_dir():
        raise PreflightError(f"--out {out} is a file, and several reports are asked for.", "name a folder.")
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
    """Print what the run said at its end, and exit as it did; a ledger that is not whole is never conformant.

    Raises:
        PreflightError: there is no ledger to read.
    """
    run = read_run(options.run)
    _print(FORMATS["terminal"].render(run))
    return int(run.conclusion.exit_code)


def _print(text: str) -> None:
    """The report's bytes, whatever encoding the terminal has."""
    sys.stdout.flush()
    sys.stdout.buffer.write(text.encode())
    sys.stdout.buffer.flush()
