"""The command ``esipp`` and its subcommands."""

import argparse
import contextlib
import gc
import json
import re
import signal
import sys
import threading
import time
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from esipp import __version__
from esipp.app import list as listing
from esipp.app.compare import add_diff, add_merge, add_site, add_trend
from esipp.app.completion import add_completion, complete, complete_for_kubectl
from esipp.app.config_file import add_init, expanded, schema
from esipp.app.depth import fitted
from esipp.app.doctor.command import COLORS, add_doctor, add_run_arguments, doctor
from esipp.app.exit_codes import OF_A_JUDGEMENT, OF_A_RUN, OF_CHECKS, OF_CLEANING
from esipp.app.images.command import add_images
from esipp.app.in_cluster import credentials as in_pod
from esipp.app.in_cluster.command import add_fetch, add_in_cluster
from esipp.app.load_balancers import add_load_balancers
from esipp.app.options import settings_of
from esipp.app.plan.command import add_plan
from esipp.app.report import add_parsers as add_report_commands
from esipp.app.report import detail_of
from esipp.app.requests import KUBECONFIG_HELP, add_requests
from esipp.app.selection import chosen, select, words
from esipp.app.session import Prepared
from esipp.app.sign import add_sign
from esipp.base.errors import EsippError, ExitCode, PreflightError, did_you_mean
from esipp.base.output_guard import open_standard_streams, whatever_becomes_of_stdout
from esipp.base.redaction import redact
from esipp.checks.catalog import HOUSE, SUITES, all_checks, crossings, suite_names
from esipp.checks.check import missing_features
from esipp.checks.crossing import as_text
from esipp.checks.explain import explain_check
from esipp.report.pages import checks_page

MANY_OBJECTS = 50_000
"""After so many new objects Python looks for unused ones. Those of a ledger stay: to look each 700, as Python would, is
a third of the time of reading it."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code."""
    gc.set_threshold(MANY_OBJECTS)
    open_standard_streams()
    try:
        parser = _parser()
        complete(_commands(parser), parser)
        options = parser.parse_args(expanded(sys.argv[1:] if arguments is None else arguments, _commands(parser)))
        with _ended_by_sigterm(), whatever_becomes_of_stdout() as lost:  # 'esipp summary | head' keeps its exit code
            code = int(options.command(options))
        if lost:
            print(f"esipp: cannot write to standard output: {lost[0]}.", file=sys.stderr)
            return code if options.command is _run else code or int(ExitCode.HARNESS)  # a run has its folder
        return code
    except EsippError as error:
        print(f"esipp: {error}", file=sys.stderr)
        return int(error.exit_code)
    except KeyboardInterrupt:
        print("esipp: interrupted", file=sys.stderr)
        return int(ExitCode.INTERRUPTED)
    except Exception:  # Python's own exit code would be 1, which is a verdict on the cluster
        print(redact(traceback.format_exc()), file=sys.stderr)
        print("esipp: this is a bug in esipp; please report it.", file=sys.stderr)
        return int(ExitCode.HARNESS)


def kubectl_complete() -> int:
    """Print what completes a command line of ``kubectl esipp``; nothing but the reason where that is impossible."""
    parser = _parser()
    try:
        complete_for_kubectl(_commands(parser), parser, sys.argv[1:])
    except EsippError as error:
        print(f"esipp: {error}", file=sys.stderr)
        return int(error.exit_code)
    return int(ExitCode.CONFORMANT)


@contextlib.contextmanager
def _ended_by_sigterm() -> Iterator[None]:
    """Make SIGTERM end a command as Ctrl-C does. A run installs its own handlers when it begins."""

    def interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


MOST_LINES_OF_USAGE = 6
"""A longer usage would hide what is wrong."""

INSTEAD = dict.fromkeys(
    ("-n", "--namespace"), "a run creates a namespace of its own, esipp-RUN; --namespace-labels gives it labels."
)
"""Options of kubectl that esipp does not have, and what it has instead."""


