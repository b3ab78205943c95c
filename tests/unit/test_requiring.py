"""``--require``: what is unknown is refused, what is missing ends a run with 4, as soon as it is known."""

import json
from pathlib import Path

import pytest

from esipp.app.cli import main
from esipp.app.doctor.environment import of_required
from esipp.app.doctor.model import Grade
from esipp.base.errors import ExitCode, PreflightError
from esipp.checks.catalog import all_checks
from esipp.checks.check import Feature, Level, Status, Verdict
from esipp.checks.required_features import check_required, counts, lacking, read_required
from esipp.ledger.codec import record_of
from esipp.ledger.reading import read_run
from esipp.ledger.run import Run, Settings
from esipp.preflight.preflight import Findings
from tests.unit.report_world import some_checks, verdict

KNOWN = list(counts(all_checks()))
FEATURES = {"family.ipv4": Feature(True, "every node has one"), "family.ipv6": Feature(False, "node a has none")}


# ----------------------------------------------------------------------------------------------------- what is named
def test_features_are_named_by_words_and_by_files(tmp_path: Path) -> None:
    file = tmp_path / "wanted.txt"
    file.write_text("# what we sell\nfamily.ipv6   # dual-stack\n\nsctp\n")
    assert read_required(["sctp", str(file), "packets"], KNOWN) == ("sctp", "family.ipv6", "packets")


def test_what_is_unknown_is_refused_with_names_like_it(tmp_path: Path) -> None:
    with pytest.raises(PreflightError) as refused:
        read_required(["famly.ipv6"], KNOWN)
    assert str(refused.value).startswith("--require famly.ipv6: there is no such feature.")
    assert "did you mean family.ipv6 or family.ipv4? 'esipp list --features' lists all." in refused.value.hint
    file = tmp_path / "wanted.txt"
    file.write_text("node.three\n")
    with pytest.raises(PreflightError, match=r"--require node\.three"):
        read_required([str(file)], KNOWN)
    with pytest.raises(PreflightError, match="cannot read the file"):
        read_required([str(tmp_path)], KNOWN)


def test_on_the_command_line_it_is_wrong_usage_before_anything_is_asked(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", "--context", "nowhere", "--image", "x", "--require", "zebra"]) == ExitCode.USAGE
    assert "--require zebra: there is no such feature." in capsys.readouterr().err


def test_every_feature_is_listed_with_how_many_checks_need_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--features", "--format", "json"]) == 0
    counts = {each["feature"]: each["rows"] for each in map(json.loads, capsys.readouterr().out.splitlines())}
    needed = [check for check in all_checks() if "family.ipv6" in check.features]
    assert counts["family.ipv6"] == {
        level.value: sum(check.level is level for check in needed)
        for level in Level
        if any(r.level is level for r in needed)
    }
    assert {name for check in all_checks() for name in check.features} <= counts.keys()
    assert main(["list", "--features", "nodeport.local.tcp.ipv4.outside-1-to-bare-node"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any(line.split() == ["family.ipv4", "1", "check:", "1", "core"] for line in lines)
    assert main(["list", "--features", "--kubernetes", "1.30"]) == ExitCode.USAGE


# ---------------------------------------------------------------------------------------------------- what is missing
def test_a_missing_one_is_reported_in_one_sentence() -> None:
    check_required(["family.ipv4"], FEATURES)
    with pytest.raises(PreflightError) as refused:
        check_required(["family.ipv4", "family.ipv6"], FEATURES)
    assert refused.value.sentence == "This run requires family.ipv6, but: node a has none."
    assert refused.value.hint
    assert lacking(["never.heard.of"], FEATURES) == {}


def begun(folder: Path, *required: str) -> Run:
    run = Run(Settings("kind-test", image="echo:1", out=str(folder), require=required), say=lambda _: None)
    run.begin([some_checks()[0]], 0)
    return run


def passed() -> Verdict:
    return verdict(some_checks()[0], Status.PASS)


def test_one_that_is_found_missing_later_ends_the_run_with_4(tmp_path: Path) -> None:
    run = begun(tmp_path, "packets")
    run.feature("sctp", Feature(False, "no module"))
    with pytest.raises(PreflightError) as refused:
        run.feature("packets", Feature(False, "blind"))
    run.trouble = refused.value
    said = run.end()
    assert (said.result, said.exit_code) == ("incomplete", ExitCode.USAGE)
    assert said.why == "This run requires packets, but: blind."
    assert read_run(tmp_path).conclusion.exit_code is ExitCode.USAGE


def test_one_that_nothing_looked_for_is_not_taken_for_there(tmp_path: Path) -> None:
    run = begun(tmp_path, "family.ipv4", "packets")
    run.feature("family.ipv4", Feature(True, "there"))
    run.keep(passed())
    said = run.end()
    assert (said.result, said.exit_code) == ("error", ExitCode.USAGE)
    assert said.why == "This run requires packets, but: this run did not check for it."


def test_one_that_is_there_changes_nothing(tmp_path: Path) -> None:
    run = begun(tmp_path, "family.ipv4")
    run.feature("family.ipv4", Feature(True, "there"))
    run.record("observation", **_probe(run))
    run.keep(passed())
    assert run.end().exit_code is ExitCode.CONFORMANT
    assert "--require family.ipv4" in run.repeat
    assert read_run(tmp_path).header["require"] == ["family.ipv4"]


def _probe(run: Run) -> dict[str, object]:
    from esipp.checks.check import checks_about
    from esipp.checks.model import Outcome
    from esipp.checks.path import OnPath
    from esipp.judging.observation import Observation

    (check,) = checks_about(OnPath, run.checks)
    return record_of(Observation(check.subject.path.key, 0, Outcome.ANSWERED, count=20))


def test_the_doctor_tells_what_is_missing_and_what_only_a_run_can_tell() -> None:
    found = Findings({}, {}, {}, {}, dict(FEATURES), None)
    assert of_required(found, []) == []
    (check,) = of_required(found, ["family.ipv6"])
    assert (check.grade, check.sentence) == (Grade.NO, "This run requires family.ipv6, but: node a has none.")
    (check,) = of_required(found, ["family.ipv4"])
    assert check.grade is Grade.OK
    (check,) = of_required(found, ["packets"])
    assert (check.grade, "packets" in check.sentence) == (Grade.WARN, True)
