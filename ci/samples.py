"""The generator of docs/samples: reports of two recorded runs, from their ledgers in records/samples."""

import lzma
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from ci import records
from esipp.app.judge import rejudge
from esipp.checks.catalog import all_checks
from esipp.ledger.reading import LEDGER, RecordedRun
from esipp.ledger.recorded_checks import check_record, read_check
from esipp.ledger.rejudging import read_past
from esipp.report.comparing import diff_report, merge_report
from esipp.report.comparing.diff import compare
from esipp.report.comparing.merge import merge
from esipp.report.formats import FORMATS
from esipp.report.rendering.markdown import as_markdown

FOLDER = records.FOLDER / "samples"
HEALTHY, BROKEN = "healthy", "broken"
PLACE = Path("runs/latest")
"""The folder that reports name, in place of the temporary one."""


@cache
def run(name: str) -> RecordedRun:
    """A recorded run, judged again: its reports have today's words."""
    with TemporaryDirectory() as folder:
        ledger = Path(folder) / LEDGER
        ledger.write_bytes(lzma.decompress((FOLDER / f"{name}.{LEDGER}.xz").read_bytes()))
        past = read_past(ledger)
    recorded = {check.id for check in past.run.checks}
    checks = [check for check in all_checks() if check.id in recorded]
    again = rejudge(past, checks)
    return replace(
        past.run,
        folder=PLACE,
        checks=[read_check(check_record(check)) for check in checks],
        verdicts=dict(again.verdicts),
    )


def _report(name: str, form: str) -> Callable[[], str]:
    return lambda: FORMATS[form].render(run(name))


PAGES: dict[str, Callable[[], str]] = {
    "healthy.txt": _report(HEALTHY, "terminal"),
    "healthy.md": _report(HEALTHY, "markdown"),
    "conformance.yaml": _report(HEALTHY, "conformance"),
    "broken.md": _report(BROKEN, "markdown"),
    "diff.md": lambda: as_markdown(diff_report.report(compare(run(HEALTHY), run(BROKEN)))),
    "merge.md": lambda: as_markdown(merge_report.report(merge([run(HEALTHY), run(BROKEN)]))),
}
"""Each sample's file name, and what renders it."""
