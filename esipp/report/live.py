"""Progress output of a running run: a display that redraws itself on a terminal, plain lines elsewhere.

The display writes to a descriptor of its own: pytest redirects standard output during fixtures and tests.
"""

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import IO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from esipp.base.plural import counted, form
from esipp.checks.check import Status
from esipp.ledger.conclusion import WORST_FIRST
from esipp.ledger.progress import Phase, Progress, SlowSteps, Snapshot, plain, say_left, say_seconds

FRAME = 0.25
"""Seconds between two updates of the display."""

MOST_WAITS = 3
"""How many waits the display shows, the longest first."""

NARROW = 60
"""A terminal with fewer columns gets short lines."""

COLOURS = {
    Status.PASS: "green",
    Status.RECORDED: "blue",
    Status.FAIL: "bold red",
    Status.ERROR: "bold magenta",
    Status.FLAKY: "yellow",
    Status.INCONCLUSIVE: "yellow",
    Status.KNOWN: "cyan",
    Status.UNSUPPORTED: "dim",
}


def wants_live(is_terminal: bool, environment: Mapping[str, str]) -> bool:
    """Whether to redraw the output: only on an interactive terminal that supports it, never in CI."""
    if environment.get("GITHUB_ACTIONS") == "true" or environment.get("CI", "").lower() not in ("", "0", "false", "no"):
        return False
    return is_terminal and environment.get("TERM", "").lower() not in ("", "dumb", "unknown")


# ------------------------------------------------------------------------------------------------------- the drawing
def frame(snapshot: Snapshot, width: int) -> RenderableType:
    """The display at one moment, for a terminal with ``width`` columns."""
    lines: list[RenderableType] = []
    if snapshot.now is not None:
        lines.append(_phase(snapshot.now))
    inner = Table.grid(padding=(0, 1), pad_edge=False)
    inner.add_column(width=1)
    inner.add_column(overflow="fold")
    for text in _within(snapshot):
        inner.add_row("", text)
    inner.add_row("", _checks(snapshot))
    if snapshot.counts:
        inner.add_row("", _counts(snapshot))
    lines += [inner, _clock(snapshot, width)]
    return Group(*lines)


def _phase(phase: Phase) -> Text:
    """The current phase on one line."""
    line = Text("> ", style="bold cyan", no_wrap=True, overflow="ellipsis")
    line.append(phase.name, style="bold")
    line.append(f"  {say_seconds(phase.seconds)}", style="cyan")
    if phase.typical >= 5 and phase.seconds < phase.typical:
        line.append(f" of about {say_seconds(round(phase.typical / 5) * 5)}", style="default")
    line.append(f"  {phase.what}", style="dim")
    return line


def _within(snapshot: Snapshot) -> Iterator[Text]:
    completed, wanted = snapshot.connections
    if snapshot.now is not None and snapshot.now.name == "observe" and wanted:
        yield Text(f"{completed:,} of {wanted:,} connections done")
    if snapshot.said:
        yield Text(snapshot.said)
    for wait in snapshot.waits[:MOST_WAITS]:
        yield Text(f"waiting {wait.sentence}", style="yellow" if wait.seconds > wait.bound / 2 else "default")
    if len(snapshot.waits) > MOST_WAITS:
        yield Text(f"and for {counted(len(snapshot.waits) - MOST_WAITS, 'more thing')}", style="dim")


def _checks(snapshot: Snapshot) -> Text:
    line = Text(f"{snapshot.checks:,} {form(snapshot.checks, 'check')}: ")
    line.append(f"{snapshot.arranged:,} set up, {snapshot.observed:,} observed, {snapshot.judged:,} judged")
    if snapshot.impossible:
        line.append(f", {snapshot.impossible:,} unsupported here", style="dim")
    return line


def _counts(snapshot: Snapshot) -> Text:
    line = Text()
    for status in reversed(WORST_FIRST):
        if snapshot.counts.get(status):
            line.append(", " if line else "")
            line.append(f"{snapshot.counts[status]:,} {status.value}", style=COLOURS[status])
    return line


