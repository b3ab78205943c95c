"""ci/action: the steps of action.yml, with programs that only note what they are asked."""

import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from ci import account, action
from ci.access import ClusterAccess
from ci.places import CONTEXT

PYTHON = f"""#!/bin/sh
mkdir -p "$3/bin"
ln -s {sys.executable} "$3/bin/python"
printf '#!/bin/sh\\necho pip $WHERE "$@"; exit $PIPS\\n' > "$3/bin/pip"
cp "$(dirname "$0")/esipp" "$3/bin"
chmod +x "$3/bin/pip"
"""

ESIPP = """#!/bin/sh
echo esipp $WHERE "$@"
echo '# summary' >> "$GITHUB_STEP_SUMMARY"
mkdir "$5"
echo '{"conclusion": {"result": "partial"}}' > "$5/report.json"
exit 1
"""


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A kept cluster, and the programs that the steps run; WHERE is set where the cluster is."""
    (tmp_path / "bin").mkdir()
    for name, script in (("python", PYTHON), ("esipp", ESIPP)):
        (tmp_path / "bin" / name).write_text(script)
        (tmp_path / "bin" / name).chmod(0o755)
    path = f"{tmp_path}/bin:/usr/bin:/bin"
    monkeypatch.setenv("PATH", path)
    monkeypatch.setenv("PIPS", "0")
    monkeypatch.setattr(action, "ROOT", tmp_path)
    access = SimpleNamespace(prefix=["env", "WHERE=inside"])
    monkeypatch.setattr(ClusterAccess, "load", lambda _: access)
    monkeypatch.setattr(account, "environment", lambda *_: {"PATH": path, "PYTHONPATH": "/checkout"})
    return tmp_path


def test_its_steps_install_and_run_esipp(here: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert action.main(["options=--profile quick nodeport.local"]) == 1
    said = capfd.readouterr().out.splitlines()
    (ran,) = [line for line in said if line.startswith("esipp ")]
    assert ran.startswith(f"esipp inside run --context {CONTEXT} --out ")
    assert ran.endswith("/esipp-run --profile quick nodeport.local")
    assert [line.split()[1:4] for line in said if line.startswith("pip ")] == [
        ["install", "--quiet", "--require-hashes"],
        ["install", "--quiet", "--no-deps"],
    ]
    assert sum(str(here) in line for line in said if line.startswith("pip ")) == 2, "of this checkout"
    assert [line.partition("@")[0] for line in said if line.startswith("[")] == [
        "[left out] actions/setup-python",
        "[run] install esipp into an environment of its own",
        f"[run] qualify {CONTEXT}",
        "[left out] keep the run's folder",
    ]
    assert {"exit-code=1", "result=partial", "job summary: 10 bytes"} <= set(said)
    assert (here / "runs/action/report.json").is_file()


def test_after_a_step_that_fails_none_is_run(
    here: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PIPS", "7")
    assert action.main([]) == 7
    said = capfd.readouterr().out
    assert f"[left out] qualify {CONTEXT}" in said
    assert "exit-code=\n" in said
    assert not (here / "runs").exists()


def test_a_step_sets_variables_and_the_path_of_later_ones(
    here: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (here / "mine.yml").write_text("""
inputs: {}
outputs: {folder: {value: "${{ steps.one.outputs.folder }}"}}
runs:
  steps:
  - id: one
    run: |
      echo "WORD=a=b" >> "$GITHUB_ENV"
      mkdir bin && printf '#!/bin/sh\\necho tool' > bin/tool && chmod +x bin/tool
      echo "$PWD/bin" >> "$GITHUB_PATH"
  - run: echo "$WORD, $(tool), ${PYTHONPATH:-none}"
""")
    monkeypatch.setattr(action, "ACTION", here / "mine.yml")
    assert action.main([]) == 0
    assert "\na=b, tool, none\n" in capfd.readouterr().out


def test_a_wrong_input_and_no_cluster_are_reported(
    here: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert action.main(["option=x"]) == 4
    said = capsys.readouterr().err
    assert "The action has no input 'option'.\n  hint: INPUT=VALUE, with one of context, options" in said
    monkeypatch.setattr(ClusterAccess, "load", lambda _: None)
    assert action.main([]) == 4
    assert "There is no kept cluster." in capsys.readouterr().err
