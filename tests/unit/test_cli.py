"""The command line as a user meets it: what needs no cluster, and one sentence and exit code for the rest."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree

import pytest

from esipp.app.cli import main
from esipp.base.errors import ExitCode
from esipp.checks.catalog import HOUSE, all_checks
from esipp.ledger.reading import read_run
from esipp.report.pages import checks_page
from tests.warm import run_module

KUBECONFIG = """\
apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://127.0.0.1:PORT"}}]
users: [{name: u, user: {token: secret}}]
contexts: [{name: kind-there, context: {cluster: c, user: u}}]
"""

TESTS = "suites/test_suites.py"


@dataclass
class Done:
    """How a command ended."""

    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """The command in this process, in an empty folder: many times faster than a process each."""
    monkeypatch.chdir(tmp_path)

    def ask(*arguments: str, **environment: str) -> Done:
        for name, value in {"ESIPP_IMAGE": "example.com/echo:1", **environment}.items():
            monkeypatch.setenv(name, value)
        try:
            code = main(arguments)
        except SystemExit as left:  # argparse
            code = int(left.code or 0)
        said = capsys.readouterr()
        return Done(code, said.out, said.err)

    return ask


@pytest.fixture
def kubeconfig(tmp_path: Path) -> str:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    path = tmp_path / "kubeconfig"
    path.write_text(KUBECONFIG.replace("PORT", str(port)))
    return str(path)


def test_a_process_ends_with_the_exit_code() -> None:
    done = subprocess.run([sys.executable, "-m", "esipp", "run"], cwd=HOUSE, capture_output=True, text=True)
    assert done.returncode == ExitCode.USAGE
    assert done.stderr.startswith("esipp: No cluster is named")


def test_list_as_json_gives_one_object_a_check(here: Callable[..., Done]) -> None:
    done = here("list", "--format", "json")
    assert done.returncode == 0
    assert [json.loads(line)["id"] for line in done.stdout.splitlines()] == [check.id for check in all_checks()]


def test_list_into_a_closed_pipe_is_no_error() -> None:
    listing = [sys.executable, "-m", "esipp", "list"]
    with subprocess.Popen(listing, cwd=HOUSE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as done:
        assert done.stdout is not None
        assert done.stderr is not None
        done.stdout.close()  # as 'esipp list | head' does
        assert done.stderr.read() == ""


def test_list_as_markdown_is_the_page_of_checks(here: Callable[..., Done]) -> None:
    assert here("list", "--format", "markdown").stdout == checks_page(all_checks())


def test_explain_a_check(here: Callable[..., Done]) -> None:
    done = here("explain", "nodeport.local.tcp.ipv4.outside-1-to-bare-node")
    assert done.returncode == 0
    assert "gets no answer" in done.stdout
    assert "control" in done.stdout


def test_help_tells_the_exit_codes(here: Callable[..., Done]) -> None:
    for arguments in (["--help"], ["run", "--help"]):
        text = here(*arguments).stdout
        for code in ExitCode:
            assert f"\n  {code.value}  " in text


FEW = "nodeport.local.tcp.ipv4"
"""Some checks: what is said does not hang on how many there are, and reports of all take seconds."""

BAD = [
    (["run"], "No cluster is named"),
    (["run", "--context", "nobody"], "no context 'nobody'"),
    (["run", "--context", "kind-ther"], "did you mean kind-there? available contexts: "),
    (["run", "--context", "kind-there", FEW], "does not answer"),
    (["run", "--context", "kind-there", "no-such-row"], "No check matches 'no-such-row'"),
    (["run", "--context", "kind-there", "--image", "No Such"], "'No Such' is not an image reference"),
    (["run", "--context", "kind-there", "--image", ""], "No echo image is named"),
    (["run", "--context", "kind-there", "--samples", "0"], "--samples 0 is out of range"),
    (["run", "--context", "kind-there", "--timeout-factor", "0.5"], "--timeout-factor 0.5 is out of range"),
    (["run", "--context", "kind-there", "--lane", "../up"], "cannot be part of a folder name"),
    (["run", "--context", "kind-there", "--bogus"], "unrecognized arguments: --bogus"),
    (["list", "no-such-row"], "No check matches 'no-such-row'"),
    (["run", "--context", "kind-there", "--exclude", "nodeport.local"], "has no reason"),
    (["run", "--in-cluster"], "--in-cluster works only in a pod"),
    (["clean", "--context", "kind-there"], "does not answer"),
    (["clean"], "No cluster is named"),
    (["fetch", "--context", "kind-there"], "does not answer"),
    (["frobnicate"], "invalid choice"),
    ([], "required"),
]


@pytest.mark.parametrize(("arguments", "sentence"), BAD, ids=[" ".join(words) or "nothing" for words, _ in BAD])
def test_bad_input_is_one_sentence_and_exit_code_4(
    arguments: list[str], sentence: str, kubeconfig: str, tmp_path: Path, here: Callable[..., Done]
) -> None:
    found = ["--kubeconfig", kubeconfig] if "--context" in arguments else []
    done = here(*arguments, *found)
    assert done.returncode == ExitCode.USAGE
    assert sentence in done.stderr
    assert "Traceback" not in done.stderr
    if arguments[:1] == ["run"] and sentence == "does not answer":
        assert_reported(tmp_path / "runs" / "latest", sentence)
    else:
        assert not (tmp_path / "runs").exists(), "nothing is left"


def test_a_machine_without_kubectl_is_reported(kubeconfig: str, tmp_path: Path, here: Callable[..., Done]) -> None:
    done = here("run", FEW, "--context", "kind-there", "--kubeconfig", kubeconfig, PATH=str(tmp_path))
    assert (done.returncode, "There is no kubectl on PATH" in done.stderr) == (ExitCode.USAGE, True)
    assert_reported(tmp_path / "runs" / "latest", "There is no kubectl on PATH", kubectl="no")


def assert_reported(folder: Path, sentence: str, kubectl: str = "ok") -> None:
    """A run that never got a cluster has all reports, which say what was tried."""
    run = read_run(folder)
    assert (run.whole, run.conclusion.result, run.conclusion.exit_code) == (True, "incomplete", ExitCode.USAGE)
    assert sentence in run.conclusion.why
    assert not run.verdicts
    tried = [note for about, note in run.notes if about == "set-up"]
    assert any(note.startswith(f"{kubectl}: kubectl") for note in tried)
    assert any(note.startswith("no: API server") for note in tried)
    for name in ("report.html", "junit.xml", "report.json", "conformance.yaml", "report.md", "summary.txt"):
        assert sentence in (folder / name).read_text(), name
    cases = list(ElementTree.parse(folder / "junit.xml").iter("testcase"))  # noqa: S314 - our own
    assert [case.get("name") for case in cases if case.find("error") is not None] == ["esipp.run"]


@pytest.mark.parametrize("content", ["", "{", "[]", "just text", "apiVersion: v1\nkind: Config\ncontexts: 7\n"])
def test_a_broken_kubeconfig_is_reported(content: str, tmp_path: Path, here: Callable[..., Done]) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(content)
    done = here("run", "--context", "x", "--kubeconfig", str(path))
    assert done.returncode == ExitCode.USAGE
    assert "Traceback" not in done.stderr


def test_no_kubectl_is_reported(kubeconfig: str, here: Callable[..., Done]) -> None:
    done = here("run", FEW, "--context", "kind-there", "--kubeconfig", kubeconfig, PATH="/nowhere")
    assert done.returncode == ExitCode.USAGE
    assert "no kubectl" in done.stderr


def suites(*arguments: str, paths: Sequence[str] = ("suites",), **environment: str) -> subprocess.CompletedProcess[str]:
    env = {**os.environ, "ESIPP_IMAGE": "example.com/echo:1", **environment}
    return run_module("pytest", *paths, "-q", "-p", "no:cacheprovider", *arguments, cwd=HOUSE, env=env)


@pytest.mark.parametrize(
    "paths", [["suites"], ["suites/test_suites.py::test_continuity", "suites/test_suites.py::test_source_ip", "suites"]]
)
def test_plain_pytest_collects_in_the_catalogues_order_without_a_cluster(paths: list[str]) -> None:
    done = suites("--collect-only", paths=paths)
    assert done.returncode == 0
    collected = [line.partition("[")[2].removesuffix("]") for line in done.stdout.splitlines() if "::test_" in line]
    assert collected == [check.id for check in all_checks()]


def test_plain_pytest_runs_nothing_without_a_context() -> None:
    done = suites()
    assert done.returncode == ExitCode.USAGE
    assert "need --context" in done.stderr


def test_plain_pytest_with_nothing_selected() -> None:
    assert suites("-k", "nothing-is-called-so", "--collect-only").returncode == ExitCode.NOTHING_SELECTED


def test_plain_pytest_tells_an_unreachable_cluster_as_an_error(kubeconfig: str, tmp_path: Path) -> None:
    done = suites("-k", FEW, "--context", "kind-there", "--out", str(tmp_path / "run"), KUBECONFIG=kubeconfig)
    assert done.returncode == ExitCode.USAGE
    assert "does not answer" in done.stdout
    last = json.loads((tmp_path / "run" / "ledger.jsonl").read_text().splitlines()[-1])
    assert (last["record"], last["result"], last["exit_code"]) == ("end", "incomplete", 4)


@pytest.mark.parametrize("more", [["-n", "auto"], ["--tx=2*popen", "--dist=load"]])
def test_workers_hear_of_a_missing_context_in_one_sentence(more: list[str]) -> None:
    done = suites(*more)
    assert done.returncode == ExitCode.USAGE
    assert done.stderr.count("need --context") == 1
    assert "INTERNALERROR" not in done.stdout + done.stderr
