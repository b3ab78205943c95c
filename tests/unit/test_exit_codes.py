"""Exit codes: what --help tells of them, and each of them from a process that ends so."""

import argparse
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from esipp.app.cli import _parser
from esipp.app.depth import LEAST_MOVES, LEAST_SAMPLES
from esipp.base.errors import ExitCode
from esipp.checks.catalog import HOUSE
from esipp.ledger.reading import read_run
from tests.warm import run_module

CHECK = "nodeport.local.tcp.ipv4.outside-1-to-endpoint-node"
NODE = f"suites/test_suites.py::test_source_ip[{CHECK}]"
WAYS = {
    "esipp": ["esipp", "run", CHECK],
    "pytest": ["pytest", NODE, "-q", "-p", "no:cacheprovider"],
    "pyargs": ["pytest", "--pyargs", f"esipp.suites::test_source_ip[{CHECK}]", "-q", "-p", "no:cacheprovider"],
    "xdist": ["pytest", "--pyargs", "esipp.suites.source_ip", "-k", CHECK, "-p", "no:cacheprovider", "-n", "2"],
}
AS_INSTALLED = {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTEST_PLUGINS": "esipp.app.pytest_plugin,xdist.plugin"}
"""pytest's entry point, named here: a checkout without ``pip install`` has none."""


def environment(**more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("GITHUB_", "PYTEST_", "COV_"))}
    return {**kept, "PYTHONPATH": str(HOUSE), "ESIPP_IMAGE": "example.com/echo:1", **more}


MODULE = "tests.unit.exit_world"


def arguments(ending: str, way: str, folder: Path, *more: str) -> list[str]:
    return [ending, *WAYS[way], *more, "--context", "nowhere", "--out", str(folder), "--bound", "7.5"]


def command(ending: str, way: str, folder: Path) -> list[str]:
    return [sys.executable, "-m", MODULE, *arguments(ending, way, folder)]


def ended(ending: str, way: str, folder: Path, **more: str) -> subprocess.CompletedProcess[str]:
    anywhere = way in ("pyargs", "xdist")
    env = environment(**more, **(AS_INSTALLED if anywhere else {}))
    return run_module(MODULE, *arguments(ending, way, folder), cwd=folder.parent if anywhere else HOUSE, env=env)


def last_record(folder: Path) -> dict[str, object]:
    record: dict[str, object] = json.loads((folder / "ledger.jsonl").read_text().splitlines()[-1])
    return record


# --------------------------------------------------------------------------------------------- what the output says
def subparsers() -> dict[str, argparse.ArgumentParser]:
    action = next(each for each in _parser()._actions if isinstance(each, argparse._SubParsersAction))
    return dict(action.choices)


def codes_in(text: str) -> set[int]:
    section = text.partition("exit codes")[2]
    return {int(code) for code in re.findall(r"(?:^|\s)\s([0-5])  \S", section, re.MULTILINE)}


RUNS = {0, 1, 2, 3, 4, 5}
CODES = {
    "run": RUNS, "judge": RUNS, "summary": RUNS, "merge": RUNS, "fetch": RUNS, "images": {0, 2, 4},
    "diff": {0, 1, 2, 3, 4}, "report": {0, 2, 3, 4}, "clean": {0, 2, 3, 4}, "list": {0, 2, 4}, "explain": {0, 2, 4},
    "load-balancers": {0, 2, 4}, "plan": {0, 2, 4}, "doctor": {0, 2, 4}, "init": {0, 2, 4},
    "completion": {0, 2, 4}, "sign": {0, 2, 4}, "trend": {0, 1, 2, 4}, "site": {0, 2, 4}, "verify": {0, 1, 2, 4},
}  # fmt: skip


def test_every_command_is_known_here() -> None:
    assert subparsers().keys() == CODES.keys()


@pytest.mark.parametrize("name", sorted(CODES))
def test_help_tells_the_exit_codes_of_a_command_and_no_others(name: str) -> None:
    text = subparsers()[name].format_help()
    assert "exit codes" in text
    assert codes_in(text) == CODES[name]


def test_the_help_of_all_tells_every_code() -> None:
    assert codes_in(_parser().format_help()) == {int(code) for code in ExitCode} == RUNS


