"""Connection tracking: what the nodes' kernels know of every connection."""

import os
import re
import subprocess
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Self

from esipp.checks.model import Outcome
from esipp.judging.observation import Observation, Tracked
from esipp.packets.capture import FEWEST_CORES, End, plain, say

EVERY = 8.0
"""Seconds between two readings: kernels remember a connection that ended with a reset for 10 s."""

SECONDS = 30.0
"""Timeout for one node's table."""

MOST_HOPS = 4
"""How often a connection may be rewritten on its way, at most."""

READ = "command -v conntrack >/dev/null || exit 127; conntrack -L -f ipv4 2>/dev/null; conntrack -L -f ipv6 2>/dev/null"

_ENDS = r"src=(\S+) dst=(\S+) sport=(\d+) dport=(\d+)"
_ENTRY = re.compile(rf"^(tcp|udp|sctp) .*?{_ENDS} (?:packets=\d+ bytes=\d+ )?(?:\[UNREPLIED\] )?{_ENDS}", re.MULTILINE)

Flow = tuple[str, End, End]
"""Protocol, source and destination."""

Table = Mapping[Flow, Flow]
"""A node's entries: each flow as it came, and as it went on."""


def read_tables(ways: Mapping[str, Sequence[str]]) -> dict[str, Table]:
    """The tables of these nodes; a node that does not tell its own is left out.

    Args:
        ways: the prefix of a command on each node.
    """
    with ThreadPoolExecutor(max_workers=4) as pool:
        told = dict(zip(ways, pool.map(_told, ways.values()), strict=True))
    return {node: table for node, text in told.items() if (table := table_of(text))}


class Reader:
    """Reads the tables of nodes during a window, where there are ``FEWEST_CORES``, and at its end.

    Args:
        ways: the prefix of a command on each node.
        every: seconds between two readings.
    """

    def __init__(self, ways: Mapping[str, Sequence[str]], every: float = EVERY) -> None:
        self._ways, self._every = ways, every
        self._tables: dict[str, dict[Flow, Flow]] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._read_on, daemon=True)

    def __enter__(self) -> Self:
        if self._ways and len(os.sched_getaffinity(0)) >= FEWEST_CORES:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()

    def end(self) -> Mapping[str, Table]:
        """Read once more; the entries of all readings, the last one of each flow."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        self._read()
        return self._tables

    def _read_on(self) -> None:
        while not self._ended.wait(self._every):
            self._read()

    def _read(self) -> None:
        for node, table in read_tables(self._ways).items():
            self._tables.setdefault(node, {}).update(table)


def _told(way: Sequence[str]) -> str:
    try:
        done = subprocess.run([*way, "sh", "-c", READ], capture_output=True, text=True, timeout=SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout


def table_of(text: str) -> Table:
    """Read what ``conntrack -L`` says. The source that a backend saw is where it sends its answers."""
    found: dict[Flow, Flow] = {}
    for protocol, src, dst, sport, dport, back_src, back_dst, back_sport, back_dport in _ENTRY.findall(text):
        came = protocol, (src, int(sport)), (dst, int(dport))
        found[came] = protocol, (back_dst, int(back_dport)), (back_src, int(back_sport))
    return found


class Tracking:
    """Follows connections through the tables of the nodes.

    Args:
        tables: those that were read, by node.
    """

    def __init__(self, tables: Mapping[str, Table]) -> None:
        self._tables = tables

    def testify(self, observations: Mapping[str, Iterable[Observation]]) -> dict[str, Tracked]:
        """What the tables say of the answered connections of each path; nothing of a path that none of them shows."""
        found = {path: self._path(made) for path, made in observations.items()}
        return {path: each for path, each in found.items() if each.agreed or each.contradicted}

    def _path(self, made: Iterable[Observation]) -> Tracked:
        agreed, contradictions = 0, list[str]()
        for each in made:
            source, dialled, seen, local = map(plain, (each.source, each.dialled, each.seen, each.local))
            if each.outcome is not Outcome.ANSWERED or not (source and dialled and seen and each.node):
                continue
            protocol = {"http": "tcp"}.get(said := str((each.echo or {}).get("protocol")), said)
            for port, port_seen in each.port_pairs:
                last = self._last((protocol, (source[0], port), dialled), each.node)
                if last is None or last[2] != local or port_seen is None:
                    continue
                reported = seen[0], port_seen
                if last[1][0] == reported[0]:
                    # Another port: an earlier flow had the same ends, and NAT moved that one.
                    agreed += last[1] == reported
                    continue
                tracked = f"connection tracking on {each.node} has {say(last[1])}"
                contradictions.append(f"the backend reports the peer {say(reported)}, {tracked}")
        return Tracked(agreed, len(contradictions), contradictions[0] if contradictions else "")

    def _last(self, flow: Flow, node: str) -> Flow | None:
        """The flow as it went to a backend on a node; None if that node's table does not show it, or several do."""
        shown = False
        for _ in range(MOST_HOPS):
            there = {where: table[flow] for where, table in self._tables.items() if flow in table}
            went_on = {to for to in there.values() if to != flow}
            shown = node in there or (shown and not there)
            if not went_on:
                return flow if shown else None
            if len(went_on) > 1:
                return None
            (flow,) = went_on
        return None


def reachable(nodes: Iterable[str], on_node: Callable[[str, list[str]], list[str] | None]) -> dict[str, list[str]]:
    """The prefix of a command on each of these nodes on which commands can run."""
    return {node: way for node in nodes if (way := on_node(node, [])) is not None}
