"""The in-toto statement: about what was tested by digest, never more than was proven, nothing invented."""

import hashlib
import json
from pathlib import Path
from typing import Any

import pytest

from esipp.checks.check import Binding, Level, Status
from esipp.ledger.reading import read_run
from esipp.report.statement import PREDICATE_TYPE, STATEMENT_TYPE, render, statement
from tests.unit.report_world import COMPONENTS, DIGEST, HOSTILE, failing, made, some_checks, verdict, write


def predicate(answer: dict[str, Any]) -> dict[str, Any]:
    """The predicate of a statement that is as the specification wants it (spec/v1, spec/predicates/test-result.md)."""
    assert answer.keys() == {"_type", "subject", "predicateType", "predicate"}
    assert (answer["_type"], answer["predicateType"]) == (STATEMENT_TYPE, PREDICATE_TYPE)
    names = [each["name"] for each in answer["subject"]]
    assert len(names) == len(set(names)) > 0
    found: dict[str, Any] = answer["predicate"]
    assert found["result"] in ("PASSED", "WARNED", "FAILED")
    for each in [*answer["subject"], *found["configuration"]]:
        assert each.keys() <= {"name", "digest", "mediaType", "annotations"}
        assert each["digest"].keys() == {"sha256"}
        assert len(bytes.fromhex(each["digest"]["sha256"])) == 32
    lists = [found[name] for name in ("passedTests", "warnedTests", "failedTests")]
    assert all(each == sorted(each) for each in lists)
    names = [name for each in lists for name in each]
    assert len(names) == len(set(names))
    return found


def test_a_conformant_run_passed_and_is_about_its_components(tmp_path: Path) -> None:
    answer = json.loads(render(made(tmp_path)))
    found = predicate(answer)
    assert found["result"] == "PASSED"
    proxy = {"name": "registry.example/kube-proxy:v1", "digest": {"sha256": DIGEST[7:]}}
    assert answer["subject"] == [{**proxy, "annotations": {"esipp_decided": "imageID of its pods"}}]
    assert found["passedTests"] == sorted(check.id for check in some_checks() if check.level is not Level.RECORD)
    assert (found["warnedTests"], found["failedTests"]) == ([], [])


def test_the_ledger_is_named_by_the_digest_of_its_bytes_and_our_instruments_beside_it(tmp_path: Path) -> None:
    reference = {"name": "reference load balancer", "kind": "load-balancer", "image": "lb:1", "digest": DIGEST}
    found = predicate(statement(made(tmp_path, components=[*COMPONENTS, reference])))
    ledger, *instruments = found["configuration"]
    whole = hashlib.sha256((tmp_path / "ledger.jsonl").read_bytes()).hexdigest()
    assert (ledger["name"], ledger["digest"]) == ("ledger.jsonl", {"sha256": whole})
    assert [each["name"] for each in instruments] == ["echo:1", "lb:1"]
    lacking = ledger["annotations"]["esipp_components_without_digest"]
    assert [(each["name"], each["image"]) for each in lacking] == [("speaker", "registry.example/speaker:v1")]


@pytest.mark.parametrize(
    ("said", "settings", "result", "where"),
    [
        ({}, {}, "FAILED", "failedTests"),
        ({"status": Status.FLAKY}, {}, "FAILED", "failedTests"),
        ({"status": Status.INCONCLUSIVE}, {}, "FAILED", "failedTests"),
        ({"status": Status.ERROR}, {}, "FAILED", "failedTests"),
        ({"status": Status.KNOWN, "nature": "allowed"}, {}, "WARNED", "warnedTests"),
        ({"status": Status.KNOWN, "nature": "known defect"}, {}, "FAILED", "failedTests"),
        ({"status": Status.KNOWN, "nature": "finding"}, {}, "FAILED", "failedTests"),
        ({"status": Status.KNOWN, "nature": "finding"}, {"accept_known_defects": True}, "WARNED", "warnedTests"),
        ({"level": Level.EXTENDED}, {"fail_on": Binding.CORE}, "WARNED", "warnedTests"),
        (
            {"level": Level.EXTENDED, "status": Status.INCONCLUSIVE},
            {"fail_on": Binding.CORE},
            "WARNED",
            "warnedTests",
        ),
        ({"level": Level.EXTENDED}, {}, "FAILED", "failedTests"),
        ({"level": Level.EXTENDED, "status": Status.FLAKY}, {}, "FAILED", "failedTests"),
    ],
)
def test_each_verdict_weighs_as_in_the_exit_code(
    tmp_path: Path, said: dict[str, Any], settings: dict[str, Any], result: str, where: str
) -> None:
    wrong = failing(**said)
    run = made(tmp_path, said=wrong, **settings)
    found = predicate(statement(run))
    assert (found["result"], found[where]) == (result, [*wrong])
    assert (found["result"] == "FAILED") == (run.conclusion.exit_code != 0)


