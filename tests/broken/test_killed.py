"""Killed disruptive runs: ``esipp clean`` restores the cluster after a kill at any moment.

Environment: ``ESIPP_KILLS`` (20), ``ESIPP_KILL_SEED`` (a new one, which is printed), and ``ESIPP_KILLED``: ``suite``
for the suite's own disruptive checks (those of ``ESIPP_KILLED_ROWS``), ``driver`` for each disruption in turn (of those
names) and nothing else. ``ESIPP_KILL_SPAN`` is the seconds of disruptions within which it is killed; otherwise a whole
run measures them. What happened at each kill is printed: ``pytest -s``.
"""

import contextlib
import os
import random
import re
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from esipp.base.waiting import Budget, Reading, converge
from esipp.checks.catalog import HOUSE
from esipp.cluster.client import Cluster
from esipp.disruption import shell
from esipp.probing.node_containers import node_containers, run
from tests.broken import snapshot

pytestmark = [pytest.mark.by_hand, pytest.mark.timeout(3600)]

KILLS = int(os.environ.get("ESIPP_KILLS", "20"))
SEED = int(os.environ.get("ESIPP_KILL_SEED", secrets.randbelow(10**6)))
OF = os.environ.get("ESIPP_KILLED", "suite")
SPAN = float(os.environ.get("ESIPP_KILL_SPAN", "0"))
CHECKS = os.environ.get("ESIPP_KILLED_ROWS", "").split()
BEGINS = re.compile(r"disruption: .* begins")

RESTORED = Budget("the cluster showing what it showed before", 330.0, need=2, spacing=1.0)
"""A kubelet's longest back-off, where the control plane's leaders have been made to restart often."""
BEGUN = 240.0
CLEANED = 500.0


