"""The second container of the Job: keeps the report until it is fetched. It has no token.

``python3 -m esipp.app.in_cluster.keep [--linger SECONDS] [--folder DIR]``.

A pod's emptyDir disappears with its containers. This container therefore stays ready while ``archive.json`` exists,
until ``esipp fetch`` writes ``fetched`` or the time is over. It exits with the exit code of the run.
"""

import argparse
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from esipp.app.in_cluster.archive import read
from esipp.app.in_cluster.job import DESCRIPTION, ENDING, FOLDER
from esipp.base.errors import EsippError, ExitCode

FETCHED = "fetched"
LINGER_SECONDS = 24 * 3600
LOOK_SECONDS = 1.0


def main(arguments: Sequence[str] | None = None) -> int:
    """Wait, and return the run's exit code."""
    parsed = _parser().parse_args(arguments)
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    try:
        description = read((parsed.folder / DESCRIPTION).read_text(encoding="utf-8"))
    except (OSError, EsippError) as broken:
        print(f"There is no report to keep: {broken}", flush=True)
        return int(ExitCode.HARNESS)
    print(
        f"The report is ready ({description.size} bytes); fetch it with 'esipp fetch --context …'. "
        f"This container then ends; without that, it ends after {parsed.linger} s.",
        flush=True,
    )
    fetched = wait_for(parsed.folder / FETCHED, parsed.linger)
    print("The report was fetched." if fetched else "The report was not fetched.", flush=True)
    return description.exit_code


def wait_for(path: Path, seconds: float) -> bool:
    """Wait until a file exists. The time limit ends the wait, and so do the (blocked) signals that end this process."""
    deadline = time.monotonic() + seconds
    while not path.exists():
        left = deadline - time.monotonic()
        if left <= 0 or signal.sigtimedwait(ENDING, min(LOOK_SECONDS, left)) is not None:
            return False
    return True


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python3 -m esipp.app.in_cluster.keep", allow_abbrev=False)
    parser.add_argument(
        "--linger",
        type=int,
        default=LINGER_SECONDS,
        help="maximum time to keep the report (default: %(default)s)",
        metavar="SECONDS",
    )
    parser.add_argument("--folder", type=Path, default=FOLDER, help="folder with all files (default: %(default)s)")
    return parser


if __name__ == "__main__":
    sys.exit(main())
