"""What a run shows while it goes on: a display that redraws itself on a terminal, plain lines everywhere else.

The terminal is written to by its own descriptor: pytest redirects standard output while fixtures and tests run, and
the display must not wait for it.
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
from esipp.ledger.progress import Phase, Progress, SlowSteps, Standing, plain, say_left, say_seconds

FRAME = 0.25
"""Seconds between two looks at how far the run is."""

MOST_WAITS = 3
"""Waits that are shown at once, those first that have lasted longest."""

NARROW = 60
"""Columns below which a line is not given more than it needs."""

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
    """Whether output that goes there may be drawn over: a terminal that can do so, with a person before it."""
    if environment.get("GITHUB_ACTIONS") == "true" or environment.get("CI", "").lower() not in ("", "0", "false", "no"):
        return False
    return is_terminal and environment.get("TERM", "").lower() not in ("", "dumb", "unknown")


# ------------------------------------------------------------------------------------------------------- the drawing
def frame(standing: Standing, width: int) -> RenderableType:
    """The display at one moment, for a terminal of so many columns."""
    lines: list[RenderableType] = []
    if standing.now is not None:
        lines.append(_phase(standing.now))
    inner = Table.grid(padding=(0, 1), pad_edge=False)
    inner.add_column(width=1)
    inner.add_column(overflow="fold")
    for text in _within(standing):
        inner.add_row("", text)
    inner.add_row("", _checks(standing))
    if standing.counts:
        inner.add_row("", _counts(standing))
    lines += [inner, _clock(standing, width)]
    return Group(*lines)


def _phase(phase: Phase) -> Text:
    """What is being done, on one line."""
    line = Text("> ", style="bold cyan", no_wrap=True, overflow="ellipsis")
    line.append(phase.name, style="bold")
    line.append(f"  {say_seconds(phase.seconds)}", style="cyan")
    if phase.typical >= 5 and phase.seconds < phase.typical:
        line.append(f" of about {say_seconds(round(phase.typical / 5) * 5)}", style="default")
    line.append(f"  {phase.what}", style="dim")
    return line


def _within(standing: Standing) -> Iterator[Text]:
    landed, wanted = standing.connections
    if standing.now is not None and standing.now.name == "observe" and wanted:
        yield Text(f"{landed:,} of {wanted:,} connections are back")
    if standing.said:
        yield Text(standing.said)
    for wait in standing.waits[:MOST_WAITS]:
        yield Text(f"waiting {wait.sentence}", style="yellow" if wait.seconds > wait.bound / 2 else "default")
    if len(standing.waits) > MOST_WAITS:
        yield Text(f"and for {counted(len(standing.waits) - MOST_WAITS, 'more thing')}", style="dim")


def _checks(standing: Standing) -> Text:
    line = Text(f"{standing.checks:,} {form(standing.checks, 'check')}: ")
    line.append(f"{standing.arranged:,} arranged, {standing.observed:,} observed, {standing.judged:,} judged")
    if standing.impossible:
        line.append(f", {standing.impossible:,} not possible here", style="dim")
    return line


def _counts(standing: Standing) -> Text:
    line = Text()
    for status in reversed(WORST_FIRST):
        if standing.counts.get(status):
            line.append(", " if line else "")
            line.append(f"{standing.counts[status]:,} {status.value}", style=COLOURS[status])
    return line


def _clock(standing: Standing, width: int) -> RenderableType:
    """A bar for the time, and the time in words."""
    told = ", ".join(part for part in (say_seconds(standing.seconds), say_left(standing.left)) if part)
    if width < NARROW:
        return Text(f"  {told}", style="cyan", no_wrap=True, overflow="ellipsis")
    bar = Table.grid(padding=(0, 1), pad_edge=False)
    bar.add_column(width=1)
    bar.add_column(width=min(40, width // 2))
    bar.add_column(no_wrap=True)
    bar.add_row("", ProgressBar(total=1.0, completed=standing.share), Text(told, style="cyan"))
    return bar


def done_line(phase: Phase, width: int) -> Text:
    """A phase that is over, on one line that stays."""
    line = Text(f"  {phase.name:<20} {phase.seconds:>6.1f} s")
    if not phase.whole:
        line.append("  broke off", style="yellow")
    if width >= NARROW:
        line.append(f"  {phase.what}", style="dim")
    return line


# ------------------------------------------------------------------------------------------------------ the outlets
class Outlet:
    """A text file over a descriptor of our own; what nobody reads any more is lost, and nothing else."""

    def __init__(self, descriptor: int, encoding: str = "utf-8") -> None:
        self._own = os.dup(descriptor)
        self._lock = threading.Lock()
        self.encoding = encoding
        self.closed = False

    def write(self, text: str) -> int:
        """Write at once, and whole."""
        left = text.encode(self.encoding, errors="replace")
        with self._lock, contextlib.suppress(OSError):
            while left and not self.closed:
                left = left[os.write(self._own, left) :]
        return len(text)

    def flush(self) -> None:
        """Nothing is kept back."""

    def fileno(self) -> int:
        """The descriptor."""
        return self._own

    def isatty(self) -> bool:
        """Whether a terminal is behind it."""
        return not self.closed and os.isatty(self._own)

    def size(self) -> tuple[int, int]:
        """Columns and lines of the terminal as it is now; 80 and 24 where it does not say."""
        with contextlib.suppress(OSError):
            columns, lines = os.get_terminal_size(self._own)
            if columns > 0 and lines > 0:
                return columns, lines
        return 80, 24

    def close(self) -> None:
        """Let the descriptor go."""
        with self._lock:
            if not self.closed:
                self.closed = True
                os.close(self._own)


class Ticker:
    """Calls something again and again, in a thread that is over when ``stop`` returns."""

    def __init__(self, tick: Callable[[], None], seconds: float) -> None:
        self._tick = tick
        self._seconds = seconds
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="esipp-progress", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End, and wait until it has ended."""
        self._end.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def _run(self) -> None:
        while not self._end.wait(self._seconds):
            self._tick()


