"""What a pod's container does: the report waits to be fetched, the exit code is the run's, signals are handed on."""

import json
import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from esipp.app.in_cluster import sonobuoy
from esipp.app.in_cluster.archive import read
from esipp.app.in_cluster.job import ARCHIVE, DESCRIPTION
from esipp.app.in_cluster.keep import FETCHED
from esipp.checks.catalog import HOUSE

RUN = """
import sys, pathlib
run = pathlib.Path("runs/20260101T000000Z-in")
run.mkdir(parents=True)
(run / "ledger.jsonl").write_text("{}")
(pathlib.Path("asked")).write_text(" ".join(sys.argv[1:]))
"""
FAILS = RUN + "sys.exit(1)"
REFUSED = "import sys; sys.exit(4)"
KILLED = RUN + "import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
STOPPED = (
    "import signal, sys\n"
    "def stop(*_):\n    exec(RUN)\n    sys.exit(2)\n"
    f"RUN = {RUN!r}\n"
    "signal.signal(signal.SIGTERM, stop)\nprint('asking', flush=True)\nsignal.pause()"
)


def stands_in(folder: Path, script: str) -> None:
    """A module in the child's folder, which Python finds first, stands in for ``esipp run``."""
    (folder / "esipp").mkdir()
    (folder / "esipp" / "__init__.py").touch()
    (folder / "esipp" / "__main__.py").write_text(script)


@contextmanager
def container(module: str, folder: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", f"esipp.app.in_cluster.{module}", "--folder", str(folder), *options]
    with subprocess.Popen(
        command, cwd=HOUSE, env={**os.environ, "PYTHONPATH": str(HOUSE)}, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def said(process: subprocess.Popen[str], word: str) -> bool:
    """Read until a line has this word."""
    assert process.stdout is not None
    return any(word in line for line in process.stdout)


def ran(folder: Path, script: str, *options: str) -> int:
    """What the first container ends with, where ``esipp run`` does what a script says."""
    stands_in(folder, script)
    with container("job", folder, *options) as process:
        return process.wait()


def test_the_report_waits_and_its_pod_ends_as_the_run_did(tmp_path: Path) -> None:
    assert ran(tmp_path, FAILS, "--", "--samples", "20") == 0, "else the pod would end before anybody fetches"
    description = read((tmp_path / DESCRIPTION).read_text())
    assert (description.name, description.exit_code) == ("20260101T000000Z-in", 1)
    assert description.size == (tmp_path / ARCHIVE).stat().st_size
    assert (tmp_path / "asked").read_text() == "run --in-cluster --samples 20"
    with container("keep", tmp_path, "--linger", "100") as process:
        assert said(process, "The report is ready")
        assert process.poll() is None
        (tmp_path / FETCHED).touch()
        assert said(process, "The report was fetched.")
        assert process.wait() == 1


def test_nobody_has_to_come_for_it(tmp_path: Path) -> None:
    ran(tmp_path, FAILS)
    with container("keep", tmp_path, "--linger", "1") as process:
        assert said(process, "The report was not fetched.")
        assert process.wait() == 1


def test_a_container_that_is_deleted_does_not_wait_any_longer(tmp_path: Path) -> None:
    ran(tmp_path, FAILS)
    with container("keep", tmp_path, "--linger", "1000") as process:
        assert said(process, "The report is ready")
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 1


def test_without_a_report_there_is_nothing_to_keep(tmp_path: Path) -> None:
    with container("keep", tmp_path) as process:
        assert said(process, "There is no report to keep")
        assert process.wait() == 3


def test_a_run_that_is_ended_may_remove_what_it_made(tmp_path: Path) -> None:
    stands_in(tmp_path, STOPPED)
    with container("job", tmp_path) as process:
        assert said(process, "asking")
        process.send_signal(signal.SIGTERM)
        assert process.wait() == 2
    assert read((tmp_path / DESCRIPTION).read_text()).exit_code == 2


def test_a_run_that_was_refused_leaves_nothing_to_wait_for(tmp_path: Path) -> None:
    assert ran(tmp_path, REFUSED) == 4
    assert not (tmp_path / DESCRIPTION).exists()


def test_a_run_that_was_killed_is_a_fault_of_the_harness(tmp_path: Path) -> None:
    assert ran(tmp_path, KILLED) == 0
    assert read((tmp_path / DESCRIPTION).read_text()).exit_code == 3


def test_what_a_run_leaves_to_the_first_process_is_waited_for_in_bounds() -> None:
    """In a pod the watchdog of a killed run is the first process's child, and undoes what the run did to nodes."""
    script = (
        "import subprocess, sys, time\n"
        "from esipp.app.in_cluster.job import await_orphans\n"
        "children = [subprocess.Popen(['sleep', each]) for each in sys.argv[2:]]\n"
        "began = time.monotonic()\n"
        "await_orphans(float(sys.argv[1]))\n"
        "print(time.monotonic() - began)\n"
        "[child.kill() for child in children]\n"
    )

    def waited(*words: str) -> float:
        done = subprocess.run(
            [sys.executable, "-c", script, *words], cwd=HOUSE, capture_output=True, text=True, check=True
        )
        return float(done.stdout)

    assert waited("60") < 5
    assert 0.5 <= waited("60", "0.5") < 30
    assert 0.5 <= waited("0.5", "60") < 30


# ------------------------------------------------------------------------------------------------- Sonobuoy's contract
REPORTS = RUN + "(run / 'junit.xml').write_text('<testsuites name=\"of the run\"/>'); sys.exit(1)"


@pytest.mark.parametrize(
    ("script", "expected"),
    [
        (REPORTS, "of the run"),
        (REFUSED, "esipp run did not begin."),
        (KILLED, "esipp run did not begin."),
    ],
    ids=["ended", "refused", "killed"],
)
def test_sonobuoy_gets_one_tarball_with_a_junit_file_and_then_the_done_file(
    script: str, expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    results, work = tmp_path / "results", tmp_path / "work"
    work.mkdir()
    stands_in(work, script)
    monkeypatch.setattr("tempfile.mkdtemp", lambda **_: str(work))
    assert sonobuoy.main(["--lane", "sonobuoy"], {"SONOBUOY_RESULTS_DIR": str(results)}) == 0
    assert sorted(each.name for each in results.iterdir()) == ["done", "esipp.tar.gz"]
    archive = Path((results / "done").read_text())
    assert archive == results / "esipp.tar.gz", "the whole path, and nothing else"
    with tarfile.open(archive) as tar:
        (junit,) = [entry for entry in tar if entry.name.endswith(".xml")]
        assert Path(junit.name).name == "junit.xml"
        file = tar.extractfile(junit)
        assert file is not None
        assert expected in file.read().decode()


def test_the_file_that_is_promised_to_sonobuoy_is_asked_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stands_in(tmp_path, RUN)
    monkeypatch.setattr("tempfile.mkdtemp", lambda **_: str(tmp_path))
    sonobuoy.main(["--samples", "20"], {"SONOBUOY_RESULTS_DIR": str(tmp_path / "results")})
    asked = (tmp_path / "asked").read_text().split()
    assert asked == ["run", "--in-cluster", "--samples", "20", "--junit", str(tmp_path / "refused" / "junit.xml")]
    assert json.loads((tmp_path / "runs" / "20260101T000000Z-in" / "ledger.jsonl").read_text()) == {}
