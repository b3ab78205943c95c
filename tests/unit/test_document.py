"""report.json: by its schema whatever the run was, the same bytes for the same ledger, nothing of the ledger's lost."""

import hashlib
import json
from collections import Counter
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from esipp.checks.check import Feature, Status
from esipp.checks.model import Balancer, Family
from esipp.checks.reference import Reference
from esipp.checks.timing import AS_STARTED
from esipp.ledger.reading import read_run
from esipp.report.document import SCHEMA, document, render
from tests.unit.endpoint_change_world import World
from tests.unit.report_world import HOSTILE, failing, made, measured, some_checks, validate, verdict, write


def as_dict(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text)
    validate(found, SCHEMA)
    return found


def test_a_whole_run_is_all_there_and_valid(tmp_path: Path) -> None:
    run = made(tmp_path, said=failing(tally={"x": 20, "y": 0}), more=measured)
    found = as_dict(render(run))
    assert found["conclusion"]["result"] == "nonconformant"
    assert found["ledger"]["sha256"] == hashlib.sha256((tmp_path / "ledger.jsonl").read_bytes()).hexdigest()
    assert found["ledger"]["whole"] is True
    assert [check["id"] for check in found["rows"]] == [check.id for check in some_checks()]
    wrong = [check for check in found["rows"] if check["status"] == "fail"]
    assert [(check["observed"], check["tally"]) for check in wrong] == [("a node's x20", {"x": 20, "y": 0})]
    assert {each["name"] for each in found["components"]} == {"kube-proxy", "speaker", "echoserver"}
    assert found["facts"][0] == {"name": "kubernetes", "value": "v1.36.3", "decided": "API server /version"}


def test_profiles_count_every_check_once(tmp_path: Path) -> None:
    found = as_dict(render(made(tmp_path, said=failing())))
    counted: Counter[tuple[str, str]] = Counter()
    for profile in found["profiles"]:
        for level in ("core", "extended", "record"):
            counted[profile["name"], level] = profile[level]["rows"]
            assert sum(profile[level]["verdicts"].values()) == profile[level]["rows"]
    assert +counted == Counter((check["profile"], check["level"]) for check in found["rows"])


def test_what_the_suites_measured_is_reported_in_numbers(tmp_path: Path) -> None:
    found = as_dict(render(made(tmp_path, more=measured)))
    other, ecmp = found["convergence"]["balancers"]
    assert (other["name"], other["obstacle"]) == ("reference-proxy", "it is not there")
    assert ecmp["bound"] == {"seconds": 3.0, "rests_on": AS_STARTED}
    assert ecmp["moves"] == {"up": 3, "down": 3}
    judge = World(Balancer.ECMP, elsewhere=True).judge()
    of = judge.losses(Family.IPV4)
    longest = {"outage": round(of.outage, 4), "black_hole": round(of.black_hole or 0.0, 4)}
    assert ecmp["losses"] == {"IPv4": of.kinds | longest}
    assert [each["n"] for each in ecmp["distributions"]] == [len(each.of.samples) for each in judge.times]
    assert [each["lost"] for each in found["continuity"]["ways"] if each["phase"] == "drain"] == [1]
    assert {each["kind"] for each in found["flips"]} == {"own", "neighbour"}
    asked, strange = found["health"]["questions"]
    assert (asked["client"], asked["place"], asked["otherwise"]) == ("outside-1", "endpoint-node", "post-root")
    assert asked["answers"] == [{"outcome": "answered", "status": 200, "count": 3, "weight": "1"}]
    assert strange["question"] == "strange"
    assert found["health"]["rounds"]["never"] == 1


def test_the_same_ledger_gives_the_same_bytes(tmp_path: Path) -> None:
    made(tmp_path, said=failing(), more=measured)
    assert render(read_run(tmp_path)) == render(read_run(tmp_path))