# ----------------------------------------------------------------------------------------------------- what is said
def said(ending: str, way: str, folder: Path, *more: str) -> list[str]:
    done = run_module(MODULE, *arguments(ending, way, folder, *more), cwd=HOUSE, env=environment())
    return done.stdout.splitlines()


@pytest.mark.parametrize(("ending", "word"), [("pass", "PARTIAL: "), ("fail", "NONCONFORMANT: ")])
def test_the_sentence_stands_once_and_before_everything_is_removed(ending: str, word: str, tmp_path: Path) -> None:
    lines = said(ending, "esipp", tmp_path / "run")
    (sentence,) = [number for number, line in enumerate(lines) if line.startswith(word)]
    after = next(number for number, line in enumerate(lines) if "source IP qualification" in line)
    assert sentence < after, "the section after teardown has the reports"
    assert any(line.startswith("reports: ") for line in lines[after:])


def test_what_went_wrong_while_the_run_ended_is_said_after_all(tmp_path: Path) -> None:
    lines = said("left-behind", "esipp", tmp_path / "run")
    words = [line.partition(":")[0] for line in lines if line.startswith(("PARTIAL: ", "ERROR: "))]
    assert words == ["PARTIAL", "ERROR"], "the verdict, and then that teardown failed"
    assert last_record(tmp_path / "run")["exit_code"] == ExitCode.HARNESS


@pytest.mark.parametrize(("way", "option"), [("esipp", "-q"), ("pytest", "-q")])
def test_a_quiet_run_says_one_sentence(way: str, option: str, tmp_path: Path) -> None:
    lines = [line for line in said("pass", way, tmp_path / "run", option) if line]
    assert [line.partition(":")[0] for line in lines] == ["PARTIAL"], lines


@pytest.mark.parametrize(("when", "coloured"), [("always", True), ("auto", False), ("never", False)])
def test_colours_are_as_the_option_says(when: str, coloured: bool, tmp_path: Path) -> None:
    lines = said("fail", "esipp", tmp_path / "run", "--color", when)
    assert any("\x1b[" in line for line in lines) is coloured, "auto: no terminal"


def test_a_run_that_is_not_quiet_shows_all_tables_on_demand(tmp_path: Path) -> None:
    assert "How to read the matrix" in said("pass", "esipp", tmp_path / "run", "-v")


@pytest.mark.parametrize(("ending", "code", "judged"), [("fail", 1, 1), ("pass", 0, 4)])
def test_a_run_that_fails_fast_ends_with_the_first_failure(ending: str, code: int, judged: int, tmp_path: Path) -> None:
    more = ["--fail-fast", "--focus", r"^nodeport\.local\.tcp\.ipv4\.outside-[12]-to-(endpoint|bare)-node$"]
    said(ending, "esipp", tmp_path / "run", "nodeport.local.tcp.ipv4.outside", *more)
    assert last_record(tmp_path / "run")["exit_code"] == code
    lines = (tmp_path / "run" / "ledger.jsonl").read_text().splitlines()
    assert sum(json.loads(line)["record"] == "verdict" for line in lines) == judged


# --------------------------------------------------------------------------------------------------- what is given
ENDINGS = [
    ("pass", ExitCode.CONFORMANT),
    ("known", ExitCode.NOT_CONFORMANT),  # one that does not say that it is allowed
    ("fail", ExitCode.NOT_CONFORMANT),
    ("flaky", ExitCode.NOT_CONFORMANT),
    ("inconclusive", ExitCode.HARNESS),
    ("error", ExitCode.HARNESS),
    ("harness", ExitCode.HARNESS),
    ("fault", ExitCode.HARNESS),
    ("unfit", ExitCode.USAGE),
]


BOTH = ("pass", "fail", "harness")  # the others take the same way to their end


