"""How busy this machine is: its idle cores, and the tasks that wait for one."""

import os
import re
import threading
import time
from pathlib import Path

STAT = Path("/proc/stat")
LOOKED = 1.0
"""Seconds over which idle cores are measured."""

IDLE = (3, 4)
"""The columns of idle time in a line of /proc/stat: idle, and waiting for a disk."""


RUNNING = re.compile(r"^procs_running (\d+)", re.MULTILINE)
EVERY = 0.5
"""Seconds between two looks at the tasks that run or wait."""


class RunQueue:
    """The tasks that run or wait for a core, looked at while it is open."""

    def __init__(self, stat: Path = STAT) -> None:
        self._stat = stat
        self._seen: list[int] = []
        self._closed = threading.Event()
        self._looking = threading.Thread(target=self._look, daemon=True)

    def __enter__(self) -> "RunQueue":
        self._looking.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._closed.set()
        self._looking.join()

    def _look(self) -> None:
        while True:
            found = RUNNING.search(self._stat.read_text(encoding="ascii"))
            self._seen.append(int(found[1]) if found else 0)
            if self._closed.wait(EVERY):
                return

    @property
    def per_core(self) -> float:
        """Tasks for each core, in one look of ten more: a scenario has many changes, and the busiest moments decide."""
        busiest = sorted(self._seen)
        return busiest[len(busiest) * 9 // 10] / (os.cpu_count() or 1) if busiest else 0.0


def idle_cores(seconds: float = LOOKED) -> tuple[float, int]:
    """How many of the cores that this process may use are idle, measured now, and how many there are."""
    before = _idle()
    time.sleep(seconds)  # the span that is measured
    after = _idle()
    ticks = os.sysconf("SC_CLK_TCK") * seconds
    return sum(min(1.0, (after[core] - before[core]) / ticks) for core in before if core in after), len(before)


def _idle() -> dict[str, int]:
    """The idle ticks of each core that this process may use."""
    ours = {f"cpu{core}" for core in os.sched_getaffinity(0)}
    lines = (line.split() for line in STAT.read_text(encoding="ascii").splitlines())
    return {name: sum(int(numbers[column]) for column in IDLE) for name, *numbers in lines if name in ours}