class Lines:
    """Plain lines: what the run says, and a sign of life where a step is slow."""

    shows_phases = False

    def __init__(self, progress: Progress, write: Callable[[str], None], every: float = 15.0) -> None:
        self._progress = progress
        self._write = write
        self._slow = SlowSteps(every)
        self._lock = threading.RLock()
        self._ticker = Ticker(self.tick, 1.0)

    def start(self) -> None:
        """Begin to look for slow steps."""
        self._ticker.start()

    def say(self, text: str) -> None:
        """One line."""
        self._progress.said(text)
        with self._lock:
            self._slow.quiet(self._progress.standing())
            self._write(f"[esipp] {plain(text)}")

    def tick(self) -> None:
        """Say what is slow, if anything is."""
        with self._lock:
            for text in self._slow.lines(self._progress.standing()):
                self._write(f"[esipp] {text}")

    def stop(self) -> None:
        """The run is over."""
        self._ticker.stop()


class Display:
    """The display that redraws itself; lines that are said stand above it, and stay.

    Args:
        progress: what is shown.
        console: where; its size is set before each frame.
        size: columns and lines of the terminal, asked anew for each frame, as windows are resized.
    """

    shows_phases = True

    def __init__(self, progress: Progress, console: Console, size: Callable[[], tuple[int, int]]) -> None:
        self._progress = progress
        self._console = console
        self._size = size
        self._told = 0
        self._lock = threading.RLock()
        self._rest = ""
        self._live = Live(
            console=console, auto_refresh=False, transient=True, redirect_stdout=False, redirect_stderr=False,
            get_renderable=self._frame,
        )  # fmt: skip
        self._ticker = Ticker(self.tick, FRAME)

    @classmethod
    def on(cls, outlet: Outlet, progress: Progress) -> "Display":
        """A display on a terminal; colours as the terminal has them, none with NO_COLOR."""
        file: IO[str] = outlet  # type: ignore[assignment]  # rich only writes, flushes and asks whether it is a terminal
        console = Console(
            file=file, force_terminal=True, force_interactive=True, force_jupyter=False, highlight=False, markup=False,
            emoji=False, legacy_windows=False,
        )  # fmt: skip
        return cls(progress, console, outlet.size)

    def start(self) -> None:
        """Show it."""
        with self._lock:
            self._fit()
            self._live.start(refresh=True)
        self._ticker.start()

    def say(self, text: str) -> None:
        """One line above the display."""
        self._progress.said(text)
        with self._lock:
            self._phases_done(self._progress.standing())
            self._console.print(Text(plain(text)))

    def raw(self, text: str) -> None:
        """What somebody else writes to this terminal, line by line, above the display."""
        with self._lock:
            *whole, self._rest = (self._rest + text).split("\n")
            for line in whole:
                self._console.print(Text.from_ansi(line), soft_wrap=True)

    def tick(self) -> None:
        """Draw it anew."""
        with self._lock:
            self._fit()
            self._phases_done(self._progress.standing())
            self._live.refresh()

    def stop(self) -> None:
        """Take it away, and give the cursor back; what was said stays."""
        self._ticker.stop()
        with self._lock:
            self._fit()
            self._phases_done(self._progress.standing())
            self._live.stop()
            if self._rest.strip():
                self._console.print(Text.from_ansi(self._rest), soft_wrap=True)
            self._rest = ""

    def _frame(self) -> RenderableType:
        return frame(self._progress.standing(), self._console.width)

    def _fit(self) -> None:
        columns, lines = self._size()
        self._console.size = (columns, lines)

    def _phases_done(self, standing: Standing) -> None:
        new, self._told = standing.done[self._told :], len(standing.done)
        for phase in new:
            self._console.print(done_line(phase, self._console.width), no_wrap=True, overflow="ellipsis")
