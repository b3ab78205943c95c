"""`ci/soak`: repeated runs on a kept, healthy cluster while busy processes load the machine.

A healthy but slow cluster must not turn red. A run is red if a check of any level is `fail` or `flaky`, or if the run
has no complete ledger. It is undecided if checks are `inconclusive` or `error`. Busy processes run next to the cluster,
in a container of their own, and optionally in one node, to simulate one busy node.
"""

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from ci import endurance
from ci.access import ClusterAccess
from ci.hermetic import engine
from ci.lane import TEARDOWN_SECONDS
from ci.places import CLUSTER, CONTEXT, cores, places
from ci.step import SETUP_FAILED, SetupError, guarded

NODE = f"{CLUSTER}-worker"
"""The endpoint node, with most of the backends."""

LOADED = f"{CLUSTER}-soak"
SPIN = "i=0; while [ $i -lt $0 ]; do (while :; do :; done) & i=$((i+1)); done; cat; kill $(jobs -p)"
"""Ends when its stdin closes, also if this program is killed: the container would outlive its docker client."""

RED = ("fail", "flaky")
UNDECIDED = ("inconclusive", "error")
DECIDED = ("conformant", "partial", "known defects")
"""Results of runs without a check that is red or undecided."""
SHOWN = 6
LONGEST = 300


@dataclass(frozen=True)
class Result:
    """The result of a run, from its ledger.

    ``core`` counts the core checks that passed, ``statuses`` the verdicts of each status. ``checks`` describes each
    check that is red or undecided, red ones first. ``whole`` is true if the ledger is complete.
    """

    result: str = "no ledger"
    whole: bool = False
    core: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    checks: tuple[str, ...] = ()

    @property
    def is_red(self) -> bool:
        """Whether a check is red, or the ledger is incomplete."""
        return not self.whole or any(self.statuses[status] for status in RED)

    @property
    def is_undecided(self) -> bool:
        """Whether no check is red, but some are undecided."""
        return not self.is_red and (any(self.statuses[status] for status in UNDECIDED) or self.result not in DECIDED)


def read(lines: Iterable[str]) -> Result:
    """Read a ledger."""
    statuses: Counter[str] = Counter()
    core, result, whole = 0, "unfinished", False
    wrong: list[tuple[int, str]] = []
    order = (*RED, *UNDECIDED)
    for line in lines:
        record = json.loads(line)
        if record.get("record") == "end":
            result, whole = record["result"], record.get("seconds", {}).get("judge") is not None
        elif record.get("record") == "verdict":
            status = record["status"]
            statuses[status] += 1
            core += status == "pass" and record["level"] == "core"
            if status in order:
                text = f"{status} {record['id']} ({record['level']}): {record['observed']}; {record['reason']}"
                wrong.append((order.index(status), text))
    return Result(result, whole, core, statuses, tuple(text for _, text in sorted(wrong)))


@contextlib.contextmanager
def busy(beside: int, in_node: int) -> Iterator[None]:
    """Run busy processes: ``beside`` next to the cluster, and ``in_node`` in one of its nodes."""
    commands = [[*_beside_cluster(), str(beside)]] if beside else []
    if in_node:
        commands.append(["docker", "exec", "-i", NODE, "bash", "-c", SPIN, str(in_node)])
    spinning = [subprocess.Popen(command, stdin=subprocess.PIPE) for command in commands]
    try:
        yield
    finally:
        for process in spinning:
            assert process.stdin is not None
            process.stdin.close()
            process.wait()
        engine.remove_cgroups(LOADED)


def _beside_cluster() -> list[str]:
    """The command for busy processes in a control group next to the cluster's."""
    subprocess.run(["docker", "rm", "--force", LOADED], capture_output=True, check=False)
    image = _output(["docker", "inspect", "--format", "{{.Config.Image}}", NODE])
    parent = (
        f"{LOADED}.slice" if _output(["docker", "info", "--format", "{{.CgroupDriver}}"]) == "systemd" else f"/{LOADED}"
    )
    alone = ["--network", "none", "--cgroup-parent", parent, "--entrypoint", "bash"]
    return ["docker", "run", "--rm", "--interactive", "--name", LOADED, *alone, image, "-c", SPIN]


