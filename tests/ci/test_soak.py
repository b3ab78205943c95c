"""What ci/soak makes of the ledger of a run."""

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from ci.access import ClusterAccess
from ci.soaking import Result, main, one_run, read, sentence
from ci.step import SETUP_FAILED

END = {"record": "end", "result": "conformant", "seconds": {"judge": 0.1}}


def verdict(status: str, level: str = "core", name: str = "a") -> dict[str, Any]:
    return {"record": "verdict", "id": name, "status": status, "level": level, "observed": "seen", "reason": "why"}


def ledger(*records: Mapping[str, Any]) -> Result:
    return read(json.dumps(record) for record in records)


def test_a_run_that_holds_is_neither_red_nor_undecided() -> None:
    result = ledger(verdict("pass"), verdict("pass", "extended"), verdict("known", "extended"), END)
    assert (result.is_red, result.is_undecided, result.core, result.checks) == (False, False, 1, ())
    assert sentence(3, result, 61.2, 9.7) == (
        "run 3: 61 s, conformant, 1 core pass, 0 fail, 0 flaky, 0 inconclusive, 0 error, load 10"
    )


@pytest.mark.parametrize("level", ["core", "extended"])
@pytest.mark.parametrize("status", ["fail", "flaky"])
def test_a_check_of_any_level_makes_it_red(status: str, level: str) -> None:
    result = ledger(verdict("inconclusive", name="b"), verdict(status, level), END)
    assert (result.is_red, result.is_undecided) == (True, False)
    assert result.checks == (f"{status} a ({level}): seen; why", "inconclusive b (core): seen; why")


@pytest.mark.parametrize("status", ["inconclusive", "error"])
def test_a_check_that_was_not_decided_makes_it_undecided(status: str) -> None:
    result = ledger(verdict("pass"), verdict(status), END)
    assert (result.is_red, result.is_undecided) == (False, True)


def test_a_run_that_says_nothing_is_red() -> None:
    assert Result().is_red
    assert ledger(verdict("pass")).is_red
    assert ledger({**END, "seconds": {"arrange": 1.0}}).is_red


def test_a_whole_run_with_another_result_is_undecided() -> None:
    assert ledger(verdict("pass"), {**END, "result": "interrupted"}).is_undecided


def test_a_folder_that_has_runs_already_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run-1").mkdir()
    assert main(["--keep", str(tmp_path), "--record"]) == SETUP_FAILED
    assert "is not empty" in capsys.readouterr().err


def test_a_run_has_the_name_of_the_kept_clusters_lane(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[str]()

    def ended(command: Sequence[str], _: str) -> list[str]:
        asked.extend(command)
        return ["true"]

    kept = ClusterAccess("hermetic", "kind-nftables", "v1.36.3", "node:1")
    monkeypatch.setattr(ClusterAccess, "load", lambda _: kept)
    monkeypatch.setattr("ci.soaking.guarded", ended)
    one_run(argparse.Namespace(context="c", image="i", samples=1, suite=None, more=[]), tmp_path / "run-1")
    assert asked[asked.index("--lane") + 1] == "kind-nftables"


def test_a_run_that_is_ended_cleans_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cleaned, said = tmp_path / "cleaned", tmp_path / "run-1.said"
    script = f"trap 'touch {cleaned}; exit 1' TERM; echo ready; while :; do sleep 0.05; done"
    monkeypatch.setattr("ci.soaking.guarded", lambda *_: ["sh", "-c", script])

    waits = threading.Event()

    class Process(subprocess.Popen[bytes]):
        """A process that says when it is waited for."""

        def wait(self, timeout: float | None = None) -> int:
            waits.set()
            return super().wait(timeout)

    monkeypatch.setattr("ci.soaking.subprocess.Popen", Process)

    def end() -> None:
        waits.wait()  # before, no handler of the program's own ends the process, but the kernel (``guarded``)
        while "ready" not in said.read_text():
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGUSR1)

    before = signal.signal(signal.SIGUSR1, lambda *_: sys.exit(143))
    ender = threading.Thread(target=end)
    ender.start()
    options = argparse.Namespace(context="c", image="i", samples=1, suite=None, more=[])
    try:
        with pytest.raises(SystemExit):
            one_run(options, tmp_path / "run-1")
    finally:
        ender.join()
        signal.signal(signal.SIGUSR1, before)
    assert cleaned.exists()
