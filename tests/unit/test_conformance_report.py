"""conformance.yaml: valid, sorted, the same for the same outcome, and a success only where there is one."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from esipp.app.cli import main
from esipp.base.errors import PreflightError
from esipp.base.implementation import as_json, read_implementation
from esipp.base.json import Json
from esipp.checks.check import Level, Profile, Status
from esipp.checks.reference import Reference
from esipp.ledger.reading import RecordedRun, read_run
from esipp.ledger.run import Run, Settings
from esipp.report.conformance import SCHEMA, render, report
from tests.unit.report_world import HOSTILE, failing, made, some_checks, validate, verdict, write


def report_of(run: RecordedRun) -> Json:
    found: Json = yaml.safe_load(render(run))
    validate(found, SCHEMA)
    assert found == report(run)
    return found


def profiles(found: Json) -> dict[str, Json]:
    return {each["name"]: each for each in found["profiles"]}


def results(found: Json) -> set[str]:
    return {each[level]["result"] for each in found["profiles"] for level in ("core", "extended")}


def test_a_conformant_run_succeeds_in_every_profile(tmp_path: Path) -> None:
    found = report_of(made(tmp_path))
    assert results(found) == {"success"}
    assert [each["name"] for each in found["profiles"]] == ["ClusterIP", "LoadBalancer", "NodePort"]
    assert (found["apiVersion"], found["kind"]) == ("esipp.dev/v1alpha2", "SourceIPConformanceReport")
    core = sum(1 for check in some_checks() if check.level is Level.CORE)
    assert found["conclusion"] == {
        "result": "conformant",
        "exitCode": 0,
        "whole": True,
        "why": f"all {core} core checks that could run are as required",
        "coreTests": {"asked": core, "inCatalogue": core},
    }


def test_every_check_is_counted_once(tmp_path: Path) -> None:
    check, other, third = (check for check in some_checks()[:3])
    said = failing()
    said[other.id] = verdict(other, Status.KNOWN, reason="so it is", references=(Reference("there"),), nature="allowed")
    said[third.id] = verdict(third, Status.UNSUPPORTED, reason="needs x: not there")
    found = report_of(made(tmp_path, said=said))
    counted = 0
    for each in found["profiles"]:
        for level in ("core", "extended"):
            counted += sum(each[level]["statistics"].values()) + len(each[level].get("unsupportedTests", []))
            counted += sum(each[level]["known"].values())
    assert counted + len(found["recordedTests"]) == len(some_checks())
    core = profiles(found)["ClusterIP"]["core"]
    assert (core["result"], core["failedTests"], core["unsupportedTests"]) == ("failure", [check.id], [third.id])
    assert core["statistics"]["Failed"] == 1
    assert core["known"] == {"allowed": 1, "defects": 0, "findings": 0}
    assert found["knownDifferences"] == [
        {
            "reason": "so it is",
            "reference": "there",
            "references": [{"title": "there", "url": ""}],
            "nature": "allowed",
            "tests": [other.id],
        }
    ]
    assert "failed: 1 test." in profiles(found)["ClusterIP"]["summary"]


@pytest.mark.parametrize("status", [Status.INCONCLUSIVE, Status.ERROR, Status.UNSUPPORTED])
def test_a_skipped_core_check_makes_its_profile_partial_and_no_other(tmp_path: Path, status: Status) -> None:
    check = next(
        check for check in some_checks() if check.subject.profile is Profile.NODE_PORT and check.level is Level.CORE
    )
    said = {check.id: verdict(check, status, reason="needs x: --without x", left_out=status is Status.UNSUPPORTED)}
    found = profiles(report_of(made(tmp_path, said=said)))
    assert found["NodePort"]["core"]["result"] == "partial"
    assert found["NodePort"]["core"]["skippedTests"] == [check.id]
    # an error is the whole run's
    others = "partial" if status is Status.ERROR else "success"
    assert {found[name]["core"]["result"] for name in ("ClusterIP", "LoadBalancer")} == {others}


def test_core_checks_that_were_not_selected_make_all_profiles_partial(tmp_path: Path) -> None:
    found = report_of(made(tmp_path, left_out=1))
    assert {each["core"]["result"] for each in found["profiles"]} == {"partial"}
    assert {each["extended"]["result"] for each in found["profiles"]} == {"success"}
    assert found["leftOutCoreTests"] == 1


def test_a_profile_of_which_nothing_was_asked_is_partial(tmp_path: Path) -> None:
    checks = [check for check in some_checks() if check.subject.profile is Profile.NODE_PORT]
    found = profiles(report_of(made(tmp_path, checks=checks)))
    assert found["NodePort"]["core"]["result"] == "success"
    assert found["ClusterIP"]["core"] == {
        "result": "partial",
        "statistics": {"Passed": 0, "Failed": 0, "Skipped": 0},
        "known": {"allowed": 0, "defects": 0, "findings": 0},
    }


def test_a_failing_extended_check_fails_the_extended_level_only(tmp_path: Path) -> None:
    found = report_of(made(tmp_path, said=failing(level=Level.EXTENDED)))
    assert results(found) == {"success", "failure"}
    assert {each["core"]["result"] for each in found["profiles"]} == {"success"}


def _kill(run: Run, _: Path) -> None:
    assert run.ledger is not None
    run.ledger.close()


def _interrupt(run: Run, _: Path) -> None:
    run.interrupted = True
    run.end()


def _change(run: Run, ledger: Path) -> None:
    run.end()
    ledger.write_text(ledger.read_text().replace("a node's x20", "the client x2"))


@pytest.mark.parametrize("spoil", [_kill, _interrupt, _change])
def test_what_is_not_whole_never_succeeds(tmp_path: Path, spoil: Callable[[Run, Path], None]) -> None:
    spoil(write(tmp_path), tmp_path / "ledger.jsonl")
    found = report_of(read_run(tmp_path))
    assert results(found) == {"partial"}
    assert found["conclusion"]["result"] == "incomplete"


def test_features_are_reported_with_how_they_were_decided(tmp_path: Path) -> None:
    def more(run: Run) -> None:
        run.record("feature", name="family.ipv4", present=False, why="--without family.ipv4", ours=True)

    found = report_of(made(tmp_path, more=more))
    assert {"name": "family.ipv6", "supported": True, "decided": "made up"} in found["features"]
    lacking = {"name": "family.ipv4", "supported": False, "decided": "--without family.ipv4", "leftOut": True}
    assert lacking in found["features"]
    core = profiles(found)["ClusterIP"]["core"]
    assert "family.ipv4" in core["unsupportedFeatures"]
    assert "family.ipv6" in core["supportedFeatures"]
    assert not any(name.startswith("kubernetes.") for name in core["supportedFeatures"])


def test_the_same_outcome_gives_the_same_bytes_but_for_date_and_run(tmp_path: Path) -> None:
    texts = []
    for name, words in (("a", "10.0.0.1 x20"), ("b", "10.0.0.2 x19")):
        said = {key: verdict(check, Status.FAIL, reason=words) for key, check in ((r.id, r) for r in some_checks()[:1])}
        (tmp_path / name).mkdir()

        def more(run: Run, words: str = words) -> None:
            run.fact("load-balancer.steered", words, words)
            run.fact("proxy-mode", "iptables", words)

        made(tmp_path / name, said=said, more=more)
        texts.append(render(read_run(tmp_path / name)).splitlines())
        assert render(read_run(tmp_path / name)).splitlines() == texts[-1]
    differ = {one.partition(":")[0] for one, other in zip(*texts, strict=True) if one != other}
    assert differ <= {"date", "run"}
    assert "run" in differ


def test_everything_is_sorted(tmp_path: Path) -> None:
    def check(value: Any) -> None:
        if isinstance(value, dict):
            assert list(value) == sorted(value)
            for each in value.values():
                check(each)
        elif isinstance(value, list):
            if value and isinstance(value[0], str):
                assert value == sorted(value)
            for each in value:
                check(each)

    found = report_of(made(tmp_path, said=failing()))
    check(found)
    for name in ("features", "profiles"):
        assert [each["name"] for each in found[name]] == sorted(each["name"] for each in found[name])


def test_hostile_text_stays_text(tmp_path: Path) -> None:
    said = failing(Status.KNOWN, reason=HOSTILE, references=(Reference("- !!python/object: x"),))
    pairs = (("project", HOSTILE), ("contact", "- [a](b): {c: !!x}"))
    found = report_of(made(tmp_path, said=said, implementation=pairs))
    assert found["implementation"]["project"] == HOSTILE
    assert found["knownDifferences"][0]["reference"] == "- !!python/object: x"


# ------------------------------------------------------------------------------------------------------ who was tested
def test_the_implementation_is_as_the_user_says(tmp_path: Path) -> None:
    words = ["organization=example", "url=https://x.example/?a=b", "contact=@b/team", "contact=@a"]
    run = made(tmp_path, implementation=read_implementation(words))
    assert report_of(run)["implementation"] == {
        "organization": "example",
        "project": "",
        "url": "https://x.example/?a=b",
        "version": "",
        "contact": ["@a", "@b/team"],
    }
    assert "--implementation 'url=https://x.example/?a=b' --implementation contact=@b/team" in run.header["command"]


def test_an_older_ledger_says_nothing_of_it(tmp_path: Path) -> None:
    run = made(tmp_path)
    del run.header["implementation"]
    assert report_of(run)["implementation"]["contact"] == []


@pytest.mark.parametrize("words", [["vendor=x"], ["project"], ["project="], ["project=a", "project=b"], ["=x"]])
def test_what_says_nothing_of_the_implementation_is_refused(words: list[str]) -> None:
    with pytest.raises(PreflightError):
        read_implementation(words)


def test_only_what_was_said_is_in_the_ledger() -> None:
    assert as_json(()) == {}
    assert Settings("x", implementation=(("version", "1 2"),)).repeat.endswith("--implementation 'version=1 2'")


def test_the_command_line_takes_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--context", "x", "--implementation", "vendor=x"]) == 4
    assert "--implementation 'vendor=x' is invalid" in capsys.readouterr().err


def test_the_schema_refuses_what_is_not_the_report(tmp_path: Path) -> None:
    found = report(made(tmp_path))
    for broken in (
        found | {"more": 1},
        found | {"kind": "ConformanceReport"},
        found | {"profiles": found["profiles"][:2]},
        found | {"date": "yesterday"},
        found | {"profiles": [each | {"core": each["core"] | {"result": "green"}} for each in found["profiles"]]},
    ):
        with pytest.raises(jsonschema.ValidationError):
            validate(broken, SCHEMA)


@pytest.mark.parametrize(
    ("nature", "result", "known"),
    [
        ("allowed", "success-with-known-differences", {"allowed": 1, "defects": 0, "findings": 0}),
        ("known defect", "known-defects", {"allowed": 0, "defects": 1, "findings": 0}),
        ("finding", "known-defects", {"allowed": 0, "defects": 0, "findings": 1}),
    ],
)
def test_a_known_difference_has_not_passed(tmp_path: Path, nature: str, result: str, known: dict[str, int]) -> None:
    """The lie of old: known differences were counted as passed, whatever they were."""
    said = failing(Status.KNOWN, nature=nature, reason="so it is", references=(Reference("issue 1"),))
    core = profiles(report_of(made(tmp_path / "one", said=said)))["ClusterIP"]["core"]
    assert (core["result"], core["known"]) == (result, known)
    assert (
        core["statistics"]["Passed"]
        == sum(check.subject.profile is Profile.CLUSTER_IP and check.level is Level.CORE for check in some_checks()) - 1
    )
    accepted = report_of(made(tmp_path / "two", said=said, accept_known_defects=True))
    assert profiles(accepted)["ClusterIP"]["core"]["result"] == result, "accepting changes the exit code, and no words"
    assert accepted["conclusion"]["exitCode"] == 0


def test_our_own_instrument_is_in_no_profile(tmp_path: Path) -> None:
    check = some_checks()[0]
    found = report_of(made(tmp_path, said={check.id: verdict(check, Status.FAIL, instrument=True)}))
    assert results(found) == {"success"}
    assert found["instrument"]["failedTests"] == [check.id]
    assert found["instrument"]["statistics"] == {"Passed": 0, "Failed": 1, "Skipped": 0}
    assert "instrument" not in report_of(made(tmp_path / "without"))