@pytest.mark.parametrize(
    ("way", "ending", "code"), [(way, *each) for way in WAYS for each in ENDINGS if way == "esipp" or each[0] in BOTH]
)
def test_a_run_ends_with_its_exit_code(way: str, ending: str, code: ExitCode, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    done = ended(ending, way, folder)
    assert done.returncode == code, done.stdout[-2000:] + done.stderr[-2000:]
    assert done.stderr.count("examined") == 1, "preflight runs once a run"
    if folder.exists():  # esipp run reports an unfit cluster before it writes anything
        assert last_record(folder)["exit_code"] == code
        header = json.loads((folder / "ledger.jsonl").read_text().splitlines()[0])
        assert header["bound"] == 7.5, "what the command line says reaches the run"


@pytest.mark.parametrize("way", ["esipp", "pytest"])
def test_a_time_budget_cuts_the_depth(way: str, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    line = arguments("pass", way, folder, "--time-budget", "1s")
    done = run_module(MODULE, *line, cwd=HOUSE, env=environment())
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    header = json.loads((folder / "ledger.jsonl").read_text().splitlines()[0])
    assert (header["samples"], header["moves"]) == (LEAST_SAMPLES, LEAST_MOVES)
    assert f"--time-budget: {LEAST_SAMPLES} connections per path" in done.stdout + done.stderr


@pytest.mark.parametrize("way", ["esipp", "pytest"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_run_that_is_interrupted_ends_with_2(number: signal.Signals, way: str, tmp_path: Path) -> None:
    with subprocess.Popen(
        command("hangs", way, tmp_path / "run"), cwd=HOUSE, env=environment(), stdout=subprocess.PIPE,
        stderr=subprocess.PIPE, text=True,
    ) as process:  # fmt: skip
        assert process.stderr is not None
        try:
            assert any("hanging" in line for line in process.stderr)
            process.send_signal(number)
            process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == ExitCode.INTERRUPTED
    assert last_record(tmp_path / "run")["result"] == "incomplete"


SEVERAL = ["--focus", r"^nodeport\.local\.tcp\.ipv4\.outside-", "--seed", "7"]
SPREAD = {
    "esipp": ["esipp", "run", *SEVERAL],
    "xdist": ["pytest", "--pyargs", "esipp.suites.source_ip", *SEVERAL, "-p", "no:cacheprovider", "-n", "auto"],
}


def test_workers_change_nothing(tmp_path: Path) -> None:
    """pytest -n auto: one testbed, one ledger, and the same verdicts and reports of several checks."""
    done = {}
    for way, words in SPREAD.items():
        (tmp_path / way).mkdir()
        line = ["fail", *words, "--context", "nowhere", "--out", str(tmp_path / way / "run")]
        done[way] = run_module(MODULE, *line, cwd=tmp_path / way, env=environment(**AS_INSTALLED))
        assert done[way].returncode == ExitCode.NOT_CONFORMANT, done[way].stdout[-2000:] + done[way].stderr[-2000:]
    esipp, xdist = (tmp_path / way / "run" for way in SPREAD)
    assert len(read_run(esipp).verdicts) > 5
    assert read_run(esipp).verdicts == read_run(xdist).verdicts
    assert report_of(esipp) == report_of(xdist)
    assert sorted(file.name for file in esipp.iterdir()) == sorted(file.name for file in xdist.iterdir())
    assert "one process runs the suites" in done["xdist"].stdout
    assert "one process" not in done["esipp"].stdout


def report_of(folder: Path) -> dict[str, Any]:
    """report.json without the run's name, its times, the digest of these, and the words of the command line."""
    found: dict[str, Any] = json.loads((folder / "report.json").read_text())
    for name in ("id", "began", "ended", "seconds", "command"):
        del found["run"][name]
    del found["ledger"]["sha256"]
    found["phases"] = [each["name"] for each in found["phases"]]
    return found


def test_no_check_selected_is_5(tmp_path: Path) -> None:
    said = arguments("pass", "esipp", tmp_path / "run", "--suite", "convergence")
    done = run_module(MODULE, *said, cwd=HOUSE, env=environment())
    assert done.returncode == ExitCode.NOTHING_SELECTED
    assert "--suite=convergence" in done.stderr
    assert "leaves no check: these exclude each other\n" in done.stderr


def test_a_fault_of_ours_is_3_and_not_pythons_1(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    from esipp.app import cli

    def broken(_options: object) -> int:
        raise RuntimeError("nobody thought of this; token=abcdef0123456789")

    monkeypatch.setattr(cli, "_list", broken)
    assert cli.main(["list"]) == ExitCode.HARNESS
    said = capsys.readouterr().err
    assert "RuntimeError" in said
    assert "abcdef0123456789" not in said


def test_sigterm_ends_any_command_with_2(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from esipp.app import cli

    before = signal.getsignal(signal.SIGTERM)

    def slow(_options: object) -> int:
        signal.raise_signal(signal.SIGTERM)
        return 0

    monkeypatch.setattr(cli, "_list", slow)
    assert cli.main(["list"]) == ExitCode.INTERRUPTED
    assert signal.getsignal(signal.SIGTERM) is before
    assert "interrupted" in capsys.readouterr().err


@pytest.mark.parametrize(("ending", "code"), [("pass", 0), ("fail", 1)])
def test_a_closed_pipe_changes_no_exit_code(ending: str, code: int, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    for line in (command(ending, "esipp", folder), [sys.executable, "-m", "esipp", "summary", str(folder)]):
        with subprocess.Popen(
            line, cwd=HOUSE, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            process.stdout.close()  # as '| head' does
            assert "Traceback" not in process.stderr.read()
        assert process.returncode == code


@pytest.mark.skipif(not Path("/dev/full").is_char_device(), reason="there is no /dev/full here")
def test_a_full_disk_behind_standard_output_is_reported_and_is_no_success() -> None:
    with Path("/dev/full").open("wb", buffering=0) as full:
        line = [sys.executable, "-m", "esipp", "list"]
        done = subprocess.run(line, cwd=HOUSE, env=environment(), stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr.count("cannot write to standard output")) == (ExitCode.HARNESS, 1)


# --------------------------------------------------------------------------------------------- a run, seen by GitHub
def test_on_github_a_run_is_folded_annotated_and_summed_up(tmp_path: Path) -> None:
    page = tmp_path / "summary.md"
    page.write_text("# What another step wrote\n")
    done = ended("fail", "esipp", tmp_path / "run", GITHUB_ACTIONS="true", CI="true", GITHUB_STEP_SUMMARY=str(page))
    assert done.returncode == ExitCode.NOT_CONFORMANT
    obeyed = commands_of(done.stdout)
    assert sum(line.startswith("::group::esipp: ") for line in obeyed) == 2
    assert sum(line.startswith("::endgroup") for line in obeyed) == 2
    (error,) = [line for line in obeyed if line.startswith("::error")]
    assert f"fail (core) {CHECK}" in error
    assert [line for line in obeyed if line.startswith("::notice")] == [obeyed[-1]]
    assert "NONCONFORMANT" in obeyed[-1]
    known = ("::group::", "::endgroup::", "::error title=fail", "::notice title=esipp::")
    assert [line for line in obeyed if not line.startswith(known)] == [], "what the cluster says is never a command"
    assert "set-output" in done.stdout
    text = page.read_text()
    assert text.startswith("# What another step wrote\n")
    assert CHECK in text


def commands_of(log: str) -> list[str]:
    """The lines that GitHub's runner takes for commands: not those between a stop and its token."""
    obeyed, token = [], ""
    for line in log.splitlines():
        text = line.lstrip()
        if token:
            token = "" if text == f"::{token}::" else token
        elif text.startswith("::stop-commands::"):
            token = text.removeprefix("::stop-commands::")
        elif text.startswith("::") or "##[" in text:
            obeyed.append(text)
    assert not token, "commands are taken again at the end"
    return obeyed


def test_elsewhere_there_are_no_workflow_commands(tmp_path: Path) -> None:
    done = ended("fail", "esipp", tmp_path / "run")
    assert "::group" not in done.stdout
    assert "::stop-commands" not in done.stdout


def test_a_job_summary_that_cannot_be_written_is_reported_and_changes_nothing(tmp_path: Path) -> None:
    done = ended("pass", "esipp", tmp_path / "run", GITHUB_STEP_SUMMARY=str(tmp_path / "no" / "where.md"))
    assert done.returncode == ExitCode.CONFORMANT
    assert "no job summary" in done.stdout
