"""``esipp judge``: the same checks say the same, changed checks say otherwise, and what was not seen never passes."""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from esipp.app.cli import main
from esipp.app.judge import Change, Rejudged, rejudge, report, write_rejudged
from esipp.base.errors import ExitCode, HarnessError, PreflightError
from esipp.checks.api import Requests, Taken
from esipp.checks.catalog import all_checks
from esipp.checks.check import Check, Feature, Level, Status, is_about
from esipp.checks.endpoint_change import EndpointChange
from esipp.checks.health import HealthAnswer
from esipp.checks.model import AddressClass, Client
from esipp.checks.path import OnPath
from esipp.judging.observation import Observation
from esipp.judging.scenario import recorded_as, scenario_of
from esipp.judging.topology import Topology
from esipp.ledger.codec import read_record, record_of
from esipp.ledger.file import SCHEMA
from esipp.ledger.reading import read_run
from esipp.ledger.rejudging import Bench, Past, read_past, records
from esipp.report.terminal import render
from esipp.scenarios.paths.evidence import Window
from tests.unit.rejudging_world import (
    API,
    BALANCERS,
    CONTINUITY,
    CONVERGENCE,
    FACTS,
    HEALTH,
    INTEROPERABILITY,
    NAMES,
    PATHS,
    POLICY_CHANGES,
    begun,
    can_be_decided,
    checks,
    decide,
    features,
    judge_of,
    made,
    seen,
)
from tests.unit.rejudging_world import tell as tell_all
from tests.unit.world import group, show

CHECKS = [check for check in checks() if can_be_decided(check)]
PATH_CHECKS = [check for check in CHECKS if is_about(check, OnPath)]
CORE_CELL = next(
    check for check in CHECKS if is_about(check, OnPath) and check.level is Level.CORE and not check.subject.is_negative
)