class _Parser(argparse.ArgumentParser):
    """A parser that keeps the lines of an epilog, and whose usage errors exit with code 4.

    It knows no abbreviations: ``--namespace`` would mean ``--namespace-labels``.
    """

    def __init__(self, **options: Any) -> None:
        usual: dict[str, Any] = {"formatter_class": argparse.RawDescriptionHelpFormatter, "allow_abbrev": False}
        super().__init__(**usual | options)

    def error(self, message: str) -> Any:
        hint, usage = self._hint(message), self.format_usage()
        if usage.count("\n") > MOST_LINES_OF_USAGE:
            usage, hint = "", f"{hint} '{self.prog} --help' lists all options.".lstrip()
        self.exit(int(ExitCode.USAGE), f"{usage}{self.prog}: {message}\n" + (f"  hint: {hint}\n" if hint else ""))

    def _hint(self, message: str) -> str:
        """What to use in the place of an option; the choices, or the options, that are like a wrong one."""
        if choice := re.search(r"invalid choice: '(.*?)' \(choose from (.*)\)", message):
            return did_you_mean(choice[1], re.findall(r"[\w.-]+", choice[2])).rstrip()
        if option := re.search(r"unrecognized arguments: (--?[\w-]+)", message):
            return INSTEAD.get(option[1]) or self._of_others(option[1])
        return ""

    def _of_others(self, option: str) -> str:
        """Which commands have an option, or which options are like it."""
        options = {name: each._option_string_actions for name, each in _commands(self).items()}
        if owners := [name for name, words in options.items() if option in words]:
            return f"{option} is an option of {', '.join(owners)}."
        return did_you_mean(option, {*self._option_string_actions}.union(*options.values())).rstrip()


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="kubectl esipp" if Path(sys.argv[0]).name == "kubectl-esipp" else "esipp",
        description="Tests whether a Kubernetes cluster preserves client source IPs where Kubernetes requires it, "
        "and whether its load balancers follow the pods.",
        epilog=OF_A_RUN,
    )
    parser.add_argument("--version", action="version", version=f"esipp {__version__}")
    commands = parser.add_subparsers(metavar="COMMAND", required=True, parser_class=_Parser)

    run = commands.add_parser("run", help="run the checks on a cluster", epilog=OF_A_RUN)
    add_run_arguments(run)
    run.add_argument(
        "--dry-run", action="store_true", help="create nothing: examine cluster and machine as 'esipp doctor' does"
    )
    run.set_defaults(command=_run, format="text")  # of a dry run

    listed = commands.add_parser("list", help="list the checks; needs no cluster", epilog=OF_CHECKS)
    listed.add_argument("checks", nargs="*", metavar="CHECK", help="id of a check, or a part of one")
    listed.add_argument(
        "--format",
        choices=["text", "json", "markdown"],
        default="text",
        help="output format (json: one object per check; markdown: docs/cells.md; default: text)",
    )
    listed.add_argument(
        "--kubernetes",
        default=None,
        metavar="VERSION",
        help="list the checks that an API server of this version (1.5, v1.28.3) supports, and the API dialect that "
        "esipp uses with it",
    )
    listed.add_argument(
        "--features", action="store_true", help="list the features that checks need, and how many checks need each"
    )
    listed.set_defaults(command=_list)
    add_images(commands)

    explaining = commands.add_parser(
        "explain", help="explain what a check requires, why, and how it is tested; needs no cluster", epilog=OF_CHECKS
    )
    explaining.add_argument(
        "checks",
        nargs="+",
        metavar="CHECK",
        help="id of a check, or a part of one; 'events': the tables of events and streams",
    )
    explaining.set_defaults(command=_explain)
    add_load_balancers(commands)
    add_plan(commands)
    add_doctor(commands)

    clean = commands.add_parser(
        "clean", help="undo and remove what interrupted runs left in a cluster and on this machine", epilog=OF_CLEANING
    )
    clean.add_argument("--context", default=None, metavar="NAME", help="kubeconfig context of the cluster; required")
    clean.add_argument("--kubeconfig", default=None, metavar="FILE", help=KUBECONFIG_HELP)
    add_requests(clean.add_argument)
    add_in_cluster(clean.add_argument)
    clean.add_argument(
        "--run", default=None, metavar="ID", help="clean up after this run only; its namespace is esipp-ID"
    )
    clean.add_argument("--force", action="store_true", help="also remove what belongs to runs that are still active")
    clean.add_argument("--dry-run", action="store_true", help="only print what would be undone and removed")
    clean.set_defaults(command=_clean)
    _add_judge(commands)
    add_report_commands(commands)
    add_diff(commands)
    add_merge(commands)
    add_trend(commands)
    add_site(commands)
    add_sign(commands)
    add_fetch(commands)
    add_init(commands)
    add_completion(commands)
    return parser


