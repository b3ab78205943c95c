"""``esipp doctor``: its options, which are those of ``esipp run``, and what it prints."""

import argparse
from collections.abc import Callable, Sequence
from typing import Any

from esipp.app.doctor.examination import examine_all
from esipp.app.doctor.text import as_json, as_text
from esipp.app.exit_codes import OF_A_DOCTOR
from esipp.app.options import add_run_options, settings_of
from esipp.base.errors import PreflightError
from esipp.checks.check import Check

Select = Callable[[Sequence[str]], list[Check]]

SILENT = {"lane": "run", "out": None, "junit": None, "alluredir": None, "seed": None}
"""Options that say nothing of what a run does to a cluster, and what they are if they are not given."""


def add_run_arguments(parser: argparse.ArgumentParser, suites: Sequence[str]) -> None:
    """All of ``esipp run``: checks, suites, options."""
    add = parser.add_argument
    add("checks", nargs="*", metavar="CHECK", help="ids of checks, or parts of them (default: all checks)")
    add("--suite", action="append", default=[], choices=suites, help="only this suite; repeatable")
    add_run_options(parser)
    add("--alluredir", default=None, metavar="DIR", help="Allure results, written while the run goes on")


def add_doctor(commands: Any, select: Select, suites: Sequence[str]) -> None:
    """Add the command to the parser's.

    Args:
        commands: the parser's.
        select: the checks that words name.
        suites: the names of all suites.
    """
    parser = commands.add_parser(
        "doctor",
        help="what stands in the way of a run, and what it would do; nothing is created",
        epilog=OF_A_DOCTOR,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add_run_arguments(parser, suites)
    parser.add_argument("--format", choices=["text", "json"], default="text")
    parser.set_defaults(command=lambda options: _doctor(options, select))


def _doctor(options: argparse.Namespace, select: Select) -> int:
    checks = [check for check in select(options.checks) if not options.suite or check.suite in options.suite]
    if not checks:
        raise PreflightError("None of these checks is of these suites.", "'esipp list' prints them all.")
    report = examine_all(settings_of(options), checks, words(options))
    print(as_json(report) if options.format == "json" else "\n".join(as_text(report)))
    return int(report.exit_code)


def words(options: argparse.Namespace) -> list[str]:
    """What was given that is no setting, or says nothing of the cluster, as words of ``esipp run``."""
    silent = [
        f"--{name}={value}" for name, usual in SILENT.items() if (value := getattr(options, name)) not in (None, usual)
    ]
    return [*silent, *(f"--suite={name}" for name in options.suite), *options.checks]
