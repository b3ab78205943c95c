"""Capture files: pcap data as sightings of packets that open, refuse or identify a connection.

scapy divides the file into records; of these, only the few header fields that are needed are taken here, which is 18
to 30 times faster than scapy's layers (docs/dependencies.md).
"""

import ipaddress
import re
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import Any

from esipp.checks.observation import Observation
from esipp.judging.topology import parse_address
from esipp.packets.scope import Scope

End = tuple[str, int]
Join = int | str

REQUEST, REPLY, ERROR, NAMED, ASKED = "request", "reply", "error", "named", "asked"
IN, OUT, OTHER = "in", "out", "other"

LINUX_SLL2 = 276
FILE_HEADER, RECORD_HEADER, COOKED = 24, 16, 20
ICMP, TCP, UDP, ICMP6, SCTP = 1, 6, 17, 58, 132
SCTP_INIT, SCTP_INIT_ACK, SCTP_ABORT = 1, 2, 6
SCTP_PARAMETERS = 32
"""Bytes before the parameters of an INIT: the common header, and the chunk's own."""
SCTP_NONCE = 0xBE51
"""The parameter of an INIT that holds the nonce (images/echoserver/prober.py)."""
NAMES = {TCP: "TCP", UDP: "UDP", SCTP: "SCTP"}
DIRECTIONS = {0: IN, 1: IN, 2: IN, 3: OTHER, 4: OUT}
IN_REQUEST = re.compile(rb"(?:[A-Za-z0-9._:-]{1,64}/)?([A-Za-z0-9._:-]{1,128})\n?\Z")
IN_SEGMENT = re.compile(rb"([0-9a-f]{16}:[A-Za-z0-9._-]{1,64}:[0-9]{1,7})\r?\n")
"""A nonce of our own prober that ends a line: of the raw protocol its only one, of HTTP a header's.

Anything may stand before it. The echo server's document has the nonce between quotes."""
IN_HTTP = re.compile(rb"[A-Z]{3,7} (/[!-~]{0,200}) HTTP/1\.[01]\r?\n")
"""An HTTP request; of those without a nonce of ours, the path is of interest: health checks of load balancers."""
IN_REPLY = re.compile(rb'"nonce": ?"([A-Za-z0-9._:-]{1,128})"')


@dataclass(frozen=True, slots=True)
class Sighting:
    """One packet on one interface.

    ``direction`` is the node's view: "in", "out", or "other" for a frame to another host. ``time`` is the node's unix
    clock. ``kind``: "request" opens (SYN, datagram with a nonce, INIT), "reply" answers it (SYN-ACK, document,
    INIT-ACK), "error" refuses it (RST, ABORT, ICMP unreachable; the ends of an ICMP error have port 0), "named" is the
    segment of TCP that carries the nonce, "asked" one with an HTTP request without a nonce. ``join`` is what all
    packets of one attempt share and no NAT changes: TCP the SYN's sequence number (of a "named" or "asked" one its
    own), UDP the nonce, SCTP the initiate tag. ``at`` is the record's place in the capture's bytes. ``nonce`` is the
    probe's, where the packet carries it; of "asked" the request's path.
    """

    node: str
    interface: str
    direction: str
    time: float
    protocol: str
    kind: str
    join: Join
    source: End
    destination: End
    at: int = 0
    nonce: str = ""


