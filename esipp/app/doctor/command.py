"""``esipp doctor`` and its options, which are those of ``esipp run``."""

import argparse
from typing import Any

from esipp.app.exit_codes import OF_A_DOCTOR
from esipp.app.options import add_run_options, settings_of
from esipp.app.report import add_detail
from esipp.app.selection import add_checks, chosen, words
from esipp.base.errors import PreflightError
from esipp.report.rendering import FORMATS, render

COLORS = {"auto": "auto", "always": "yes", "never": "no"}
"""What ``--color`` may be, with pytest's words for it."""

SILENT = {"lane": "run", "out": None, "junit": None, "alluredir": None, "seed": None}
"""Options that do not affect what a run does to a cluster, with their defaults."""


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """Add all arguments of ``esipp run``: checks, suites, options."""
    add = parser.add_argument
    add_checks(parser)
    add_run_options(parser)
    add("--config", default=None, metavar="FILE", help="file with options (default: esipp.yaml, where it exists)")
    add("--yes", action="store_true", help="without --context, use the kubeconfig's current context and do not ask")
    add(
        "--color",
        choices=list(COLORS),
        default="auto",
        help="when to use colours; auto: on a terminal without NO_COLOR",
    )
    add("--fail-fast", action="store_true", help="end the run as soon as a check is not as required")
    add("--alluredir", default=None, metavar="DIR", help="write Allure results to DIR during the run")
    add_detail(parser)


def add_doctor(commands: Any) -> None:
    """Add the command to the parser."""
    parser = commands.add_parser(
        "doctor",
        help="check whether a cluster and this machine are ready for a run, and show what the run would do; creates "
        "nothing",
        epilog=OF_A_DOCTOR,
    )
    add_run_arguments(parser)
    parser.add_argument("--format", choices=FORMATS, default="text", help="output format (default: text)")
    parser.set_defaults(command=doctor)


def doctor(options: argparse.Namespace) -> int:
    """Examine cluster and machine for a run with these options, and return the exit code."""
    checks = chosen(options)
    if not checks:
        raise PreflightError("No check is left.", "'esipp list' lists all checks.")
    from esipp.app.doctor.document import as_json, document
    from esipp.app.doctor.examination import examine_all

    report = examine_all(settings_of(options), checks, _words(options))
    print(as_json(report) if options.format == "json" else render(document(report), options.format).rstrip())
    return int(report.exit_code)


def _words(options: argparse.Namespace) -> list[str]:
    """The arguments of ``esipp run`` that are not settings or do not affect the cluster."""
    silent = [
        f"--{name}={value}" for name, usual in SILENT.items() if (value := getattr(options, name)) not in (None, usual)
    ]
    return [*silent, *words(options)]
