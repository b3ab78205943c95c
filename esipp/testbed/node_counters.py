"""Connection tracking of nodes, before and after a run: what the kernel dropped meanwhile. Information only.

A full table loses new connections at random, on all ways at once, and no rule shows it.
"""

import subprocess
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Self

SCRIPT = """
for name in ("net/stat/nf_conntrack", "sys/net/netfilter/nf_conntrack_count", "sys/net/netfilter/nf_conntrack_max"):
    print(open("/proc/" + name).read().strip())
"""
COMMAND = ("python3", "-B", "-c", SCRIPT)
"""The command for an agent. It prints a line of names, a line of counters for each CPU, entries and their limit."""

SECONDS = 5.0
"""Seconds for the answer of a node; without one, nothing is said of it."""

NEARLY_FULL = 0.9
"""The share of a table's entries from which it is reported: bursts of a run fill more for a moment."""

COUNTERS = {
    "insert_failed": "connections lost as they were tracked",
    "drop": "packets dropped because the table was full",
    "early_drop": "connections forgotten early to make room",
}
"""Counters of the kernel (conntrack -S), and what they mean."""

OnAgent = Callable[[str, tuple[str, ...]], list[str]]
"""The command line that runs a command in the agent of a node."""


@dataclass(frozen=True)
class Tracking:
    """A node's connection tracking: the sums of ``COUNTERS``, its entries, and how many there may be."""

    counters: Mapping[str, int] = field(default_factory=dict)
    entries: int = 0
    limit: int = 0

    @classmethod
    def read(cls, text: str) -> Self:
        """What ``COMMAND`` printed.

        Raises:
            ValueError: it is something else.
        """
        names, *each_cpu, entries, limit = text.strip().splitlines()
        rows = [dict(zip(names.split(), row.split(), strict=True)) for row in each_cpu]
        counters = {name: sum(int(row.get(name, "0"), 16) for row in rows) for name in COUNTERS}
        return cls(counters, int(entries), int(limit))

    def since(self, before: "Tracking") -> str:
        """What was lost since ``before``, and whether the table is nearly full, as text; empty if nothing."""
        lost = {name: self.counters[name] - before.counters.get(name, 0) for name in self.counters}
        parts = [f"{COUNTERS[name]}: {count:,}" for name, count in lost.items() if count > 0]
        if self.limit and self.entries >= NEARLY_FULL * self.limit:
            parts.append(f"{self.entries:,} of at most {self.limit:,} entries are in use")
        return ", ".join(parts)


def read_all(nodes: Iterable[str], on_agent: OnAgent) -> dict[str, Tracking]:
    """The connection tracking of each node whose agent can read it."""
    names = list(nodes)
    with ThreadPoolExecutor(max_workers=12) as pool:
        found = pool.map(lambda node: _read(on_agent(node, COMMAND)), names)
    return {node: each for node, each in zip(names, found, strict=True) if each is not None}


def losses(before: Mapping[str, Tracking], after: Mapping[str, Tracking]) -> dict[str, str]:
    """What each node lost in between, as text; nodes without a loss are left out."""
    found = {node: each.since(before[node]) for node, each in after.items() if node in before}
    return {node: words for node, words in found.items() if words}


def _read(command: list[str]) -> Tracking | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True)
        return Tracking.read(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
