"""`ci/matrix`: run lanes one after the other with `ci/conformance`, and merge their reports.

Lanes share built artifacts. A state folder has each lane's run and result. A lane with a complete ledger from the same
content is skipped, so an interrupted matrix continues where it stopped.
"""

import argparse
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import FrameType

from ci import data_planes, lane_file, lane_lists
from ci.expiry import expired
from ci.lane import INTERRUPTED, split
from ci.matrix_state import Ended, State
from ci.places import CI, ROOT
from ci.step import SETUP_FAILED, Parser, SetupError, guarded
from esipp.base.errors import EsippError, ExitCode
from esipp.ledger.reading import RecordedRun, read_run
from esipp.report.comparing import merge_report
from esipp.report.comparing.merge import WORST_CODE_FIRST, Merged, merge
from esipp.report.rendering.markdown import as_markdown
from esipp.report.rendering.terminal import as_text

STATE = ROOT / "runs" / "matrix"
REPORT = "merged.md"
MEANINGS = {
    0: "holds",
    1: "does not conform",
    INTERRUPTED: "interrupted",
    3: "undecided",
    SETUP_FAILED: "no cluster",
    5: "no check selected",
}
"""Meanings of the exit codes of `ci/conformance`."""

JUDGED = (0, 1, 3, 5)
"""Exit codes of complete runs."""

Start = Callable[[list[str]], "subprocess.Popen[bytes]"]


@dataclass
class Stopping:
    """The state of an interruption: whether it was requested, and the running lane to notify."""

    requested: bool = False
    under_way: subprocess.Popen[bytes] | None = None

    def stop(self, _number: int = 0, _frame: FrameType | None = None) -> None:
        """Forward the signal: the lane removes its cluster and ends, and no other lane starts."""
        self.requested = True
        if self.under_way and self.under_way.poll() is None:
            self.under_way.send_signal(signal.SIGINT)


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    own, more = split(sys.argv[1:] if arguments is None else arguments)
    options = _parser().parse_args(own)
    try:
        lanes = [lane_file.load(name) for name in options.lanes or usual_lanes()]
    except SetupError as error:
        error.show()
        return SETUP_FAILED
    state = State(options.state, options.path, more)
    stopping = Stopping()
    with _watched(stopping):
        ended = run(lanes, state, stopping, again=options.again, keep_going=options.keep_going)
    return report(lanes, ended, state, stopping, record=options.record)


def usual_lanes() -> list[str]:
    """The default lanes: those without an emulation and without special requirements.

    Lanes that extend no other come first, as others are compared with them. If lanes differ only in name and
    description (the default Kubernetes version, and the lane that names this version), only the first is included.
    """
    every = sorted(lane_lists.lanes("*"), key=lambda lane: bool(lane.extends))
    lanes = [lane for lane in every if not lane.emulates and not lane.needs]
    bare = [replace(lane, name="", description="", extends="") for lane in lanes]
    return [lane.name for number, lane in enumerate(lanes) if bare[number] not in bare[:number]]


def run(
    lanes: Sequence[lane_file.Lane],
    state: State,
    stopping: Stopping,
    *,
    again: bool = False,
    keep_going: bool = False,
    start: Start | None = None,
) -> dict[str, Ended]:
    """Run the lanes without a complete run; return the results of all lanes, from now or before.

    Args:
        lanes: the lanes in order.
        state: the folder of runs and results.
        stopping: becomes ``asked`` when no further lane may start.
        again: also run lanes with a complete run.
        keep_going: continue after a lane with failures; a lane without a cluster never stops the others.
        start: starts `ci/conformance`; by default as a process.
    """
    ended: dict[str, Ended] = {}
    for number, lane in enumerate(lanes, 1):
        earlier = None if again else state.recorded(lane)
        if earlier:
            ended[lane.name] = earlier
            print(
                f"[{number}/{len(lanes)}] {lane.name}: kept from before ({MEANINGS.get(earlier.code, earlier.code)})",
                flush=True,
            )
        elif stopping.requested:
            break
        else:
            print(f"[{number}/{len(lanes)}] {lane.name}: {lane.description}", flush=True)
            ended[lane.name] = _run_one(lane, state, stopping, start or _start)
        code = ended[lane.name].code
        if code == SETUP_FAILED:
            print(f"         {lane.name} got no cluster; the others go on.", flush=True)
        elif code and not keep_going and not stopping.requested:
            print(
                f"         {lane.name} {MEANINGS.get(code, 'failed')}: this ends here without --keep-going.", flush=True
            )
            break
    return ended


def _run_one(lane: lane_file.Lane, state: State, stopping: Stopping, start: Start) -> Ended:
    folder = state.folder(lane.name)
    state.forget(lane.name)
    if folder.exists():
        shutil.rmtree(folder)
    command: list[str] = [str(CI / "conformance"), "--lane", lane.name, "--path", state.path, "--"]
    key, began = state.key(lane), time.monotonic()
    stopping.under_way = process = start([*command, "--out", str(folder), *state.more])
    if stopping.requested:  # the word came just before there was anybody to pass it on to
        stopping.stop()
    code = process.wait()
    stopping.under_way = None
    if stopping.requested and code not in JUDGED:
        code = INTERRUPTED  # whatever broke off because of the signal
    return state.note(lane, key, code, time.monotonic() - began)


