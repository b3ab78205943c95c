"""The ledger: append-only, valid by its schema, closed or visibly not."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from esipp.errors import HarnessError, PreflightError
from esipp.judge import Evidence, judge
from esipp.model import Level
from esipp.report.ledger import SCHEMA, Ledger, read_ledger
from esipp.run import Run, Settings
from suites.source_ip.cells import CELLS
from tests.unit.world import FEATURES, healthy, topology

VALIDATOR = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text()))


def a_run(out: Path) -> list[dict[str, Any]]:
    run = Run(Settings("kind-test", image="x", out=str(out)), say=lambda _: None)
    run.begin(list(CELLS), left_out=0)
    run.record("fact", name="kubernetes", value="v1.36.3", decided="made up")
    run.record("feature", name="family.ipv4", present=True, why="made up", ours=False)
    run.record("obstacle", path=CELLS[0].path.key, why="made up")
    run.record("topology", **topology().as_json())
    run.record("settled", held=True, seconds=0.1, state="72 paths answer")
    with run.phase("observe", "probing"):
        seen = healthy()
    for observations in seen.values():
        for each in observations:
            run.record("observation", **each.as_json())
    evidence = Evidence(seen, topology(), FEATURES, samples=3)
    for cell in CELLS:
        run.keep(judge(cell, evidence))
    run.end()
    return list(read_ledger(out / "ledger.jsonl"))


def test_every_record_is_valid_and_the_run_is_closed(tmp_path: Path) -> None:
    records = a_run(tmp_path)
    for record in records:
        VALIDATOR.validate(record)
    assert records[0]["record"] == "header"
    assert records[-1] == {**records[-1], "record": "end", "result": "conformant", "exit_code": 0}
    assert {record["record"] for record in records} == set(VALIDATOR.schema["properties"]["record"]["enum"])


def test_what_was_not_judged_is_incomplete_never_conformant(tmp_path: Path) -> None:
    run = Run(Settings("kind-test", out=str(tmp_path)), say=lambda _: None)
    run.begin(list(CELLS), left_out=0)
    evidence = Evidence(healthy(), topology(), FEATURES, samples=3)
    for cell in CELLS[1:]:
        run.keep(judge(cell, evidence))
    said = run.end()
    assert (said.result, said.exit_code) == ("incomplete", 3)


def test_trouble_after_the_verdicts_is_not_hidden_by_them(tmp_path: Path) -> None:
    run = Run(Settings("kind-test", out=str(tmp_path)), say=lambda _: None)
    run.begin(list(CELLS), left_out=0)
    evidence = Evidence(healthy(), topology(), FEATURES, samples=3)
    for cell in CELLS:
        run.keep(judge(cell, evidence))
    run.trouble = HarnessError("The namespace is still there.")
    said = run.end()
    assert (said.result, said.exit_code, said.why) == ("error", 3, "The namespace is still there.")


def test_the_schema_refuses_what_is_not_a_record(tmp_path: Path) -> None:
    verdict = next(record for record in a_run(tmp_path) if record["record"] == "verdict")
    for broken in ({**verdict, "status": "green"}, {**verdict, "more": 1}, {"record": "verdict", "at": 0}):
        assert not VALIDATOR.is_valid(broken)


def test_observations_keep_both_addresses(tmp_path: Path) -> None:
    answered = [r for r in a_run(tmp_path) if r["record"] == "observation" and r["outcome"] == "answered"]
    assert answered
    assert all(record["source"] and record["seen"] for record in answered)


def test_a_killed_run_has_no_closing_record(tmp_path: Path) -> None:
    run = Run(Settings("kind-test", out=str(tmp_path)), say=lambda _: None)
    run.begin(list(CELLS), left_out=0)
    assert run.ledger is not None
    run.ledger.close()  # as the kernel does after kill -9
    assert [record["record"] for record in read_ledger(tmp_path / "ledger.jsonl")] == ["header"]


def test_a_broken_line_is_named(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    path.write_text('{"record": "header", "at": 1}\n{"record": "ver')
    with pytest.raises(ValueError, match=r"ledger\.jsonl:2 is not a record"):
        list(read_ledger(path))


def test_a_ledger_is_never_overwritten(tmp_path: Path) -> None:
    Ledger(tmp_path / "ledger.jsonl").close()
    with pytest.raises(PreflightError, match="already"):
        Ledger(tmp_path / "ledger.jsonl")


def test_latest_points_at_the_newest_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        run = Run(replace(Settings("kind-test"), lane="a-lane", fail_on=Level.CORE), say=lambda _: None)
        run.begin(list(CELLS), left_out=0)
        run.end(interrupted=True)
        assert (tmp_path / "runs" / "latest").resolve() == run.folder.resolve()
    assert len(list((tmp_path / "runs").glob("*-a-lane*"))) == 2
