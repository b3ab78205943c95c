"""The addresses that may be given to Services."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable

from .objects import family_of

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def parse(text: str) -> tuple[Address, Address]:
    """Read ``FIRST-LAST`` or a network in CIDR form, whose every address counts.

    Raises:
        ValueError: it is neither.
    """
    first, dash, last = text.partition("-")
    if not dash:
        network = ipaddress.ip_network(text)
        return network[0], network[-1]
    low, high = ipaddress.ip_address(first.strip()), ipaddress.ip_address(last.strip())
    if low.version != high.version or int(low) > int(high):
        raise ValueError(f"{text} is no range of addresses")
    return low, high


class Pools:
    """Hands out addresses, each family's in turn, so that one that was freed is the last to come again."""

    def __init__(self, pools: Iterable[str]) -> None:
        self._ranges = [parse(pool) for pool in pools]
        self._taken: set[str] = set()
        self._next: dict[str, int] = {}

    def has(self, address: str) -> bool:
        """Whether an address is of a pool."""
        given = ipaddress.ip_address(address)
        return any(low.version == given.version and int(low) <= int(given) <= int(high) for low, high in self._ranges)

    def take(self, family: str) -> str | None:
        """A free address of a family, None where there is none."""
        ranges = [(int(low), int(high), low) for low, high in self._ranges if family_of(str(low)) == family]
        size = sum(high - low + 1 for low, high, _ in ranges)
        begin = self._next.get(family, 0)
        for step in range(min(size, len(self._taken) + 1)):
            index = (begin + step) % size
            for low, high, first in ranges:
                if index <= high - low:
                    address = str(type(first)(low + index))
                    break
                index -= high - low + 1
            if address not in self._taken:
                self._taken.add(address)
                self._next[family] = (begin + step + 1) % size
                return address
        return None

    def claim(self, address: str) -> str | None:
        """Take this very address, as it stands in a status; None where it is taken or of no pool."""
        text = str(ipaddress.ip_address(address))
        if text in self._taken or not self.has(text):
            return None
        self._taken.add(text)
        return text

    def free(self, address: str) -> None:
        """Give an address back."""
        self._taken.discard(str(ipaddress.ip_address(address)))
