"""Commands of a page in one shell, each with its exit code."""

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.guides.here import Step

STEP_SECONDS = 1200.0
END_SECONDS = 180.0
LAST_LINES = 12


@dataclass(frozen=True)
class Done:
    """A step that is over, or that was left out.

    Args:
        step: the step.
        code: its exit code; None if it did not run, or not to its end.
        seconds: how long it took.
        output: what it printed.
    """

    step: Step
    code: int | None
    seconds: float
    output: str

    @property
    def as_wanted(self) -> bool:
        """Whether it ended as it must; true for what cannot run here."""
        return not self.step.text or self.code == self.step.code

    @property
    def line(self) -> str:
        """One line about it."""
        step = self.step
        state = "not here" if not step.text else "ok" if self.as_wanted else "failed"
        ended = f"exit code {self.code}, not {step.code}" if not self.as_wanted else ""
        why = "; ".join(filter(None, (ended, *step.why)))
        return f"{state:8} {self.seconds:4.0f} s  {step.command.where}  {step.command.first}" + (
            f"  ({why})" if why else ""
        )

    @property
    def last(self) -> str:
        """The line, and the last lines of the output."""
        return "\n".join([self.line, *(f"    {each}" for each in self.output.splitlines()[-LAST_LINES:])])


def run(
    steps: Iterable[Step],
    folder: Path,
    env: Mapping[str, str],
    before: Callable[[Step], None] = lambda _: None,
    seconds: float = STEP_SECONDS,
) -> Iterator[Done]:
    """Run the steps of a page in one shell, in their order; a step that fails stops none of the others.

    Args:
        steps: the steps.
        folder: where the reader is.
        env: the environment.
        before: what is done before a step that runs.
        seconds: the timeout of a step. The shell ends with a step that takes longer, and with it the page.
    """
    reading, writing = os.pipe()
    shell = subprocess.Popen(
        ["bash"],
        cwd=folder,
        env=dict(env),
        stdin=subprocess.PIPE,
        pass_fds=(writing,),
        start_new_session=True,
        text=True,
    )
    os.close(writing)
    try:
        for number, step in enumerate(steps):
            if not step.text:
                yield Done(step, None, 0.0, "")
                continue
            before(step)
            began, output = time.monotonic(), folder / f".{number}.out"
            code = _code(shell, f"{{ {step.text}\n}} >{output.name} 2>&1 </dev/null", reading, writing, seconds)
            said = output.read_text(errors="replace") if output.is_file() else ""
            yield Done(step, code, time.monotonic() - began, said)
            if code is None:
                return
    finally:
        _end(shell)
        os.close(reading)


def _end(shell: "subprocess.Popen[str]") -> None:
    """End the shell and what it runs; a run of esipp removes what it made."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(shell.pid, number)
        with contextlib.suppress(BrokenPipeError, subprocess.TimeoutExpired):
            shell.communicate(timeout=END_SECONDS)
            return


def _code(shell: "subprocess.Popen[str]", text: str, reading: int, writing: int, seconds: float) -> int | None:
    """The exit code of a command in the shell; None if it does not end in time, or ends the shell."""
    assert shell.stdin
    shell.stdin.write(f"{text}; echo $? >&{writing}\n")
    shell.stdin.flush()
    ready, _, _ = select.select([reading], [], [], seconds)
    said = os.read(reading, 100) if ready else b""
    return int(said) if said.strip() else None
