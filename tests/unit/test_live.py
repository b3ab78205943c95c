"""What is drawn on a terminal: held against an emulated one of some columns, and on a real pseudo-terminal."""

import os
import pty
import re
import select
import signal
import subprocess
import sys
import threading
import time
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from esipp.checks.catalog import HOUSE
from esipp.checks.check import Status
from esipp.ledger.progress import Phase, Progress, Snapshot, Wait
from esipp.report.live import Display, Lines, Outlet, Ticker, done_line, frame, wants_live

BUSY = Snapshot(
    checks=3491,
    impossible=16,
    set_up=3475,
    observed=1204,
    counts={Status.PASS: 1000, Status.FAIL: 3, Status.UNSUPPORTED: 16},
    seconds=72,
    done=[],
    now=Phase("observe", "1414 paths, 200 connections each", 12, 121),
    waits=[Wait("load balancers to get their VIPs", 12, 180, "3 of 12 are left")],
    connections=(56_000, 282_800),
    left=660,
)


def drawn(snapshot: Snapshot, width: int, **settings: bool) -> str:
    file = StringIO()
    console = Console(force_terminal=True, file=file, width=width, legacy_windows=False, **settings)
    console.print(frame(snapshot, width))
    return file.getvalue()


def words(text: str) -> str:
    """Without what moves cursors and colours, and as one line."""
    return " ".join(re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text).split())


# ---------------------------------------------------------------------------------------------------------- a frame
def test_a_frame_says_what_goes_on_and_how_far_it_is() -> None:
    said = words(drawn(BUSY, 100))
    assert "> observe 12 s of about 2 min 1414 paths, 200 connections each" in said
    assert "56,000 of 282,800 connections done" in said
    assert "waiting 12 s of 180 s for load balancers to get their VIPs: 3 of 12 are left" in said
    assert "3,491 checks: 3,475 set up, 1,204 observed, 1,019 judged, 16 unsupported here" in said
    assert "1,000 pass, 16 unsupported, 3 fail" in said
    assert "1 min 12 s, about 11 min left" in said


@pytest.mark.parametrize("width", [20, 40, 80, 200])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    for line in drawn(BUSY, width).splitlines():
        assert len(re.sub(r"\x1b\[[0-9;]*m", "", line).rstrip()) <= width


def test_a_narrow_terminal_misses_nothing_that_matters() -> None:
    said = words(drawn(BUSY, 40))
    for part in ("observe", "waiting 12 s of 180 s", "3 of 12 are left", "1,204 observed", "3 fail", "about 11 min"):
        assert part in said


def test_no_color_draws_without_colours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    coloured = re.compile(r"\x1b\[(?:\d+;)*(?:3[0-9]|4[0-9])(?:;\d+)*m")
    assert coloured.search(drawn(BUSY, 80))
    monkeypatch.setenv("NO_COLOR", "1")
    bare = drawn(BUSY, 80)
    assert not coloured.search(bare)
    assert "1,204 observed" in bare


