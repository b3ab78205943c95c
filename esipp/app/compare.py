"""``esipp diff`` and ``esipp merge``: compare recorded runs, and combine them in one matrix."""

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

from esipp.base.document import Document
from esipp.base.errors import ExitCode, if_not_writable
from esipp.checks.check import Binding
from esipp.report.rendering import FORMATS, render

DIFF = """classification:
  regressed   was pass or a difference that the API allows; is now fail, flaky or a known defect. A core check
              also regresses if it is now unsupported, inconclusive, error or recorded: it no longer shows a pass
  fixed       the opposite
  All other changes are listed separately: failures that could not be decided before, differences that are newly
  known or no longer known, checks that are new or gone, checks with another observation under the same verdict,
  changes outside the checks, and response times, which never affect the exit code.

exit codes:
  0  no binding check got worse
  1  a binding check regressed, or fails and could not be decided before (--fail-on sets which checks are binding)
  2  interrupted
  3  no binding check got worse, but a ledger is incomplete or lacks the verdicts of some checks
  4  wrong usage, or a ledger cannot be read or has another schema
"""

MERGE = """output:
  One line per check, one column per run. A column's name is its lane, Kubernetes version and proxy mode, plus the
  run's id if several columns have the same name. If the matrix is long, text and Markdown omit checks on which all
  runs agree and that show no problem. --only-differences and --no-only-differences override this.

--shards treats the runs as parts of one run on one cluster: one column, with the conclusion of a single run. A core
  check counts as left out only if every part left it out. If parts contradict each other, the check is flaky. If
  one part could not decide a check, it is undecided, unless another part saw it fail.

exit codes (of the worst run, in this order):
  1  not conformant      3  harness failed, undecided, or a ledger is incomplete      2  interrupted
  4  wrong usage, or a ledger cannot be read or has another schema, or the parts are not from one cluster
  5  no check was selected      0  every run conforms (or is PARTIAL, or its known defects are accepted, as the
     first line says)
"""


def add_diff(commands: Any) -> None:
    """Add ``esipp diff`` to the parser."""
    diff = commands.add_parser("diff", help="show what changed between two runs; needs no cluster", epilog=DIFF)
    for name, what in (("old", "OLD"), ("new", "NEW")):
        diff.add_argument(name, type=Path, metavar=what, help="folder of a run, or its ledger.jsonl")
    _add_output(diff)
    diff.add_argument(
        "--fail-on",
        choices=[each.value for each in Binding],
        default=Binding.EXTENDED.value,
        help="binding checks: core checks only, or extended checks too (default: extended)",
    )
    diff.set_defaults(command=_diff)


def _diff(options: argparse.Namespace) -> int:
    from esipp.ledger.reading import read_run
    from esipp.report.comparing.diff import compare
    from esipp.report.comparing.diff_report import as_json, report

    found = compare(read_run(options.old), read_run(options.new), Binding(options.fail_on))
    _write(options, lambda: report(found), lambda: as_json(found))
    return int(found.exit_code)


def add_merge(commands: Any) -> None:
    """Add ``esipp merge`` to the parser."""
    merging = commands.add_parser(
        "merge", help="combine several runs in one matrix, one column per run; needs no cluster", epilog=MERGE
    )
    merging.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="folder of a run, or its ledger.jsonl")
    _add_output(merging)
    merging.add_argument("--shards", action="store_true", help="the runs are the parts of one run on one cluster")
    merging.add_argument(
        "--only-differences",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="omit checks on which all runs agree and that show no problem",
    )
    merging.set_defaults(command=_merge)


def _merge(options: argparse.Namespace) -> int:
    from esipp.ledger.reading import read_run
    from esipp.report.comparing.merge import merge, merge_shards
    from esipp.report.comparing.merge_report import as_json, report

    runs = [read_run(each) for each in options.runs]
    merged = merge_shards(runs) if options.shards else merge(runs)
    short = options.only_differences
    if short is None and options.format == "html":
        short = False  # a page has room for all
    _write(options, lambda: report(merged, short), lambda: as_json(merged))
    return int(merged.exit_code)


TREND = """exit codes:
  0  no check is worse than in an earlier run
  1  a binding check became worse and still is (--fail-on of the runs sets which checks are binding)
  2  interrupted
  4  wrong usage, or a ledger cannot be read or has another schema
"""

SITE = """exit codes:
  0  success
  2  interrupted
  4  wrong usage, or a ledger cannot be read or has another schema, or the folder cannot be written
"""


def add_trend(commands: Any) -> None:
    """Add ``esipp trend`` to the parser."""
    parser = commands.add_parser(
        "trend",
        help="show how verdicts, figures and distributions developed over several runs; needs no cluster",
        epilog=TREND,
    )
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="folder of a run, or its ledger.jsonl")
    _add_output(parser)
    parser.set_defaults(command=_trend)


def _trend(options: argparse.Namespace) -> int:
    from esipp.ledger.reading import read_run
    from esipp.report.comparing.trend import as_json, report, trend

    found = trend([read_run(each) for each in options.runs])
    _write(options, lambda: report(found), lambda: as_json(found))
    return int(ExitCode.NOT_CONFORMANT if found.fails else ExitCode.CONFORMANT)


def add_site(commands: Any) -> None:
    """Add ``esipp site`` to the parser."""
    parser = commands.add_parser(
        "site",
        help="write a static site of several runs: implementations by checks, with the evidence; needs no cluster",
        epilog=SITE,
    )
    parser.add_argument("folder", type=Path, metavar="DIR", help="the folder to write")
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="folder of a run, or its ledger.jsonl")
    parser.set_defaults(command=_site)


def _site(options: argparse.Namespace) -> int:
    from esipp.ledger.reading import read_run
    from esipp.report.comparing.site import write

    with if_not_writable(f"Cannot write to {options.folder}", "name another folder."):
        pages = write([read_run(each) for each in options.runs], options.folder)
    print("\n".join(map(str, pages)))
    return int(ExitCode.CONFORMANT)


def _add_output(command: Any) -> None:
    command.add_argument("--format", choices=FORMATS, default="text", help="output format (default: text)")
    command.add_argument(
        "--out", type=Path, default=None, metavar="FILE", help="output file (default: standard output)"
    )


def _write(options: argparse.Namespace, report: Callable[[], Document], as_json: Callable[[], str]) -> None:
    text = as_json() if options.format == "json" else render(report(), options.format)
    if options.out is None:
        print(text, end="")
        return
    from esipp.report.formats import written

    with if_not_writable(f"Cannot write to {options.out}", "name a file in an existing folder."):
        written(options.out, text)
