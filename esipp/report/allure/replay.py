"""Allure results of a recorded run: each check becomes a test whose outcome is the verdict in the ledger.

The pytest session runs in a process of its own: allure-pytest has one state for all sessions of a process, and another
session may be running.
"""

import json
import os
import pickle  # reads only what this module has just written
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import allure_commons
import pytest

from esipp.base.errors import ExitCode, HarnessError, if_not_writable
from esipp.checks.check import Verdict
from esipp.ledger.reading import RecordedRun
from esipp.ledger.recorded_checks import RecordedCheck
from esipp.report.allure.describing import Describer
from esipp.report.outcome import enforce

SECONDS = 600.0
"""Timeout of the session; a hundred thousand observations take a few seconds."""

OWN = ("*-result.json", "*-container.json", "*-attachment.*", "*-globals.json")
TESTS = "suites/test_suites.py"
WHOLE_RUN = "esipp.run"


# ------------------------------------------------------------------------------------------------------ from outside
def write(run: RecordedRun, folder: Path) -> None:
    """Write the Allure results of a run; replace earlier results in the folder and keep other files.

    Raises:
        PreflightError: the folder cannot be written.
        HarnessError: the session that writes them failed.
    """
    folder = folder.absolute()
    with if_not_writable(f"Allure results cannot be written to {folder}", "name another folder."):
        folder.mkdir(parents=True, exist_ok=True)
        for pattern in OWN:
            for old in folder.glob(pattern):
                old.unlink()
        write_environment(run, folder)
    with tempfile.TemporaryDirectory(prefix="esipp-allure-") as place:
        kept = Path(place) / "run.pickle"
        kept.write_bytes(pickle.dumps(run))
        (Path(place) / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
        _session(Path(place), ["-p", "esipp.report.allure.replay", f"--alluredir={folder}", f"--esipp-run={kept}"])


def _session(place: Path, arguments: list[str]) -> None:
    """Run a pytest session with only its own plugins, allure-pytest and this module."""
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
class Suites(pytest.Collector):
    """The test file of all suites."""

    def collect(self) -> list[pytest.Item]:
        """Nothing: the replay creates the items."""
        return []


class CheckItem(pytest.Item):
    """A check of the ledger; the verdict is the outcome."""

    check: RecordedCheck
    verdict: Verdict | None

    def runtest(self) -> None:
        """End as the test of the check ended."""
        if self.verdict is None:
            pytest.skip("no verdict: the run ended early")
        enforce(self.verdict)

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> str:  # noqa: ARG002 - pytest's parameters
        """The message only: a traceback would show this module."""
        return str(excinfo.value)


class RunItem(pytest.Item):
    """The run as a whole, if it did not finish or its ledger is incomplete."""

    said: str

    def runtest(self) -> None:
        """Fail with an error of the suite, not of the product."""
        raise HarnessError(self.said)


class Replay(Describer):
    """Describes the checks of a recorded run, with the time of their verdicts."""

    def __init__(self, run: RecordedRun) -> None:
        super().__init__()
        self._run = run
        self._at = 0.0
        self._last = max([float(run.header["at"]), *(phase.at for phase in run.phases), *run.judged_at.values()])

    def check(self, item: pytest.Item) -> RecordedCheck | None:
        """The item's check."""
        self._at = self._last
        if isinstance(item, CheckItem):
            self._at = self._run.judged_at.get(item.check.id, self._last)
            return item.check
        return None

    def verdict(self, check: RecordedCheck) -> Verdict | None:
        """The verdict in the ledger."""
        return self._run.verdicts.get(check.id)

    def recorded(self, check: RecordedCheck) -> RecordedRun:  # noqa: ARG002 - during a run it depends
        """The whole run."""
        return self._run

    def finish(self, result: Any) -> None:
        """Set the time of the verdict: the evidence was recorded earlier, for all checks at once."""
        result.start = result.stop = round(self._at * 1000)

    def pytest_collection(self, session: pytest.Session) -> bool:
        """Collect the checks instead of files."""
        suites: Suites = Suites.from_parent(session, name=TESTS, nodeid=TESTS)
        for check in self._run.checks:
            item: CheckItem = CheckItem.from_parent(suites, name=f"test_{check.suite}[{check.id}]")
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
    """Add the option for the recorded run; ``write`` makes the file."""
    parser.addoption("--esipp-run", default=None)


def pytest_configure(config: pytest.Config) -> None:
    """Read the run, and register with both plugin systems."""
    run = pickle.loads(Path(config.getoption("--esipp-run")).read_bytes())  # noqa: S301 - our own, see above
    replay = Replay(run)
    config.pluginmanager.register(replay, "esipp-replay")
    allure_commons.plugin_manager.register(replay)


CATEGORIES = (
    {"name": "Product failure", "matchedStatuses": ["failed"], "messageRegex": r"(?s).*\bfail: expected .*"},
    {"name": "Flaky", "matchedStatuses": ["failed"], "messageRegex": r"(?s).*\bflaky: expected .*"},
    {
        "name": "Inconclusive",
        "matchedStatuses": ["broken"],
        "messageRegex": r"(?s).*\binconclusive: expected .*",
    },
    {
        "name": "Harness error",
        "matchedStatuses": ["broken"],
        "messageRegex": r"(?s)(?!.*\binconclusive: expected ).*",
    },
    {"name": "Known difference", "matchedStatuses": ["skipped"], "messageRegex": r"(?s)XFAIL.*"},
    {"name": "Unsupported", "matchedStatuses": ["skipped"], "messageRegex": r"(?s)(?!XFAIL).*needs .*"},
)
"""They match the messages that a verdict ends its test with (outcome.py)."""


def write_environment(run: RecordedRun, folder: Path) -> None:
    """Write the files into the results' folder; keep an executor.json that CI has written.

    Raises:
        OSError: the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    properties = {
        "result": run.conclusion.sentence,
        "esipp": run.header["suite"],
        "run": run.header["run"],
        "lane": run.header["lane"],
        "context": run.header["context"],
        "command": run.command,
        **{name: fact.value for name, fact in sorted(run.facts.items())},
        **{f"component.{each.name}": f"{each.image} {each.digest}".strip() for each in run.components},
    }
    lines = [f"{_escape(name, key=True)} = {_escape(value)}\n" for name, value in properties.items()]
    (folder / "environment.properties").write_text("".join(lines), encoding="ascii")
    (folder / "categories.json").write_text(json.dumps(CATEGORIES, indent=1) + "\n", encoding="utf-8")
    executor = folder / "executor.json"
    if not executor.exists():
        name = {"name": "esipp", "type": "esipp", "buildName": f"{run.header['lane']} {run.header['run']}"}
        executor.write_text(json.dumps(name | {"reportName": "source IP qualification"}, indent=1) + "\n", "utf-8")


def _escape(text: object, key: bool = False) -> str:
    """The text in the format of Java properties: ASCII, one line."""
    characters = []
    for each in str(text).encode("utf-16-be", errors="replace").decode("utf-16-be", errors="replace"):
        if each in "\\\n\r\t" or (key and each in " :=#!"):
            characters.append({"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(each, "\\" + each))
        elif " " <= each <= "~":
            characters.append(each)
        else:
            units = each.encode("utf-16-be")
            characters += [f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2)]
    return "".join(characters)