def test_informational_checks_and_our_instrument_are_no_tests(tmp_path: Path) -> None:
    checks = [check for check in some_checks() if check.level is not Level.RECORD]
    own = {checks[0].id: verdict(checks[0], Status.FAIL, instrument=True)}
    found = predicate(statement(made(tmp_path, said=own)))
    assert found["result"] == "PASSED"
    annotations = found["configuration"][0]["annotations"]
    informational = sorted(check.id for check in some_checks() if check.level is Level.RECORD)
    assert annotations["esipp_recorded_tests"] == informational
    named = [*found["passedTests"], *found["warnedTests"], *found["failedTests"]]
    assert not {checks[0].id, *informational} & {*named}
    assert (
        "reference load balancer, not part of the result: 0 of 1 as required, 1 failed" in (annotations["esipp_counts"])
    )


def not_asked(found: dict[str, Any]) -> list[dict[str, Any]]:
    groups: list[dict[str, Any]] = found["configuration"][0]["annotations"].get("esipp_not_asked_tests", [])
    return groups


def test_what_was_left_out_is_a_warning_and_no_test(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    found = predicate(statement(made(tmp_path / "a", left_out=1)))
    assert found["result"] == "WARNED"
    assert not_asked(found) == [{"reason": "core checks that were not selected", "number": 1}]
    check = some_checks()[0]
    said = {check.id: verdict(check, Status.UNSUPPORTED, reason="needs x: --without x", left_out=True)}
    found = predicate(statement(made(tmp_path / "b", said=said)))
    assert found["result"] == "WARNED"
    assert check.id not in [*found["passedTests"], *found["warnedTests"], *found["failedTests"]]


def test_checks_that_were_not_asked_are_named_by_reason(tmp_path: Path) -> None:
    """Each once, those of our instrument not at all."""
    one, two, three, own = some_checks()[:4]
    asked = predicate(statement(made(tmp_path / "asked")))
    assert not_asked(asked) == []
    lacks = {
        one: "needs b: it is off",
        two: "needs a: it is off; needs x: never",
        three: "needs x: never",
        own: "needs y: no",
    }
    said = {
        check.id: verdict(check, Status.UNSUPPORTED, reason=why, instrument=check is own)
        for check, why in lacks.items()
    }
    found = predicate(statement(made(tmp_path / "run", said=said)))
    assert not_asked(found) == [
        {"reason": "needs b, a: it is off", "number": 2, "tests": sorted([one.id, two.id])},
        {"reason": "needs x: never", "number": 1, "tests": [three.id]},
    ]
    named = [*found["passedTests"], *found["warnedTests"], *found["failedTests"]]
    assert not {check.id for check in lacks} & {*named}


def test_a_killed_run_failed_and_nothing_of_it_passed(tmp_path: Path) -> None:
    run = write(tmp_path)
    assert run.ledger is not None
    run.ledger.close()
    found = predicate(statement(read_run(tmp_path)))
    assert (found["result"], found["passedTests"], found["warnedTests"]) == ("FAILED", [], [])
    assert found["configuration"][0]["annotations"]["esipp_faults"]


def test_a_changed_ledger_failed_and_nothing_of_it_passed(tmp_path: Path) -> None:
    made(tmp_path, said=failing())
    ledger = tmp_path / "ledger.jsonl"
    ledger.write_text(ledger.read_text().replace("a node's x20", "the client x2"))
    found = predicate(statement(read_run(tmp_path)))
    assert (found["result"], found["passedTests"]) == ("FAILED", [])
    assert "digest" in found["configuration"][0]["annotations"]["esipp_faults"][0]


def test_an_interrupted_run_failed(tmp_path: Path) -> None:
    run = write(tmp_path)
    run.interrupted = True
    run.end()
    assert predicate(statement(read_run(tmp_path)))["result"] == "FAILED"


@pytest.mark.parametrize("kept", [[], COMPONENTS[1:], COMPONENTS[2:]])
def test_without_a_digest_of_what_was_tested_there_is_no_statement(tmp_path: Path, kept: list[dict[str, str]]) -> None:
    with pytest.raises(ValueError, match="no tested component has a digest"):
        render(made(tmp_path, components=kept))


def test_names_of_subjects_are_unique(tmp_path: Path) -> None:
    kind = {"name": "agent", "kind": "network-add-on", "image": "agent:1"}
    several = [kind | {"digest": "sha256:" + each * 64} for each in "aab"]
    answer = statement(made(tmp_path, components=several))
    predicate(answer)
    assert [each["name"] for each in answer["subject"]] == [f"agent:1@sha256:{each * 64}" for each in "ab"]


def test_hostile_text_stays_text_and_the_same_ledger_gives_the_same_bytes(tmp_path: Path) -> None:
    kind = {"name": HOSTILE, "kind": "network-add-on", "image": HOSTILE, "digest": DIGEST}
    text = render(made(tmp_path, components=[kind]))
    assert json.loads(text)["subject"][0]["name"] == HOSTILE
    assert text == render(read_run(tmp_path))