def test_a_display_has_colours_only_if_it_may(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    reader, writer = os.pipe()
    outlet = Outlet(writer)
    for colours in (True, False):
        assert Display.on(outlet, Progress(), colours=colours)._console.no_color is not colours
    for each in (reader, writer):
        os.close(each)
    outlet.close()


def test_no_more_waits_than_fit() -> None:
    waits = [Wait(f"thing {number}", 9, 10, "") for number in range(7)]
    said = words(drawn(Snapshot(1, 0, 1, 0, {}, 9, [], Phase("health scenarios", "", 9), waits, (0, 0), None), 80))
    assert said.count("waiting") == 3
    assert "and for 4 more things" in said


def test_before_the_first_phase_there_is_something_to_draw() -> None:
    assert "0 checks" in words(drawn(Progress().snapshot(), 80))


def test_a_phase_that_broke_off_is_not_reported_as_done() -> None:
    assert "interrupted" in done_line(Phase("set-up", "x", 3, whole=False), 80).plain
    assert "interrupted" not in done_line(Phase("set-up", "x", 3), 80).plain


# -------------------------------------------------------------------------------------------------------- when it is
@pytest.mark.parametrize(
    ("terminal", "environment", "live"),
    [
        (True, {"TERM": "xterm"}, True),
        (True, {"TERM": "xterm", "NO_COLOR": "1"}, True),
        (True, {"TERM": "xterm", "CI": ""}, True),
        (True, {"TERM": "xterm", "CI": "false"}, True),
        (False, {"TERM": "xterm"}, False),
        (False, {"TERM": "xterm", "FORCE_COLOR": "1"}, False),
        (True, {"TERM": "dumb"}, False),
        (True, {}, False),
        (True, {"TERM": "xterm", "CI": "true"}, False),
        (True, {"TERM": "xterm", "CI": "1"}, False),
        (True, {"TERM": "xterm", "GITHUB_ACTIONS": "true"}, False),
    ],
)
def test_it_is_drawn_only_for_a_person_at_a_terminal(terminal: bool, environment: dict[str, str], live: bool) -> None:
    assert wants_live(terminal, environment) is live


# -------------------------------------------------------------------------------------------------------- the display
def display(progress: Progress, width: int = 80) -> tuple[Display, StringIO]:
    file = StringIO()
    console = Console(force_terminal=True, force_interactive=True, file=file, width=width, legacy_windows=False)
    return Display(progress, console, lambda: (width, 24)), file


def test_done_phases_and_what_is_said_stay_above_the_display() -> None:
    progress = Progress()
    shown, file = display(progress)
    shown.start()
    progress.phase_begins("set-up", "4 services")
    progress.phase_ends("set-up")
    shown.say("cluster: kubernetes\x1b[2J v1.36")
    shown.raw("a line of ")
    shown.raw("pytest's\nhalf a line")
    shown.stop()
    text = file.getvalue()
    said = words(text)
    assert re.search(r"set-up 0\.0 s 4 services", said)
    assert said.index("set-up") < said.index("cluster: kubernetes [2J v1.36") < said.index("a line of pytest's")
    assert said.endswith("half a line")
    assert "\x1b[2J" not in text
    assert text.rindex("\x1b[?25h") > text.rindex("\x1b[?25l"), "the cursor is back"


def test_stopping_twice_or_without_a_start_does_nothing() -> None:
    shown, file = display(Progress())
    shown.stop()
    assert "\x1b" not in file.getvalue()
    shown, _ = display(Progress())
    shown.start()
    shown.stop()
    shown.stop()


def test_no_thread_outlives_the_display() -> None:
    shown, _ = display(Progress())
    shown.start()
    assert any(thread.name == "esipp-progress" for thread in threading.enumerate())
    shown.stop()
    assert not any(thread.name == "esipp-progress" for thread in threading.enumerate())


def test_a_tick_that_waits_does_not_hold_up_the_end() -> None:
    ticked = threading.Event()
    ticker = Ticker(ticked.set, 0.001)
    ticker.start()
    assert ticked.wait(10)
    ticker.stop()
    ticker.stop()


# ------------------------------------------------------------------------------------------------------- plain lines
def test_plain_lines_are_prefixed_and_cannot_be_torn() -> None:
    written: list[str] = []
    lines = Lines(Progress(), written.append)
    lines.say("settle: gave up\n::error::forged")
    assert written == ["[esipp] settle: gave up ::error::forged"]


def test_plain_lines_tell_what_is_slow() -> None:
    now = 0.0
    progress, written = Progress(lambda: now), list[str]()
    progress.begin([], 20, 5)
    lines = Lines(progress, written.append)
    progress.phase_begins("set-up", "")
    progress.wait_begins("VIPs", 180)
    for second in range(100):
        now = float(second)
        lines.tick()
    assert [line.partition(", ")[2] for line in written] == [f"{15 * n} s of 180 s for VIPs" for n in range(1, 7)]


# ------------------------------------------------------------------------------------------------------- the outlet
def test_an_outlet_nobody_reads_loses_what_is_written_and_nothing_else() -> None:
    reader, writer = os.pipe()
    outlet = Outlet(writer)
    os.close(reader)
    assert outlet.write("lost") == 4
    outlet.close()
    assert outlet.write("after the end") == 13
    outlet.close()
    os.write(1, b"")  # descriptors of others are as they were
    os.close(writer)


def test_an_outlet_s_size_follows_the_terminal() -> None:
    master, slave = pty.openpty()
    outlet = Outlet(slave)
    for columns in (80, 40):
        set_size(master, columns, 20)
        assert outlet.size() == (columns, 20)
    set_size(master, 0, 0)
    assert outlet.size() == (80, 24)
    outlet.close()
    os.close(master)
    os.close(slave)


def test_what_the_encoding_lacks_is_replaced() -> None:
    reader, writer = os.pipe()
    outlet = Outlet(writer, "ascii")
    outlet.write("caf\u00e9")
    assert os.read(reader, 10) == b"caf?"
    for each in (reader, writer):
        os.close(each)
    outlet.close()


# ------------------------------------------------------------------------------------------------- a pseudo-terminal
SCRIPT = """
import signal, sys, time
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored in what a shell put into the background
from esipp.base.waiting import Budget, Reading, converge, report_to
from esipp.ledger.progress import Progress
from esipp.report.live import Display, Outlet

progress = Progress()
shown = Display.on(Outlet(1), progress, colours=True)
try:
    with report_to(progress):
        shown.start()
        progress.phase_begins("set-up", "namespace esipp-1, four services and all of their pods")
        converge(lambda: Reading(False, "3 of 12 are left"), Budget("VIPs", float(sys.argv[1]), spacing=0.1))
        progress.phase_ends("set-up")
except KeyboardInterrupt:
    pass
finally:
    shown.stop()
print("the end")
"""


def set_size(descriptor: int, columns: int, lines: int) -> None:
    import fcntl
    import struct
    import termios

    fcntl.ioctl(descriptor, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))