def test_a_killed_run_is_valid_and_not_whole(tmp_path: Path) -> None:
    run = write(tmp_path)
    assert run.ledger is not None
    run.ledger.close()
    found = as_dict(render(read_run(tmp_path)))
    assert (found["conclusion"]["result"], found["conclusion"]["exit_code"]) == ("incomplete", 3)
    assert found["ledger"]["whole"] is False
    assert found["ledger"]["faults"]
    assert found["run"]["ended"] is None


def test_checks_that_were_not_judged_have_no_status(tmp_path: Path) -> None:
    write(tmp_path).end()
    ledger = tmp_path / "ledger.jsonl"
    lines = ledger.read_text().splitlines(keepends=True)
    ledger.write_text("".join(line for line in lines if '"record": "verdict"' not in line))
    found = as_dict(render(read_run(tmp_path)))
    assert {check["status"] for check in found["rows"]} == {None}
    assert found["profiles"][0]["core"]["verdicts"] == {"not judged": found["profiles"][0]["core"]["rows"]}


def test_what_was_not_tested_is_known_by_feature(tmp_path: Path) -> None:
    check = next(check for check in some_checks() if "family.ipv4" in check.features)
    said = {
        check.id: verdict(check, Status.UNSUPPORTED, reason="needs family.ipv4: --without family.ipv4", left_out=True)
    }
    run = made(tmp_path, said=said)
    run.features["family.ipv4"] = Feature(False, "--without family.ipv4", True)
    found = as_dict(render(run))
    assert found["not_tested"] == [
        {"feature": "family.ipv4", "why": "--without family.ipv4", "ours": True, "rows": [check.id]}
    ]


def test_a_check_that_was_not_tested_for_another_reason_is_reported_all_the_same(tmp_path: Path) -> None:
    said = failing(Status.UNSUPPORTED, reason="needs warp: not there")
    found = as_dict(render(made(tmp_path, said=said)))
    assert [(each["why"], each["rows"]) for each in found["not_tested"]] == [("needs warp: not there", [*said])]


def test_known_differences_have_reason_and_reference(tmp_path: Path) -> None:
    said = failing(
        Status.KNOWN, reason="because", references=(Reference("issue 1", "https://example.org/1"),), nature="finding"
    )
    found = as_dict(render(made(tmp_path, said=said)))
    known = {
        "reason": "because",
        "references": [{"title": "issue 1", "url": "https://example.org/1"}],
        "nature": "finding",
        "levels": {"core": 1},
        "rows": [*said],
    }
    assert found["known_differences"] == [known]


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    said = failing(reason=HOSTILE)
    found = as_dict(render(made(tmp_path, said=said)))
    assert [check["reason"] for check in found["rows"] if check["status"] == "fail"] == [HOSTILE]


def test_kept_files_are_named_relative_to_the_folder(tmp_path: Path) -> None:
    said = failing()
    run = made(tmp_path, said=said)
    (name,) = said
    (tmp_path / "rows" / name).mkdir(parents=True)
    (tmp_path / "rows" / name / "packets.txt").write_text("x")
    assert [check["files"] for check in as_dict(render(run))["rows"] if check["files"]] == [
        [f"rows/{name}/packets.txt"]
    ]


def test_what_json_has_no_word_for_is_an_error(tmp_path: Path) -> None:
    run = made(tmp_path)
    run.settled.append({"held": True, "seconds": float("nan"), "state": ""})
    with pytest.raises(ValueError, match="JSON"):
        render(run)


def test_the_schema_refuses_what_is_not_the_document(tmp_path: Path) -> None:
    found = document(made(tmp_path, more=measured))
    validate(found, SCHEMA)
    for broken in (
        found | {"more": 1},
        found | {"format": "esipp-report/1"},
        found | {"rows": [found["rows"][0] | {"status": "green"}]},
        found | {"rows": [found["rows"][0] | {"more": 1}]},
        found | {"ledger": found["ledger"] | {"sha256": "0"}},
        {name: value for name, value in found.items() if name != "conclusion"},
    ):
        with pytest.raises(jsonschema.ValidationError):
            validate(broken, SCHEMA)
