"""Killed runs of the suite source_ip: ``esipp clean`` removes everything after SIGKILL at any moment.

It leaves resources of other owners in the same cluster, on the same nodes and the same machine unchanged.
Environment: ``ESIPP_KILLS`` (30), ``ESIPP_KILL_SEED`` (a new one, which is printed). What happened at each kill is
printed: ``pytest -s``; with ``ESIPP_KILLS_RECORD`` each is also added to records/soak.jsonl and its page.
"""

import contextlib
import os
import random
import re
import secrets
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from ci import endurance
from esipp.base.waiting import Budget, Reading, converge
from esipp.checks.catalog import HOUSE
from esipp.ledger.file import read_ledger
from tests.broken import snapshot
from tests.broken.bystanders import Bystanders, Snapshot
from tests.broken.test_killed import clean

pytestmark = [pytest.mark.by_hand, pytest.mark.timeout(3600)]

KILLS = int(os.environ.get("ESIPP_KILLS", "30"))
SEED = int(os.environ.get("ESIPP_KILL_SEED", secrets.randbelow(10**6)))
RECORD = "ESIPP_KILLS_RECORD" in os.environ
CHECKS = ("nodeport.local.tcp", "loadbalancer.local.tcp", "loadbalancer.reference-forward", "external-ips.local.tcp")
"""Every kind of thing that a run makes, of few checks."""

PARTS: Mapping[str, tuple[str, ...]] = {
    "any time": ("preflight", "set-up", "clients", "settle", "observe", "packets", "judge", "teardown"),
    "set-up": ("set-up", "clients"),
    "observation": ("settle", "observe", "packets"),
    "teardown": ("teardown",),
}
"""In which part of a run it is killed, in turn, and the phases that are this part."""

RESTORED = Budget("everything being as before", 180.0, need=1, spacing=1.0)
"""What a kill leaves that shows later still is seen after the next one: all are held against the same beginning."""
BEGUN = Budget("the part in which it is killed", 400.0, need=1, spacing=0.02)


class Run:
    """A run in a session of its own, so that whatever it leaves behind is found."""

    def __init__(self, context: str, folder: Path) -> None:
        folder.mkdir()
        self.folder, self.said = folder / "run", folder / "said"
        command = [
            "-m",
            "esipp",
            "run",
            "--context",
            context,
            "--image",
            os.environ["ESIPP_IMAGE"],
            "--suite",
            "source_ip",
        ]
        command += ["--samples", "20", "--out", str(self.folder), *CHECKS]
        with self.said.open("w") as said:
            self.process = subprocess.Popen(
                [sys.executable, *command], cwd=HOUSE, stdout=said, stderr=said, start_new_session=True
            )

    @property
    def text(self) -> str:
        """All that it has said."""
        return self.said.read_text(errors="replace")

    @property
    def phase(self) -> str:
        """The phase it was last in, by its own words."""
        begun: list[str] = re.findall(r"^\[esipp\] (\w[\w ]*): .*\.\.\.$", self.text, re.MULTILINE)
        return (begun or ["nothing"])[-1]

    def wait_until(self, phase: str) -> None:
        """Until it says that a phase begins, or is over."""
        begins = re.compile(rf"^\[esipp\] {phase}: ", re.MULTILINE)
        converge(lambda: Reading(bool(begins.search(self.text)) or self.process.poll() is not None, ""), BEGUN)

    def end(self) -> None:
        """Let it end by itself, or end it."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(500)
        self.kill()

    def kill(self) -> bool:
        """Kill -9; whether it was still there."""
        alive = self.process.poll() is None
        if alive:
            os.kill(self.process.pid, signal.SIGKILL)
        self.process.wait()
        return alive

    def left(self) -> list[str]:
        """Processes of its session: what it had started and what did not end with it."""
        found = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError, IndexError, ValueError):
                session = int((entry / "stat").read_text().rpartition(")")[2].split()[3])
                if session == self.process.pid:
                    found.append((entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()[:120])
        return found


def restored(bystanders: Bystanders, before: Snapshot, run: Run) -> tuple[str, list[str]]:
    """How long it took until everything is as before, and what differs if it is not."""
    left: list[str] = []

    def look() -> Reading:
        left[:] = [f"process {each}" for each in run.left()]
        left.extend(snapshot.differences(before, bystanders.take()))
        return Reading(not left, "; ".join(left)[:300])

    waited = converge(look, RESTORED)
    return f"{'as before' if waited.held else 'given up'} after {waited.seconds:.0f} s", left


def measured(run: Run) -> dict[str, float]:
    """How long each part of a run takes that nobody kills, in seconds."""
    run.end()
    assert (run.folder / "ledger.jsonl").is_file(), run.text
    spent = next(record["seconds"] for record in read_ledger(run.folder / "ledger.jsonl") if record["record"] == "end")
    return {part: sum(spent.get(phase, 0.0) for phase in phases) for part, phases in PARTS.items()}


@pytest.fixture
def bystanders(request: pytest.FixtureRequest) -> Iterator[Bystanders]:
    """They stand there, and the cluster is clean before and after."""
    context = str(request.config.getoption("context"))
    clean(context)
    found = Bystanders(context, os.environ["ESIPP_IMAGE"])
    with found.planted():
        try:
            yield found
        finally:
            clean(context)


def test_clean_removes_what_a_killed_run_left_and_nothing_else(bystanders: Bystanders, tmp_path: Path) -> None:
    chance = random.Random(SEED)
    before = bystanders.take()
    whole = Run(bystanders.context, tmp_path / "whole")
    spans = measured(whole)
    how, left = restored(bystanders, before, whole)
    print(
        f"seed {SEED}: {KILLS} kills; seconds of a run that is not killed: {spans}; {how}",
        *left,
        sep="\n  ",
        flush=True,
    )
    assert left == []
    failures = []
    for number in range(KILLS):
        part = list(PARTS)[number % len(PARTS)]
        run, moment = Run(bystanders.context, tmp_path / f"kill-{number}"), chance.uniform(0, spans[part])
        try:
            run.wait_until(PARTS[part][0])
            with contextlib.suppress(subprocess.TimeoutExpired):
                run.process.wait(moment)
        finally:
            alive = run.kill()
        state = run.phase if alive else endurance.ENDED
        said = "; ".join(clean(bystanders.context).splitlines())
        how, left = restored(bystanders, before, run)
        print(f"kill {number}: {part}, {moment:.1f} s into it (phase {state}): {said}; {how}", flush=True)
        for line in left:
            print(f"  LEFT {line}", flush=True)
        if RECORD:
            record = {"seed": SEED, "part": part, "moment": round(moment, 1), "phase": state, "said": said}
            endurance.add("kills", record | {"restored": how, "left": left})
        failures += [f"kill {number}: {line}" for line in left]
    assert failures == []
