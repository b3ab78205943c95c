"""`ci/bench`: time per phase and memory of complete runs on a kept cluster, by number of checks or by profile.

It compares the phases with their lower bound: the start of one pod, one sync of the service proxy, and the pause of the
namespace controller before it deletes anything. Nothing is asserted, as machines are noisy.
"""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from ci.floor import floor_of
from ci.memory import Peaks, Watch, node_process
from ci.places import CLUSTER, CONTEXT, cores
from ci.step import output
from esipp.app.selection import PROFILES
from esipp.checks.catalog import all_path_checks
from esipp.cluster.client import Cluster

WHOLE = "whole"
SENTENCE = re.compile(r"[A-Z ]+: ")
"""How the sentence of a run begins: with its result."""

Seconds = Mapping[str, float]

SOURCE_IP = ("--suite", "source_ip")
"""The suite that is measured: what the others take follows from how often they move what."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="ci/bench", description="Measure time and memory of runs, and compare with the lower bound."
    )
    parser.add_argument("--context", default=CONTEXT, help="kubeconfig context (%(default)s)")
    parser.add_argument("--image", default=os.environ.get("ESIPP_IMAGE"), help="echo image ($ESIPP_IMAGE)")
    parser.add_argument(
        "--runs", type=int, default=5, help="runs per column, and samples of the lower bound (%(default)s)"
    )
    parser.add_argument(
        "--rows", dest="checks", default="", metavar="N,N…", help="one column per number of checks (all checks)"
    )
    parser.add_argument(
        "--profile",
        dest="profiles",
        action="append",
        choices=list(PROFILES),
        default=[],
        help="measure whole runs of this profile instead: until their sentence, and until their exit; repeatable",
    )
    options = parser.parse_args(arguments)
    if options.profiles:
        return show_profiles(options.profiles, options.context, options.image, options.runs)
    ids = [path_check.id for path_check in all_path_checks()]
    try:
        numbers = sorted({min(int(number), len(ids)) for number in options.checks.split(",") if number} or {len(ids)})
    except ValueError:
        numbers = []
    if not numbers or numbers[0] < 1 or options.runs < 1:
        parser.error("--rows is a list like 100,300,1000, and --runs at least 1")

    node = node_process(f"{CLUSTER}-control-plane")
    print(f"{len(ids)} checks; the run on {cores()} cores, the nodes on {cores(node) if node else 'unknown'}")
    floor = floor_of(Cluster(options.context), options.image, options.runs)
    columns = {}
    for number in numbers:
        chosen = [] if number == len(ids) else spread(ids, number)
        columns[number] = [one_run(options.context, options.image, chosen) for _ in range(options.runs)]
    print(f"seconds, median of {options.runs} runs (least to most):")
    print("\n".join(table(columns)))
    print("the floor:")
    for name, values in floor.items():
        print(f"  {name:<16}{figures(values)}")
    least = statistics.median(floor["one pod"]) + statistics.median(floor["one proxy sync"])
    set_up = statistics.median(run["set-up"] + run["settle"] for run in columns[numbers[-1]])
    print(f"set-up and settling take {set_up / least:.1f} times one pod and one proxy sync")
    show_memory(options.context, options.image, node)
    return 0


def show_profiles(profiles: Sequence[str], context: str, image: str, runs: int) -> int:
    """Run each profile so often, and print when its sentence stood there, when it ended, and its phases."""
    print(f"the run on {cores()} cores; seconds, median of {runs} runs (least to most)")
    for profile in profiles:
        made = []
        for _ in range(runs):
            with tempfile.TemporaryDirectory() as folder:
                out = Path(folder) / "run"
                argv = [sys.executable, "-m", "esipp", "run", "--quiet", "--profile", profile, "--out", str(out)]
                made.append(timed_run([*argv, "--context", context, "--image", image], out))
        print(f"profile {profile}")
        for name in made[0]:
            print(f"  {name:<24}{figures([run.get(name, 0.0) for run in made])}")
    return 0


def timed_run(argv: Sequence[str], out: Path) -> Seconds:
    """Run a command that writes a run to ``out``: seconds until its sentence, until its exit, and of each phase.

    Raises:
        SystemExit: the run did not judge its checks.
    """
    with tempfile.TemporaryFile("w+") as errors:
        began, sentence, said = time.monotonic(), 0.0, ""
        with subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=errors, text=True) as process:
            assert process.stdout is not None
            for line in process.stdout:
                said += line
                if not sentence and SENTENCE.match(line):
                    sentence = time.monotonic() - began
        whole = time.monotonic() - began
        errors.seek(0)
        times = phases(out, process.returncode, said + errors.read())
        return {"until the sentence": sentence, "until the exit": whole, **times}


def spread(ids: Sequence[str], number: int) -> list[str]:
    """Choose that many ids, evenly over all of them."""
    return [ids[index * len(ids) // number] for index in range(number)]


def figures(values: Sequence[float]) -> str:
    """One table cell: the median, and the range."""
    return f"{statistics.median(values):7.2f}  ({min(values):.2f} to {max(values):.2f})"


def table(columns: Mapping[int, Sequence[Seconds]]) -> list[str]:
    """The phases, one a line, by number of checks; and what a check more costs."""
    first = next(iter(columns.values()))[0]
    lines = ["  " + " " * 16 + "".join(f"{f'{number} checks':<28}" for number in columns)]
    for name in first:
        path_checks = (f"{figures([run.get(name, 0.0) for run in runs]):<28}" for runs in columns.values())
        lines.append(f"  {name:<16}{''.join(path_checks)}")
    if len(columns) > 1:
        (few, *_, many) = columns
        more = statistics.median(r[WHOLE] for r in columns[many]) - statistics.median(r[WHOLE] for r in columns[few])
        lines.append(f"  a check more costs {1000 * more / (many - few):.1f} ms, between {few} and {many} checks")
    return [line.rstrip() for line in lines]


def command(context: str, image: str, ids: Sequence[str], out: Path) -> list[str]:
    """The run; no ids are all checks."""
    run = [sys.executable, "-m", "esipp", "run", "--context", context, "--image", image, "--out", str(out)]
    return [*run, *SOURCE_IP, *ids]


def one_run(context: str, image: str, ids: Sequence[str]) -> Seconds:
    """Run the checks once; its phases as the ledger has them, and the time of the whole command."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "run"
        began = time.monotonic()
        done = subprocess.run(command(context, image, ids, out), capture_output=True, text=True, check=False)
        whole = time.monotonic() - began
        return {**phases(out, done.returncode, done.stdout + done.stderr), WHOLE: whole}


