"""``esipp report`` and ``esipp summary``: where reports go, what is said of a ledger that is not whole, exit codes."""

import os
from pathlib import Path

import pytest

from esipp.app.cli import main
from esipp.base.errors import HarnessError
from esipp.checks.check import Status
from esipp.ledger.reading import RecordedRun, read_run
from esipp.report.formats import FORMATS
from tests.unit.report_world import failing, made, some_checks, verdict, write

ALL = {form.file for form in FORMATS.values()}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run that failed, in a folder of its own."""
    folder = tmp_path / "run"
    folder.mkdir()
    made(folder, said=failing())
    return folder


def killed(folder: Path) -> Path:
    folder.mkdir()
    begun = write(folder)
    assert begun.ledger is not None
    begun.ledger.close()
    return folder


def files(folder: Path) -> set[str]:
    return {each.name for each in folder.iterdir()} - {"ledger.jsonl"}


# ------------------------------------------------------------------------------------------------------------- report
def test_all_reports_go_into_the_run_whatever_they_say(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["report", str(run)]) == 0
    assert files(run) == ALL
    said = capsys.readouterr()
    assert said.out.splitlines() == [str(run / form.file) for form in FORMATS.values()]
    assert said.err == ""


def test_the_ledger_may_be_named_itself(run: Path, tmp_path: Path) -> None:
    assert main(["report", str(run / "ledger.jsonl"), "--out", str(tmp_path / "new" / "folder")]) == 0
    assert files(tmp_path / "new" / "folder") == ALL
    assert files(run) == set()


def test_a_place_where_nothing_can_be_written_is_refused_once(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write anywhere
    assert main(["report", str(run), "--out", str(run / "new")]) == 4
    assert capsys.readouterr().err.count("Cannot write to") == 1


def test_one_report_goes_to_standard_output(run: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    for name in ("markdown", "json", "conformance"):
        assert main(["report", str(run), "--format", name]) == 0
        assert capsysbinary.readouterr().out == FORMATS[name].render(read_run(run)).encode()
    assert files(run) == set()


def test_one_report_goes_where_the_option_says(run: Path, tmp_path: Path) -> None:
    assert main(["report", str(run), "--format", "markdown", "--out", str(tmp_path / "there" / "a.md")]) == 0
    assert (tmp_path / "there" / "a.md").read_text() == FORMATS["markdown"].render(read_run(run))
    assert main(["report", str(run), "--format", "markdown", "--out", str(tmp_path / "there")]) == 0
    assert (tmp_path / "there" / "report.md").exists()


def test_several_reports_go_into_the_run_or_a_folder(run: Path, tmp_path: Path) -> None:
    both = ["--format", "markdown", "--format", "json", "--format", "json"]
    assert main(["report", str(run), *both]) == 0
    assert files(run) == {"report.md", "report.json"}
    assert main(["report", str(run), *both, "--out", str(tmp_path / "there")]) == 0
    assert files(tmp_path / "there") == {"report.md", "report.json"}


def test_several_reports_do_not_fit_into_a_file(run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").write_text("mine")
    assert main(["report", str(run), "--out", str(tmp_path / "file")]) == 4
    assert "is a file" in capsys.readouterr().err
    assert (tmp_path / "file").read_text() == "mine"


def test_the_same_ledger_gives_the_same_files(run: Path, tmp_path: Path) -> None:
    for name in "ab":
        assert main(["report", str(run), "--out", str(tmp_path / name)]) == 0
    for file in ALL:
        assert (tmp_path / "a" / file).read_bytes() == (tmp_path / "b" / file).read_bytes(), file


def test_of_a_killed_run_all_reports_are_written_and_it_is_said(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = killed(tmp_path / "run")
    assert main(["report", str(folder)]) == 3
    assert files(folder) == ALL
    assert "esipp: INCOMPLETE: the run has no closing record: it was killed" in capsys.readouterr().err


def test_a_report_that_cannot_be_made_hinders_no_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made(tmp_path, components=[])
    assert main(["report", str(tmp_path)]) == 3
    assert files(tmp_path) == ALL - {"statement.json"}
    assert "esipp: no in-toto report: no tested component has a digest" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["report", "summary"])
@pytest.mark.parametrize("text", [None, "", "{}\n", "not json", '{"record": "header", "schema": 3}\n'])
def test_what_is_no_ledger_is_reported(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, text: str | None
) -> None:
    if text is not None:
        (tmp_path / "ledger.jsonl").write_text(text)
    assert main([command, str(tmp_path)]) == 4
    said = capsys.readouterr()
    assert (said.out, said.err[:7]) == ("", "esipp: ")
    assert files(tmp_path) == set()


def test_an_unknown_form_is_a_usage_error(run: Path) -> None:
    with pytest.raises(SystemExit) as left:
        main(["report", str(run), "--format", "pdf"])
    assert left.value.code == 4


def test_help_names_every_form_and_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["report", "--help"])
    said = capsys.readouterr().out
    for name, form in FORMATS.items():
        assert any(line.split()[:2] == [name, form.file] for line in said.splitlines()), name
    assert "allure-results/" in said
    assert all(f"\n  {code}  " in said for code in (0, 3, 4))


def test_allure_results_go_into_a_folder(run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    filled = []
    monkeypatch.setattr("esipp.report.allure.replay.write", lambda run, folder: filled.append((run.folder, folder)))
    assert main(["report", str(run), "--format", "allure"]) == 0
    assert main(["report", str(run), "--format", "allure", "--out", str(tmp_path / "x")]) == 0
    assert filled == [(run, run / "allure-results"), (run, tmp_path / "x")]


def test_allure_results_that_cannot_be_written_are_reported(
    run: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(_run: RecordedRun, _folder: Path) -> None:
        raise HarnessError("The session failed.")

    monkeypatch.setattr("esipp.report.allure.replay.write", fail)
    assert main(["report", str(run), "--format", "allure"]) == 3
    assert "esipp: no allure report: The session failed." in capsys.readouterr().err


# ------------------------------------------------------------------------------------------------------------ summary
@pytest.mark.parametrize(
    ("status", "code", "word"),
    [
        (Status.PASS, 0, "CONFORMANT"),
        (Status.FAIL, 1, "NONCONFORMANT"),
        (Status.FLAKY, 1, "NONCONFORMANT"),
        (Status.INCONCLUSIVE, 3, "INCONCLUSIVE"),
        (Status.ERROR, 3, "ERROR"),
    ],
)
def test_the_summary_exits_as_the_run_did(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], status: Status, code: int, word: str
) -> None:
    made(tmp_path, said=failing(status))
    assert main(["summary", str(tmp_path)]) == code
    assert f"\n{word}: " in capsys.readouterr().out


def test_the_summary_of_a_partial_run_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made(tmp_path, left_out=2)
    assert main(["summary", str(tmp_path)]) == 0
    assert "\nPARTIAL: " in capsys.readouterr().out


def test_the_summary_of_an_interrupted_run_exits_with_2(tmp_path: Path) -> None:
    begun = write(tmp_path)
    begun.interrupted = True
    begun.end()
    assert main(["summary", str(tmp_path)]) == 2


def test_the_summary_of_a_killed_run_is_never_green(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["summary", str(killed(tmp_path / "run"))]) == 3
    assert "\nINCOMPLETE: " in capsys.readouterr().out


def test_the_summary_of_nothing_selected_exits_with_5(tmp_path: Path) -> None:
    """No check at all: the ledger of a run that had none."""
    begun = write(
        tmp_path, checks=some_checks()[:1], said={some_checks()[0].id: verdict(some_checks()[0], Status.PASS)}
    )
    assert begun.ledger is not None
    begun.ledger.close()
    (tmp_path / "ledger.jsonl").unlink()
    begun.begin([], 0)
    begun.verdicts.clear()
    begun.end()
    assert main(["summary", str(tmp_path)]) == 5
    assert main(["report", str(tmp_path), "--format", "json", "--out", str(tmp_path / "a.json")]) == 0


def test_the_summary_is_that_of_the_run_s_end(run: Path, capsysbinary: pytest.CaptureFixture[bytes]) -> None:
    main(["summary", "--full", str(run)])
    assert capsysbinary.readouterr().out == FORMATS["terminal"].render(read_run(run)).encode()


def test_what_is_no_file_is_written_to_and_stays(run: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    try:
        assert main(["report", str(run), "--format", "conformance", "--out", str(tmp_path / "pipe")]) == 0
        assert (tmp_path / "pipe").is_fifo()
        assert os.read(reader, 10) == FORMATS["conformance"].render(read_run(run)).encode()[:10]
    finally:
        os.close(reader)


@pytest.mark.parametrize("option", ["--full", "-v", "--verbose"])
def test_the_full_summary_has_the_tables(run: Path, capsys: pytest.CaptureFixture[str], option: str) -> None:
    assert main(["summary", option, str(run)]) == 1
    full = capsys.readouterr().out
    assert "How to read the matrix" in full
    assert main(["summary", str(run)]) == 1
    assert "How to read the matrix" not in capsys.readouterr().out


def test_a_quiet_summary_is_one_sentence(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["summary", "-q", str(run)]) == 1
    assert capsys.readouterr().out == f"{read_run(run).conclusion.headline}\n"
