"""The reports of a run that preflight refused: what was examined, and what stood in the way."""

from collections.abc import Sequence

from esipp.app.doctor.examination import examine_all
from esipp.base.errors import EsippError
from esipp.checks.catalog import all_checks
from esipp.checks.check import Check, left_out_of
from esipp.ledger.reading import read_run
from esipp.ledger.run import Run, Settings
from esipp.report.formats import CANNOT, write_reports

ABOUT = "set-up"


def report_refusal(settings: Settings, checks: Sequence[Check], asked: Sequence[str], error: EsippError) -> list[str]:
    """Write a run without a verdict, with the findings of ``esipp doctor`` as notes, and all its reports.

    Args:
        settings: the settings of the run.
        checks: the checks that were selected.
        asked: the suites and checks as on the command line.
        error: why the run did not begin; it is the run's conclusion.

    Returns:
        Lines that say where the reports are; none if nothing can be written there.
    """
    run = Run(settings, say=lambda _: None)
    run.asked = tuple(asked)
    try:
        run.begin(list(checks), left_out_of(all_checks(), {check.id for check in checks}))
    except EsippError:
        return []  # the refusal itself matters more
    run.trouble = error
    run.note(ABOUT, error.sentence)
    if error.hint:
        run.note(ABOUT, f"hint: {error.hint}")
    try:
        for check in examine_all(settings, checks, asked).checks:
            hint = f" ({check.hint})" if check.hint else ""
            run.note(ABOUT, f"{check.grade.value}: {check.name}: {check.sentence}{hint}")
    except CANNOT as broken:
        run.note(ABOUT, f"the examination could not continue: {broken}")
    run.end()
    return write_reports(read_run(run.folder))
