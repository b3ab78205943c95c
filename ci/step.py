"""Steps of a set-up: each reports its action and duration, or its failure with a hint."""

import argparse
import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, NoReturn

QUIET_SECONDS = 5.0  # shorter steps get one line, at their end
HEARTBEAT_SECONDS = 30.0
LOG_LINES = 20
SETUP_FAILED = 4
"""The exit code of a command that found no cluster, or could not make one."""


class SetupError(Exception):
    """A failure of set-up: one sentence, a hint, and the log with details."""

    def __init__(self, sentence: str, hint: str = "", log: Path | None = None) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.hint = hint
        self.log = log

    def show(self) -> None:
        """Print the last lines of the log, the sentence and the hint on stderr."""
        if self.log and self.log.exists():
            lines = self.log.read_text(errors="replace").splitlines()[-LOG_LINES:]
            print(f"\n--- the last lines of {self.log}", file=sys.stderr)
            for line in lines:
                print(f"    {line[:300]}", file=sys.stderr)
        print(f"\n{self.sentence}", file=sys.stderr)
        if self.hint:
            print(f"  hint: {self.hint}", file=sys.stderr, flush=True)


class Parser(argparse.ArgumentParser):
    """Exit code 2 means interrupted; a wrong option is 4, like every other bad input."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong, and where the options are explained."""
        self.exit(SETUP_FAILED, f"{self.prog}: {message}.\n  hint: {self.prog} --help\n")


def exit_code_of(command: Callable[[], int]) -> int:
    """The exit code of a command: its own, or 4 after a failure of set-up, which is shown."""
    try:
        return command()
    except SetupError as error:
        error.show()
        return SETUP_FAILED


class Step:
    """A running step; `run` and `output` execute commands and log their output."""

    def __init__(self, what: str, log: Path) -> None:
        self.what = what
        self.log = log
        self.note = ""
        self.hint = ""

    def run(
        self,
        command: Sequence[str | Path],
        *,
        cwd: Path | None = None,
        env: Mapping[str, str] | None = None,
        stdin: IO[bytes] | bytes | None = None,
        hint: str = "",
        ok: tuple[int, ...] = (0,),
    ) -> int:
        """Run a command; its output goes to the log, and an unexpected exit code ends the step."""
        argv = [str(part) for part in command]
        with self.log.open("ab") as out:
            out.write(f"$ {' '.join(argv)}\n".encode())
            out.flush()
            code = _execute(argv, cwd=cwd, env=env, stdin=stdin, out=out)
        if code not in ok:
            raise SetupError(
                f"{self.what}: '{_short(argv)}' ended with exit code {code}.",
                hint or self.hint or f"see the log {self.log}",
                self.log,
            )
        return code

    def say(self, line: str) -> None:
        """Write a line into the log only."""
        with self.log.open("a") as out:
            out.write(line.rstrip("\n") + "\n")


class Journal:
    """Prints the steps as they happen and remembers how long each took."""

    def __init__(self, logs: Path) -> None:
        self.logs = logs
        self.began = time.monotonic()
        self.checks: list[tuple[str, float]] = []
        self._print_lock = threading.Lock()
        logs.mkdir(parents=True, exist_ok=True)

    def line(self, text: str) -> None:
        """Print one line, whole even when several steps run side by side."""
        with self._print_lock:
            print(text, flush=True)

    @contextlib.contextmanager
    def step(self, what: str, *, hint: str = "", speaks: bool = False) -> Iterator[Step]:
        """Announce, time and log one step; one that speaks for itself needs no sign of life."""
        name = "".join(c if c.isalnum() else "-" for c in what.lower())[:60].strip("-")
        log = self.logs / f"{len(list(self.logs.glob('*.log'))):02d}-{name}.log"
        log.touch()
        step, began, done = Step(what, log), time.monotonic(), threading.Event()
        step.hint = hint
        watcher = threading.Thread(target=self._watch, args=(step, began, done), daemon=True)
        if not speaks:
            watcher.start()
        mark = "failed"
        try:
            yield step
            mark = "ok"
        finally:
            done.set()
            if not speaks:
                watcher.join()
            seconds = time.monotonic() - began
            self.checks.append((what, seconds))
            note = f" ({step.note})" if step.note else ""
            self.line(f"[{mark:>6}] {seconds:6.1f} s  {what}{note}")

    def _watch(self, step: Step, began: float, done: threading.Event) -> None:
        wait = QUIET_SECONDS
        while not done.wait(wait):
            wait = HEARTBEAT_SECONDS
            tail = _last_line(step.log)
            self.line(f"[   ...] {time.monotonic() - began:6.1f} s  {step.what}{tail and ': ' + tail}")

    def table(self) -> str:
        """Render what took how long, longest names aligned."""
        checks = [*self.checks, ("all together", time.monotonic() - self.began)]
        width = max(len(what) for what, _ in checks)
        return "\n".join(f"  {what:<{width}}  {seconds:7.1f} s" for what, seconds in checks)


_running: set[subprocess.Popen[bytes]] = set()
_interrupted = threading.Event()


def interrupt_children() -> None:
    """End every command under way with its process group; the steps that wait for them then fail."""
    _interrupted.set()
    for process in list(_running):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGTERM)


def resume() -> None:
    """Let teardown run commands again after an interruption."""
    _interrupted.clear()


def guarded(argv: list[str], how: str = "KILL") -> list[str]:
    """End a command with this process, if util-linux supports it: kill -9 must not leave a build behind."""
    if sys.platform == "linux" and (setpriv := shutil.which("setpriv")):
        return [setpriv, "--pdeathsig", how, "--", *argv]
    return argv


def _execute(
    argv: list[str],
    *,
    cwd: Path | None,
    env: Mapping[str, str] | None,
    stdin: IO[bytes] | bytes | None,
    out: IO[bytes],
) -> int:
    if _interrupted.is_set():
        return 130
    source: IO[bytes] | int = subprocess.DEVNULL
    if isinstance(stdin, bytes):
        source = subprocess.PIPE
    elif stdin is not None:
        source = stdin
    try:
        process = subprocess.Popen(
            guarded(argv), cwd=cwd, env=env, stdin=source, stdout=out, stderr=out, start_new_session=True
        )
    except OSError as error:
        out.write(f"{argv[0]}: {error}\n".encode())
        return 127
    _running.add(process)
    try:
        process.communicate(stdin if isinstance(stdin, bytes) else None)
    finally:
        _running.discard(process)
    return process.returncode


def output(argv: Sequence[str | Path], *, env: Mapping[str, str] | None = None, timeout: float = 30) -> str | None:
    """Return what a quick query prints on stdout, or None when it fails."""
    try:
        done = subprocess.run(
            [str(part) for part in argv], env=env, capture_output=True, text=True, timeout=timeout, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def _short(argv: list[str]) -> str:
    text = " ".join(argv)
    return text if len(text) < 100 else text[:97] + "..."


def _last_line(log: Path) -> str:
    with contextlib.suppress(OSError):
        lines = [line for line in log.read_text(errors="replace")[-2000:].splitlines() if line.strip()]
        if lines:
            return lines[-1].strip()[:90]
    return ""
