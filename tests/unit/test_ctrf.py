"""CTRF: valid by its own schema whatever was seen, with the same tests as JUnit, red exactly where that is."""

import json
from pathlib import Path

import junitparser
import pytest
from jsonschema import Draft7Validator, FormatChecker

from esipp.base.json import Json
from esipp.checks.check import Status
from esipp.ledger.reading import RecordedRun
from esipp.report import ctrf, junit
from tests.unit.test_agreement import RUNS

SCHEMA = json.loads((Path(__file__).parent / "recorded" / "ctrf-schema-0.0.json").read_text())
"""Of the npm package ``ctrf`` 0.3.0, the format's reference implementation (MIT)."""


def read(run: RecordedRun) -> Json:
    found: Json = json.loads(ctrf.render(run))
    Draft7Validator(SCHEMA, format_checker=FormatChecker()).validate(found)
    return found


@pytest.mark.parametrize("name", RUNS)
def test_it_says_what_junit_says(name: str, tmp_path: Path) -> None:
    run = RUNS[name][0](tmp_path / "run")
    found = read(run)
    cases = {case.name: case for suite in junitparser.JUnitXml.fromstring(junit.render(run).encode()) for case in suite}
    tests = {test["name"]: test for test in found["results"]["tests"]}
    assert tests.keys() == cases.keys()
    for name, case in cases.items():
        status = "skipped" if case.is_skipped else "failed" if case.is_failure or case.is_error else "passed"
        assert tests[name]["status"] == status
        assert tests[name]["duration"] == pytest.approx(case.time * 1000, abs=1)
    summary, conclusion = found["results"]["summary"], found["results"]["extra"]
    assert sum(summary[each] for each in ctrf.STATUSES) == summary["tests"] == len(tests)
    assert summary["stop"] - summary["start"] == pytest.approx(summary["duration"], abs=1)
    assert (summary["failed"] > 0) is (run.conclusion.exit_code != 0)
    assert conclusion["exitCode"] == run.conclusion.exit_code


def test_a_failed_test_has_its_message_and_its_trace(tmp_path: Path) -> None:
    run = RUNS["mixed"][0](tmp_path / "run")
    found = [test for test in read(run)["results"]["tests"] if test["status"] == "failed"]
    assert found
    for test in found:
        assert test["message"].startswith(f"{test['rawStatus']}: expected ")
        assert "repeat: " in test["trace"]
        assert test.get("flaky", False) is (test["rawStatus"] == Status.FLAKY.value)
