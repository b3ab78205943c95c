"""The processor cores of this machine that have nothing to do. No verdict depends on them."""

import os
import time
from pathlib import Path

STAT = Path("/proc/stat")
LOOKED = 1.0
"""Seconds over which idle cores are measured."""

IDLE = (3, 4)
"""The columns of idle time in a line of /proc/stat: idle, and waiting for a disk."""


def idle_cores(seconds: float = LOOKED) -> tuple[float, int]:
    """How many of the cores that this process may use are idle, measured now, and how many there are."""
    before = _idle()
    time.sleep(seconds)
    after = _idle()
    ticks = os.sysconf("SC_CLK_TCK") * seconds
    return sum(min(1.0, (after[core] - before[core]) / ticks) for core in before if core in after), len(before)


def _idle() -> dict[str, int]:
    """The idle ticks of each core that this process may use."""
    ours = {f"cpu{core}" for core in os.sched_getaffinity(0)}
    lines = (line.split() for line in STAT.read_text(encoding="ascii").splitlines())
    return {name: sum(int(numbers[column]) for column in IDLE) for name, *numbers in lines if name in ours}
