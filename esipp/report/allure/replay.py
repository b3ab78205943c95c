"""Allure results of a recorded run: its checks are tests once more, whose outcomes are the verdicts of the ledger.

The session is a process of its own: allure-pytest keeps what it does in one place for all sessions of a process, and
one may be going on.
"""

import os
import pickle  # only what this very module has written a moment ago is read back
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import allure_commons
import pytest

from esipp.base.errors import ExitCode, HarnessError, PreflightError
from esipp.checks.observation import Verdict
from esipp.ledger.reading import RecordedRun
from esipp.ledger.recorded_checks import RecordedCheck
from esipp.report.allure.describing import Describer
from esipp.report.allure.environment import write_surroundings
from esipp.report.outcome import enforce

SECONDS = 600.0
"""The session may take so long; a hundred thousand observations take it a few seconds."""

OWN = ("*-result.json", "*-container.json", "*-attachment.*", "*-globals.json")
WHOLE_RUN = "esipp.run"


# ------------------------------------------------------------------------------------------------------ from outside
def write(run: RecordedRun, folder: Path) -> None:
    """Write the Allure results of a run; results that are in the folder go, anything else stays.

    Raises:
        PreflightError: the folder cannot be written.
        HarnessError: the session that writes them failed.
    """
    folder = folder.absolute()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for pattern in OWN:
            for old in folder.glob(pattern):
                old.unlink()
        write_surroundings(run, folder)
    except OSError as broken:
        raise PreflightError(
            f"Allure results cannot be written to {folder}: {broken.strerror}.", "name another folder."
        ) from None
    with tempfile.TemporaryDirectory(prefix="esipp-allure-") as place:
        kept = Path(place) / "run.pickle"
        kept.write_bytes(pickle.dumps(run))
        (Path(place) / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
        _session(Path(place), ["-p", "esipp.report.allure.replay", f"--alluredir={folder}", f"--esipp-run={kept}"])


def _session(place: Path, arguments: list[str]) -> None:
    """A session of pytest with nothing but its own plugins, allure-pytest and this module."""
    own = str(Path(__file__).parents[3])
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "ALLURE_"))}
    paths = [own, *(environment.get("PYTHONPATH") or "").split(os.pathsep)]
    environment["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    command = [sys.executable, "-m", "pytest", "-q", "-s", "--tb=no", "-p", "no:cacheprovider", "-p", "no:logging"]
    command += ["-p", "allure_pytest.plugin", "-c", str(place / "pytest.ini"), f"--rootdir={place}", *arguments]
    try:
        done = subprocess.run(
            command, cwd=place, env=environment, capture_output=True, text=True, timeout=SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as broken:
        raise HarnessError(f"The Allure results could not be written: {broken}.") from None
    if done.returncode not in (pytest.ExitCode.OK, pytest.ExitCode.TESTS_FAILED, pytest.ExitCode.NO_TESTS_COLLECTED):
        said = (done.stdout + done.stderr).strip()[-2000:]
        raise HarnessError(f"The Allure results could not be written: pytest ended with {done.returncode}.", said)


# ------------------------------------------------------------------------------------------------ inside the session
class Suite(pytest.Collector):
    """A file of tests as it stood below suites/; it need not be there any more."""

    def collect(self) -> list[pytest.Item]:
        """Nothing: its checks are handed out by the replay."""
        return []


class RowItem(pytest.Item):
    """A check of the ledger; its outcome is its verdict."""

    check: RecordedCheck
    verdict: Verdict | None

    def runtest(self) -> None:
        """End as the test of the check itself has ended."""
        if self.verdict is None:
            pytest.skip("not judged: the run ended before")
        enforce(self.verdict)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> str:  # noqa: ARG002
        """In its own words: a traceback would be of this module, and thrown away."""
        return str(excinfo.value)


class RunItem(pytest.Item):
    """The run as a whole, where it did not come to an end, or its ledger is not whole."""

    said: str

    def runtest(self) -> None:
        """It is ours, and no failure of the product."""
        raise HarnessError(self.said)


class Replay(Describer):
    """Describes the checks of a recorded run, and tells when they were judged."""

    def __init__(self, run: RecordedRun) -> None:
        super().__init__()
        self._run = run
        self._at = 0.0
        self._last = max([float(run.header["at"]), *(phase.at for phase in run.phases), *run.judged_at.values()])

    def check(self, item: pytest.Item) -> RecordedCheck | None:
        """The item's own."""
        self._at = self._last
        if isinstance(item, RowItem):
            self._at = self._run.judged_at.get(item.check.id, self._last)
            return item.check
        return None

    def verdict(self, check: RecordedCheck) -> Verdict | None:
        """As the ledger has it."""
        return self._run.verdicts.get(check.id)

    def recorded(self, check: RecordedCheck) -> RecordedRun:  # noqa: ARG002 - during a run it depends
        """All of it."""
        return self._run

    def finish(self, result: Any) -> None:
        """A test only judges: its evidence was recorded before, for all checks at once."""
        result.start = result.stop = round(self._at * 1000)

    def pytest_collection(self, session: pytest.Session) -> bool:
        """The checks instead of files."""
        suites: dict[str, Suite] = {}
        for check in self._run.checks:
            name = f"suites/{check.suite}/test_{check.suite}.py"
            suite = suites.setdefault(name, Suite.from_parent(session, name=name, nodeid=name))
            item: RowItem = RowItem.from_parent(suite, name=f"test_{check.suite}[{check.id}]")
            item.check, item.verdict = check, self._run.verdicts.get(check.id)
            session.items.append(item)
        said = self._run.conclusion
        if not self._run.whole or said.exit_code not in (ExitCode.CONFORMANT, ExitCode.NOT_CONFORMANT):
            whole: RunItem = RunItem.from_parent(session, name=WHOLE_RUN)
            whole.said = "; ".join([said.sentence, *self._run.trouble])
            session.items.append(whole)
        session.testscollected = len(session.items)
        return True


def pytest_addoption(parser: pytest.Parser) -> None:
    """The run to replay; ``write`` makes the file."""
    parser.addoption("--esipp-run", default=None)


def pytest_configure(config: pytest.Config) -> None:
    """Read the run, and take part in both plugin systems."""
    run = pickle.loads(Path(config.getoption("--esipp-run")).read_bytes())  # noqa: S301 - our own, see above
    replay = Replay(run)
    config.pluginmanager.register(replay, "esipp-replay")
    allure_commons.plugin_manager.register(replay)
