"""A ledger is believed only as far as it is whole: whatever is wrong with it, it never comes out as conformant."""

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from esipp.app.cli import main
from esipp.base.errors import ExitCode, PreflightError
from esipp.checks.check import Fact
from esipp.checks.model import AddressClass
from esipp.checks.path import PathCheck
from esipp.judging.schedule import PlannedEvent, Touches
from esipp.ledger.codec import judged, record_of
from esipp.ledger.reading import MOST_TROUBLE, RecordedRun, read_run
from esipp.ledger.run import Run, Settings
from esipp.report.terminal import summary
from tests.unit.verdicts import judge
from tests.unit.world import CHECKS, evidence, show, topology, verdict

SOME: list[PathCheck] = [path_check for number, path_check in enumerate(CHECKS) if number % 60 == 0]
ANSWER = {"question": "one-pod.ipv4.outside-1-to-endpoint-node", "outcome": "answered", "status": 503, "headers": {},
          "body": "{}", "count": 20, "detail": ""}  # fmt: skip
Records = list[dict[str, Any]]


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run that is whole and conformant."""
    folder = tmp_path_factory.mktemp("healthy") / "run"
    made(folder)
    return folder


def made(folder: Path, broken: bool = False) -> None:
    run = Run(Settings("kind-test", image="x", out=str(folder)), say=lambda _: None)
    run.begin(list(SOME), left_out=0)
    run.fact("kubernetes", "v1.36.2", "guessed")
    run.fact("kubernetes", "v1.36.3", "asked")
    run.record("feature", name="family.ipv4", present=True, why="made up", ours=False)
    run.record("topology", **topology().as_json())
    run.record("obstacle", path="a", why="made up")
    run.evidence("health_checks", "answer", **ANSWER)
    part = {"kind": "service-proxy", "image": "kube-proxy:1", "digest": "sha256:" + "0" * 64, "version": "1"}
    run.record("component", name="kube-proxy", decided="made up", **part)
    run.record("note", about="artefacts", note="cut")
    run.record("judged", **judged("paths", evidence()))
    with run.phase("observe", "probing"):
        for path_check in SOME:
            for each in evidence().observations[path_check.subject.path.key]:
                run.record("observation", **record_of(each))
        with run.event("observe", PlannedEvent("drain", touches=Touches.NODE)):
            pass
    for path_check in SOME:
        run.keep(judge(path_check, evidence()))
    if broken:
        run.verdicts.clear()
        run.keep(verdict(SOME[0], show(SOME[0].subject.path, AddressClass.OTHER)))
    run.end()


def changed(
    healthy: Path, tmp_path: Path, change: Callable[[Records], Records | None], seal: bool = False
) -> RecordedRun:
    """The healthy run's ledger, changed; with a closing record that fits again, where ``seal`` is set."""
    records = [json.loads(line) for line in (healthy / "ledger.jsonl").read_text().splitlines()]
    records = change(records) or records
    lines = [json.dumps(record) + "\n" for record in records]
    if seal:
        before = "".join(lines[:-1]).encode()
        records[-1] |= {"records": len(lines) - 1, "sha256": hashlib.sha256(before).hexdigest()}
        lines[-1] = json.dumps(records[-1]) + "\n"
    (tmp_path / "ledger.jsonl").write_text("".join(lines))
    return read_run(tmp_path)


def of(records: Records, kind: str) -> dict[str, Any]:
    return next(record for record in records if record["record"] == kind)


# ------------------------------------------------------------------------------------------------------- a whole one
def test_a_whole_ledger_is_believed(healthy: Path) -> None:
    run = read_run(healthy)
    assert run.whole
    assert (run.conclusion.result, run.conclusion.exit_code) == ("conformant", 0)
    assert [check.id for check in run.checks] == [path_check.id for path_check in SOME]
    assert run.verdicts.keys() == {path_check.id for path_check in SOME}
    assert run.facts["kubernetes"] == Fact("v1.36.3", "asked"), "the last word"
    probes = run.probes[SOME[0].subject.path.key]
    assert [probe.seq for probe in probes] == [each.seq for each in evidence().observations[SOME[0].subject.path.key]]
    assert [phase.name for phase in run.phases] == ["observe"]
    assert [(event.phase, event.name, event.touches) for event in run.events] == [("observe", "drain", "a node")]
    (phase,), (event,) = run.phases, run.events
    assert phase.at - phase.seconds - 0.1 <= event.began <= phase.at + 0.1
    assert read_run(healthy / "ledger.jsonl").conclusion == run.conclusion, "the file will do"


def test_the_same_ledger_is_reported_the_same(healthy: Path) -> None:
    assert summary(read_run(healthy)) == summary(read_run(healthy))


def test_the_command_that_repeats_a_run_names_what_was_asked_for(tmp_path: Path) -> None:
    run = Run(Settings("kind-test", image="x", out=str(tmp_path / "run")), say=lambda _: None)
    run.asked = ("--suite=source_ip", "nodeport.local")
    run.begin(list(SOME), left_out=7)
    run.end()
    read = read_run(tmp_path / "run")
    assert read.command == f"{read.header['command']} --suite=source_ip nodeport.local"


