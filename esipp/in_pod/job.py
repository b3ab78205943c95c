"""What the Job's container does: it runs esipp, packs the report, and stays until somebody has fetched it.

``python3 -m esipp.in_pod.job [--linger SECONDS] [--folder DIR] -- OPTION…``; what follows ``--`` is for ``esipp run``.
A pod's emptyDir is gone with its containers: hence the container goes on, ready (``parcel.json`` is there), until
``esipp fetch`` writes ``fetched``, or the time is over. Its exit code is the run's.
"""

import argparse
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Self

from esipp.errors import ExitCode
from esipp.in_pod.parcel import pack

FOLDER = Path("/report")
ARCHIVE, PARCEL, FETCHED = "report.tar.gz", "parcel.json", "fetched"
LINGER_SECONDS = 24 * 3600
LOOK_SECONDS = 1.0
ENDING = (signal.SIGTERM, signal.SIGINT)


class Asking:
    """``esipp run`` as a child, to which the signals that end us are handed on: it removes what it made.

    Within the context no signal is lost; ``ended`` says that one came. The first process of a container is not ended by
    one for which it has no handler.
    """

    def __init__(self) -> None:
        self.ended = False
        self._process: subprocess.Popen[bytes] | None = None
        self._kept: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        self._kept = {number: signal.signal(number, self._end) for number in ENDING}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._kept.items():
            signal.signal(number, handler)

    def run(self, options: Sequence[str], folder: Path) -> tuple[int, Path | None]:
        """Run it in a folder; returns its exit code, and the run's folder if it made one."""
        before = set(_runs(folder))
        command = [sys.executable, "-m", "esipp", "run", "--in-cluster", *options]
        self._process = subprocess.Popen(command, cwd=folder)
        if self.ended:  # it came while the child was started
            self._process.terminate()
        code = self._process.wait()
        made = [run for run in _runs(folder) if run not in before]
        return code if code >= 0 else int(ExitCode.HARNESS), made[-1] if made else None

    def _end(self, _number: int, _frame: FrameType | None) -> None:
        self.ended = True
        if self._process is not None:
            self._process.terminate()


def _runs(folder: Path) -> list[Path]:
    """The folders of runs, the newest last."""
    ledgers = (folder / "runs").glob("*/ledger.jsonl")
    return sorted({each.parent.resolve() for each in ledgers}, key=lambda run: run.stat().st_mtime)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run, pack, wait; returns the run's exit code."""
    own, options = _split(sys.argv[1:] if arguments is None else arguments)
    told = _parser().parse_args(own)
    with Asking() as asking:
        code, run = asking.run(options, told.folder)
        if run is None:
            return code  # it was refused, and the log says why
        parcel = pack(run, told.folder / ARCHIVE, code)
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    parcel.write(told.folder / PARCEL)
    if asking.ended or not told.linger:
        return code
    print(
        f"\nThe report is ready, {parcel.size} bytes; 'esipp fetch --context …' fetches it. "
        f"This container ends then, or after {told.linger} s.",
        flush=True,
    )
    fetched = wait_for(told.folder / FETCHED, told.linger)
    print("The report was fetched." if fetched else "Nobody fetched the report.", flush=True)
    return code


def wait_for(path: Path, seconds: float) -> bool:
    """Wait until a file is there, so long at most; a signal that ends us, which has to be blocked, ends that."""
    deadline = time.monotonic() + seconds
    while not path.exists():
        left = deadline - time.monotonic()
        if left <= 0 or signal.sigtimedwait(ENDING, min(LOOK_SECONDS, left)) is not None:
            return False
    return True


def _split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    at = arguments.index("--") if "--" in arguments else len(arguments)
    return list(arguments[:at]), list(arguments[at + 1 :])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python3 -m esipp.in_pod.job", allow_abbrev=False)
    parser.add_argument("--linger", type=int, default=LINGER_SECONDS, help="seconds (%(default)s)")
    parser.add_argument("--folder", type=Path, default=FOLDER, help="where all is written (%(default)s)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
