"""The wheel: built, installed into an empty environment, and used from an empty folder, where there is no checkout."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

import hatch_build
from ci import account, wheel
from ci.access import ClusterAccess
from ci.places import CONTEXT, ROOT
from ci.step import SetupError
from esipp.base.errors import ExitCode
from esipp.checks.catalog import all_checks
from esipp.testbed.echo_image import RELEASED
from esipp.testbed.images import this_version

Done = subprocess.CompletedProcess[str]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wheel.build(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def installed(built: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Done]:
    """Runs a program of the environment; its packages are those of this process, without the checkout."""
    work = tmp_path_factory.mktemp("wheel")
    programs = wheel.install(built, work / "environment", packages=False)
    (packages,) = (work / "environment" / "lib").glob("python*/site-packages")
    (packages / "others.pth").write_text(
        sysconfig.get_path("purelib")
    )  # does not lead on to an editable esipp's folder
    empty = work / "empty"
    empty.mkdir()
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "GITHUB_", "ESIPP_"))}

    def run(*command: str) -> Done:
        environment = wheel.outside_of_the_checkout({**kept, "HOME": str(empty)})
        return subprocess.run(
            [str(programs / command[0]), *command[1:]], cwd=empty, env=environment, capture_output=True, text=True,
            timeout=110, check=False,
        )  # fmt: skip

    return run


@pytest.mark.parametrize("command", [["esipp"], ["python", "-m", "esipp"]])
def test_it_has_all_checks(command: list[str], installed: Callable[..., Done]) -> None:
    done = installed(*command, "list", "--format", "json")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) == len(all_checks())


def test_it_is_not_the_checkout(installed: Callable[..., Done]) -> None:
    done = installed("python", "-c", "from esipp.checks.catalog import HOUSE; print(HOUSE)")
    assert done.stdout.rstrip().endswith("/esipp/house"), done.stderr
    assert str(ROOT) not in done.stdout


def test_it_plans_and_names_its_images(installed: Callable[..., Done]) -> None:
    done = installed("esipp", "plan", "--provider", "metallb-l2")
    assert done.returncode == 0, done.stderr
    assert "Services" in done.stdout
    assert installed("esipp", "images").stdout.splitlines()[0] == this_version(), "the same files, the same name"


@pytest.mark.parametrize("command", ["doctor", "run"])
def test_without_a_cluster_it_says_so(command: str, installed: Callable[..., Done]) -> None:
    done = installed("esipp", command, "--context", "nowhere", "--image", "example.com/echo:1")
    assert done.returncode == ExitCode.USAGE, done.stdout + done.stderr
    assert "Traceback" not in done.stdout + done.stderr
    assert "hint:" in done.stdout + done.stderr


def test_pytest_finds_the_suites_by_the_entry_point(installed: Callable[..., Done]) -> None:
    done = installed("python", "-m", "pytest", "--pyargs", "esipp.suites.nodes", "--collect-only", "-q")
    assert done.returncode == 0, done.stdout + done.stderr
    collected = [line for line in done.stdout.splitlines() if "::test_nodes[" in line]
    assert len(collected) == sum(check.suite == "nodes" for check in all_checks())
    done = installed("python", "-m", "pytest", "--pyargs", "esipp.suites.nowhere")
    assert (done.returncode, done.stderr.count("There is no suite 'nowhere'")) == (4, 1)


def test_other_sessions_of_pytest_get_no_options_of_ours(installed: Callable[..., Done]) -> None:
    assert "--samples" not in installed("python", "-m", "pytest", "--help").stdout
    assert "--samples" in installed("python", "-m", "pytest", "--pyargs", "esipp.suites", "--help").stdout


def test_a_build_without_a_suites_files_fails_and_names_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("pyproject.toml", "hatch_build.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tmp_path / name)
    for name in ("esipp/base", *hatch_build.FOLDERS):
        shutil.copytree(ROOT / name, tmp_path / name)
    (tmp_path / "docs").mkdir()
    for name in ("docs/rbac.yaml", "docs/glossary.md"):
        shutil.copy(ROOT / name, tmp_path / name)
    assert hatch_build.lacking(tmp_path) == []
    for name in ("nodes/checks.py", "vantages/__init__.py"):
        (tmp_path / "suites" / name).unlink()
    monkeypatch.setattr(wheel, "ROOT", tmp_path)
    with pytest.raises(SetupError, match=r"there is no suites/nodes/checks.py, no suites/vantages/__init__.py\."):
        wheel.build(tmp_path / "dist")


def test_an_sdist_builds_the_same_wheel(built: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wheel._run(sys.executable, "-m", "hatchling", "build", "--target", "sdist", "--directory", str(tmp_path))
    (archive,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path, filter="data")
    monkeypatch.setattr(wheel, "ROOT", tmp_path / archive.name.removesuffix(".tar.gz"))
    with zipfile.ZipFile(built) as ours, zipfile.ZipFile(wheel.build(tmp_path / "dist")) as theirs:
        assert set(theirs.namelist()) == set(ours.namelist())


def test_a_release_names_its_image_by_digest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(hatch_build.RELEASED, "r.example/echoserver:latest")
    with pytest.raises(SetupError, match="has no digest"):
        wheel.build(tmp_path / "without")
    reference = "r.example/echoserver@sha256:" + "a" * 64
    monkeypatch.setenv(hatch_build.RELEASED, reference)
    with zipfile.ZipFile(wheel.build(tmp_path / "with")) as packed:
        assert json.loads(packed.read(f"{hatch_build.HOUSE}/{RELEASED}")) == {"reference": reference}


@pytest.mark.parametrize("plugin", [[], ["--plugin"]])
def test_ci_wheel_runs_the_installed_program(
    plugin: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """On a cluster that is not there, with a kubectl that runs plugins as kubectl does, and no checkout on its way."""
    there, programs = tmp_path / "there", tmp_path / "programs"
    for folder, name, script in (
        (there, "kubectl", 'echo kubectl; plugin="kubectl-$1"; shift; exec "$plugin" "$@"'),
        (programs, "kubectl-esipp", 'echo plugin "$@" "$PYTHONPATH"; exit 3'),
        (programs, "esipp", 'echo program "$@" "$PYTHONPATH"; exit 3'),
    ):
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(f"#!/bin/sh\n{script}\n")
        (folder / name).chmod(0o755)
    environment = {"PATH": f"{there}:/usr/bin:/bin", "PYTHONPATH": "/checkout"}
    access = SimpleNamespace(prefix=["env"], image="echo:1", environment=environment)
    monkeypatch.setattr(ClusterAccess, "load", lambda _: access)
    monkeypatch.setattr(account, "environment", lambda access, _command: access.environment)
    monkeypatch.setattr(wheel, "build", lambda _: Path("a.whl"))
    monkeypatch.setattr(wheel, "install", lambda *_: programs)
    assert wheel.main([*plugin, "--profile", "quick"]) == 3
    name = "plugin" if plugin else "wheel"
    said = f"run --context {CONTEXT} --image echo:1 --lane {name} --out {ROOT}/runs/{name} --profile quick \n"
    assert capfd.readouterr().out == (f"kubectl\nplugin {said}" if plugin else f"program {said}")


def test_an_installation_without_suites_says_so(tmp_path: Path) -> None:
    """As from a wheel of ``esipp/`` alone: not an empty list and success."""
    shutil.copytree(ROOT / "esipp", tmp_path / "esipp", ignore=shutil.ignore_patterns("__pycache__"))
    done = subprocess.run(
        [shutil.which("python3") or "python3", "-m", "esipp", "list"], cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": str(tmp_path)}, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == ExitCode.USAGE, done.stderr
    assert "installed without its suites" in done.stderr
