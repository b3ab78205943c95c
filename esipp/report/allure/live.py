"""Allure results during a run: ``pytest suites/ --alluredir DIR``, ``esipp run --alluredir DIR``."""

import tempfile
from pathlib import Path

import allure_commons
import pytest

from esipp.base.errors import if_not_writable
from esipp.checks.check import Check, Status, Verdict
from esipp.ledger.reading import RecordedRun, read_run
from esipp.ledger.recorded_checks import RecordedCheck, check_record, read_check
from esipp.ledger.run import Run
from esipp.report.allure.describing import Describer
from esipp.report.allure.replay import write_environment

MOST_READS = 5
"""How often the ledger is read again for an unknown path; a suite observes all its paths at once."""


class Live(Describer):
    """Describes the checks of a run in progress. Observations come from its ledger.

    Files that the run collects for failing checks at its end do not exist yet; a replay attaches them.
    """

    def __init__(self, run: Run) -> None:
        super().__init__()
        self._run = run
        self._recorded: RecordedRun | None = None
        self._reads = 0

    def check(self, item: pytest.Item) -> RecordedCheck | None:
        """The check among a test's parameters."""
        given = item.callspec.params.get("check") if hasattr(item, "callspec") else None
        return read_check(check_record(given)) if isinstance(given, Check) else None

    def verdict(self, check: RecordedCheck) -> Verdict | None:
        """The verdict that the judge has just given."""
        return self._run.verdicts.get(check.id)

    def recorded(self, check: RecordedCheck) -> RecordedRun:
        """The ledger, read again if it lacked this check's path."""
        asked = check.path and self._run.verdicts[check.id].status is not Status.UNSUPPORTED
        missing = self._recorded is None or (asked and check.path not in self._recorded.probes)
        if self._recorded is None or (missing and self._reads < MOST_READS):
            self._recorded = read_run(self._run.folder)
            self._reads += 1
        return self._recorded


def attend(config: pytest.Config, run: Run) -> None:
    """Describe the checks of a run, if Allure results are wanted."""
    if config.getoption("allure_report_dir", None):
        describer = Live(run)
        config.pluginmanager.register(describer, "esipp-allure")
        allure_commons.plugin_manager.register(describer)
        config.add_cleanup(lambda: allure_commons.plugin_manager.unregister(describer))


def describe_run(config: pytest.Config, run: RecordedRun) -> list[str]:
    """After the run: write environment, categories and executor; return the result or an error as a line."""
    folder = config.getoption("allure_report_dir", None)
    if not folder:
        return []
    try:
        write_environment(run, Path(folder))
    except OSError as broken:
        return [f"no Allure environment in {folder}: {broken.strerror}"]
    return [f"Allure results: {folder}"]


def check_results(folder: str | None) -> None:
    """Create the results' folder before the run creates anything in a cluster.

    Raises:
        PreflightError: the folder cannot be written.
    """
    if folder is None:
        return
    with if_not_writable(f"Allure results cannot be written to {folder}", "name another folder with --alluredir."):
        Path(folder).mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
