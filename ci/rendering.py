"""`ci/bench-report`: time and memory of every report format for a large ledger.

It repeats the observations of a real ledger up to the requested number. Each report is rendered in its own process, to
measure its own peak. Nothing is asserted, as machines are noisy.
"""

import argparse
import hashlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from ci.places import cores
from esipp.ledger.reading import LEDGER, read_run
from esipp.report.formats import FORMATS

READ = "(reading only)"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        prog="ci/bench-report", description="Measure time and memory of every report format."
    )
    parser.add_argument("run", type=Path, help="a run's folder")
    parser.add_argument(
        "--observations", type=int, default=100_000, metavar="N", help="number of observations (%(default)s)"
    )
    parser.add_argument("--one", metavar="FORMAT", help=argparse.SUPPRESS)  # the process that makes one report
    options = parser.parse_args(arguments)
    if options.one:
        return _one(options.run, options.one)
    with tempfile.TemporaryDirectory() as folder:
        ledger = Path(folder) / LEDGER
        count = inflate(options.run / LEDGER if options.run.is_dir() else options.run, ledger, options.observations)
        print(f"{count} observations, {ledger.stat().st_size / 1e6:.0f} MB of ledger, {cores()} cores")
        print(f"{'report':<16} {'seconds':>8} {'peak MB':>8} {'kB':>8}")
        for name in (READ, *FORMATS):
            done = subprocess.run(
                [sys.executable, "-m", "ci.rendering", folder, "--one", name],
                check=True, stdout=subprocess.PIPE, text=True, env=os.environ,
            ).stdout.split()  # fmt: skip
            print(f"{name:<16} {float(done[0]):>8.1f} {int(done[1]) / 1024:>8.0f} {int(done[2]) / 1000:>8.0f}")
    return 0


def _one(folder: Path, name: str) -> int:
    began = time.monotonic()
    run = read_run(folder)
    text = "" if name == READ else FORMATS[name].render(run)
    spent, peak = time.monotonic() - began, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{spent:.3f} {peak} {len(text.encode())}")
    return 0 if run.whole else 1


def inflate(source: Path, target: Path, wanted: int) -> int:
    """Write a sealed ledger with at least ``wanted`` observations, and return their number."""
    lines = source.read_text(encoding="utf-8").splitlines(keepends=True)
    own = [json.loads(line) for line in lines if line.startswith('{"record": "observation"')]
    if not own:
        raise SystemExit(f"ci/bench-report: {source} has no observations")
    digest, records = hashlib.sha256(), 0
    with target.open("w", encoding="utf-8") as out:
        for line in _with_more(lines, own, wanted - len(own)):
            if line.startswith('{"record": "end"'):
                line = json.dumps(json.loads(line) | {"records": records, "sha256": digest.hexdigest()}) + "\n"
            digest.update(line.encode())
            records += 1
            out.write(line)
    return max(wanted, len(own))


def _with_more(lines: Sequence[str], own: Sequence[dict[str, object]], more: int) -> Iterator[str]:
    """The lines with additional observations after the first one, each with its own time."""
    first = next(number for number, line in enumerate(lines) if line.startswith('{"record": "observation"'))
    yield from lines[:first]
    for number in range(more):
        each = own[number % len(own)]
        later = float(str(each["started"])) + 1e-3 * (1 + number // len(own))
        yield json.dumps(each | {"started": later}) + "\n"
    for line in lines[first:]:
        # a verdict that counts other probes than there are is not believed
        yield json.dumps(json.loads(line) | {"tally": {}}) + "\n" if line.startswith('{"record": "verdict"') else line


if __name__ == "__main__":
    sys.exit(main())
