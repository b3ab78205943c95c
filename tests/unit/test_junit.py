"""JUnit XML: well-formed whatever was seen, and red exactly where the exit code is not 0, or nobody knows it."""

from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import junitparser
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from esipp.app.cli import main
from esipp.base.errors import EsippError, ExitCode, HarnessError, PreflightError
from esipp.checks.check import Binding, Level, Status, Verdict
from esipp.checks.reference import Reference
from esipp.ledger.conclusion import conclude
from esipp.ledger.reading import RecordedRun, read_run
from esipp.report import junit
from esipp.report.cases import INSTRUMENT
from tests.unit.test_reading import made


@pytest.fixture(scope="module")
def healthy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("junit") / "run"
    made(folder)
    return folder


def ended(folder: Path, change: Verdict, fail_on: Binding = Binding.CORE) -> RecordedRun:
    """The healthy run with another verdict on its first check, and the end that follows from it."""
    run = read_run(folder)
    first = run.checks[0]
    run.checks[0] = replace(first, level=change.level)
    run.verdicts[first.id] = replace(change, check_id=first.id)
    run.header["fail_on"] = fail_on.value
    said = conclude(run.verdicts.values(), 0, fail_on)
    assert run.end is not None
    run.end |= {"result": said.result, "exit_code": int(said.exit_code), "why": said.why}
    return run


def verdict(status: Status, level: Level = Level.CORE, observed: str = "something else", **more: Any) -> Verdict:
    usual = {"nature": "allowed"} if status is Status.KNOWN else {}
    return Verdict(
        "", level, status, "the client", observed, "a reason", references=(Reference("a reference"),), **usual | more
    )


def cases(text: str) -> dict[str, junitparser.TestCase]:
    parsed = junitparser.JUnitXml.fromstring(text.encode())
    found = {case.name: case for suite in parsed for case in suite}
    assert parsed.tests == len(found) == sum(suite.tests for suite in parsed)
    return found


def is_red(text: str) -> bool:
    red = [case for case in cases(text).values() if case.is_failure or case.is_error]
    root = ElementTree.fromstring(text)  # noqa: S314 - our own
    assert len(red) == int(root.attrib["failures"]) + int(root.attrib["errors"])
    return bool(red)


def test_a_healthy_run_is_green_with_a_suite_for_each_profile_and_suite(healthy: Path) -> None:
    run = read_run(healthy)
    text = junit.render(run)
    assert not is_red(text)
    assert set(cases(text)) == {check.id for check in run.checks}
    names = [suite.name for suite in junitparser.JUnitXml.fromstring(text.encode())]
    assert set(names) == {
        f"{INSTRUMENT if check.instrument else check.profile} / {check.suite}" for check in run.checks
    }
    first = cases(text)[run.checks[0].id]
    assert first.classname == f"esipp.{run.checks[0].suite}.{run.checks[0].profile}"
    answer = {each.attrib["name"]: each.attrib["value"] for each in first._elem.iter("property")}
    assert answer["level"] == run.checks[0].level.value
    assert answer["requirement"] == run.checks[0].requirement
    assert answer["observed"] == run.verdicts[run.checks[0].id].observed


@pytest.mark.parametrize("fail_on", Binding)
@pytest.mark.parametrize("level", Level)
@pytest.mark.parametrize("status", Status)
@pytest.mark.parametrize("more", [{}, {"nature": "finding"}, {"instrument": True}], ids=["", "finding", "instrument"])
def test_red_is_what_the_exit_code_says(
    healthy: Path, status: Status, level: Level, fail_on: Binding, more: dict[str, Any]
) -> None:
    run = ended(healthy, verdict(status, level, **more), fail_on)
    assert run.end is not None
    assert is_red(junit.render(run)) == (run.end["exit_code"] != 0)


@pytest.mark.parametrize(
    ("given", "tag", "said"),
    [
        (verdict(Status.FAIL), "failure", "fail: expected the client; observed something else"),
        (verdict(Status.FLAKY), "failure", "flaky: expected"),
        (verdict(Status.ERROR), "error", "error: expected"),
        (verdict(Status.INCONCLUSIVE), "error", "inconclusive: expected"),
        (verdict(Status.KNOWN), "skipped", "known difference, allowed: a reason [a reference]"),
        (verdict(Status.KNOWN, nature="known defect"), "failure", "known: expected the client"),
        (verdict(Status.KNOWN, Level.EXTENDED, nature="finding"), "skipped", "known difference, finding: a reason"),
        (verdict(Status.FAIL, instrument=True), "skipped", "not part of the result: core check differs: expected"),
        (verdict(Status.UNSUPPORTED), "skipped", "not tested: a reason"),
        (verdict(Status.FAIL, Level.EXTENDED), "skipped", "extended check differs: expected the client"),
        (verdict(Status.INCONCLUSIVE, Level.EXTENDED), "skipped", "extended check is inconclusive: a reason"),
        (verdict(Status.FLAKY, Level.EXTENDED), "skipped", "extended check is flaky: expected"),
    ],
)
def test_a_verdict_is_reported_with_its_reason(healthy: Path, given: Verdict, tag: str, said: str) -> None:
    run = ended(healthy, given)
    root = ElementTree.fromstring(junit.render(run))  # noqa: S314 - our own
    case = next(case for case in root.iter("testcase") if case.attrib["name"] == run.checks[0].id)
    outcome = [each for each in case if each.tag != "properties"]
    assert [each.tag for each in outcome] == [tag]
    assert outcome[0].attrib["message"].startswith(said)


