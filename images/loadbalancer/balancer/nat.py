"""Translated VIPs: what comes for one goes to a nodePort of a healthy node, with the client's own address, by nftables.

Nodes know nothing of a VIP that is announced by a hostname, so its packets cannot go on unchanged. Each connection is
sent to one of the nodes by chance and stays there: connection tracking translates its packets, and the answers. These
have to come back this way, so the nodes route them here (ci/returning.py).
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from .objects import Port, family_of

TABLE = "inet esipp_balancer"
SECONDS = 10
WORDS = {"IPv4": "ip", "IPv6": "ip6"}


@dataclass(frozen=True)
class Translated:
    """Where one VIP leads: the Service's ports, and nodes' addresses with their weights."""

    ports: tuple[Port, ...]
    via: tuple[tuple[str, int], ...]


def render(vips: Mapping[str, Translated]) -> str:
    """The whole table, for ``nft -f``: it takes the place of the one that is there at once."""
    chains, rules = [], []
    for number, (vip, one) in enumerate(sorted(vips.items())):
        for port in one.ports:
            if port.node_port and one.via:
                name = f"vip{number}_{port.protocol.lower()}_{port.port}"
                family = WORDS[family_of(vip)]
                match = f"{family} daddr {vip} {port.protocol.lower()} dport {port.port}"
                rules.append(f"{match} goto {name}")
                chains += [f"  chain {name} {{", *_spread(family, one.via, port), "  }"]
    head = "    type nat hook prerouting priority dstnat; policy accept;"
    lines = [f"table {TABLE} {{", *chains, "  chain arriving {", head, *(f"    {rule}" for rule in rules), "  }", "}"]
    return "\n".join([f"table {TABLE}", f"delete table {TABLE}", *lines]) + "\n"


def _spread(family: str, via: Sequence[tuple[str, int]], port: Port) -> Iterator[str]:
    """One rule a node: each takes its share of what those before it have left."""
    left = sum(weight for _, weight in via)
    for address, weight in via:
        chance = f"numgen random mod {left} < {weight} " if left > weight else ""
        host = f"[{address}]" if family == "ip6" else address
        yield f"    meta l4proto {port.protocol.lower()} {chance}dnat {family} to {host}:{port.node_port}"
        left -= weight


@dataclass
class Translations:
    """All translated VIPs, in the kernel as they are here."""

    vips: dict[str, Translated] = field(default_factory=dict)
    program: str = "nft"

    def put(self, vip: str, ports: Sequence[Port], via: Mapping[str, int]) -> None:
        """Send what comes for a VIP's ports to these nodes, by their weights."""
        wanted = Translated(tuple(ports), tuple(sorted(via.items())))
        if self.vips.get(vip) != wanted:
            self.vips[vip] = wanted
            self._write(render(self.vips))

    def forget(self, vip: str) -> None:
        """Translate a VIP no more."""
        if self.vips.pop(vip, None):
            self._write(render(self.vips))

    def clear(self) -> None:
        """Take the table away, where there is one."""
        if self.vips:
            self.vips.clear()
            self._write(f"table {TABLE}\ndelete table {TABLE}\n")

    def _write(self, text: str) -> None:
        load(text, self.program)


def load(text: str, program: str = "nft") -> None:
    """Give rules to the kernel. What it refuses is logged, and the rest goes on."""
    try:
        command = [program, "-f", "-"]
        done = subprocess.run(command, input=text, capture_output=True, text=True, timeout=SECONDS, check=False)
        refused = done.stderr.strip() if done.returncode else ""
    except (OSError, subprocess.SubprocessError) as error:
        refused = repr(error)
    if refused:
        print(f"nft: {refused}", file=sys.stderr, flush=True)