@dataclass(frozen=True)
class Capture:
    """What one node's tap took.

    Args:
        node: its name.
        raw: a pcap file with the packets that are sightings, and no others.
        sightings: in the order in which the node saw them.
        dropped: packets that matched the filter and that the kernel lost, by tcpdump's own count.
        trouble: why the capture may lack packets, in a sentence; empty if nothing is known against it.
    """

    node: str
    raw: bytes = b""
    sightings: tuple[Sighting, ...] = ()
    dropped: int = 0
    trouble: str = ""

    def blindness(self, known: Iterable[Observation]) -> str:
        """Why this capture cannot be trusted, as a sentence; empty if it can.

        Args:
            known: answered probes that certainly crossed this node during the capture, best one before and one after
                the window: those of the node's own prober to its control listener. The capture must have all.
        """
        ends = {(each.protocol, each.source, each.destination) for each in self.sightings if each.kind == REQUEST}
        expected = [each for each in known if each.source and each.dialled]
        if not expected:
            return f"there is no known connection to verify the capture on {self.node} with. {self.trouble}".strip()
        missing = [
            each
            for each in expected
            if not any((name, plain(each.source), plain(each.dialled)) in ends for name in NAMES.values())
        ]
        if not missing:
            return ""
        lost = f"{len(missing)} of {len(expected)} known connections, among them {say(missing[0].source)} -> "
        why = self.trouble or f"it has {len(self.sightings)} other packets"
        return f"the capture on {self.node} lacks {lost}{say(missing[0].dialled)}: {why}"

    def cut(self, sightings: Iterable[Sighting]) -> bytes:
        """A pcap file of those sightings that belong to this capture."""
        records = []
        for each in sightings:
            if each.node == self.node:
                (length,) = struct.unpack_from("<I", self.raw, each.at + 8)
                records.append(self.raw[each.at : each.at + RECORD_HEADER + length])
        return self.raw[:FILE_HEADER] + b"".join(records)

    def write(self, path: Path) -> None:
        """Write the capture as a pcap file.

        Raises:
            OSError: it cannot be written.
        """
        path.write_bytes(self.raw)


def read_capture(
    node: str, raw: bytes, interfaces: dict[int, str], scope: Scope, *, dropped: int = 0, trouble: str = ""
) -> Capture:
    """Read a pcap file of link type LINUX_SLL2; skips foreign packets, and reports damage as trouble.

    Args:
        node: the node it is from.
        raw: the file's bytes.
        interfaces: names by index; one that is not in it is called ``if7``.
        scope: the run's own packets.
        dropped: the packets that the kernel lost.
        trouble: faults that are already known.
    """
    from scapy.error import Scapy_Exception  # a tenth of a second, which a run without a capture need not spend
    from scapy.utils import RawPcapReader

    selected = bytearray(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 65535, LINUX_SLL2))
    sightings: list[Sighting] = []
    try:
        file: Any = BytesIO(raw)  # which is as good to scapy as the name that it declares
        reader = RawPcapReader(file)
        if getattr(reader, "linktype", None) != LINUX_SLL2:
            raise Scapy_Exception("the link type is not LINUX_SLL2")
        per_second = 1e9 if reader.nano else 1e6
        for data, about in reader:
            if len(data) < about.caplen:
                raise Scapy_Exception("its last packet is truncated")
            index, kind = struct.unpack_from("!IxxB", data, 4) if len(data) >= COOKED else (0, -1)
            read = _read_ip(data[COOKED:]) if kind in DIRECTIONS else None
            if read is None or not scope.holds(read.protocol, *read.ends):
                continue
            when = about.sec + about.usec / per_second
            sightings.append(
                Sighting(
                    node, interfaces.get(index, f"if{index}"), DIRECTIONS[kind], when,
                    read.protocol, read.kind, read.join, read.source, read.destination, len(selected), read.nonce,
                )
            )  # fmt: skip
            micro = about.usec // 1000 if reader.nano else about.usec
            selected += struct.pack("<IIII", about.sec, micro, len(data), about.wirelen) + data
    except (Scapy_Exception, EOFError, struct.error, ValueError) as broken:
        said = f"the capture on {node} is damaged ({broken})" if raw else f"the capture on {node} is empty"
        trouble = f"{trouble}; {said}" if trouble else said
    return Capture(node, bytes(selected), tuple(sightings), dropped, trouble)


def plain(end: End | None) -> End | None:
    """An end with its address in the one form that sightings have: no scope, v4-mapped as IPv4."""
    return (str(parse_address(end[0])), end[1]) if end else None


def say(end: End | None) -> str:
    """An end in words: ``172.18.0.9:80``, ``[fd00::1]:80``."""
    if end is None:
        return "nobody"
    host = f"[{end[0]}]" if ":" in end[0] else end[0]
    return f"{host}:{end[1]}" if end[1] else end[0]


@dataclass(frozen=True, slots=True)
class _Read:
    """A packet's fields; ``ends`` are those by which it is ours: the quoted packet's, for an ICMP error."""

    protocol: str
    kind: str
    join: Join
    source: End
    destination: End
    ends: tuple[End, End]
    nonce: str = ""