def test_a_failure_tells_how_to_repeat_it_and_where_its_evidence_is(healthy: Path, tmp_path: Path) -> None:
    run = ended(healthy, verdict(Status.FAIL))
    run.folder = tmp_path
    (tmp_path / "rows" / run.checks[0].id).mkdir(parents=True)
    (tmp_path / "rows" / run.checks[0].id / "README.txt").write_text("what is here")
    text = junit.render(run)
    assert f"repeat: {run.header['command']} {run.checks[0].id}" in text
    assert f"evidence: rows/{run.checks[0].id}" in text


def test_a_ledger_that_is_cut_off_is_an_error_of_the_run(healthy: Path, tmp_path: Path) -> None:
    lines = (healthy / "ledger.jsonl").read_bytes().splitlines(keepends=True)
    (tmp_path / "ledger.jsonl").write_bytes(b"".join(lines[:-3]))
    text = junit.render(read_run(tmp_path))
    found = cases(text)
    assert found["esipp.run"].is_error
    assert "INCOMPLETE" in text
    assert "2 checks have no verdict" in text
    assert sum(case.is_skipped for case in found.values()) == 2


def test_an_interrupted_run_is_red_though_all_that_was_judged_is_fine(healthy: Path) -> None:
    run = read_run(healthy)
    assert run.end is not None
    run.end |= {"result": "incomplete", "exit_code": int(ExitCode.INTERRUPTED), "why": "the run was interrupted"}
    assert cases(junit.render(run))["esipp.run"].is_error


def test_what_xml_cannot_hold_is_dropped_and_the_rest_escaped(healthy: Path) -> None:
    run = ended(healthy, verdict(Status.FAIL, observed="a\x00b\x1b[1m <&\"'> ]]> \ud800\ufffe é"))
    root = ElementTree.fromstring(junit.render(run).encode())  # noqa: S314 - our own
    answer = {each.attrib["name"]: each.attrib["value"] for each in root.iter("property")}
    assert any("ab[1m <&\"'> ]]>  é" in each.attrib["message"] for each in root.iter("failure"))
    assert answer["level"]


@settings(max_examples=60, deadline=None)
@given(st.text(st.characters()))
def test_any_text_makes_xml_that_is_read_back(sentence: str) -> None:
    text = junit._alone(sentence, sentence)
    text.encode()
    assert is_red(text)


# ---------------------------------------------------------------------------------------------------- --junit FILE
def test_the_file_is_there_and_red_before_anything_is_done(tmp_path: Path) -> None:
    file = tmp_path / "new" / "junit.xml"
    with junit.promised(str(file)):
        assert is_red(file.read_text())
    assert is_red(file.read_text()), "nobody has put a run there"


@pytest.mark.parametrize("error", [PreflightError("No <cluster>.", "start one."), HarnessError("It broke.", "again.")])
def test_an_error_of_ours_is_reported_in_the_file(tmp_path: Path, error: EsippError) -> None:
    file = tmp_path / "junit.xml"
    with pytest.raises(type(error)), junit.promised(str(file)):
        raise error
    found = cases(file.read_text())
    assert list(found) == ["esipp.run"]
    assert found["esipp.run"].result[0].message == error.sentence
    assert error.hint in found["esipp.run"].result[0].text


def test_a_run_that_dies_leaves_it_red(tmp_path: Path) -> None:
    file = tmp_path / "junit.xml"
    with pytest.raises(KeyboardInterrupt), junit.promised(str(file)):
        raise KeyboardInterrupt
    assert is_red(file.read_text())


def test_a_run_is_put_there(healthy: Path, tmp_path: Path) -> None:
    file = tmp_path / "junit.xml"
    run = read_run(healthy)
    assert junit.write(run, str(file)) == []
    assert file.read_text() == junit.render(run)
    assert junit.write(run, None) == []
    assert len(junit.write(run, str(tmp_path))) == 1


def test_a_refused_run_has_its_file_and_exit_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    file = tmp_path / "junit.xml"
    assert main(["run", "--context", "nowhere", "--image", "not an image", "--junit", str(file)]) == ExitCode.USAGE
    assert cases(file.read_text())["esipp.run"].is_error
    assert [each.name for each in tmp_path.iterdir()] == ["junit.xml"]


def test_a_file_that_cannot_be_written_is_refused_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main(["run", "--context", "nowhere", "--out", str(out), "--junit", str(tmp_path)]) == ExitCode.USAGE
    assert "--junit" in capsys.readouterr().err
    assert not out.exists()


def test_the_same_ledger_gives_the_same_bytes(healthy: Path) -> None:
    assert junit.render(read_run(healthy)) == junit.render(read_run(healthy))


def test_the_times_of_all_testcases_are_those_of_the_phases(healthy: Path) -> None:
    run = read_run(healthy)
    run.phases = [run.phases[0]._replace(name=name, seconds=each) for name, each in (("set-up", 9.0), ("observe", 3.5))]
    root = ElementTree.fromstring(junit.render(run))  # noqa: S314 - our own
    times = [float(case.attrib["time"]) for case in root.iter("testcase")]
    assert sum(times) == pytest.approx(12.5, abs=0.001 * len(times))
    assert min(times) > 0.0
    for suite in root:
        assert float(suite.attrib["time"]) == pytest.approx(
            sum(float(c.attrib["time"]) for c in suite.iter("testcase"))
        )