def _output(command: Sequence[str]) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def one_run(options: argparse.Namespace, out: Path) -> tuple[Result, float]:
    """Run once; return the result and the seconds it took."""
    command = [sys.executable, "-m", "esipp", "run", "--context", options.context, "--image", options.image or ""]
    command += ["--out", str(out), "--samples", str(options.samples), "--fail-on", "extended"]
    if there := ClusterAccess.load(places()):
        command += ["--lane", there.lane]
    command += [option for suite in options.suite or ["source_ip"] for option in ("--suite", suite)]
    command += options.more
    out.parent.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    with (out.parent / f"{out.name}.said").open("w") as said:
        tied = guarded(command, "TERM")  # cleans up if this program ends
        process = subprocess.Popen(tied, stdin=subprocess.DEVNULL, stdout=said, stderr=said)
        try:
            process.wait()
        except BaseException:  # subprocess.run would kill it, and its namespace would stay
            process.terminate()
            process.wait(TEARDOWN_SECONDS)
            raise
    seconds = time.monotonic() - began
    ledger = out / "ledger.jsonl"
    if not ledger.is_file():
        return Result(), seconds
    with ledger.open() as lines:
        return read(lines), seconds


def sentence(number: int, result: Result, seconds: float, load: float) -> str:
    """The output line of a run."""
    counts = ", ".join(f"{result.statuses[status]} {status}" for status in (*RED, *UNDECIDED))
    return f"run {number}: {seconds:.0f} s, {result.result}, {result.core} core pass, {counts}, load {load:.0f}"


def record(options: argparse.Namespace, result: Result, seconds: float) -> None:
    """Record the result of a run, and render docs/soak.md."""
    endurance.add(
        "runs",
        {
            "suites": options.suite or ["source_ip"],
            "samples": options.samples,
            "busy": options.busy * cores(),
            "grouped": True,
            "busy_in_node": options.busy_in_node,
            "seconds": round(seconds, 1),
            "result": result.result,
            "statuses": dict(sorted(result.statuses.items())),
            "red": result.is_red,
            "undecided": result.is_undecided,
            "worse": [text[:LONGEST] for text in result.checks[:SHOWN]],
        },
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run repeatedly, and print each result."""
    parser = argparse.ArgumentParser(prog="ci/soak", description="Repeat runs on a busy machine; none may be red.")
    parser.add_argument("--runs", type=int, default=50, help="number of runs (%(default)s)")
    parser.add_argument(
        "--busy", type=int, default=2, help="busy processes per core, next to the cluster (%(default)s)"
    )
    parser.add_argument("--busy-in-node", type=int, default=0, help=f"busy processes in {NODE} (%(default)s)")
    parser.add_argument("--suite", action="append", help="suite to run; repeatable (source_ip)")
    parser.add_argument("--samples", type=int, default=20, help="connections per path (%(default)s)")
    parser.add_argument(
        "--keep", type=Path, help="folder for the ledgers of red or undecided runs (default: a new one)"
    )
    parser.add_argument("--record", action="store_true", help="add every run to records/soak.jsonl and docs/soak.md")
    parser.add_argument("--context", default=CONTEXT, help="kubeconfig context (%(default)s)")
    parser.add_argument("--image", default=os.environ.get("ESIPP_IMAGE"), help="echo image ($ESIPP_IMAGE)")
    parser.add_argument("more", nargs="*", metavar="OPTION", help="after --: more options for 'esipp run'")
    options = parser.parse_args(arguments)
    folder = options.keep or Path(tempfile.mkdtemp(prefix="esipp-soak-"))
    if folder.exists() and any(folder.iterdir()):  # a run that is refused there would be taken for the one in it
        SetupError(f"{folder} is not empty.", "name another folder for --keep.").show()
        return SETUP_FAILED
    in_node = f", {options.busy_in_node} in {NODE}" if options.busy_in_node else ""
    beside = options.busy * cores()
    print(
        f"{options.runs} runs on {cores()} cores, {beside} busy processes next to the cluster{in_node}; ledgers in "
        f"{folder}",
        flush=True,
    )
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends the busy processes and removes their control group
    red = undecided = in_a_row = 0
    seconds: list[float] = []
    loads: list[float] = []
    with busy(beside, options.busy_in_node):
        for number in range(1, options.runs + 1):
            out = folder / f"run-{number}"
            result, took = one_run(options, out)
            seconds.append(took)
            loads.append(os.getloadavg()[0])
            print(sentence(number, result, took, loads[-1]), flush=True)
            for text in result.checks[:SHOWN]:
                print(f"    {text[:LONGEST]}", flush=True)
            if len(result.checks) > SHOWN:
                print(f"    and {len(result.checks) - SHOWN} more", flush=True)
            if options.record:
                record(options, result, took)
            red += result.is_red
            undecided += result.is_undecided
            in_a_row = 0 if result.is_red else in_a_row + 1
            if not result.is_red and not result.is_undecided:
                shutil.rmtree(out)
                (folder / f"{out.name}.said").unlink()
    print(f"{min(seconds):.0f} to {max(seconds):.0f} s a run, load average {min(loads):.0f} to {max(loads):.0f}")
    print(f"{options.runs} runs, {red} red, {undecided} undecided; the last {in_a_row} in a row without red")
    return 1 if red else 3 if undecided else 0


if __name__ == "__main__":
    sys.exit(main())