def _read_ip(data: bytes) -> _Read | None:
    """An IP packet that is a sighting's; None for any other, and for a fragment's rest."""
    header = _ip_header(data)
    if header is None:
        return None
    number, source, destination, body = header
    if (number == ICMP and body[:1] == b"\x03") or (number == ICMP6 and body[:1] == b"\x01"):
        quoted = _read_ip(body[8:])
        if quoted is None or quoted.kind != REQUEST:
            return None
        return _Read(quoted.protocol, ERROR, quoted.join, (source, 0), (destination, 0), quoted.ends, quoted.nonce)
    if number not in NAMES or len(body) < 8:
        return None
    found = _OPENING[number](body)
    if found is None:
        return None
    kind, join, nonce = found
    source_port, destination_port = struct.unpack_from("!HH", body)
    ends = ((source, source_port), (destination, destination_port))
    return _Read(NAMES[number], kind, join, *ends, ends, nonce)


def _ip_header(data: bytes) -> tuple[int, str, str, bytes] | None:
    """Protocol number, source, destination, and what follows."""
    version = data[0] >> 4 if data else 0
    if version == 4 and len(data) >= 20 and not struct.unpack_from("!H", data, 6)[0] & 0x1FFF:
        return data[9], _address(data[12:16]), _address(data[16:20]), data[(data[0] & 15) * 4 :]
    if version == 6 and len(data) >= 40:
        return data[6], _address(data[8:24]), _address(data[24:40]), data[40:]
    return None


@lru_cache(maxsize=4096)
def _address(packed: bytes) -> str:
    return str(parse_address(str(ipaddress.ip_address(packed))))


_Opening = tuple[str, Join, str]


def _tcp(body: bytes) -> _Opening | None:
    (sequence,) = struct.unpack_from("!I", body, 4)
    if len(body) < 14:  # quoted by an ICMP error, which needs to repeat eight bytes only
        return REQUEST, sequence, ""
    (acknowledged,) = struct.unpack_from("!I", body, 8)
    syn, reset, ack = body[13] & 2, body[13] & 4, body[13] & 16
    if syn and not ack:
        return REQUEST, sequence, ""
    if ack and (syn or reset):
        return REPLY if syn else ERROR, (acknowledged - 1) % 2**32, ""
    start = (body[12] >> 4) * 4
    if found := IN_SEGMENT.search(body, start):
        return NAMED, sequence, found.group(1).decode()
    if found := IN_HTTP.match(body, start):
        return ASKED, sequence, found.group(1).decode()
    return None


def _udp(body: bytes) -> _Opening | None:
    for kind, pattern in ((REQUEST, IN_REQUEST), (REPLY, IN_REPLY)):
        found = pattern.match(body, 8) if kind == REQUEST else pattern.search(body, 8)
        if found:
            nonce = found.group(1).decode()
            return kind, nonce, nonce
    return None


def _sctp(body: bytes) -> _Opening | None:
    chunk = body[12] if len(body) > 12 else 0
    if chunk == SCTP_INIT and len(body) >= 20:
        return REQUEST, int(struct.unpack_from("!I", body, 16)[0]), _sctp_nonce(body)
    kind = {SCTP_INIT_ACK: REPLY, SCTP_ABORT: ERROR}.get(chunk)
    return (kind, int(struct.unpack_from("!I", body, 4)[0]), "") if kind else None


def _sctp_nonce(body: bytes) -> str:
    """The nonce in an INIT of our own prober, which puts it first; empty if the capture cut it off."""
    if len(body) < SCTP_PARAMETERS + 4:
        return ""
    kind, size = struct.unpack_from("!HH", body, SCTP_PARAMETERS)
    if kind != SCTP_NONCE or len(body) < SCTP_PARAMETERS + size:
        return ""
    found = IN_REQUEST.fullmatch(body, SCTP_PARAMETERS + 4, SCTP_PARAMETERS + size)
    return found.group(1).decode() if found else ""


_OPENING = {TCP: _tcp, UDP: _udp, SCTP: _sctp}
