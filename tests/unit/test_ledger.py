"""The ledger: append-only, valid by its schema, closed or visibly not."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from esipp.base.errors import HarnessError, PreflightError
from esipp.checks.check import Binding, Level
from esipp.checks.model import AddressClass
from esipp.checks.path import PathCheck
from esipp.judging.observation import Witness
from esipp.judging.schedule import PlannedEvent, Touches
from esipp.ledger.codec import record_of
from esipp.ledger.file import SCHEMA, SCHEMA_VERSION, Ledger, read_ledger
from esipp.ledger.run import Run, Settings
from tests.unit.verdicts import judge
from tests.unit.world import CHECKS, evidence, group, show, topology, verdict

VALIDATOR = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text()))
SOME = [path_check for number, path_check in enumerate(CHECKS) if path_check.level is Level.RECORD or number % 40 == 0]
"""Enough checks to have every kind of record; all of them would only take longer."""


def begun(out: Path, path_checks: list[PathCheck] = SOME) -> Run:
    run = Run(Settings("kind-test", image="x", out=str(out)), say=lambda _: None)
    run.begin(path_checks, left_out=0)
    return run


def a_run(out: Path) -> list[dict[str, Any]]:
    run = begun(out)
    run.record("fact", name="kubernetes", value="v1.36.3", decided="made up")
    run.record("feature", name="family.ipv4", present=True, why="made up", ours=False)
    run.record("obstacle", path=CHECKS[0].subject.path.key, why="made up")
    run.record("note", about="artefacts", note="made up")
    run.evidence("health_checks", "answer", status=503)
    run.record("judged", suite="health_checks", seen={"answers": {}})
    part = {"kind": "service-proxy", "image": "kube-proxy:1", "digest": "sha256:" + "0" * 64, "version": "1"}
    run.record("component", name="kube-proxy", decided="made up", **part)
    run.record("topology", **topology().as_json())
    run.fact("proxy-mode", "nftables", "asked after preflight")
    run.record("settled", held=True, seconds=0.1, state="72 paths answer")
    with run.phase("observe", "probing"), run.event("observe", PlannedEvent("drain", touches=Touches.NODE)):
        for path_check in SOME:
            for each in evidence().observations[path_check.subject.path.key]:
                run.record("observation", **record_of(each))
        for shown in AddressClass:
            run.record("observation", **record_of(group(show(SOME[0].subject.path, shown), 198)))
        run.record("observation", **record_of(replace(show(SOME[0].subject.path, AddressClass.CLIENT), tag=2**32 - 1)))
    found = Witness(
        SOME[0].subject.path.key, 0, True, "words", ("192.0.2.1", 7), "node a: A became B", "both cannot be"
    )
    for witness in (found, Witness(SOME[0].subject.path.key, 1, False)):
        run.record("witness", **record_of(witness))
    for path_check in SOME:
        run.keep(judge(path_check, evidence()))
    run.end()
    return list(read_ledger(out / "ledger.jsonl"))


def test_every_record_is_valid_and_the_run_is_closed(tmp_path: Path) -> None:
    records = a_run(tmp_path)
    for record in records:
        VALIDATOR.validate(record)
    assert records[0] == {**records[0], "record": "header", "schema": SCHEMA_VERSION}
    assert records[-1] == {**records[-1], "record": "end", "result": "conformant", "exit_code": 0}
    known = set(VALIDATOR.schema["discriminator"]["mapping"]) - {"section"}  # of older ledgers
    assert {record["record"] for record in records} == known


def test_every_check_and_every_verdict_is_valid(tmp_path: Path) -> None:
    run = begun(tmp_path, list(CHECKS))
    for shown in AddressClass:
        run.keep(verdict(CHECKS[0], show(CHECKS[0].subject.path, shown)))
    run.keep(verdict(CHECKS[0], features={}))
    run.end()
    for record in read_ledger(tmp_path / "ledger.jsonl"):
        VALIDATOR.validate(record)


def test_what_was_not_judged_is_incomplete_never_conformant(tmp_path: Path) -> None:
    run = begun(tmp_path)
    for path_check in SOME[1:]:
        run.keep(judge(path_check, evidence()))
    said = run.end()
    assert (said.result, said.exit_code) == ("incomplete", 3)


def test_a_check_that_failed_is_not_undone_by_others_left_open(tmp_path: Path) -> None:
    run = begun(tmp_path)
    run.keep(verdict(SOME[0], show(SOME[0].subject.path, AddressClass.OTHER)))
    said = run.end()
    assert (said.result, said.exit_code) == ("incomplete", 1)
    assert "1 check fails" in said.why


def test_trouble_after_the_verdicts_is_not_hidden_by_them(tmp_path: Path) -> None:
    run = begun(tmp_path)
    for path_check in SOME:
        run.keep(judge(path_check, evidence()))
    run.trouble = HarnessError("The namespace is still there.")
    said = run.end()
    assert (said.result, said.exit_code, said.why) == ("error", 3, "The namespace is still there.")


def test_the_schema_refuses_what_is_not_a_record(tmp_path: Path) -> None:
    records = {record["record"]: record for record in a_run(tmp_path)}
    found = records["verdict"]
    for broken in ({**found, "status": "green"}, {**found, "more": 1}, {"record": "verdict", "at": 0}):
        assert not VALIDATOR.is_valid(broken)
    for name, change in (
        ("observation", {"count": 0}),
        ("observation", {"ports": [[1]]}),
        ("witness", {"delivered": "192.0.2.1"}),
        ("header", {"schema": SCHEMA_VERSION + 1}),
    ):
        assert VALIDATOR.is_valid(records[name])
        assert not VALIDATOR.is_valid({**records[name], **change}), (name, change)


def test_observations_keep_both_addresses_and_all_ports(tmp_path: Path) -> None:
    answered = [r for r in a_run(tmp_path) if r["record"] == "observation" and r["outcome"] == "answered"]
    assert answered
    assert all(record["source"] and record["seen"] for record in answered)
    grouped = [record for record in answered if record["count"] > 1]
    assert grouped
    assert all(len(record["ports"]) == record["count"] for record in grouped)


def test_a_killed_run_has_no_closing_record(tmp_path: Path) -> None:
    run = begun(tmp_path)
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
        run = Run(replace(Settings("kind-test"), lane="a-lane", fail_on=Binding.CORE), say=lambda _: None)
        run.begin(SOME, left_out=0)
        run.interrupted = True
        run.end()
        assert (tmp_path / "runs" / "latest").resolve() == run.folder.resolve()
    assert len(list((tmp_path / "runs").glob("*-a-lane*"))) == 2