# ---------------------------------------------------------------------------------------------------- a damaged one
def drop_end(records: Records) -> Records:
    return records[:-1]


def drop_a_verdict(records: Records) -> None:
    records.remove(of(records, "verdict"))


def repeat_a_verdict(records: Records) -> None:
    records.insert(-1, of(records, "verdict"))


def repeat_a_probe(records: Records) -> None:
    records.insert(records.index(of(records, "observation")) + 1, of(records, "observation"))


def another_header(records: Records) -> None:
    records.insert(5, {**records[0], "run": "another"})


def go_on_after_the_end(records: Records) -> None:
    records.append(dict(records[-1]))


def two_runs(records: Records) -> Records:
    return records + records


def a_strange_verdict(records: Records) -> None:
    records.insert(-1, {**of(records, "verdict"), "id": "nobody.knows"})


def a_field_less(records: Records) -> None:
    del of(records, "observation")["seen"]


def a_word_nobody_knows(records: Records) -> None:
    of(records, "verdict")["status"] = "green"


def a_number_that_is_none(records: Records) -> None:
    of(records, "observation")["started"] = "soon"


def a_record_nobody_knows(records: Records) -> None:
    records.insert(3, {"record": "wish", "at": 0})


def a_check_twice(records: Records) -> None:
    records[0]["rows"].append(records[0]["rows"][0])


def a_better_end(records: Records) -> None:
    of(records, "verdict")["status"] = "fail"


def a_better_exit_code(records: Records) -> None:
    of(records, "verdict")["status"] = "fail"
    records[-1] |= {"result": "nonconformant", "exit_code": 0}


def an_interrupted_run_that_is_fine(records: Records) -> None:
    records[-1] |= {"result": "incomplete", "exit_code": 0}


def another_level(records: Records) -> None:
    of(records, "verdict")["level"] = "record"


def nothing_seen(records: Records) -> None:
    records[:] = [record for record in records if record["record"] != "observation"]


def seen_less_often(records: Records) -> None:
    of(records, "observation")["count"] += 1


def shown_what_must_not_be(records: Records) -> None:
    of(records, "verdict")["shown"] = ["other"]


def other_counts(records: Records) -> None:
    records[-1]["counts"] = {"pass": 3491}


def a_list_for_a_name(records: Records) -> None:
    of(records, "component")["name"] = [[]]


def no_number(records: Records) -> None:
    of(records, "observation")["started"] = float("nan")


def too_large_a_number(records: Records) -> None:
    of(records, "observation")["seq"] = 10**400


def no_moment(records: Records) -> None:
    of(records, "verdict")["at"] = 1e17


def no_number_among_evidence(records: Records) -> None:
    of(records, "evidence")["data"]["status"] = [1, {"x": float("inf")}]


def a_field_more(records: Records) -> None:
    of(records, "verdict")["status "] = "pass"


def nested_too_deep(records: Records) -> None:
    deep: Any = []
    for _ in range(500):
        deep = [deep]
    of(records, "evidence")["data"]["deep"] = deep


def judged_evidence_of_another_form(records: Records) -> None:
    of(records, "judged")["seen"]["samples"] = "200"


DAMAGES = [
    (another_level, "another level than their checks"),
    (nothing_seen, "pass without a probe"),
    (seen_less_often, "count another number of probes than recorded"),
    (shown_what_must_not_be, "with a result that they do not accept"),
    (other_counts, "counts do not match the verdicts"),
    (a_list_for_a_name, "name: should be a valid string, not [[]]"),
    (no_number, "started: should be a finite number, not nan"),
    (too_large_a_number, "a number out of range"),
    (no_moment, "at: should be less than or equal to 253402300799"),
    (no_number_among_evidence, "a number out of range"),
    (a_field_more, "status : Extra inputs are not permitted"),
    (nested_too_deep, "nested too deep"),
    (drop_end, "no closing record"),
    (drop_a_verdict, "no verdict"),
    (repeat_a_verdict, "a second verdict"),
    (repeat_a_probe, "repeats probe"),
    (another_header, "the header of another run"),
    (go_on_after_the_end, "lines after the closing record"),
    (two_runs, "after the closing record"),
    (a_strange_verdict, "nobody.knows"),
    (a_field_less, "seen: Field required"),
    (a_word_nobody_knows, "green"),
    (a_number_that_is_none, "is damaged"),
    (a_record_nobody_knows, "is not a record"),
    (a_check_twice, "lists a check twice"),
    (judged_evidence_of_another_form, "the evidence of paths cannot be read"),
    (a_better_end, "the verdicts say nonconformant"),
    (a_better_exit_code, "the verdicts say nonconformant (1)"),
    (an_interrupted_run_that_is_fine, "with exit code 0"),
]