def _start(command: list[str]) -> subprocess.Popen[bytes]:
    # A session of its own: what the terminal sends reaches it once, by us.
    return subprocess.Popen(guarded(command, "TERM"), cwd=ROOT, start_new_session=True)


# ------------------------------------------------------------------------------------------------------------- report
def report(
    lanes: Sequence[lane_file.Lane], ended: dict[str, Ended], state: State, stopping: Stopping, *, record: bool = False
) -> int:
    """Print the merged runs and the lanes with their times; return the exit code of the matrix.

    It is that of the merged runs. If these pass: 4 if a lane got no cluster, 3 if a known difference was not observed
    on a data plane it applies to. 2 after an interruption.
    """
    runs = list(_runs(lanes, ended, state))
    code = 0
    if runs:
        merged = merge(runs)
        code = int(merged.exit_code)
        _tell(merged, state.root / REPORT)
    gone = expired(runs)
    print("\n" + table(lanes, ended))
    for line in gone:
        print(f"expired: {line}")
    if record and runs:
        try:
            lines = data_planes.add(runs, {name: asdict(each) for name, each in ended.items()})
        except EsippError as refused:
            print(f"\n{refused}", file=sys.stderr)
            return int(refused.exit_code)
        print(f"\n{lines}")
    codes = [code, *([int(ExitCode.HARNESS)] if gone else [])]
    codes += [SETUP_FAILED for each in ended.values() if each.code == SETUP_FAILED]
    if stopping.requested:
        missing = [lane.name for lane in lanes if lane.name not in ended or ended[lane.name].code == INTERRUPTED]
        print(f"\nInterrupted; the same command goes on with {', '.join(missing) or 'nothing more'}.", file=sys.stderr)
        return INTERRUPTED
    if not runs and not ended:
        return int(ExitCode.NOTHING_SELECTED)
    return min(codes, key=[int(each) for each in WORST_CODE_FIRST].index)


def _runs(lanes: Sequence[lane_file.Lane], ended: dict[str, Ended], state: State) -> Iterator[RecordedRun]:
    """The existing runs; an interrupted one has an incomplete ledger and is marked so."""
    for lane in lanes:
        if lane.name in ended and ended[lane.name].code != INTERRUPTED:
            try:
                yield read_run(state.folder(lane.name))
            except EsippError as missing:
                if ended[lane.name].code != SETUP_FAILED:
                    print(f"{lane.name}: {missing.sentence}", file=sys.stderr)


def _tell(merged: Merged, path: Path) -> None:
    document = merge_report.report(merged)
    path.write_text(as_markdown(document), encoding="utf-8")
    print("\n" + as_text(document), end="")
    print(f"\nThe same as a page: {path}")


def table(lanes: Sequence[lane_file.Lane], ended: dict[str, Ended]) -> str:
    """The table of lanes: result, cores, and time including builds."""
    checks = [("lane", "came to", "cores", "minutes", "at (UTC)")]
    for lane in lanes:
        each = ended.get(lane.name)
        if each is None:
            checks.append((lane.name, "not run", "", "", ""))
        else:
            meaning = MEANINGS.get(each.code, f"exit code {each.code}")
            checks.append((lane.name, meaning, str(each.cores), f"{each.seconds / 60:.1f}", each.at))
    widths = [max(len(check[column]) for check in checks) for column in range(5)]
    return "\n".join(
        "  ".join(f"{text:<{width}}" for text, width in zip(check, widths, strict=True)) for check in checks
    )


# ------------------------------------------------------------------------------------------------------- the command
def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="ci/matrix",
        description="Run lanes one after the other, and merge their reports.",
        epilog="Options after -- go to each 'esipp run'. Exit code: that of the merged runs (0 conformant, 1 not, "
        "3 undecided, or a known difference has expired), 4 if a lane got no cluster, 2 "
        "interrupted.",
    )
    parser.add_argument(
        "lanes", nargs="*", metavar="LANE", help="a file of ci/lanes/ (default: all that every machine can run)"
    )
    parser.add_argument("--keep-going", action="store_true", help="continue after a lane with failures")
    parser.add_argument("--again", action="store_true", help="also run lanes that have a complete run")
    parser.add_argument(
        "--record", action="store_true", help="record the differences between data planes for docs/data-planes.md"
    )
    parser.add_argument("--state", type=Path, default=STATE, metavar="DIR", help="folder of the runs (runs/matrix)")
    parser.add_argument(
        "--path", choices=("auto", "official", "hermetic"), default="auto", help="same as for ci/conformance"
    )
    return parser


@contextmanager
def _watched(stopping: Stopping) -> Iterator[None]:
    """On SIGINT and SIGTERM, end the running lane and start no other."""
    before = {number: signal.signal(number, stopping.stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


if __name__ == "__main__":
    sys.exit(main())
