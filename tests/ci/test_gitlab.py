"""ci/gitlab: the template's job, with a python that only notes what it is asked and leaves a report."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from ci import account, gitlab, wheel
from ci.access import ClusterAccess
from ci.places import CONTEXT

PYTHON = """#!/bin/sh
echo python $WHERE "$@" "[$GITLAB_CI, $REGISTRY, ${PYTHONPATH:-none}]"
test "$3" = run || exit 9
cat esipp.yaml
mkdir -p runs/one && ln -s one runs/latest && echo '{}' > runs/one/ledger.jsonl
test -n "$NONE" || echo "$XML" > junit.xml
exit $CODE
"""
XML = "<testsuites><testsuite><testcase name='a'/><testcase name='b'><failure/></testcase></testsuite></testsuites>"

WRONG: dict[str, str] = {}
"""What a test changes of the environment."""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kept cluster, and an installed wheel; WHERE is set where the cluster is."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3").write_text(PYTHON)
    (tmp_path / "bin" / "python3").chmod(0o755)

    @contextlib.contextmanager
    def installed() -> Iterator[tuple[Path, Path]]:
        (tmp_path / "empty").mkdir()
        (tmp_path / "empty" / "runs").symlink_to(tmp_path)
        yield tmp_path / "bin", tmp_path / "empty"

    monkeypatch.setattr(wheel, "installed", installed)
    monkeypatch.setattr(gitlab, "ROOT", tmp_path)
    monkeypatch.setattr(ClusterAccess, "load", lambda _: SimpleNamespace(prefix=["env", "WHERE=inside"]))
    usual = {"PATH": "/usr/bin:/bin", "PYTHONPATH": "/checkout", "XML": XML, "CODE": "1", "NONE": ""}
    monkeypatch.setattr(account, "environment", lambda *_: usual | WRONG)
    return tmp_path


def test_its_scripts_run_and_its_artifacts_are_kept(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert gitlab.main(["profile=quick", "samples=20"]) == 1, "the exit code of the run, not that of after_script"
    said = capfd.readouterr().out.splitlines()
    variables = "[true, ghcr.io/OWNER/esipp, none]"
    assert [line for line in said if line.startswith("python ")] == [
        f"python inside -m esipp run --context {CONTEXT} --lane gitlab --junit junit.xml {variables}",
        f"python inside -m esipp clean --context {CONTEXT} {variables}",
    ]
    assert {"profile: quick", "samples: 20"} <= set(said), "numbers stay numbers"
    assert "script: exit code 1; after_script: 9, which GitLab ignores" in said
    assert "junit.xml: 2 tests, 1 failed" in said
    kept = here / "runs" / "gitlab"
    assert (kept / "junit.xml").read_text().strip() == XML
    assert (kept / "runs" / "latest" / "ledger.jsonl").is_file()


@pytest.mark.parametrize(("name", "value"), [("NONE", "1"), ("XML", "<")])
def test_a_job_without_a_report_is_reported(
    name: str, value: str, here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(WRONG, name, value)
    assert gitlab.main([]) == 4
    said = capsys.readouterr().err
    assert "GitLab would show no tests: junit.xml: " in said


def test_a_wrong_argument_and_no_cluster_are_reported(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert gitlab.main(["quick"]) == 4
    assert "'quick' is no key of esipp.yaml with a value.\n  hint: KEY=VALUE" in capsys.readouterr().err
    monkeypatch.setattr(ClusterAccess, "load", lambda _: None)
    assert gitlab.main([]) == 4
    assert "There is no kept cluster." in capsys.readouterr().err
