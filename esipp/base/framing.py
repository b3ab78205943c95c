"""Several commands that run as one: what each says is framed, and told apart again.

On a node each command costs a shell of its own there, which takes longer than most of them; together they cost one.
"""

import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

LINE = 65536
"""A line that is longer is no frame's."""

LATE = 124
"""The exit code by which ``timeout`` tells that it ended a command."""


@dataclass
class Kept:
    """What is left of a command: what it said first, or its ``tail``; one byte more than ``most`` tells of a cut."""

    most: int
    tail: bool = False
    raw: bytes = b""

    def take(self, chunk: bytes) -> bool:
        """Keep this, too; whether more is wanted."""
        self.raw += chunk
        if self.tail:
            if len(self.raw) > 2 * self.most:
                self.raw = self.raw[-self.most - 1 :]
            return True
        self.raw = self.raw[: self.most + 1]
        return len(self.raw) <= self.most


def script(commands: Mapping[str, Sequence[str]], boundary: str, seconds: float) -> str:
    """A shell's script that runs commands one after the other, by name, each for so long at most."""
    each = (
        f"each() {{ printf '%s begin %s\\n' {boundary} \"$1\"; shift; "
        f"timeout {seconds:.0f} \"$@\" 2>&1; printf '\\n%s end %s\\n' {boundary} $?; }}"
    )
    return "\n".join([each, *(f"each {name} {shlex.join(command)}" for name, command in commands.items())])


@dataclass
class Frames:
    """Reads what such a script says.

    Args:
        boundary: the script's.
        begin: gives what keeps the output of a command, by its name.
        ended: is told of a command that ended, with what was kept and its exit code.
    """

    boundary: str
    begin: Callable[[str], Kept]
    ended: Callable[[str, Kept, int], object]
    _name: str = ""
    _kept: Kept | None = None
    _rest: bytes = b""
    _between: bytes = b""

    def __post_init__(self) -> None:
        self._mark = re.compile(rf"{re.escape(self.boundary)} (begin|end) (\S+)".encode())

    def take(self, chunk: bytes) -> bool:
        """Read this, too; more is always wanted."""
        *lines, self._rest = (self._rest + chunk).split(b"\n")
        for line in lines:
            mark = self._mark.fullmatch(line)
            if mark is None:
                self._keep(line)
                self._between = b"\n"
            elif mark[1] == b"begin":
                self._name, self._between = mark[2].decode(), b""
                self._kept = self.begin(self._name)
            elif self._kept is not None:
                self.ended(self._name, self._kept, int(mark[2]))
                self._kept = None
        if len(self._rest) > LINE:
            self._keep(self._rest)
            self._rest = self._between = b""
        return True

    def _keep(self, text: bytes) -> None:
        if self._kept is not None:
            self._kept.take(self._between + text)
