"""Captures: which packets are taken (``Scope``), tcpdump on a node (``Tap``), and the packets as sightings.

scapy divides the pcap data into records; of these, only the few header fields that are needed are taken here, which is
18 to 30 times faster than scapy's layers (docs/dependencies.md).
"""

import contextlib
import ipaddress
import itertools
import os
import re
import signal
import struct
import subprocess
import threading
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from io import BytesIO
from pathlib import Path
from typing import IO, Any

from esipp.base.waiting import Budget, Reading, converge
from esipp.judging.observation import Observation
from esipp.judging.topology import parse_address

# ------------------------------------------------------------------------------------------------------------ the scope
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


# -------------------------------------------------------------------------------------------------------- its packets
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


# -------------------------------------------------------------------------------------------------------------- the tap
START_SECONDS = 20.0
"""Timeout for tcpdump to listen. It includes the exec into a container and compiling the filter."""

END_SECONDS = 10.0
"""Timeout for the exec to end after its input was closed."""

FEWEST_CORES = 4
"""Cores that nodes which are containers of this machine and esipp need together for watching beside what is measured.
With two, captures made the policy changes take 45 s instead of 27 s, and hardly any of their times was measured well
enough (2026-11-24). That four are enough is an assumption."""

MOST_SECONDS = 900
MOST_PACKETS = 200_000
MOST_BYTES = 64 * 2**20
SNAP_LENGTH = 512
"""Captured bytes of each packet: enough for all headers, and for the nonce of an HTTP request through a proxy."""

DRAINED = Budget("the capture's last packets", 3.0, need=3, spacing=0.1)

SCRIPT = """
names() {
    for each in /sys/class/net/*/ifindex; do
        name=${each%/ifindex}
        echo "interface $(cat "$each" 2>/dev/null) ${name##*/}" >&2
    done
}
names
exec 3<&0
timeout "$0" tcpdump "$@" </dev/null 3<&- &
tap=$!
{ while read -r line <&3; do :; done; kill "$tap"; } >/dev/null 2>&1 &
watch=$!
wait "$tap"
code=$?
kill "$watch" 2>/dev/null
names
exit "$code"
"""
"""Ends tcpdump when its input closes. An exec whose client is gone leaves its process behind, but closes its input. The
script lists the interfaces at its start and its end, because veths come and go."""


class Tap:
    """A running capture of all interfaces of a node.

    It starts at once and never raises, because a missing capture is no failure of the run. ``listening`` and the
    capture say why there is none.

    Args:
        node: the node's name.
        command: prefix of a command on the node, such as ``docker exec -i NODE`` or ``kubectl exec -i -n NS POD --``,
            with stdin. The node or pod needs sh, timeout and tcpdump, root, and the capabilities NET_RAW,
            SETUID and SETGID (tcpdump changes its user even from root to root).
        scope: the run's own packets.
        packets: the capture ends after this number of packets,
        seconds: or after this time.
    """

    def __init__(
        self,
        node: str,
        command: Sequence[str],
        scope: Scope,
        *,
        packets: int = MOST_PACKETS,
        seconds: int = MOST_SECONDS,
    ) -> None:
        self.node = node
        self._scope = scope
        self._raw = bytearray()
        self._names: dict[int, str] = {}
        self._said: list[str] = []
        self._dropped = 0
        self._started = threading.Event()
        self._listens = False
        self._trouble = ""
        self._capture: Capture | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._readers: list[threading.Thread] = []
        tcpdump = [
            "-i", "any", "-y", "LINUX_SLL2", "-n", "-s", str(SNAP_LENGTH), "-B", "4096", "--immediate-mode", "-U",
            "-Z", "root", "-c", str(packets), "-w", "-", scope.expression(),
        ]  # fmt: skip
        try:
            self._process = subprocess.Popen(
                [*command, "sh", "-c", SCRIPT, str(seconds), *tcpdump],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                start_new_session=True,  # an interrupt at the terminal is ours to handle, not the exec's
            )  # fmt: skip
        except OSError as broken:
            self._trouble = f"the capture on {node} cannot be started: {broken}"
            return
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        self._readers = [
            threading.Thread(target=self._read, args=(self._process.stdout,), daemon=True),
            threading.Thread(target=self._read_messages, args=(self._process.stderr,), daemon=True),
        ]
        for reader in self._readers:
            reader.start()

    def listening(self) -> str:
        """Wait until tcpdump listens. Return why it does not, as a sentence, or an empty string."""
        if self._process is not None:
            self._started.wait(START_SECONDS)
        if self._listens:
            return ""
        if not self._started.is_set() and self._process is not None:
            self._trouble = f"the capture on {self.node} did not start within {START_SECONDS:.0f} s{self._last_lines()}"
        else:
            self._trouble = self._trouble or f"the capture on {self.node} did not start{self._last_lines()}"
        return self._trouble

    def stop(self) -> Capture:
        """End the capture and read it; the second call returns the same."""
        if self._capture is None:
            self._capture = self._end()
        return self._capture

    def _end(self) -> Capture:
        if self._process is None:
            return Capture(self.node, trouble=self._trouble)
        early = self._process.poll() is not None
        if not early and self._listens:
            converge(_Growth(self._raw), DRAINED)
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._complain(f"the capture on {self.node} did not end within {END_SECONDS:.0f} s")
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        for reader in self._readers:
            reader.join(timeout=3)
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()
        if not self._listens:
            self.listening()
        elif early:
            self._complain(f"the capture on {self.node} ended before it was stopped{self._last_lines()}")
        if self._dropped:
            self._complain(f"the kernel of {self.node} lost {self._dropped} packets")
        return read_capture(
            self.node, bytes(self._raw), self._names, self._scope, dropped=self._dropped, trouble=self._trouble
        )

    def _read(self, stream: IO[bytes]) -> None:
        with contextlib.suppress(OSError, ValueError):
            while chunk := stream.read1(65536):  # type: ignore[attr-defined]  # a buffered pipe has it
                if len(self._raw) < MOST_BYTES:
                    self._raw += chunk
                elif not self._trouble:
                    self._complain(f"the capture on {self.node} has more than {MOST_BYTES} bytes")

    def _read_messages(self, stream: IO[bytes]) -> None:
        with contextlib.suppress(OSError, ValueError):
            for line in stream:
                self._take(line.decode(errors="replace").strip())
        self._started.set()

    def _take(self, line: str) -> None:
        if named := re.fullmatch(r"interface (\d+) (\S+)", line):
            self._names[int(named[1])] = named[2]
        elif lost := re.match(r"(\d+) packets? dropped by (?:kernel|interface)", line):
            self._dropped += int(lost[1])
        elif "listening on" in line:
            self._listens = True
            self._started.set()
        elif line and not re.match(r"interface |\d+ packets? |tcpdump: data link type", line):
            self._said = [*self._said[-4:], line]

    def _complain(self, what: str) -> None:
        self._trouble = f"{self._trouble}; {what}" if self._trouble else what

    def _last_lines(self) -> str:
        said = " ".join(self._said)
        return f": {said[:300]}" if said else ""


class _Growth:
    """Whether a buffer has stopped growing."""

    def __init__(self, buffer: bytearray) -> None:
        self._buffer, self._before = buffer, -1

    def __call__(self) -> Reading:
        before, self._before = self._before, len(self._buffer)
        return Reading(before == self._before, f"{self._before} bytes")
