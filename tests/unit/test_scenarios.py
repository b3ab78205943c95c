"""The registry: every check has one scenario, every folder registers one, and reading a run needs no cluster."""

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from importlib.util import find_spec
from pathlib import Path

import pytest

import esipp.scenarios
from esipp.base.errors import ExitCode
from esipp.checks.catalog import HOUSE, all_checks
from esipp.judging.scenario import FOLDER, recorded_as, scenarios


def test_every_check_is_decided_by_one_scenario() -> None:
    for check in all_checks():
        assert sum(isinstance(check.subject, each.subjects) for each in scenarios()) == 1, check.id


def test_every_folder_registers_a_scenario_under_its_name() -> None:
    folders = {path.parent.name for path in Path(*esipp.scenarios.__path__).glob("*/__init__.py")}
    assert {each.name for each in scenarios()} == folders
    assert set(Counter(each.record for each in scenarios()).values()) == {1}


@pytest.mark.parametrize(("module", "names"), [("sections", {"SECTIONS"}), ("numbers", {"NUMBERS", "DURATIONS"})])
def test_what_a_module_of_a_scenario_shows_is_found(module: str, names: set[str]) -> None:
    """A part under another name would be missing in all reports, without an error."""
    there = [each for each in scenarios() if find_spec(f"{FOLDER}.{each.name}.{module}")]
    assert there
    assert not [each.name for each in there if all(each.part(module, name) is None for name in names)]


def test_evidence_of_an_unknown_scenario_is_an_error() -> None:
    with pytest.raises(KeyError):
        recorded_as("weather")


def test_judging_and_reporting_load_no_kubernetes_client() -> None:
    modules = "esipp.app.judge, esipp.app.report, esipp.ledger.rejudging, esipp.report.formats"
    load = f"import sys, {modules}; from esipp.judging.scenario import scenarios; scenarios()"
    load += "; from esipp.report import document, sections; document.schema(); [*map(sections.shown_of, scenarios())]"
    show = "print(*sorted(each for each in sys.modules if each.startswith(('kubernetes', 'esipp.cluster'))))"
    done = subprocess.run([sys.executable, "-c", f"{load}; {show}"], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []


EXAMPLE = re.compile(r"^```python\n# (\S+)\n(.*?)^```", re.DOTALL | re.MULTILINE)
"""The files of the scenario in docs/new-scenario.md."""

TRIED = """
from types import SimpleNamespace
from esipp.checks.catalog import checks_of, suite_names, title_of
from esipp.checks.check import Status
from esipp.judging.durations import expected
from esipp.judging.frame import Known
from esipp.judging.scenario import RunThen, scenario_of
from esipp.ledger.codec import read_judged
from esipp.ledger.run import Run, Settings
from esipp.scenarios.context import Context

(check,) = checks_of("versions")
assert suite_names().index("compatibility") < suite_names().index("versions") < suite_names().index("continuity")
assert title_of("versions") == "Versions" and expected([check], 1, 1)["versions"] == 1
scenario = scenario_of(check)
nothing = scenario.read(None, RunThen(1))
assert scenario.judge(check, nothing, Known()).status is Status.INCONCLUSIVE
run = Run(Settings("kind-test", image="x", out=OUT), say=lambda _: None)
run.begin([check], left_out=0)
answers = iter(["v1.36.0"] * 9 + ["v1.35.2"])
testbed = SimpleNamespace(batches=SimpleNamespace(scenarios={}), cluster=SimpleNamespace(version=lambda: next(answers)))
context = Context(run, SimpleNamespace(features={}, facts={}, ways={}), {"testbed": testbed}.get)
observed = context.observe(scenario)
verdict = scenario.judge(check, scenario.analyse(observed), Known())
assert (verdict.status, verdict.observed) == (Status.FAIL, "v1.35.2, v1.36.0"), verdict
run.keep(verdict)
run.end()
"""


NEXT = "--- next command\n"

COMMANDS = f"""
import sys
from esipp.app.cli import main

*before, last = COMMANDS
for command in before:
    assert main(command) == 0
    print({NEXT!r}, end="", flush=True)
sys.exit(main(last))
"""


def test_a_new_scenario_is_one_folder_and_its_checks(tmp_path: Path) -> None:
    """The page's example in a copy of the checkout: run, judged, reported, judged again. No other file changes."""
    for name in ("esipp", "suites", "fixtures"):
        shutil.copytree(HOUSE / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    files = EXAMPLE.findall((HOUSE / "docs/new-scenario.md").read_text())
    assert len(files) == 6
    for name, text in files:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)

    def python(*arguments: str, code: int = 0) -> str:
        environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
        done = subprocess.run(
            [sys.executable, *arguments], cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout

    out = str(tmp_path / "run")
    python("-c", TRIED.replace("OUT", repr(out)))
    commands = ["explain", "version.same"], ["report", out, "--format", "markdown"], ["judge", out]
    said = python("-c", COMMANDS.replace("COMMANDS", repr(commands)), code=ExitCode.NOT_CONFORMANT)
    explained, reported, judged = said.split(NEXT)
    assert "10 requests for /version" in explained
    assert "v1.35.2, v1.36.0" in reported
    assert "1 same" in judged