def _clock(snapshot: Snapshot, width: int) -> RenderableType:
    """A progress bar, and the time in words."""
    times = ", ".join(part for part in (say_seconds(snapshot.seconds), say_left(snapshot.left)) if part)
    if width < NARROW:
        return Text(f"  {times}", style="cyan", no_wrap=True, overflow="ellipsis")
    bar = Table.grid(padding=(0, 1), pad_edge=False)
    bar.add_column(width=1)
    bar.add_column(width=min(40, width // 2))
    bar.add_column(no_wrap=True)
    bar.add_row("", ProgressBar(total=1.0, completed=snapshot.share), Text(times, style="cyan"))
    return bar


def done_line(phase: Phase, width: int) -> Text:
    """The permanent line of a finished phase."""
    line = Text(f"  {phase.name:<20} {phase.seconds:>6.1f} s")
    if not phase.whole:
        line.append("  interrupted", style="yellow")
    if width >= NARROW:
        line.append(f"  {phase.what}", style="dim")
    return line


# ------------------------------------------------------------------------------------------------------ the outlets
class Outlet:
    """A text file on a duplicated descriptor; write errors, such as a closed pipe, are ignored."""

    def __init__(self, descriptor: int, encoding: str = "utf-8") -> None:
        self._own = os.dup(descriptor)
        self._lock = threading.Lock()
        self.encoding = encoding
        self.closed = False

    def write(self, text: str) -> int:
        """Write the whole text at once."""
        left = text.encode(self.encoding, errors="replace")
        with self._lock, contextlib.suppress(OSError):
            while left and not self.closed:
                left = left[os.write(self._own, left) :]
        return len(text)

    def flush(self) -> None:
        """Nothing to do: nothing is buffered."""

    def fileno(self) -> int:
        """The descriptor."""
        return self._own

    def isatty(self) -> bool:
        """Whether the descriptor is a terminal."""
        return not self.closed and os.isatty(self._own)

    def size(self) -> tuple[int, int]:
        """The current columns and lines of the terminal; 80 and 24 if unknown."""
        with contextlib.suppress(OSError):
            columns, lines = os.get_terminal_size(self._own)
            if columns > 0 and lines > 0:
                return columns, lines
        return 80, 24

    def close(self) -> None:
        """Close the descriptor."""
        with self._lock:
            if not self.closed:
                self.closed = True
                os.close(self._own)


class Ticker:
    """Calls a function periodically in a thread; ``stop`` waits for the thread."""

    def __init__(self, tick: Callable[[], None], seconds: float) -> None:
        self._tick = tick
        self._seconds = seconds
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="esipp-progress", daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self) -> None:
        """Stop the thread and wait for it."""
        self._end.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while not self._end.wait(self._seconds):
            self._tick()


class Lines:
    """Progress as plain lines: the messages of the run, and a line for each slow step."""

    shows_phases = False

    def __init__(self, progress: Progress, write: Callable[[str], None], every: float = 15.0) -> None:
        self._progress = progress
        self._write = write
        self._slow = SlowSteps(every)
        self._lock = threading.RLock()
        self._ticker = Ticker(self.tick, 1.0)

    def start(self) -> None:
        """Start to watch for slow steps."""
        self._ticker.start()

    def say(self, text: str) -> None:
        """Print a message."""
        self._progress.said(text)
        with self._lock:
            self._slow.quiet(self._progress.snapshot())
            self._write(f"[esipp] {plain(text)}")

    def tick(self) -> None:
        """Print the slow steps, if any."""
        with self._lock:
            for text in self._slow.lines(self._progress.snapshot()):
                self._write(f"[esipp] {text}")

    def stop(self) -> None:
        """End the output."""
        self._ticker.stop()


class Silence:
    """No progress at all."""

    shows_phases = True

    def start(self) -> None:
        """Nothing begins."""

    def say(self, text: str) -> None:
        """Nothing is said."""

    def stop(self) -> None:
        """Nothing ends."""


class Display:
    """Progress as a display that redraws itself, below the permanent messages.

    Args:
        progress: the progress of the run.
        console: the terminal; its size is set before each frame.
        size: returns columns and lines of the terminal; called for each frame, as windows change their size.
    """

    shows_phases = True

    def __init__(self, progress: Progress, console: Console, size: Callable[[], tuple[int, int]]) -> None:
        self._progress = progress
        self._console = console
        self._size = size
        self._printed = 0
        self._lock = threading.RLock()
        self._rest = ""
        self._live = Live(
            console=console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False,
            get_renderable=self._frame,
        )  # fmt: skip
        self._ticker = Ticker(self.tick, FRAME)

    @classmethod
    def on(cls, outlet: Outlet, progress: Progress, *, colours: bool) -> "Display":
        """A display on a terminal, with or without colours."""
        file: IO[str] = outlet  # type: ignore[assignment]  # rich only writes, flushes and asks whether it is a terminal
        console = Console(
            file=file, force_terminal=True, force_interactive=True, force_jupyter=False, highlight=False, markup=False,
            emoji=False, legacy_windows=False, no_color=not colours,
        )  # fmt: skip
        return cls(progress, console, outlet.size)

    def start(self) -> None:
        """Show the display."""
        with self._lock:
            self._fit()
            self._live.start(refresh=True)
        self._ticker.start()

    def say(self, text: str) -> None:
        """Print a message above the display."""
        self._progress.said(text)
        with self._lock:
            self._phases_done(self._progress.snapshot())
            self._console.print(Text(plain(text)))

    def raw(self, text: str) -> None:
        """Print the output of others line by line above the display."""
        with self._lock:
            *whole, self._rest = (self._rest + text).split("\n")
            for line in whole:
                self._console.print(Text.from_ansi(line), soft_wrap=True)

    def tick(self) -> None:
        """Redraw the display."""
        with self._lock:
            self._fit()
            self._phases_done(self._progress.snapshot())
            self._live.refresh()

    def stop(self) -> None:
        """Remove the display and restore the cursor; messages stay."""
        self._ticker.stop()
        with self._lock:
            self._fit()
            self._phases_done(self._progress.snapshot())
            self._live.stop()
            if self._rest.strip():
                self._console.print(Text.from_ansi(self._rest), soft_wrap=True)
            self._rest = ""

    def _frame(self) -> RenderableType:
        return frame(self._progress.snapshot(), self._console.width)

    def _fit(self) -> None:
        columns, lines = self._size()
        self._console.size = (columns, lines)

    def _phases_done(self, snapshot: Snapshot) -> None:
        new, self._printed = snapshot.done[self._printed :], len(snapshot.done)
        for phase in new:
            self._console.print(done_line(phase, self._console.width), no_wrap=True, overflow="ellipsis")
