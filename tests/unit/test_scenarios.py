"""The registry: every check has one scenario, every folder registers one, and reading a run needs no cluster."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

import esipp.scenarios
from esipp.checks.catalog import all_checks
from esipp.judging.scenario import recorded_as, scenarios


def test_every_check_is_decided_by_one_scenario() -> None:
    for check in all_checks():
        assert sum(isinstance(check.subject, each.subjects) for each in scenarios()) == 1, check.id


def test_every_folder_registers_a_scenario_under_its_name() -> None:
    folders = {path.parent.name for path in Path(*esipp.scenarios.__path__).glob("*/__init__.py")}
    assert {each.name for each in scenarios()} == folders
    assert set(Counter(each.record for each in scenarios()).values()) == {1}


def test_evidence_of_an_unknown_scenario_is_an_error() -> None:
    with pytest.raises(KeyError):
        recorded_as("weather")


@pytest.mark.parametrize(
    "modules",
    ["esipp.app.judge", "esipp.app.report", "esipp.ledger.rejudging", "esipp.report.formats", "esipp.judging.scenario"],
)
def test_judging_and_reporting_load_no_kubernetes_client(modules: str) -> None:
    load = f"import sys, {modules}; from esipp.judging.scenario import scenarios; scenarios()"
    show = "print(*sorted(each for each in sys.modules if each.startswith(('kubernetes', 'esipp.cluster'))))"
    done = subprocess.run([sys.executable, "-c", f"{load}; {show}"], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
