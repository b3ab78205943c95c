"""``esipp diff`` and ``esipp merge``: their options, and what they do. No cluster is needed."""

import argparse
from pathlib import Path
from typing import Any

from esipp.base.errors import PreflightError
from esipp.checks.check import Binding
from esipp.ledger.reading import read_run
from esipp.report.comparing.document import Paper, as_markdown, as_text

FORMATS = ("text", "markdown", "json", "html")

DIFF = """what counts:
  regressed   pass or a difference that the API allows before; fail, flaky or a known defect now. A core check
              also if it is unsupported, inconclusive, error or recorded now: what held is not shown any more
  fixed       the mirror image
  Whatever else changed is told apart: failures that could not be told before, differences that are known
  now or no more, checks that are new or gone, checks that show something else under the same verdict, what is
  not the same beside the checks, and response times, which never decide the exit code.

exit codes:
  0  no binding check got worse
  1  a binding check regressed, or fails that could not be told before (--fail-on: which checks are binding)
  2  interrupted
  3  none did, but one of the ledgers is not whole, or says nothing of some of its checks
  4  wrong usage, or a ledger cannot be read or is of another schema
"""

MERGE = """what is told:
  Checks down, runs across; a column is called by its lane, Kubernetes and proxy mode, and by the run's id where
  several have the same. Text and Markdown leave out what all runs say the same of and have nothing against,
  if the matrix is long otherwise; --only-differences and --no-only-differences decide it.

with --shards the runs are the parts of one run on one cluster: one column, with what a single run would have
  concluded. Core checks count as left out only if every part left them out. Where parts contradict each other
  the check is flaky; where one part could not decide it, it is open, unless another saw it fail.

exit codes, the worst run's in this order:
  1  not conformant      3  harness failed, undecided, or a ledger is not whole      2  interrupted
  4  wrong usage, or a ledger cannot be read or is of another schema, or the parts are not of one cluster
  5  no check was selected      0  every run conforms (or is PARTIAL, or its known defects are accepted, as the
     first line says)
"""


def add_diff(commands: Any) -> None:
    """Add ``esipp diff`` to the commands."""
    diff = commands.add_parser(
        "diff",
        help="what changed from one run to another; needs no cluster",
        epilog=DIFF,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    for name, what in (("old", "OLD"), ("new", "NEW")):
        diff.add_argument(name, type=Path, metavar=what, help="a run's folder, or its ledger.jsonl")
    _add_output(diff)
    diff.add_argument(
        "--fail-on",
        choices=[each.value for each in Binding],
        default=Binding.EXTENDED.value,
        help="which checks bind: core ones, or extended ones, too (default: extended)",
    )
    diff.set_defaults(command=_diff)


def _diff(options: argparse.Namespace) -> int:
    from esipp.report.comparing.diff import compare
    from esipp.report.comparing.diff_report import document, paper

    found = compare(read_run(options.old), read_run(options.new), Binding(options.fail_on))
    _write(options, lambda: paper(found), lambda: document(found))
    return int(found.exit_code)


def add_merge(commands: Any) -> None:
    """Add ``esipp merge`` to the commands."""
    merging = commands.add_parser(
        "merge",
        help="several runs in one matrix, a column each; needs no cluster",
        epilog=MERGE,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    merging.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="runs' folders, or their ledger.jsonl")
    _add_output(merging)
    merging.add_argument("--shards", action="store_true", help="the runs are the parts of one run on one cluster")
    merging.add_argument(
        "--only-differences",
        action=argparse.BooleanOptionalAction,
        default=None,
        help="leave out checks of which all runs say the same, if that is nothing bad",
    )
    merging.set_defaults(command=_merge)


def _merge(options: argparse.Namespace) -> int:
    from esipp.report.comparing.merge import merge, merge_shards
    from esipp.report.comparing.merge_report import document, paper

    runs = [read_run(each) for each in options.runs]
    merged = merge_shards(runs) if options.shards else merge(runs)
    short = options.only_differences
    if short is None and options.format == "html":
        short = False  # a page has room for all
    _write(options, lambda: paper(merged, short), lambda: document(merged))
    return int(merged.exit_code)


def _add_output(command: Any) -> None:
    command.add_argument("--format", choices=FORMATS, default="text", help="what is written (default: text)")
    command.add_argument("--out", type=Path, default=None, metavar="FILE", help="where to (default: standard output)")


def _write(options: argparse.Namespace, paper: Any, document: Any) -> None:
    if options.format == "json":
        text = document()
    elif options.format == "html":
        from esipp.report.comparing.page import as_html

        text = as_html(paper())
    else:
        told: Paper = paper()
        text = as_markdown(told) if options.format == "markdown" else as_text(told)
    if options.out is None:
        print(text, end="")
        return
    from esipp.report.formats import written

    try:
        written(options.out, text)
    except OSError as broken:
        raise PreflightError(
            f"{options.out} cannot be written: {broken.strerror}.", "name a file in a folder that is there."
        ) from None
