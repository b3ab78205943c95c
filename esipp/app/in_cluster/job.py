"""The first container of the Job: runs esipp, and packs the report for the container that keeps it (keep.py).

``python3 -m esipp.app.in_cluster.job [--folder DIR] -- OPTION…``; ``esipp run`` gets what follows ``--``.

It is the pod's init container, and the only one with the account's token. It exits with 0 if there is a report,
whatever the verdict, and with the run's exit code if there is none.
"""

import argparse
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from types import FrameType
from typing import Any, Self

from esipp.app.in_cluster.archive import pack
from esipp.base.errors import ExitCode

FOLDER = Path("/report")
ARCHIVE, DESCRIPTION = "report.tar.gz", "archive.json"
ORPHANS_SECONDS, LOOK_SECONDS = 60.0, 0.2
ENDING = (signal.SIGTERM, signal.SIGINT)


class ChildRun:
    """``esipp run`` as a child process. It receives the signals that end this process, so that it can tear down.

    Within the context no signal is lost; ``ended`` says that one came. A signal without a handler does not end the
    first process of a container.
    """

    def __init__(self) -> None:
        self.ended = False
        self._process: subprocess.Popen[bytes] | None = None
        self._handlers: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        self._handlers = {number: signal.signal(number, self._end) for number in ENDING}
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._handlers.items():
            signal.signal(number, handler)

    def run(self, options: Sequence[str], folder: Path) -> tuple[int, Path | None]:
        """Run esipp in a folder. Return its exit code, and the run's folder if it created one."""
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
    """Run and pack; see the module."""
    own, options = _split(sys.argv[1:] if arguments is None else arguments)
    parsed = _parser().parse_args(own)
    with ChildRun() as child:
        code, run = child.run(options, parsed.folder)
        await_orphans(ORPHANS_SECONDS)
        if run is None:
            return code or int(ExitCode.HARNESS)  # the run was refused, and the log says why
        description = pack(run, parsed.folder / ARCHIVE, code)
        signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    description.write(parsed.folder / DESCRIPTION)
    return code if child.ended else 0


def await_orphans(seconds: float) -> None:
    """Wait for orphaned processes of the run: a watchdog may still undo what a killed run did to nodes.

    The container runtime kills all other processes of a container when its first one ends.
    """
    until, pause = time.monotonic() + seconds, threading.Event()
    while time.monotonic() < until:
        try:
            ended, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not ended:
            pause.wait(LOOK_SECONDS)


def _split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    at = arguments.index("--") if "--" in arguments else len(arguments)
    return list(arguments[:at]), list(arguments[at + 1 :])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python3 -m esipp.app.in_cluster.job", allow_abbrev=False)
    parser.add_argument("--folder", type=Path, default=FOLDER, help="folder for all files (default: %(default)s)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
