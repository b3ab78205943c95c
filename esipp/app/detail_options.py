"""The options ``-v`` and ``-q``: how much a run prints at its end."""

from typing import Any

from esipp.report.ending import MOST_LINES, Detail


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
    add("-q", "--quiet", action="store_true", help="print only the sentence with the result")


def detail_of(options: Any) -> Detail:
    """What the options ask for."""
    return Detail.FULL if options.verbose else Detail.SENTENCE if options.quiet else Detail.SHORT