class Running:
    """A disruptive run, and what it says."""

    def __init__(self, context: str, seed: int, folder: Path) -> None:
        image = os.environ["ESIPP_IMAGE"]
        if OF == "driver":
            command = ["-m", "tests.broken.disrupting", "--image", image, *CHECKS]
        else:
            command = [
                "-m",
                "esipp",
                "run",
                "--suite",
                "continuity",
                "--allow-disruptive",
                "--out",
                str(folder / "run"),
            ]
            command += CHECKS
        self._log = (folder / "said").open("w")
        self.said = folder / "said"
        self.process = subprocess.Popen(
            [sys.executable, *command, "--context", context, "--seed", str(seed)],
            cwd=HOUSE,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )

    def __enter__(self) -> "Running":
        return self

    def __exit__(self, *of: object) -> None:
        """Whatever happened, it ends: as a user would end it, and then by force."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(120)
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._log.close()

    def wait_for_disruption(self) -> None:
        """Until it says that the first one begins."""
        budget = Budget("the first disruption", BEGUN, need=1, spacing=0.05)
        over = converge(lambda: Reading(bool(BEGINS.search(self.text)) or self.ended, self.text[-500:]), budget)
        assert over.held, self.text
        assert not self.ended, self.text

    @property
    def text(self) -> str:
        """All that it has said."""
        return self.said.read_text(errors="replace")

    @property
    def ended(self) -> bool:
        """Whether its process is over."""
        return self.process.poll() is not None

    def watchdog(self) -> int | None:
        """The process that watches it."""
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError, IndexError, ValueError):
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                if parent == self.process.pid and b"esipp.disruption.watchdog" in (entry / "cmdline").read_bytes():
                    return int(entry.name)
        return None

    def kill(self, with_watchdog: bool) -> bool:
        """Kill -9; whether its watchdog went with it."""
        dog = self.watchdog() if with_watchdog else None
        if dog is not None:
            os.kill(dog, signal.SIGKILL)  # first: it would begin at once
        self.process.kill()
        self.process.wait()
        return dog is not None


def wait_until_restored(context: str, before: dict[str, Any]) -> tuple[str, list[str]]:
    """How long it took until the cluster shows what it showed, what came last, and what differs if it does not."""
    left: list[str] = []
    last = ""

    def look() -> Reading:
        nonlocal last
        try:
            left[:] = snapshot.differences(before, snapshot.take(context))
        except (AssertionError, subprocess.TimeoutExpired) as silent:
            left[:] = [str(silent)[:300]]
        last = left[0] if left else last
        return Reading(not left, "; ".join(left)[:300])

    waited = converge(look, RESTORED)
    return f"as before {waited.seconds:.1f} s later" + (f", last '{last}'" if last else ""), left


ON_NODES = {
    "address": "ip -o address show scope global | awk '$2 !~ /^veth|^lxc/ {print $2, $4}'",
    "sysctl": "sysctl -a 2>/dev/null | grep -E '^net.(ipv[46].(conf.(all|eth0).|ip_forward)|netfilter.*(max|timeout))'",
    "process": "cat /proc/[0-9]*/comm 2>/dev/null",
}
"""What a node shows of its kernel, as commands, line by line."""
PASSING = {
    "awk",
    "bash",
    "cat",
    "exe",
    "grep",
    "ip",
    "ip6tables",
    "iptables",
    "kworker",
    "runc",
    "sh",
    "sleep",
    "sort",
    "sysctl",
}
"""Processes that come and go by themselves, or by the commands above."""


def on_nodes(cluster: Cluster) -> set[str]:
    """The addresses, sysctls and kinds of processes of every node."""
    return {
        f"{node}: {what} {line}"
        for node, way in node_containers(cluster.server).items()
        for what, command in ON_NODES.items()
        for line in run(way, command).stdout.splitlines()
        if line.partition("/")[0].strip() not in PASSING
    }


def left_on_nodes(cluster: Cluster, before: set[str]) -> list[str]:
    """What kubectl does not show of nodes: marks, timers and stopped services, and what is not as it was before."""
    now = on_nodes(cluster)
    found = [f"{line} is new" for line in sorted(now - before)] + [f"{line} is gone" for line in sorted(before - now)]
    for node, way in node_containers(cluster.server).items():
        found += [f"{node}: mark of {what}" for what in shell.marks(way)]
        timers = run(way, "systemctl list-units --all --no-legend 'esipp-*'").stdout.split("\n")
        found += [f"{node}: {line.strip()}" for line in timers if line.strip()]
        found += [f"{node}: {what} is stopped" for what in shell.SERVICES if shell.is_stopped(way, what)]
    return found


@pytest.fixture(scope="module")
def context(request: pytest.FixtureRequest) -> str:
    return str(request.config.getoption("context"))


@pytest.fixture
def cleaned(context: str) -> Iterator[None]:
    """Whatever became of the test, its cluster is looked after."""
    yield
    clean(context)


def clean(context: str) -> str:
    """What `esipp clean` says."""
    command = [sys.executable, "-m", "esipp", "clean", "--context", context]
    done = subprocess.run(command, cwd=HOUSE, capture_output=True, text=True, timeout=CLEANED, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@contextmanager
def timed() -> Iterator[list[float]]:
    """How long a block took."""
    began, took = time.monotonic(), [0.0]
    yield took
    took[0] = time.monotonic() - began


def measured(context: str, before: dict[str, Any], tmp_path: Path) -> float:
    """How long a run disturbs if nobody kills it, in seconds; it leaves nothing."""
    whole = tmp_path / "whole"
    whole.mkdir()
    with Running(context, SEED, whole) as run:
        run.wait_for_disruption()
        with timed() as span:
            run.process.wait()
        assert "Traceback" not in run.text, run.text
    how, left = wait_until_restored(context, before)
    assert not left, (left, run.text)
    print(f"whole: {span[0]:.0f} s of disruptions; {how}")
    return span[0]


def test_clean_restores_what_a_killed_run_disturbed(context: str, tmp_path: Path, cleaned: None) -> None:
    chance = random.Random(SEED)
    print(f"seed {SEED}: {KILLS} kills of the {OF}")
    cluster = Cluster(context)
    clean(context)
    before, nodes = snapshot.take(context), on_nodes(cluster)
    span = SPAN or measured(context, before, tmp_path)
    failures = []
    for number in range(KILLS):
        folder = tmp_path / f"kill-{number}"
        folder.mkdir()
        moment, with_watchdog = chance.uniform(0, span), number % 2 == 1
        with timed() as round_took:
            with Running(context, SEED + number, folder) as run:
                run.wait_for_disruption()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    run.process.wait(moment)
                over = run.ended
                both = run.kill(with_watchdog)
            last = ([line for line in run.text.splitlines() if "disruption:" in line] or ["nothing"])[-1]
            said = clean(context).splitlines()
            how, left = wait_until_restored(context, before)
            left += left_on_nodes(cluster, nodes)
        who = "ended before" if over else "with its watchdog" if both else "alone"
        print(f"kill {number} at {moment:.1f} s, {who}, '{last}': clean said {said}; {how}")
        print(
            f"  the whole round took {round_took[0]:.0f} s", *(f"  LEFT {line}" for line in left), sep="\n", flush=True
        )
        failures += [f"kill {number}: {line}" for line in left]
    assert failures == []
