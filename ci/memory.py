"""Memory of a run: its own processes, and those of the suite's images on and next to the nodes.

It reads /proc of this machine, which includes processes in containers. This works with any cgroup version and needs no
kubelet statistics, which are up to ten seconds old. It sums the proportional set size, so shared pages count once.
"""

import contextlib
import os
import re
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from ci.step import output

PERIOD_SECONDS = 0.2
PROGRAMS = "/esipp/"  # where our images have theirs
CONTAINER = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Process:
    """A process as /proc shows it."""

    pid: int
    parent: int
    command: tuple[str, ...]
    folder: Path

    @property
    def program(self) -> str:
        """Its name: a script's own where an interpreter runs one."""
        arguments = [argument.rsplit("/", 1)[-1] for argument in self.command]
        if arguments[0].startswith("python"):
            return next(
                (argument for argument in arguments[1:] if argument and not argument.startswith("-")), arguments[0]
            )
        return arguments[0]

    def kib(self) -> int:
        """Its proportional set size; none for one that has ended."""
        with contextlib.suppress(OSError):
            found = re.search(r"^Pss:\s+(\d+) kB$", (self.folder / "smaps_rollup").read_text(), re.MULTILINE)
            return int(found.group(1)) if found else 0
        return 0

    def is_in(self, engine: str) -> bool:
        """Say whether it is in a container of that engine, or in one within such a container."""
        with contextlib.suppress(OSError):
            return engine in {engine_of(line) for line in (self.folder / "cgroup").read_text().splitlines()}
        return False


def engine_of(line: str) -> str | None:
    """The text before a container's id in /proc/PID/cgroup, the same for all containers of one engine."""
    found = CONTAINER.search(line)
    return line.split(":", 2)[2].split(found.group())[0] if found else None


def processes(proc: Path = Path("/proc")) -> Iterator[Process]:
    """All processes that have a command line, as they are now."""
    for folder in proc.iterdir():
        if folder.name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                command = (folder / "cmdline").read_text(errors="replace").rstrip("\0").split("\0")
                parent = int((folder / "stat").read_text(errors="replace").rsplit(")", 1)[1].split()[1])
                if command[0]:
                    yield Process(int(folder.name), parent, tuple(command), folder)


def node_process(node: str) -> int | None:
    """Ask docker for the first process of a node's container, if this machine has it: a desktop's docker is elsewhere.

    Returns:
        its id in this machine's /proc.
    """
    pid = (output(["docker", "inspect", "--format", "{{.State.Pid}}", node]) or "").strip()
    return int(pid) if pid.isdigit() and Path(f"/proc/{pid}/cgroup").exists() else None


@dataclass
class Peaks:
    """The most that each program, and all together, held at any time looked at; KiB and number of processes."""

    each: dict[str, tuple[int, int]] = field(default_factory=dict)
    total: int = 0

    def take(self, found: list[Process]) -> None:
        """Add one look."""
        sizes: Counter[str] = Counter()
        numbers: Counter[str] = Counter()
        for process in found:
            sizes[process.program] += process.kib()
            numbers[process.program] += 1
        for name, size in sizes.items():
            self.each[name] = max(self.each.get(name, (0, 0)), (size, numbers[name]))
        self.total = max(self.total, sizes.total())


def tree(pids: Iterable[int], found: Mapping[int, Process]) -> list[Process]:
    """Processes and all below them."""
    members = set(pids)
    grown = True
    while grown:
        more = {process.pid for process in found.values() if process.parent in members} - members
        members |= more
        grown = bool(more)
    return [found[member] for member in members if member in found]


class Watch:
    """A sampler of a run's memory during a block.

    Args:
        pid: the run's process.
        node: a process of one of the nodes, or None if the cluster's processes are not visible here.
    """

    def __init__(self, pid: int, node: int | None) -> None:
        self.harness, self.images = Peaks(), Peaks()
        self._pid = pid
        self._engine: str | None = None
        if node:
            lines = Path(f"/proc/{node}/cgroup").read_text().splitlines()
            self._engine = next((engine for line in lines if (engine := engine_of(line))), None)
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._over.wait(PERIOD_SECONDS):
            found = {process.pid: process for process in processes() if process.pid != os.getpid()}
            self.harness.take(tree([self._pid], found))
            if self._engine:
                ours = (p for p in found.values() if any(argument.startswith(PROGRAMS) for argument in p.command))
                self.images.take([process for process in ours if process.is_in(self._engine)])
