"""Framing of several commands in one script, so that their outputs can be separated again.

On a node, each command needs its own shell, which takes longer than most commands. One script needs only one shell.
"""

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

LINE = 65536
"""The longest possible frame marker; a longer line is output."""

LATE = 124
"""The exit code of ``timeout`` if it ended the command."""


@dataclass
class BoundedText:
    """The kept output of a command: its start or its ``tail``; one byte more than ``most`` means that it is cut."""

    most: int
    tail: bool = False
    raw: bytes = b""

    def take(self, chunk: bytes) -> bool:
        """Keep a chunk, and return whether more is wanted."""
        self.raw += chunk
        if self.tail:
            if len(self.raw) > 2 * self.most:
                self.raw = self.raw[-self.most - 1 :]
            return True
        self.raw = self.raw[: self.most + 1]
        return len(self.raw) <= self.most


def script(commands: Mapping[str, Sequence[str]], boundary: str, seconds: float) -> str:
    """A shell script that runs named commands one after the other, each with a timeout."""
    each = (
        f"each() {{ printf '%s begin %s\\n' {boundary} \"$1\"; shift; "
        f"timeout {seconds:.0f} \"$@\" 2>&1; printf '\\n%s end %s\\n' {boundary} $?; }}"
    )
    return "\n".join([each, *(f"each {name} {shlex.join(command)}" for name, command in commands.items())])


@dataclass
class Frames:
    """A reader of such a script's output.

    Args:
        boundary: the boundary of the script.
        begin: returns the buffer for the output of a named command.
        ended: called when a command ends, with its buffer and exit code.
    """

    boundary: str
    begin: Callable[[str], BoundedText]
    ended: Callable[[str, BoundedText, int], object]
    _name: str = ""
    _parts: BoundedText | None = None
    _rest: bytes = b""
    _between: bytes = b""

    def __post_init__(self) -> None:
        self._mark = re.compile(rf"{re.escape(self.boundary)} (begin|end) (\S+)".encode())

    def take(self, chunk: bytes) -> bool:
        """Read a chunk; more is always wanted."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            mark = self._mark.fullmatch(line)
            if mark is None:
                self._keep(line)
                self._between = b"\n"
            elif mark[1] == b"begin":
                self._name, self._between = mark[2].decode(), b""
                self._parts = self.begin(self._name)
            elif self._parts is not None:
                self.ended(self._name, self._parts, int(mark[2]))
                self._parts = None
        if len(self._rest) > LINE:
            self._keep(self._rest)
            self._rest = self._between = b""
        return True

    def _keep(self, text: bytes) -> None:
        if self._parts is not None:
            self._parts.take(self._between + text)