@pytest.mark.parametrize(("damage", "words"), DAMAGES, ids=[damage.__name__ for damage, _ in DAMAGES])
def test_whatever_is_wrong_is_reported_and_nothing_is_green(
    healthy: Path, tmp_path: Path, damage: Callable[[Records], Records | None], words: str
) -> None:
    run = changed(healthy, tmp_path, damage, seal=damage not in (drop_end, two_runs))
    assert not run.whole
    assert run.conclusion.result == "incomplete"
    assert run.conclusion.exit_code in (ExitCode.HARNESS, ExitCode.NOT_CONFORMANT)
    text = "\n".join(summary(run))
    assert words in " ".join(text.split())
    assert "CONFORMANT: all" not in text


def test_a_changed_byte_breaks_the_seal(healthy: Path, tmp_path: Path) -> None:
    def change(records: Records) -> None:
        of(records, "fact")["value"] = "v9.9.9"

    run = changed(healthy, tmp_path, change)
    assert any("digest" in each for each in run.trouble)
    assert run.conclusion.result == "incomplete"


@settings(max_examples=60, deadline=None)
@given(st.floats(0.02, 0.9999))
def test_a_ledger_cut_off_anywhere_is_never_conformant(
    healthy: Path, tmp_path_factory: pytest.TempPathFactory, part: float
) -> None:
    whole = (healthy / "ledger.jsonl").read_bytes()
    folder = tmp_path_factory.mktemp("cut")
    (folder / "ledger.jsonl").write_bytes(whole[: int(len(whole) * part)])
    try:
        run = read_run(folder)
    except PreflightError:  # the header itself was cut
        assert part < 0.9
        return
    assert (run.conclusion.result, run.conclusion.exit_code) == ("incomplete", 3)


def test_a_failure_in_a_run_that_was_killed_stays_one(tmp_path: Path) -> None:
    made(tmp_path / "run", broken=True)
    path = tmp_path / "run" / "ledger.jsonl"
    lines = [line for line in path.read_text().splitlines(keepends=True) if '"record": "end"' not in line]
    kept = [line for line in lines if '"record": "verdict"' not in line or '"fail"' in line]
    path.write_text("".join(kept))
    run = read_run(tmp_path / "run")
    assert (run.conclusion.result, run.conclusion.exit_code) == ("incomplete", ExitCode.NOT_CONFORMANT)


def test_many_faults_are_reported_in_few_lines(healthy: Path, tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    path.write_text((healthy / "ledger.jsonl").read_text() + "x\n" * 500)
    run = read_run(path)
    assert len(run.trouble) == MOST_TROUBLE + 1
    assert run.trouble[-1] == f"and {500 - MOST_TROUBLE} more faults"


# -------------------------------------------------------------------------------------------------- none to be read
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "does not begin with the header"),
        ("nonsense\n", "does not begin with the header"),
        ('{"record": "fact"}\n', "does not begin with the header"),
        ("[1, 2]\n", "does not begin with the header"),
        ('{"record": "header", "schema": 3, "suite": "0.0.9"}\n', "has ledger schema 3, written by esipp 0.0.9"),
        ('{"record": "header", "schema": 5, "suite": "0.1.0"}\n', "is damaged"),
        ("\x00\x01\n", "does not begin with the header"),
    ],
)
def test_what_is_no_ledger_of_ours_is_refused_in_a_sentence(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / "ledger.jsonl").write_text(text)
    with pytest.raises(PreflightError, match=words) as refused:
        read_run(tmp_path)
    assert refused.value.hint


def test_no_ledger_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(PreflightError, match="Cannot read a ledger"):
        read_run(tmp_path)
    with pytest.raises(PreflightError, match="Cannot read a ledger"):
        read_run(tmp_path / "nowhere")


# ------------------------------------------------------------------------------------------- what is hardly a ledger
def test_endless_nesting_is_a_fault_and_no_crash(healthy: Path, tmp_path: Path) -> None:
    lines = (healthy / "ledger.jsonl").read_text().splitlines(keepends=True)
    lines.insert(3, "[" * 100_000 + "\n")
    (tmp_path / "ledger.jsonl").write_text("".join(lines))
    assert read_run(tmp_path).trouble[0] == "line 4 is not a record"


def test_half_a_character_is_joined_that_files_can_hold(healthy: Path, tmp_path: Path) -> None:
    def change(records: Records) -> None:
        of(records, "note")["note"] = "\ud800 and \U0001f600"

    run = changed(healthy, tmp_path, change, seal=True)
    assert run.whole
    assert run.notes == [("artefacts", "? and \U0001f600")]


@pytest.mark.parametrize("path", ["/dev/zero", "x" * 300, "loop"])
def test_what_is_no_file_is_refused(tmp_path: Path, path: str) -> None:
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    with pytest.raises(PreflightError, match="Cannot read a ledger"):
        read_run(tmp_path / path)


@pytest.mark.parametrize("command", ["merge", "diff"])
def test_verdicts_of_other_checks_are_nobodys(healthy: Path, tmp_path: Path, command: str) -> None:
    run = changed(healthy, tmp_path, a_strange_verdict, seal=True)
    assert run.verdicts.keys() == {check.id for check in run.checks}
    assert main([command, str(healthy), str(tmp_path)]) == ExitCode.HARNESS


def test_no_pipe_is_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "ledger.jsonl")
    with pytest.raises(PreflightError, match="it is not a file"):
        read_run(tmp_path)