@pytest.fixture(scope="module")
def ledger(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return made(tmp_path_factory.mktemp("run"))


@pytest.fixture(scope="module")
def past(ledger: Path) -> Past:
    return read_past(ledger)


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The ledger of a run of paths: it takes a fraction of the time."""
    return made(tmp_path_factory.mktemp("short"), PATH_CHECKS, without=set(NAMES) - {PATHS})


def resealed(lines: Sequence[dict[str, Any]], out: Path) -> Path:
    """A ledger of these records, that agrees with itself."""
    digest, sealed = hashlib.sha256(), []
    for number, record in enumerate(lines):
        if record["record"] == "end":
            record = {**record, "records": number, "sha256": digest.hexdigest()}
        sealed.append(json.dumps(record) + "\n")
        digest.update(sealed[-1].encode())
    out.mkdir()
    (out / "ledger.jsonl").write_text("".join(sealed))
    return out


def instead(check: Check, of: Sequence[Check] = CHECKS, **changes: Any) -> list[Check]:
    """The checks, one of them changed, or its subject."""
    of_subject = {name: changes.pop(name) for name in list(changes) if hasattr(check.subject, name)}
    changed = replace(check, subject=replace(check.subject, **of_subject), **changes)
    return [changed if each is check else each for each in of]


# ------------------------------------------------------------------------------------------------------ nothing changed
def test_the_checks_of_then_say_the_same_as_then(past: Past) -> None:
    again = rejudge(past, CHECKS)
    assert set(again.changes.values()) == {Change.SAME}
    assert len(again.verdicts) == len(CHECKS)
    assert again.verdicts == past.run.verdicts
    assert again.conclusion == past.run.conclusion
    assert {judge_of(check) for check in CHECKS} == set(NAMES)


def test_what_was_seen_of_paths_is_what_the_judge_was_given(past: Past) -> None:
    given = seen()[PATHS]
    assert past.observations == given.observations
    assert past.run.witnesses == given.witnesses
    window = past.run.judged[PATHS]
    assert (window.topology, window.samples, window.obstacles, window.blind) == (
        given.topology, given.samples, given.obstacles, given.blind,
    )  # fmt: skip
    assert past.at_last.features == features()
    assert past.at_last.facts == FACTS


@pytest.mark.parametrize("shown", list(AddressClass))
def test_an_observation_is_read_as_it_was(shown: AddressClass) -> None:
    for each in (show(CORE_CELL.subject.path, shown), group(show(CORE_CELL.subject.path, shown), 198)):
        whole = replace(each, tag=7, connection=2, addresses=("192.0.2.1",), connected=0.5, detail="x")
        for one in (each, whole):
            assert read_record(json.loads(json.dumps(record_of(one))), Observation) == one


def test_a_check_is_judged_with_what_was_known_when_it_was_judged(tmp_path: Path) -> None:
    first, last = CHECKS[:2]
    run = begun(tmp_path, [first, last])
    tell_all(run, without=NAMES)
    run.keep(decide(first, seen()))
    run.fact("proxy-mode", "ipvs", "found out later")
    run.record("feature", name="nodes.excluded", present=True, why="later", ours=False)
    run.keep(decide(last, seen()))
    run.end()
    past = read_past(tmp_path)
    assert [past.known[check.id].facts["proxy-mode"] for check in (first, last)] == ["nftables", "ipvs"]
    assert [past.known[check.id].features["nodes.excluded"].present for check in (first, last)] == [False, True]
    assert Bench(past, CHECKS).known(CHECKS[5]).facts["proxy-mode"] == "ipvs"


# ------------------------------------------------------------------------------------------------------- changed checks
def test_a_changed_expectation_changes_the_verdict(past: Past) -> None:
    again = rejudge(past, instead(CORE_CELL, accept=frozenset({AddressClass.LOAD_BALANCER})))
    assert {name for name, change in again.changes.items() if change is not Change.SAME} == {CORE_CELL.id}
    assert again.changes[CORE_CELL.id] is Change.OTHER
    assert again.verdicts[CORE_CELL.id].status is Status.FAIL
    assert again.verdicts[CORE_CELL.id].likely
    assert again.conclusion.exit_code is ExitCode.NOT_CONFORMANT
    text = "\n".join(report(again))
    assert f"pass is now fail: (core) {CORE_CELL.id}: expected " in text
    assert f"{len(CHECKS)} checks: {len(CHECKS) - 1} same, 1 other verdict" in text


def test_what_must_come_of_the_same_requests_may_change(past: Past) -> None:
    check = next(each for each in CHECKS if is_about(each, Requests) and isinstance(each.subject.wants[0], Taken))
    want = Taken(check.subject.wants[0].step, (("spec.type", "Nonesuch"),))
    again = rejudge(past, instead(check, [check], wants=(want,)))
    assert again.verdicts[check.id].status is Status.FAIL
    assert again.changes[check.id] is Change.OTHER


def test_another_level_is_reported_as_such(past: Past) -> None:
    again = rejudge(past, instead(CORE_CELL, PATH_CHECKS, level=Level.EXTENDED))
    assert again.changes[CORE_CELL.id] is Change.WORDS
    assert f"{CORE_CELL.id}: level 'extended', was 'core'" in "\n".join(report(again))


def test_a_check_that_is_gone_is_reported_and_not_judged(past: Past) -> None:
    again = rejudge(past, PATH_CHECKS[1:])
    assert again.changes[PATH_CHECKS[0].id] is Change.GONE
    assert PATH_CHECKS[0].id not in again.verdicts
    assert f"gone: {PATH_CHECKS[0].id}, which was pass" in list(report(again))


def test_a_new_check_is_judged_if_all_that_it_needs_was_seen(past: Past) -> None:
    new = replace(CORE_CELL, id="new.row")
    again = rejudge(past, [*PATH_CHECKS, new])
    assert again.changes["new.row"] is Change.NEW
    assert again.verdicts["new.row"].status is Status.PASS
    assert again.left_out == 0


STRANGER = Client("somebody-else", CORE_CELL.subject.path.client.vantage, CORE_CELL.subject.path.client.role)
UNSEEN = replace(CORE_CELL, subject=replace(CORE_CELL.subject, path=replace(CORE_CELL.subject.path, client=STRANGER)))


def test_a_new_check_that_needs_more_is_left_out(past: Past) -> None:
    again = rejudge(past, [*PATH_CHECKS, replace(UNSEEN, id="new.row")])
    assert again.changes["new.row"] is Change.NOT_JUDGED
    assert "new.row" not in again.verdicts
    assert (again.left_out, again.conclusion.result) == (1, "partial")
    assert any("not judged" in line and "new.row" in line for line in report(again))


def test_a_check_that_is_named_is_inconclusive_if_it_needs_more(past: Past) -> None:
    again = rejudge(past, [*CHECKS, replace(UNSEEN, id="new.row")], {"new.row"})
    assert list(again.verdicts) == ["new.row"]
    assert again.verdicts["new.row"].status is Status.INCONCLUSIVE
    assert again.conclusion.exit_code is ExitCode.HARNESS


def test_only_what_is_named_is_judged_and_the_rest_left_out(past: Past) -> None:
    again = rejudge(past, CHECKS, {CORE_CELL.id})
    assert again.changes == {CORE_CELL.id: Change.SAME}
    assert again.conclusion.result == "partial"


def test_a_check_that_asks_something_else_than_then_is_inconclusive(past: Past) -> None:
    edit = next(check for check in CHECKS if is_about(check, Requests))
    steps = (replace(edit.subject.chain.steps[0], body={"spec": {"type": "NodePort"}}), *edit.subject.chain.steps[1:])
    question = next(check for check in CHECKS if is_about(check, HealthAnswer))
    changed: list[tuple[Check, dict[str, Any]]] = [
        (CORE_CELL, {"path": UNSEEN.subject.path}),
        (edit, {"chain": replace(edit.subject.chain, steps=steps), "asked": "another request"}),
        (question, {"question": replace(question.subject.question, client=STRANGER), "asked": "from elsewhere"}),
    ]
    for check, change in changed:
        again = rejudge(past, instead(check, [check], **change))
        assert again.verdicts[check.id].status is Status.INCONCLUSIVE, check
        assert again.changes[check.id] is Change.NOT_JUDGED


def test_a_judge_that_fails_is_our_error_or_what_was_not_seen(past: Past, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise KeyError("what nobody looked for then")

    monkeypatch.setattr("esipp.ledger.rejudging.scenario_of", lambda check: replace(scenario_of(check), decide=fail))
    check = next(check for check in CHECKS if judge_of(check) == POLICY_CHANGES)
    again = rejudge(past, [check, replace(check, id="new.row")])
    assert again.verdicts[check.id].status is Status.ERROR
    assert again.verdicts["new.row"].status is Status.INCONCLUSIVE


# -------------------------------------------------------------------------------------------------- what was not seen
def test_a_feature_that_nobody_looked_for_leaves_its_checks_out(past: Past) -> None:
    again = rejudge(past, [PATH_CHECKS[0], replace(CORE_CELL, features=frozenset({"warp-drive"}))])
    verdict = again.verdicts[CORE_CELL.id]
    assert (verdict.status, verdict.left_out) == (Status.UNSUPPORTED, True)
    assert again.conclusion.result == "partial"


@pytest.mark.parametrize(("version", "status"), [("1.99", Status.UNSUPPORTED), ("1.2", Status.PASS)])
def test_versions_that_only_checks_of_today_need_are_held_against_the_server(
    past: Past, version: str, status: Status
) -> None:
    changed = instead(CORE_CELL, [CORE_CELL], features=frozenset({f"kubernetes.{version}"}))
    verdict = rejudge(past, changed).verdicts[CORE_CELL.id]
    assert (verdict.status, verdict.left_out) == (status, False)


@pytest.mark.parametrize("name", NAMES)
def test_a_suite_without_evidence_is_not_judged(past: Past, name: str) -> None:
    own = [check for check in CHECKS if judge_of(check) == name]
    few = [check for check in own if past.run.verdicts[check.id].status is Status.PASS][:3]
    chosen = [check for check in past.run.checks if check.id in {each.id for each in few}]
    others = {each: found for each, found in past.run.judged.items() if each != name}
    again = rejudge(replace(past, run=replace(past.run, checks=chosen, judged=others)), few)
    assert {verdict.status for verdict in again.verdicts.values()} == {Status.INCONCLUSIVE}
    assert set(again.changes.values()) == {Change.NOT_JUDGED}
    assert again.conclusion.result != "conformant"


NOTHING: Mapping[str, Any] = {
    **{name: recorded_as(name).evidence() for name in NAMES if name != PATHS},
    PATHS: Window(Topology(), 3),
}


@pytest.mark.parametrize("name", NAMES)
def test_of_nothing_that_was_seen_no_check_passes(past: Past, name: str) -> None:
    blank = replace(past, observations={}, known={})
    blank.run = replace(past.run, checks=[], witnesses={}, judged=dict(NOTHING))
    judges = Bench(blank, all_checks())
    for check in all_checks():
        if judge_of(check) == name and not features().keys().isdisjoint(check.features | {"kubernetes"}):
            assert judges.verdict(check).status in (Status.INCONCLUSIVE, Status.UNSUPPORTED), check


def test_checks_of_a_balancer_behind_which_nothing_moved(past: Past) -> None:
    others = [
        check for check in checks() if is_about(check, EndpointChange) and check.subject.balancer not in BALANCERS
    ]
    assert others
    for check in others:
        assert Bench(past, checks()).verdict(check).status is Status.INCONCLUSIVE


# ------------------------------------------------------------------------------------------------- damaged, cut, old
def test_a_ledger_in_which_something_was_changed_is_refused(short: Path, tmp_path: Path) -> None:
    (tmp_path / "ledger.jsonl").write_text(short.read_text().replace('"outcome": "timeout"', '"outcome": "refused"', 1))
    with pytest.raises(PreflightError, match="damaged"):
        read_past(tmp_path)
    assert main(["judge", str(tmp_path)]) == ExitCode.USAGE


SPOILS: dict[str, Callable[[str], str]] = {
    "cut off within a line": lambda text: text[: len(text) // 2],
    "two ends": lambda text: text + text.splitlines(keepends=True)[-1],
    "no such record": lambda text: text.replace('"record": "judged"', '"record": "jugded"', 1),
    "no header": lambda text: "".join(text.splitlines(keepends=True)[1:]),
    "another schema": lambda text: text.replace('"schema": 6', '"schema": 4', 1),
    "empty": lambda _: "",
    "something else": lambda _: "hello\n",
}


@pytest.mark.parametrize("spoil", SPOILS.values(), ids=SPOILS)
def test_what_is_no_whole_ledger_is_refused(
    short: Path, tmp_path: Path, spoil: Callable[[str], str], capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "ledger.jsonl").write_text(spoil(short.read_text()))
    assert main(["judge", str(tmp_path)]) == ExitCode.USAGE
    assert capsys.readouterr().out == ""


def test_where_there_is_no_ledger_is_reported(tmp_path: Path) -> None:
    assert main(["judge", str(tmp_path)]) == ExitCode.USAGE


@pytest.mark.parametrize("kept", ["all", "no verdicts", "no evidence"])
def test_a_killed_run_is_judged_and_stays_incomplete(ledger: Path, past: Past, tmp_path: Path, kept: str) -> None:
    lines = ledger.read_text().splitlines(keepends=True)[:-1]
    until = {"all": "never", "no verdicts": "verdict", "no evidence": "observation"}[kept]
    end = next((at for at, line in enumerate(lines) if json.loads(line)["record"] == until), len(lines))
    (tmp_path / "ledger.jsonl").write_text("".join(lines[:end]))
    again = rejudge(read_past(tmp_path), CHECKS)
    assert again.conclusion.result == "incomplete"
    assert again.conclusion.exit_code is ExitCode.HARNESS
    assert Change.NEW not in again.changes.values()
    if kept != "no evidence":
        assert (Change.FIRST in again.changes.values()) is (kept == "no verdicts")
        assert again.verdicts == past.run.verdicts
    copy = read_run(write_rejudged(again, tmp_path / "out"))
    assert copy.conclusion.result == "incomplete"
    assert not copy.trouble


def test_evidence_that_cannot_be_read_is_reported_and_decides_nothing(ledger: Path, tmp_path: Path) -> None:
    lines = list(records(ledger))
    for record in lines:
        if record["record"] == "judged" and record["suite"] == HEALTH:
            record["seen"]["rounds"] = {"rows": 9, "columns": {}}
    again = rejudge(read_past(resealed(lines, tmp_path / "run")), CHECKS)
    health = [check for check in CHECKS if judge_of(check) == HEALTH]
    for check in health:
        decided = again.verdicts[check.id]
        assert decided.status in (Status.INCONCLUSIVE, Status.UNSUPPORTED)
    assert again.conclusion.exit_code is ExitCode.HARNESS
    others = {judge_of(check) for check in CHECKS if again.changes[check.id] is Change.SAME}
    assert others >= {PATHS, INTEROPERABILITY, API, POLICY_CHANGES, CONVERGENCE, CONTINUITY}


def test_what_went_wrong_with_the_run_itself_stays_wrong(tmp_path: Path) -> None:
    run = begun(tmp_path, [CORE_CELL])
    tell_all(run, without=set(NAMES) - {PATHS})
    run.keep(decide(CORE_CELL, seen()))
    run.trouble = HarnessError("The namespace is still there.")
    run.end()
    said = rejudge(read_past(tmp_path), [CORE_CELL]).conclusion
    assert (said.result, said.exit_code, said.why) == ("error", ExitCode.HARNESS, "The namespace is still there.")
    accept = frozenset({AddressClass.LOAD_BALANCER})
    worse = replace(CORE_CELL, subject=replace(CORE_CELL.subject, accept=accept))
    assert rejudge(read_past(tmp_path), [worse]).conclusion.exit_code is ExitCode.NOT_CONFORMANT


# ------------------------------------------------------------------------------------------------------ the new ledger
def rewritten(past: Past, today: Sequence[Check], out: Path) -> Rejudged:
    again = rejudge(past, today)
    write_rejudged(again, out)
    return again


def test_the_new_ledger_is_whole_and_valid(past: Past, tmp_path: Path) -> None:
    today = [*instead(CORE_CELL, accept=frozenset({AddressClass.LOAD_BALANCER}))[:-1], replace(CHECKS[1], id="new.row")]
    again = rewritten(past, today, tmp_path)
    validator = jsonschema.Draft202012Validator(json.loads(SCHEMA.read_text()))
    kinds = set()
    for record in records(tmp_path / "ledger.jsonl"):
        if record["record"] not in kinds or record["record"] == "verdict":
            validator.validate(record)
        kinds.add(record["record"])
    run = read_run(tmp_path)
    assert run.whole
    assert run.conclusion == again.conclusion
    assert run.verdicts == again.verdicts
    assert [check.id for check in run.checks] == [check.id for check in today]
    origin = run.header["judged_again"]
    assert (origin["run"], run.header["at"]) == (past.run.header["run"], past.run.header["at"])
    assert run.end
    assert past.run.end
    assert run.end["at"] == past.run.end["at"], "the run took no longer by that"
    assert CORE_CELL.id in render(run)


def test_what_was_seen_is_copied_and_can_be_judged_again(past: Past, tmp_path: Path) -> None:
    rewritten(past, CHECKS, tmp_path)
    then, now = (
        [
            line
            for line in file.read_text().splitlines()
            if json.loads(line)["record"] not in ("header", "verdict", "end")
        ]
        for file in (past.ledger, tmp_path / "ledger.jsonl")
    )
    assert now == then
    twice = rejudge(read_past(tmp_path), CHECKS)
    assert set(twice.changes.values()) == {Change.SAME}


def test_a_ledger_is_never_written_over(short: Path, tmp_path: Path) -> None:
    rewritten(read_past(short), PATH_CHECKS, tmp_path)
    with pytest.raises(PreflightError, match="already"):
        rewritten(read_past(short), PATH_CHECKS, tmp_path)


def test_the_command(short: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    identity = next(check.id for check in all_checks() if check.id == CORE_CELL.id)
    assert main(["judge", str(short.parent), identity, "--out", str(tmp_path / "new")]) == ExitCode.CONFORMANT
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("run ")
    assert "1 check: 1 same" in lines
    assert lines[-1] == f"ledger: {tmp_path / 'new' / 'ledger.jsonl'}"
    assert list(read_run(tmp_path / "new").verdicts) == [identity]
    assert main(["judge", str(short), "no such check"]) == ExitCode.USAGE


def test_features_of_then_stand_whatever_the_checks_of_today_think(past: Past) -> None:
    known = Bench(past, CHECKS).known(CORE_CELL)
    assert known.features["nodes.excluded"] == Feature(False, "made up")