def _commands(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The parsers of its commands."""
    found = (each for each in parser._actions if isinstance(each, argparse._SubParsersAction))
    return {name: made for each in found for name, made in each.choices.items()}


def options_schema() -> str:
    """The JSON schema of esipp.yaml, as text."""
    return json.dumps(schema(_commands(_parser())["run"]), indent=2) + "\n"


def _add_judge(commands: Any) -> None:
    """``esipp judge``."""
    judging = commands.add_parser(
        "judge", help="re-evaluate a recorded run with the current checks; needs no cluster", epilog=OF_A_JUDGEMENT
    )
    judging.add_argument("run", metavar="RUN", help="the run's folder, or its ledger.jsonl")
    judging.add_argument(
        "checks",
        nargs="*",
        metavar="CHECK",
        help="id of a check, or a part of one (default: the checks of the run, and other checks of its suites that it "
        "recorded enough evidence for)",
    )
    judging.add_argument("--out", default=None, metavar="DIR", help="write a ledger with the new verdicts to DIR")
    judging.set_defaults(command=_judge)


def _judge(options: argparse.Namespace) -> int:
    from esipp.app.judge import command

    named = {check.id for check in select(options.checks)} if options.checks else set()
    return command(Path(options.run), all_checks(), named, Path(options.out) if options.out else None)


def checks_named(arguments: Sequence[str]) -> list[str]:
    """The checks that a command line of ``esipp run`` names.

    Raises:
        SystemExit: there is no such option.
    """
    return list(understood(["run", *arguments]).checks)


def understood(arguments: Sequence[str]) -> argparse.Namespace:
    """Parse a command line without running it.

    Raises:
        SystemExit: there is no such command or option.
    """
    return _parser().parse_args(arguments)


def check_run(arguments: Sequence[str]) -> None:
    """Validate a command line of ``esipp run`` without a cluster.

    Raises:
        PreflightError: a value is invalid, or no check matches.
        SystemExit: there is no such option.
    """
    options = understood(["run", *arguments])
    settings_of(options)
    chosen(options)


def _run(options: argparse.Namespace) -> int:
    if options.dry_run:
        return doctor(options)
    from esipp.report.allure.live import check_results
    from esipp.report.junit import promised

    with promised(options.junit):
        check_results(options.alluredir)
        return _qualify(options)


def _qualify(options: argparse.Namespace) -> int:
    import pytest

    from esipp.cluster.client import Cluster
    from esipp.preflight.preflight import examine
    from esipp.preflight.steps import check_given, check_image, check_machine
    from esipp.testbed.echo_image import provide, resolve_image

    settings = settings_of(options)
    checks = chosen(options)
    if not checks:
        nothing = f", or nothing failed in {options.rerun_failed}" if options.rerun_failed else ""
        given = " ".join(words(options))
        print(f"esipp: '{given}' leaves no check: these exclude each other{nothing}", file=sys.stderr)
        return int(ExitCode.NOTHING_SELECTED)
    check_given(settings)  # a wrong option leaves no report behind; what stands in the way of a run does
    cluster = Cluster.of(settings)
    settings, own = resolve_image(settings, cluster)
    check_image(settings)
    try:
        if own:
            provide(own, lambda line: print(line, file=sys.stderr))
        check_machine(settings)
        began = time.monotonic()
        findings = examine(cluster, settings, {check.suite for check in checks})
    except EsippError as refused:
        from esipp.app.refused import report_refusal

        print("\n".join(report_refusal(settings, checks, words(options), refused)))
        raise
    asked = [check for check in checks if not missing_features(check, findings.features)]
    settings = fitted(settings, asked, lambda line: print(f"esipp: {line}", file=sys.stderr))
    prepared = Prepared(
        words(options),
        frozenset(check.id for check in checks),
        settings,
        cluster,
        findings,
        time.monotonic() - began,
        detail_of(options),
    )
    arguments = [
        "-qq" if options.quiet else "-q",
        "--no-header",
        "-p",
        "no:cacheprovider",
        "--tb=no",
        "--assert=plain",
        "-r",
        "N",
        f"--color={COLORS[options.color]}",
        f"--rootdir={HOUSE}",
    ]
    arguments += ["-p", "no:hypothesispytest"]  # where our own tests' packages are, it would cost a second at the end
    arguments += ["-c", str(HOUSE / "pyproject.toml"), "-p", "fixtures.plugin"]
    # Where esipp is installed, pytest would rewrite the assertions of its modules, which are imported already.
    arguments += ["-W", "ignore:Module already imported:pytest.PytestAssertRewriteWarning"]
    arguments += [f"--junit={options.junit}"] if options.junit else []
    arguments += [f"--alluredir={options.alluredir}"] if options.alluredir else []
    arguments += ["--exitfirst"] if options.fail_fast else []
    suites = SUITES / "test_suites.py"
    named = {check.suite for check in checks}
    arguments += [f"{suites}::test_{name}" for name in suite_names() if name in named]
    return int(pytest.main(arguments, plugins=[prepared]))


def _list(options: argparse.Namespace) -> int:
    checks, version = select(options.checks), options.kubernetes
    if options.features:
        if version is not None or options.format == "markdown":
            raise PreflightError("--features supports only --format text and json.", "leave out the other options.")
        for line in listing.features_as_json(checks) if options.format == "json" else listing.features_as_text(checks):
            print(line)
        return int(ExitCode.CONFORMANT)
    if options.format == "markdown":
        if version is not None:
            raise PreflightError(
                "--format markdown cannot be combined with --kubernetes.", "use --format text or json."
            )
        print(checks_page(checks), end="")
        return int(ExitCode.CONFORMANT)
    if options.format == "json":
        lines = listing.as_json(checks) if version is None else listing.json_for(version, checks)
    else:
        lines = listing.as_text(checks) if version is None else listing.text_for(version, checks)
    for line in lines:
        print(line)
    return int(ExitCode.CONFORMANT)


def _explain(options: argparse.Namespace) -> int:
    if options.checks == ["events"]:
        print("\n\n".join("\n".join(as_text(crossing)) for crossing in crossings()))
        return int(ExitCode.CONFORMANT)
    print("\n\n".join(explain_check(check) for check in select(options.checks)))
    return int(ExitCode.CONFORMANT)


def _clean(options: argparse.Namespace) -> int:
    from esipp.cluster.client import Cluster
    from esipp.disruption.cleanup import clean

    named = in_pod.named(options.context, options.kubeconfig, options.in_cluster)
    cluster = Cluster(*named, as_user=options.as_user, request_timeout=options.request_timeout)
    clean(cluster, options.run, options.force, print, dry_run=options.dry_run)
    return int(ExitCode.CONFORMANT)
