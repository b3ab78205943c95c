"""The scope of a capture: the run's own packets, as a filter for the kernel and an exact one for the reader."""

import ipaddress
import itertools
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field
from functools import cached_property

from esipp.judging.topology import parse_address

MOST_RANGES = 8
"""The most ranges of ports, and of addresses for each family, in the kernel's filter.

libpcap needs 20 s of CPU to optimise a filter of 150 ports and 60 addresses, and a moment for one of 16 ranges.
What the ranges let through beyond the run's own, ``Scope.holds`` drops.
"""

OPENS_OR_ENDS, PUSHES = 6, 8
"""Flags of TCP: SYN and RST; PSH, which a segment has that carries the last bytes of what a program sent."""

FLAGGED = "(not tcp or (ip and tcp[13] & {flags} != 0) or (ip6 and ip6[6] = 6 and ip6[53] & {flags} != 0))"
"""Of TCP only segments with one of these flags. IPv6 cannot be asked for tcp[13]: its header is at a fixed place."""

UNREACHABLE = "(ip and icmp[0] = 3) or (icmp6 and ip6[40] = 1)"


@dataclass(frozen=True)
class Scope:
    """The run's own packets.

    Args:
        ports: ``(protocol, port)`` that are ours at any address: nodePorts, control listeners.
        endpoints: ``(protocol, address, port)`` where the port alone is too common: port 80 of a VIP or ClusterIP,
            the target port of a pod. Protocols are the Service API's: TCP, UDP, SCTP.

    Raises:
        ValueError: an address is none.
    """

    ports: Collection[tuple[str, int]]
    endpoints: Collection[tuple[str, str, int]] = ()
    payloads: bool = False
    _endpoints: frozenset[tuple[str, str, int]] = field(init=False, default=frozenset())

    def __post_init__(self) -> None:
        plain = frozenset((p, str(parse_address(address)), port) for p, address, port in self.endpoints)
        object.__setattr__(self, "_endpoints", plain)

    @cached_property
    def _ports(self) -> frozenset[tuple[str, int]]:
        return frozenset((str(protocol), port) for protocol, port in self.ports)

    def holds(self, protocol: str, *ends: tuple[str, int]) -> bool:
        """Whether a packet with these ends (address, port) is ours."""
        return any((protocol, port) in self._ports or (protocol, host, port) in self._endpoints for host, port in ends)

    def expression(self) -> str:
        """The filter for tcpdump: never narrower than ``holds``, and always quick to compile."""
        anywhere = [_say_ports(*each) for each in _ranges((port for _, port in self.ports), MOST_RANGES)]
        common = [_say_ports(*each) for each in _ranges((port for _, _, port in self._endpoints), MOST_RANGES)]
        addresses = {ipaddress.ip_address(address) for _, address, _ in self._endpoints}
        nets = [
            f"net {_covering(low, high, kind)}"
            for kind in (ipaddress.IPv4Address, ipaddress.IPv6Address)
            for low, high in _ranges((int(each) for each in addresses if isinstance(each, kind)), MOST_RANGES)
        ]
        ours = [*anywhere, *([f"(({' or '.join(common)}) and ({' or '.join(nets)}))"] if common else [])]
        flagged = FLAGGED.format(flags=OPENS_OR_ENDS | PUSHES if self.payloads else OPENS_OR_ENDS)
        return f"(({' or '.join(ours) or 'less 0'}) and {flagged}) or {UNREACHABLE}"


def _ranges(numbers: Iterable[int], most: int) -> list[tuple[int, int]]:
    """The numbers as a limited number of ranges, divided at the widest gaps."""
    ordered = sorted(set(numbers))
    if not ordered:
        return []
    gaps = sorted(range(1, len(ordered)), key=lambda i: ordered[i] - ordered[i - 1], reverse=True)
    starts = [0, *sorted(gaps[: most - 1]), len(ordered)]
    return [(ordered[first], ordered[after - 1]) for first, after in itertools.pairwise(starts)]


def _say_ports(low: int, high: int) -> str:
    return f"port {low}" if low == high else f"portrange {low}-{high}"


def _covering(low: int, high: int, kind: type[ipaddress.IPv4Address] | type[ipaddress.IPv6Address]) -> str:
    """The smallest network that holds both."""
    bits = kind(0).max_prefixlen
    shared = bits - (low ^ high).bit_length()
    host = bits - shared
    return f"{kind(low >> host << host)}/{shared}"
