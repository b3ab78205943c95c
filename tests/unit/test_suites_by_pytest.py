"""The suites as pytest itself is asked for them: their order, and what it refuses."""

import importlib
import subprocess
import sys
from pathlib import Path

import pytest

from esipp.catalog import HOUSE, all_rows, suite_names
from esipp.errors import ExitCode
from tests.unit.test_exit_codes import environment


def pytest_with(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(
        command, cwd=HOUSE, env=environment(), capture_output=True, text=True, timeout=120, check=False
    )  # fmt: skip


@pytest.mark.parametrize("paths", [["suites/"], ["suites/continuity", "suites/source_ip", "suites"]])
def test_rows_run_in_the_catalogues_order(paths: list[str]) -> None:
    done = pytest_with("--collect-only", *paths)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    collected = [line.partition("[")[2].removesuffix("]") for line in done.stdout.splitlines() if "::test_" in line]
    assert collected == [row.id for row in all_rows()]


@pytest.mark.parametrize(
    "more", [["-n", "auto"], ["-n", "2", "--context", "nowhere"], ["--tx", "2*popen", "--dist", "load"]]
)
def test_processes_beside_each_other_are_refused_in_one_sentence(more: list[str], tmp_path: Path) -> None:
    done = pytest_with("suites/", *more, "--out", str(tmp_path / "run"))
    assert done.returncode == ExitCode.USAGE
    assert "ERROR: The suites run in one process, which runs their checks in parallel.\n  hint: " in done.stderr
    assert "INTERNALERROR" not in done.stdout + done.stderr
    assert list(tmp_path.iterdir()) == []


def test_our_own_tests_run_beside_each_other() -> None:
    done = pytest_with("tests/unit/test_plural.py", "-n", "2")
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


def test_each_suite_says_what_it_is() -> None:
    told = [importlib.import_module(f"suites.{name}").__doc__ for name in suite_names()]
    assert all(told)
    assert len({*told}) == len(told)