def phases(out: Path, code: int, said: str) -> Seconds:
    """The phases of a run that judged its checks, however well; another one took no time worth telling."""
    ledger = out / "ledger.jsonl"
    end = json.loads(ledger.read_text().splitlines()[-1]) if ledger.is_file() else {}
    seconds: Seconds = end.get("seconds", {})
    if "judge" not in seconds:
        raise SystemExit(f"the run ended with {code}:\n{said[-4000:]}")
    if code:
        print(f"(a run of it ended with {code}: {end['result']})", file=sys.stderr)
    return seconds


def show_memory(context: str, image: str, node: int | None) -> None:
    """Run all checks once more, not timed because looking costs time, and print what they held."""
    with tempfile.TemporaryDirectory() as folder, (Path(folder) / "said").open("w+") as said:
        out = Path(folder) / "run"
        argv = command(context, image, [], out)
        with subprocess.Popen(argv, stdout=said, stderr=said) as process, Watch(process.pid, node) as watch:
            process.wait()
        said.seek(0)
        phases(out, process.returncode, said.read())
    print("memory, the most at any time; what processes share counts once:")
    show_peaks("the run", watch.harness)
    if node:
        show_peaks("our images", watch.images)
    else:
        print("  the nodes' processes are not seen from here")
    size = (output(["docker", "image", "inspect", "--format", "{{.Size}}", image]) or "").strip()
    print(f"image {image}: {f'{int(size) / 1e6:.0f} MB' if size.isdigit() else 'size unknown'}")


def show_peaks(what: str, peaks: Peaks) -> None:
    """Print the programs, the largest first."""
    print(f"  {what:<16}{peaks.total / 1024:7.1f} MiB")
    for name, (size, number) in sorted(peaks.each.items(), key=lambda item: -item[1][0]):
        print(f"    {name:<14}{size / 1024:7.1f} MiB in {number} process{'es' if number > 1 else ''}")


if __name__ == "__main__":
    sys.exit(main())