class Terminal:
    """A script on a pseudo-terminal, and all that it wrote there."""

    def __init__(self, script: Path, seconds: float, columns: int) -> None:
        self.master, slave = pty.openpty()
        set_size(self.master, columns, 24)
        environment = {**os.environ, "PYTHONPATH": str(HOUSE), "TERM": "xterm"}
        for name in ("COLUMNS", "LINES", "CI", "NO_COLOR", "FORCE_COLOR"):
            environment.pop(name, None)
        self.process = subprocess.Popen(
            [sys.executable, str(script), str(seconds)], stdin=slave, stdout=slave, stderr=slave, env=environment
        )
        os.close(slave)
        self.text = ""

    def read_until(self, wanted: str, patience: float = 60) -> None:
        """Read until it was written, or the script has ended."""
        end = time.monotonic() + patience
        while wanted not in self.text and time.monotonic() < end:
            if select.select([self.master], [], [], 0.2)[0]:
                try:
                    self.text += os.read(self.master, 65536).decode(errors="replace")
                except OSError:  # the script has gone, and its end of the terminal with it
                    break
        assert wanted in self.text, self.text[-2000:]

    def close(self) -> None:
        self.process.kill()
        self.process.wait(10)
        os.close(self.master)


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    return path


def test_on_a_terminal_it_is_drawn_over_and_gone_at_the_end(script: Path) -> None:
    terminal = Terminal(script, 4, 80)
    try:
        terminal.read_until("the end")
        assert "waiting 3 s of 4 s for VIPs: 3 of 12 are left" in words(terminal.text)
        after = terminal.text[terminal.text.rindex("\x1b[?25h") :]
        assert "waiting" not in after
        assert "\x1b[?25l" not in after
        assert terminal.process.wait(30) == 0
    finally:
        terminal.close()


def test_ctrl_c_leaves_the_terminal_sane(script: Path) -> None:
    terminal = Terminal(script, 300, 80)
    try:
        terminal.read_until("of 300 s for VIPs")
        terminal.process.send_signal(signal.SIGINT)
        terminal.read_until("the end")
        assert terminal.text.rindex("\x1b[?25h") > terminal.text.rindex("\x1b[?25l")
        assert terminal.process.wait(30) == 0
    finally:
        terminal.close()


def test_a_window_that_shrinks_is_drawn_anew_in_its_width(script: Path) -> None:
    terminal = Terminal(script, 300, 100)
    try:
        terminal.read_until("four services and all of their pods")
        terminal.read_until("of 300 s for VIPs")
        set_size(terminal.master, 40, 24)
        assert "\u2026" not in terminal.text
        terminal.read_until("\u2026")  # cut where the line ends now
    finally:
        terminal.close()
