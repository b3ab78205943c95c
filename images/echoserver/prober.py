"""Prober: dials the echo server as its jobs say, and tells what came of every probe.

usage: prober.py [--limit PROBES_IN_FLIGHT]

Jobs come as JSON lines on stdin, results leave as JSON lines on stdout, so that one process behind a docker exec,
kubectl exec or ssh carries thousands of probes. The contract stands in README.md beside this file. It is one file of
the standard library because it is also copied to machines as it is; one epoll loop, because asyncio would take most of
the time of a probe.
"""

from __future__ import annotations

import _thread  # threading would take a part of the start
import errno
import heapq
import json
import os
import resource
import select
import socket
import struct
import sys
import time
from collections import deque

TYPE_CHECKING = False  # as typing has it, without importing typing
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

VERSION = "0.2.0"
PROTOCOL = 8
MAX_COUNT = 1_000_000
MAX_LINE = 65536
MAX_JOBS = 10_000
MAX_SECONDS = 3600.0
MAX_LINGER = 10.0
MAX_ANSWER = 65536
MAX_HTTP = 1 << 20  # bytes of an HTTP answer, whatever is kept of it
MAX_HEAD = 16384
MAX_CHUNK_LINE = 1024
MAX_SHOWN_BODY = 2048  # bytes of the body that the result of a get job has
MAX_DETAIL = 200  # bytes of an answer that a detail quotes
MAX_PREAMBLE = 1024
MAX_TOKEN = 64
MAX_DATAGRAM = 65000  # bytes of a padded datagram: less than UDP carries over either family
MAX_BULK = 1 << 28  # bytes of a transfer
MAX_PORTS = 1000  # pairs of ports that a group of a brief job names
MAX_UNREAD = 4 << 20  # bytes of results that nobody reads; then nothing more is started
EVENTS = select.EPOLLIN | select.EPOLLOUT | select.EPOLLRDHUP | select.EPOLLET
ENDED = select.EPOLLERR | select.EPOLLHUP
CHUNK = 16384
BULK_PIECE = 1 << 17
BLOCK = os.urandom(65521)  # what transfers repeat; its length is prime, so that a piece out of place shows
DRAIN = 4096  # packets taken from a socket before times are looked at: what has arrived is no timeout
BATCH = 32  # probes started before the sockets are looked at again
EVENTS_AT_ONCE = 8192  # taken from the kernel: all there can be, so that none is left when times are looked at
PORTS_TRIED = 200  # source ports that others hold, one after the other, until the prober gives up and says so
WIDE_LOW, WIDE_COUNT = 1024, 64512  # all source ports that need no right
WIDE_STEP = 39871  # the golden section of them, and coprime: any few in a row are spread over the whole range
TAKEN = {errno.EADDRINUSE, errno.EACCES, errno.EPERM}  # a port that another has, or that a BPF program keeps for others
LATE_SECONDS = 1.0  # an answer after this time is reported as late: a SYN is first sent again then (RFC 6298)
MAX_STANDSTILLS = 200  # the last ones, which a description has
STANDSTILL_SECONDS = 0.25  # the loop takes less; a longer time is one in which this process did not run
TCP_RETRANSMITS = struct.Struct("100xI")  # tcpi_total_retrans in the kernel's tcp_info
FRESH = 64  # probes that the answering side may have to deal with at once; what waits longer is silence, not work
FRESH_SECONDS = 0.03  # a probe is fresh for so long ...
FRESH_SECONDS_ANSWERED = 0.25  # ... or, where probes of its job were answered: there it is work after all
YOUNG_SECONDS = 2.0  # then a probe has met silence, and does not count among the parallel ones of its job any more
PACED_SECONDS = 0.005  # jobs of this spacing or more are no burst: their pace is kept, whatever is fresh
MAX_LOOKUPS = 64  # names that the system's resolver is asked for at once; it may hang for half a minute
NONCE_LETTERS = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")
DIGITS = {10: b"0123456789", 16: b"0123456789abcdefABCDEF"}
TOKEN_LETTERS = NONCE_LETTERS - set(".") | set("!#$%&'*+^`|~.")
# Linux; the socket module does not name them.
IP_PKTINFO, IP_RECVERR, IPV6_RECVERR = 8, 11, 25
IP_MTU, IPV6_MTU = 14, 24
SCTP = 132
SCTP_INIT, SCTP_INIT_ACK, SCTP_ABORT = 1, 2, 6
SCTP_COOKIE = 7  # the parameter that holds the document
SCTP_NONCE = 0xBE51  # the parameter that holds the nonce; its upper bits "10" tell others to skip it
SCTP_CHUNK = struct.Struct("!BBHIIHHI")  # of INIT and INIT-ACK: type, flags, length, tag, window, streams, TSN
CLOSE_WITH_RESET = struct.pack("ii", 1, 0)  # as SO_LINGER
UNREACHABLE = {
    errno.EHOSTUNREACH, errno.ENETUNREACH, errno.EHOSTDOWN, errno.ENETDOWN, errno.ENONET, errno.EACCES,
    errno.ENOPROTOOPT, errno.EPROTO, errno.EMSGSIZE,
}  # fmt: skip
RESET = {errno.ECONNRESET, errno.EPIPE, errno.ECONNABORTED}
UNRESOLVED = {"EAI_NONAME", "EAI_NODATA", "EAI_ADDRFAMILY", "EAI_AGAIN", "EAI_FAIL"}  # no address, whoever's fault
NLMSG_DONE, RTM_NEWNEIGH, RTM_DELNEIGH, RTM_GETNEIGH = 3, 28, 29, 30
NLM_REQUEST_DUMP = 0x301  # NLM_F_REQUEST, NLM_F_ROOT, NLM_F_MATCH
RTMGRP_NEIGH = 1 << 2
NDA_DST, NDA_LLADDR = 1, 2
NETLINK_HEAD = struct.Struct("=IHHII")  # length, type, flags, sequence, port
NEIGHBOUR_HEAD = struct.Struct("=BxxxiHBB")  # family, interface, state, flags, type
ATTRIBUTE_HEAD = struct.Struct("=HH")  # length, type
LINK_LOCAL = "link-local"  # as source_address: that of the interface by which a host of the own link is reached
NOT_ON_LINK = "not on a link of this host"
ETH_P_ARP, ARP_REQUEST, ARP_REPLY = 0x0806, 1, 2
ARP = struct.Struct("!HHBBH6s4s6s4s")  # hardware, protocol, their lengths, operation, sender, target
ETHERNET = 1
SOLICITATION, ADVERTISEMENT, SOLICITED = 135, 136, 0x40
SOURCE_LINK, TARGET_LINK = 1, 2  # options of NDP
ICMPV6_FILTER = 1
RTF_REJECT = 0x0200
PROTOCOLS = ("tcp", "http", "get", "udp", "sctp", "lasting", "bulk", "resolve", "neighbour", "who-has")
AT_ONCE = ("tcp", "http", "get", "udp", "sctp")  # whose answer comes at once, if it comes
NOT_FOR = {
    "lasting": {"family", "brief", "parallel"},
    "resolve": {"port", "source_address", "source_port", "brief", "token", "wide", "spare"},
    "get": {"family", "token"},
    "neighbour": {
        "port", "source_address", "source_port", "spacing", "timeout", "family", "brief", "parallel", "token", "wide",
        "spare",
    },
    "who-has": {"port", "source_address", "source_port", "family", "brief", "token", "wide", "spare"},
}  # fmt: skip
JOB_KEYS = {
    "id", "protocol", "host", "port", "source_address", "source_port", "count", "spacing", "timeout", "path", "headers",
    "one_socket", "one_way", "size", "brief", "parallel", "preamble", "method", "family", "token",
    "wide", "spare", "linger",
}  # fmt: skip


def local_addresses(fib_trie: str, if_inet6: str) -> list[str]:
    """The addresses of a network namespace that others can send to, from two files of /proc/net."""
    found: dict[str, bytes] = {}
    leaf = ""
    for line in fib_trie.splitlines():
        words = line.split()
        if words[:1] == ["|--"]:
            leaf = words[1]
        elif words[-2:] == ["host", "LOCAL"] and not leaf.startswith(("127.", "169.254.")):
            found[leaf] = b"4" + socket.inet_aton(leaf)
    for line in if_inet6.splitlines():
        digits, _, _, scope, flags, _ = line.split()
        if scope == "00" and not int(flags, 16) & 0x08:  # global (also unique local), no duplicate on the link
            packed = bytes.fromhex(digits)
            found[socket.inet_ntop(socket.AF_INET6, packed)] = b"6" + packed
    return sorted(found, key=lambda address: found[address])


def local_ports() -> range:
    """The source ports that this network namespace gives out."""
    try:
        with open("/proc/sys/net/ipv4/ip_local_port_range") as file:  # noqa: PTH123 - pathlib would double the start
            low, high = map(int, file.read().split())
    except (OSError, ValueError):
        low, high = 32768, 60999
    return range(low, high + 1)


def reserved_ports() -> set[int]:
    """The source ports that this network namespace keeps for others."""
    try:
        with open("/proc/sys/net/ipv4/ip_local_reserved_ports") as file:  # noqa: PTH123 - as above
            parts = [part.partition("-") for part in file.read().strip().split(",") if part]
        return {port for low, _, high in parts for port in range(int(low), int(high or low) + 1)}
    except (OSError, ValueError):
        return set()


def wide_port(turn: int) -> int:
    """The source port of a turn, of all that need no right; any few in a row are spread over the whole range."""
    return WIDE_LOW + turn * WIDE_STEP % WIDE_COUNT


def own_addresses() -> list[str]:
    """The addresses of this process's network namespace."""
    texts = []
    for name in ("fib_trie", "if_inet6"):
        try:
            with open(f"/proc/net/{name}") as file:  # noqa: PTH123 - pathlib would double the start
                texts.append(file.read())
        except OSError:  # a kernel without that family
            texts.append("")
    return local_addresses(texts[0], texts[1])


def classify(code: int) -> str:
    """The outcome that an errno stands for."""
    if code == errno.ECONNREFUSED:
        return "refused"
    if code in UNREACHABLE:
        return "unreachable"
    if code in RESET:
        return "reset"
    return "timeout" if code == errno.ETIMEDOUT else "error"


def unsent(code: int) -> str:
    """The outcome of what the kernel did not let out; EPERM: this host's packet filter, or a BPF program, did."""
    return "unreachable" if code == errno.EPERM else classify(code)


def named(code: int) -> str:
    """An errno by its name and meaning."""
    return f"{errno.errorcode.get(code, code)}: {os.strerror(code)}"


def natural(digits: bytes, base: int) -> int:
    """A length as HTTP writes it."""
    if not digits or digits.strip(DIGITS[base]):
        raise ValueError("HTTP response with a bad length")
    try:
        return int(digits, base)
    except ValueError:  # thousands of digits
        raise ValueError("HTTP response with a bad length") from None


class Reader:
    """Reads an HTTP answer as it arrives, piece by piece; answers of kind 100 to 199 before it are passed over.

    Args:
        bodiless: it answers a HEAD.
        keep: bytes of the body that are kept; the others are read and forgotten.
    """

    def __init__(self, bodiless: bool, keep: int) -> None:
        self.bodiless, self.keep = bodiless, keep
        self.status = 0
        self.fields: dict[str, str] = {}
        self.body = b""
        self.whole = False
        self.problem = ""  # why it is no HTTP; then nothing more is read
        self.size = 0
        self.rest = b""  # has arrived, but does not make a step yet
        self.left = 0  # bytes of the body, or of the chunk, that are still to come
        # A function of the class, not a bound method, which would make a cycle for the collector of every probe.
        self.step: Callable[[Reader], bool] = Reader._head

    def take(self, data: bytes) -> None:
        """Go on by what has arrived."""
        self.size += len(data)
        self.rest += data
        try:
            while not self.whole and self.step(self):
                pass
            if self.size > MAX_HTTP and not self.whole:
                raise ValueError(f"HTTP response longer than {MAX_HTTP} bytes")
        except ValueError as error:
            self.problem = str(error)

    def end(self) -> None:
        """Nothing more comes."""
        if self.whole or self.problem:
            return
        if self.step is Reader._until_close:
            self.whole = True
        else:
            self.problem = "HTTP response cut short" if self.status else "no HTTP response"

    def response(self) -> dict[str, Any]:
        """The whole answer as a result tells it. Without Date, which would make equal answers differ."""
        self.fields.pop("date", None)
        return {"status": self.status, "headers": self.fields, "body": self.body.decode(errors="backslashreplace")}

    # Each step says whether it came to an end, so that the next one has its turn; else it needs more.

    def _head(self) -> bool:
        head, separator, rest = self.rest.partition(b"\r\n\r\n")
        if not head.startswith(b"HTTP/1."[: len(head)]):
            raise ValueError("no HTTP response")
        if len(head) > MAX_HEAD:
            raise ValueError(f"HTTP head longer than {MAX_HEAD} bytes")
        if not separator:
            return False
        self.rest = rest
        lines = head.decode("latin-1").split("\r\n")
        version, _, status = lines[0].partition(" ")
        code = status[:3]
        if len(version) != 8 or not lines[0][:12].isascii() or not (version[7].isdigit() and code.isdigit()):
            raise ValueError("no HTTP response")
        if code < "100" or status[3:4] not in ("", " "):
            raise ValueError("no HTTP response")
        fields = self._fields(lines[1:])
        if code[0] == "1" and code != "101":
            return True
        self.status, self.fields = int(code), fields
        self._frame()
        return True

    def _fields(self, lines: list[str]) -> dict[str, str]:
        fields: dict[str, str] = {}
        name = ""
        for line in lines:
            if line[:1] in (" ", "\t") and name:  # goes on with the one before, an old form
                fields[name] = f"{fields[name]} {line.strip()}"
                continue
            name, colon, value = line.partition(":")
            name, value = name.strip().lower(), value.strip()
            if not colon or not name:
                raise ValueError("HTTP response with a bad header")
            fields[name] = f"{fields[name]}, {value}" if name in fields else value
        return fields

    def _frame(self) -> None:
        """How the body ends (RFC 9112, 6.3)."""
        if self.bodiless or self.status in (101, 204, 304):
            self.whole = True
        elif coding := self.fields.get("transfer-encoding"):
            chunked = coding.lower().rpartition(",")[2].strip() == "chunked"
            self.step = Reader._chunk_line if chunked else Reader._until_close
        elif "content-length" in self.fields:
            lengths = {natural(length.strip().encode(), 10) for length in self.fields["content-length"].split(",")}
            if len(lengths) > 1:
                raise ValueError("HTTP response with a bad length")
            self.left = lengths.pop()
            self.step = Reader._counted
        else:
            self.step = Reader._until_close

    def _more(self, part: bytes) -> None:
        if room := self.keep - len(self.body):
            self.body += part[:room]

    def _until_close(self) -> bool:
        self._more(self.rest)
        self.rest = b""
        return False

    def _counted(self) -> bool:
        part = self.rest[: self.left]
        self._more(part)
        self.left -= len(part)
        self.whole = not self.left
        self.rest = b""
        return False

    def _chunk_line(self) -> bool:
        line, newline, rest = self.rest.partition(b"\r\n")
        if len(line) > MAX_CHUNK_LINE:
            raise ValueError("HTTP response with a bad length")
        if not newline:
            return False
        self.rest = rest
        self.left = natural(line.partition(b";")[0].rstrip(), 16)
        self.step = Reader._chunk if self.left else Reader._trailer
        return True

    def _chunk(self) -> bool:
        part = self.rest[: self.left]
        self._more(part)
        self.left -= len(part)
        self.rest = self.rest[len(part) :]
        if self.left or len(self.rest) < 2:
            return False
        if self.rest[:2] != b"\r\n":
            raise ValueError("HTTP response with a bad length")
        self.rest = self.rest[2:]
        self.step = Reader._chunk_line
        return True

    def _trailer(self) -> bool:
        line, newline, rest = self.rest.partition(b"\r\n")
        if len(line) > MAX_HEAD:
            raise ValueError(f"HTTP head longer than {MAX_HEAD} bytes")
        if newline:
            self.rest = rest
            self.whole = not line
        return bool(newline)


def echo_document(text: bytes, nonce: str) -> tuple[dict[str, Any] | None, str]:
    """The echo server's document if this is one with that nonce, or else what is wrong with it."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return None, "not JSON"
    if not isinstance(document, dict) or document.get("schema") != 1:
        return None, "not an echo document"
    if not isinstance(document.get("peer_address"), str) or not isinstance(document.get("peer_port"), int):
        return None, "not an echo document"
    if document.get("nonce") != nonce:
        return None, "another nonce"
    return document, ""


def shown(data: bytes) -> str:
    """The first bytes of an answer, readable."""
    return data[:MAX_DETAIL].decode("ascii", "backslashreplace")


class JobError(Exception):
    """A job that cannot be done as it is written."""


def flag(job: dict[str, Any], key: str) -> bool:
    """A yes or no of a job, checked."""
    value = job.get(key, False)
    if not isinstance(value, bool):
        raise JobError(f"{key} is true or false")
    return value


def number(job: dict[str, Any], key: str, default: float, low: float, high: float) -> float:
    """A number of a job, checked."""
    value = job.get(key, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not low <= value <= high:
        raise JobError(f"{key} is a number from {low:g} to {high:g}")
    return value


def integer(job: dict[str, Any], key: str, default: int | None, low: int, high: int) -> int:
    """An integer of a job, checked."""
    value = job.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
        raise JobError(f"{key} is an integer from {low} to {high}")
    return value


def sockaddr(address: object, port: int, key: str) -> tuple[int, tuple[Any, ...]]:
    """Family and socket address of a literal address."""
    if isinstance(address, str) and len(address) < 100 and "\0" not in address:
        literal, percent, scope = address.partition("%")
        try:
            if not percent and ":" not in literal:
                socket.inet_pton(socket.AF_INET, literal)
                return socket.AF_INET, (literal, port)
            packed = socket.inet_pton(socket.AF_INET6, literal)
            index = 0
            if percent:
                index = int(scope) if scope.isdecimal() else socket.if_nametoindex(scope)
                socket.if_indextoname(index)
        except (OSError, ValueError, OverflowError) as error:
            if percent:
                raise JobError(f"{key} {address!r}: no such address or scope") from error
        else:
            if packed[:12] == bytes(10) + b"\xff\xff":
                raise JobError(f"{key} {address!r}: write an IPv4 address as one")
            if packed[0] == 0xFE and packed[1] & 0xC0 == 0x80 and not index:
                raise JobError(f"{key} {address!r}: a link-local address needs its %scope")
            return socket.AF_INET6, (socket.inet_ntop(socket.AF_INET6, packed), port, 0, index)
    raise JobError(f"{key} is a literal IPv4 or IPv6 address")


def dns_name(job: dict[str, Any]) -> tuple[int, tuple[Any, ...]]:
    """Family and name of what is to be resolved."""
    family = {"ipv4": socket.AF_INET, "ipv6": socket.AF_INET6}.get(str(job.get("family")))
    if family is None:
        raise JobError("family is ipv4 or ipv6")
    host = job.get("host")
    if not isinstance(host, str) or not 0 < len(host) < 255 or set(host) - NONCE_LETTERS:
        raise JobError("host is a DNS name")
    try:
        socket.inet_aton(host)
    except OSError:
        return family, (host, 0)
    raise JobError("host is a DNS name, not an address")


class Job:
    """What to dial, how often, and how far that has come."""

    def __init__(self, job: dict[str, Any]) -> None:
        self.id: str = job["id"]
        if unknown := job.keys() - JOB_KEYS:
            raise JobError(f"unknown: {', '.join(sorted(unknown))[:100]}")
        self.protocol = job.get("protocol")
        if self.protocol not in PROTOCOLS:
            raise JobError(f"protocol is one of {', '.join(PROTOCOLS)}")
        if wrong := job.keys() & NOT_FOR.get(self.protocol, {"family"}):
            raise JobError(f"not for {self.protocol}: {', '.join(sorted(wrong))}")
        if self.protocol == "resolve":
            self.family, self.target = dns_name(job)
        elif self.protocol in ("neighbour", "who-has"):
            self.family, self.target = sockaddr(job.get("host"), 0, "host")
        else:
            self.family, self.target = sockaddr(job.get("host"), integer(job, "port", None, 1, 65535), "host")
        self.source: tuple[Any, ...] | None = None
        self.unable = ""  # why none of its probes can be sent
        self.interface = ""
        if job.get("source_address") == LINK_LOCAL:
            if self.family != socket.AF_INET6:
                raise JobError("source_address: link-local is for IPv6")
            self.source = link_local(interface_of(self.family, self.target))
            self.unable = "" if self.source else NOT_ON_LINK
        elif self.protocol == "who-has":
            self.interface = interface_of(self.family, self.target)
            self.unable = "" if self.interface else NOT_ON_LINK
        elif job.get("source_address") is not None:
            family, self.source = sockaddr(job["source_address"], 0, "source_address")
            if family != self.family:
                raise JobError("source_address and host are of different families")
        ports = job.get("source_port")
        if isinstance(ports, list):
            if len(ports) != 2:
                raise JobError("source_port is null, a port or [low, high]")
            low, high = (integer({"source_port": port}, "source_port", None, 1, 65535) for port in ports)
            if low > high:
                raise JobError("source_port is [low, high]")
            self.ports = range(low, high + 1)
        else:
            port = 0 if ports is None else integer(job, "source_port", None, 1, 65535)
            self.ports = range(port, port + 1)
        self.wide = None if job.get("wide") is None else integer(job, "wide", None, 0, 1 << 62)
        if self.wide is not None and ports is not None:
            raise JobError("wide and source_port exclude each other")
        spare = job.get("spare", [1, 0])
        if not isinstance(spare, list) or len(spare) != 2 or any(type(port) is not int for port in spare):
            raise JobError("spare is [low, high]")
        self.spare = range(spare[0], spare[1] + 1)
        self.linger = number(job, "linger", 0.0, 0.0, MAX_LINGER)
        if self.linger and self.protocol not in ("udp", "sctp"):
            raise JobError("linger is for udp and sctp only")
        self.count = integer(job, "count", 1, 1, MAX_COUNT)
        # A lasting job is always paced: its exchanges go before others, and must not starve them.
        least = PACED_SECONDS if self.protocol == "lasting" else 0.0
        self.spacing = number(job, "spacing", 0.0, least, MAX_SECONDS)
        self.paced = self.spacing >= PACED_SECONDS
        self.timeout = number(job, "timeout", 2.0, 0.001, MAX_SECONDS)
        self.parallel = MAX_COUNT if job.get("parallel") is None else integer(job, "parallel", None, 1, MAX_COUNT)
        if self.protocol == "lasting":
            self.parallel = 1
        self.brief = flag(job, "brief")
        self.one_socket = flag(job, "one_socket")
        if self.one_socket and self.protocol not in ("udp", "sctp"):
            raise JobError("one_socket is for udp and sctp only")
        self.one_way = flag(job, "one_way")
        if self.one_way and self.protocol != "udp":
            raise JobError("one_way is for udp only")
        self.one_socket = self.one_socket or self.one_way
        self.size = self._size(job)
        if self.protocol not in ("http", "get") and ("path" in job or "headers" in job):
            raise JobError("path and headers are for http and get only")
        if self.protocol != "get" and "method" in job:
            raise JobError("method is for get only")
        self.method = job.get("method", "GET")
        if self.method not in ("GET", "HEAD"):
            raise JobError("method is GET or HEAD")
        self.preamble = self._preamble(job.get("preamble", ""))
        self.token = self._token(job.get("token", ""))
        self.request = self._request(job) if self.protocol in ("http", "get") else ""
        safe = "".join(letter if letter in NONCE_LETTERS else "-" for letter in self.id[:64])
        self.prefix = f"{os.urandom(8).hex()}:{safe}"
        self.started = 0
        self.finished = 0
        self.planned = 0.0  # when the next probe was to start
        self.deadline = 0.0  # when the loop shall look at the job again; 0: not
        self.answered = False  # a probe of it was
        self.held = False  # has as many probes in flight as it may
        self.open: dict[str, Attempt] = {}
        self.lingering: dict[str, Attempt] = {}  # answered, and listening for what comes twice
        self.young = 0  # of these, how many count among the parallel ones
        self.groups: dict[tuple[str | None, ...], dict[str, Any]] = {}  # of a brief job
        self.channel: Channel | None = None
        self.one_port = 0  # SCTP: of all probes, with one_socket
        self.lasting: Lasting | None = None

    def _size(self, job: dict[str, Any]) -> int:
        if self.protocol == "bulk":
            return integer(job, "size", None, 1, MAX_BULK)
        if "size" not in job:
            return 0
        if self.protocol != "udp":
            raise JobError("size is for udp and bulk only")
        return path_mtu(self) if job["size"] == "mtu" else integer(job, "size", None, 1, MAX_DATAGRAM)

    def _preamble(self, digits: object) -> bytes:
        if digits and self.protocol not in ("tcp", "http", "lasting"):
            raise JobError("preamble is for tcp, http and lasting only")
        if isinstance(digits, str) and len(digits) <= 2 * MAX_PREAMBLE and " " not in digits:
            try:
                return bytes.fromhex(digits)
            except ValueError:
                pass
        raise JobError(f"preamble is {MAX_PREAMBLE} bytes at most, in hexadecimal")

    def _token(self, token: object) -> str:
        if not isinstance(token, str) or len(token) > MAX_TOKEN or set(token) - NONCE_LETTERS - {":"}:
            raise JobError(f"token is a string of at most {MAX_TOKEN} letters, digits or ._:-")
        return f"{token}/" if token else ""

    def _request(self, job: dict[str, Any]) -> str:
        path, headers = job.get("path", "/"), job.get("headers", {})
        if not isinstance(path, str) or not path.startswith("/") or not path.isascii() or len(path) > 2048:
            raise JobError("path is ASCII and begins with /")
        if not path.isprintable() or " " in path:
            raise JobError("path is ASCII without spaces")
        if not isinstance(headers, dict) or len(headers) > 50:
            raise JobError("headers are an object of strings")
        host = self.target[0] if self.family == socket.AF_INET else f"[{self.target[0]}]"
        accepted = "application/json" if self.protocol == "http" else "*/*"
        fields = {"host": f"Host: {host}:{self.target[1]}", "accept": f"Accept: {accepted}"}
        fields["user-agent"] = f"User-Agent: esipp-prober/{VERSION}"
        for name, value in headers.items():
            plain = isinstance(value, str) and value.isascii() and (value.isprintable() or not value)
            if not name or set(name) - TOKEN_LETTERS or not plain or len(value) > 2048:
                raise JobError(f"header {name[:40]!r} is not a plain name and value")
            if name.lower() in ("connection", "x-esipp-nonce", "content-length", "transfer-encoding"):
                raise JobError(f"header {name} is the prober's own")
            fields[name.lower()] = f"{name}: {value}"
        request = f"{self.method} {path} HTTP/1.1\r\n" + "".join(f"{line}\r\n" for line in fields.values())
        if len(request) > 8192:  # it must fit into a fresh socket's buffer
            raise JobError("path and headers are longer than 8192 bytes")
        return request

    def tally(self, result: dict[str, Any]) -> None:
        """Count a result among those that equal it but for ports and times."""
        echo, peer_port = result["echo"], None
        if echo is not None:
            peer_port = echo.pop("peer_port", None)
            echo.pop("nonce", None)
            echo.pop("time", None)
            if isinstance(proxied := echo.get("proxy_protocol"), dict):
                proxied.pop("source_port", None)
        answered_from = result.get("answered_from")
        key = (result["outcome"], result["detail"], answered_from, result["source_address"], repr(echo),
               repr(result.get("response")))  # fmt: skip
        group = self.groups.get(key)
        if group is None:
            self.groups[key] = group = {
                "id": self.id, "brief": True, "outcome": result["outcome"], "detail": result["detail"],
                "answered_from": answered_from, "count": 0, "source_address": result["source_address"], "echo": echo,
                "connected_count": 0, "ports": [], "moments": [], "started": result["started"], "ended": 0.0,
                "time": result["time"],
            }  # fmt: skip
            if "response" in result:
                group["response"] = result["response"]
        group["count"] += 1
        group["connected_count"] += result["connected"] is not None
        if len(group["ports"]) < MAX_PORTS:
            group["ports"].append((result["source_port"], peer_port))
            group["moments"].append((round(result["started"], 3), round(result["ended"], 3)))
        if "irregular" in result and len(of := group.setdefault("irregular", [])) < MAX_PORTS:
            of += result["irregular"]
        if result["started"] < group["started"]:  # they end in another order than they start
            group["started"], group["time"] = result["started"], result["time"]
        group["ended"] = result["ended"]

    def payload(self, nonce: str) -> bytes:
        """What a probe sends."""
        nonce = self.token + nonce
        if self.one_way:
            nonce = f"count {nonce}"
        if self.protocol == "udp":
            return nonce.encode() if len(nonce) >= self.size else f"{nonce} ".encode().ljust(self.size, b".")
        if self.protocol == "bulk":
            return f"bulk {self.size} {nonce}\n".encode()
        if self.protocol == "tcp":
            return self.preamble + nonce.encode() + b"\n"
        if self.protocol == "lasting":
            return f"keep {nonce}\n".encode()
        if self.protocol == "get":
            return f"{self.request}Connection: close\r\n\r\n".encode()
        return self.preamble + f"{self.request}X-Esipp-Nonce: {nonce}\r\nConnection: close\r\n\r\n".encode()


class Attempt:
    """One probe: its times and addresses, and over TCP its connection."""

    def __init__(self, prober: Prober, job: Job) -> None:
        self.prober, self.job, self.seq = prober, job, job.started
        self.nonce = f"{job.prefix}:{self.seq}"
        self.port = job.ports[self.seq % len(job.ports)]
        self.started, self.time = time.monotonic(), time.time()
        self.connected: float | None = None
        self.source: tuple[Any, ...] = ("", 0)
        self.tag: int | None = None  # SCTP
        self.bytes: int | None = None  # of a datagram of some size, or those that came back
        self.aborted = False  # SCTP: refused, unless something else comes
        self.links: set[str] = set()  # the link addresses that answered a who-has
        self.raw: Raw | None = None
        self.bulk: Bulk | None = None
        self.ends = self.deadline = self.started + job.timeout
        self.young = True
        if job.parallel < MAX_COUNT and job.protocol not in (
            "lasting",
            "resolve",
        ):  # what they wait for is one resource
            self.deadline = min(self.ends, self.started + YOUNG_SECONDS)
        self.sock: socket.socket | None = None
        self.again = 0  # SYNs that were sent after the first
        self.copies = 0  # answers that came once more
        self.result: dict[str, Any] = {}  # what the prober will report of it
        self.received = b""  # of HTTP its beginning
        self.reader: Reader | None = None
        if job.protocol == "http":
            self.reader = Reader(False, MAX_ANSWER)
        elif job.protocol == "get":
            self.reader = Reader(job.method == "HEAD", MAX_SHOWN_BODY)
        self.over = False
        self.fresh = not job.paced or not job.started  # a thousand jobs may begin at once

    def dial(self, handler: Callable[[int], None]) -> None:
        """Open the connection, and have what happens on it handled."""
        job = self.job
        try:
            self.sock = sock = socket.socket(job.family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a port that rests from an earlier run will do
            self.prober.bind(sock, job, job.source, self.port)
            code = sock.connect_ex(job.target)
        except OSError as error:
            self.prober.finish(self, "error", detail=f"{named(error.errno or 0)} (source)")
            return
        self.source = sock.getsockname()
        if code not in (0, errno.EINPROGRESS):
            self.prober.finish(self, unsent(code), detail=f"{named(code)} (at once)")
            return
        self.prober.watch(sock, handler, EVENTS)

    def ready(self, mask: int) -> None:
        """Go on as far as the connection allows."""
        sock = self.sock
        if sock is None:
            return
        try:
            if self.connected is None:
                if mask & ENDED and (code := sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)):
                    self.prober.finish(self, classify(code), detail=named(code))
                    return
                if not mask & (select.EPOLLOUT | select.EPOLLHUP):
                    return
                self.connected = time.monotonic()
                info = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, TCP_RETRANSMITS.size)
                (self.again,) = TCP_RETRANSMITS.unpack(info)
                sock.send(self.job.payload(self.nonce))
                if not mask & (select.EPOLLIN | ENDED):
                    return  # what comes now is an event of its own
            while True:
                data = sock.recv(CHUNK)
                if not data:
                    break
                if self.reader is None:
                    self.received += data
                else:
                    self.reader.take(data)
                    self.received += data[: max(0, MAX_DETAIL - len(self.received))]
                    if self.reader.whole or self.reader.problem:
                        break
                if mask & (select.EPOLLRDHUP | select.EPOLLERR) == select.EPOLLRDHUP and len(data) < CHUNK:
                    break  # the end had arrived already, so that was all
                if self.over or len(self.received) > MAX_ANSWER:
                    break
        except BlockingIOError:
            if not self.over:
                self._judge(ended=False)
            return
        except OSError as error:
            if not self.over:
                self._judge(ended=False)  # a reset can follow a whole answer
            if not self.over:
                self.prober.finish(self, classify(error.errno or 0), detail=named(error.errno or 0))
            self.close()
            return
        if not self.over:
            self._judge(ended=True)
        self.close()

    def _judge(self, ended: bool) -> None:
        if not self.received:
            if ended:
                self.prober.finish(self, "reset", detail="closed without an answer")
            return
        try:
            if self.reader is not None:
                if ended:
                    self.reader.end()
                if self.reader.problem:
                    raise ValueError(self.reader.problem)
                if not self.reader.whole:
                    return
                if self.job.protocol == "get":
                    self.prober.finish(self, "answered", response=self.reader.response())
                    return
                if self.reader.status != 200:
                    raise ValueError(f"HTTP status {self.reader.status}")
                body = self.reader.body
            else:
                body, newline, _ = self.received.partition(b"\n")
                if not newline and not ended:
                    return
            document, problem = echo_document(body, self.nonce)
            if document is None:
                raise ValueError(problem)
        except ValueError as error:
            self.prober.finish(self, "invalid", detail=f"{error}: {shown(self.received)}")
            return
        self.prober.finish(self, "answered", echo=document)

    def due(self) -> None:
        """Its time is up."""
        if self.over:
            self.prober.tell(self)
        elif self.received:
            self.prober.finish(self, "invalid", detail=f"incomplete: {shown(self.received)}")
        elif self.bulk is not None and self.connected is not None:
            self.prober.finish(self, "timeout", detail=self.bulk.words("stalled"))
        elif self.aborted:
            self.prober.finish(self, "refused", detail="ABORT")
        elif self.job.protocol == "resolve" and self in self.prober.resolver.waiting:
            self.prober.finish(self, "error", detail=f"not asked: {MAX_LOOKUPS} lookups before it have no answer")
        elif self.links:
            self.prober.finish(self, "answered")
        elif self.job.protocol in ("udp", "sctp", "resolve", "who-has"):
            self.prober.finish(self, "timeout", detail="no answer")
        elif self.connected is None:
            self.prober.finish(self, "timeout", detail="not connected")
        else:
            self.prober.finish(self, "timeout", detail="connected, no answer")

    def close(self, abort: bool = False) -> None:
        """Close the connection, with a reset if the job asks for it.

        Of an unfinished one nothing is then repeated later. And of an answered one no side keeps the pair of ports in
        TIME_WAIT: a service's NAT maps many addresses to one backend, so that a client's next connection may well
        have the ports of an earlier one, and would be held up for a second.
        """
        self.deadline = 0.0
        if self.sock is not None:
            if abort and self.connected is not None:
                self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, CLOSE_WITH_RESET)
            self.prober.close(self.sock)
            self.sock = None
        if self.raw is not None:
            self.raw.forget(self)
            self.raw = None


class Bulk:
    """A transfer on a probe's connection: after the document, what was sent must come back, byte for byte."""

    def __init__(self, attempt: Attempt) -> None:
        import binascii  # only transfers need it

        self.attempt, self.crc32 = attempt, binascii.crc32
        self.left = attempt.job.size  # bytes still to be sent
        self.out = b""  # given to the kernel in part
        self.crcs = [0, 0]  # of what was sent, and of what came back
        self.document: dict[str, Any] | None = None
        attempt.bytes = 0

    def ready(self, mask: int) -> None:
        """Go on as far as the connection allows."""
        attempt = self.attempt
        sock = attempt.sock
        if sock is None:
            return
        try:
            if attempt.connected is None:
                if mask & ENDED and (code := sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)):
                    attempt.prober.finish(attempt, classify(code), detail=named(code))
                    return
                if not mask & (select.EPOLLOUT | select.EPOLLHUP):
                    return
                attempt.connected = time.monotonic()
                self.out = attempt.job.payload(attempt.nonce)
            self._write(sock)
            while not attempt.over:
                data = sock.recv(BULK_PIECE)
                if not data:
                    attempt.prober.finish(attempt, "reset", detail=self.words("closed"))
                    return
                self._take(data)
        except BlockingIOError:
            return
        except OSError as error:
            code = error.errno or 0
            if not attempt.over:
                attempt.prober.finish(attempt, classify(code), detail=self.words(named(code)))

    def _write(self, sock: socket.socket) -> None:
        try:
            while self.out or self.left:
                if not self.out:
                    self.out = BLOCK[: self.left]
                    self.left -= len(self.out)
                    self.crcs[0] = self.crc32(self.out, self.crcs[0])
                self.out = self.out[sock.send(self.out) :]
        except BlockingIOError:
            return

    def _take(self, data: bytes) -> None:
        attempt = self.attempt
        if self.document is None:
            attempt.received += data
            line, newline, data = attempt.received.partition(b"\n")
            if not newline and len(line) <= MAX_ANSWER:
                return
            self.document, problem = echo_document(line, attempt.nonce)
            attempt.received = b""
            if self.document is None:
                attempt.prober.finish(attempt, "invalid", detail=f"{problem}: {shown(line)}")
                return
        attempt.bytes = (attempt.bytes or 0) + len(data)
        self.crcs[1] = self.crc32(data, self.crcs[1])
        if attempt.bytes < attempt.job.size:
            return
        if attempt.bytes > attempt.job.size or self.crcs[0] != self.crcs[1]:
            attempt.prober.finish(attempt, "invalid", self.document, self.words("other bytes than were sent"))
        else:
            attempt.prober.finish(attempt, "answered", self.document)

    def words(self, what: str) -> str:
        """What ended the transfer, and how far it had come."""
        size = self.attempt.job.size
        return f"{what}; of {size} bytes {size - self.left - len(self.out)} left, {self.attempt.bytes} came back"


class Lasting:
    """The connection of a lasting job, with one exchange after the other on it; a lost one is followed by a new one."""

    def __init__(self, prober: Prober, job: Job) -> None:
        self.prober, self.job = prober, job
        self.number = -1  # of the connection in the job
        self.sock: socket.socket | None = None
        self.source: tuple[Any, ...] = ("", 0)
        self.connected: float | None = None
        self.attempt: Attempt | None = None  # the exchange under way
        self.idle = False  # open without one, and counted as such
        self.lost: tuple[float, str, str] | None = None  # between two exchanges: when, outcome and detail

    def exchange(self, attempt: Attempt) -> None:
        """Begin an exchange; one that finds the connection lost has failed by that, and the next one dials."""
        self.ready(0)  # its end may have arrived just now
        if self.idle:
            self.idle = False
            self.prober.idle -= 1
        self.attempt = attempt
        if self.sock is None and self.lost is None:
            self.number += 1
            self.connected = None
            attempt.port = self.job.ports[self.number % len(self.job.ports)]
            attempt.dial(self.ready)
            self.sock, attempt.sock = attempt.sock, None
            self.source = attempt.source
            if self.sock is not None:
                self.prober.held.add((self.job.family, self.source[1]))
            return
        attempt.source, attempt.connected = self.source, self.connected
        if self.lost is not None:
            _, outcome, detail = self.lost
            self.prober.finish(attempt, outcome, detail=detail)
        else:
            self._send(b"")

    def _send(self, preamble: bytes) -> None:
        if self.sock is None or self.attempt is None:
            return
        try:
            self.sock.send(preamble + self.job.payload(self.attempt.nonce))
        except OSError as error:
            self._lose(classify(error.errno or 0), named(error.errno or 0))

    def ready(self, mask: int) -> None:
        """Go on as far as the connection allows."""
        sock = self.sock
        if sock is None:
            return
        try:
            if self.connected is None and self.attempt is not None:
                if mask & ENDED and (code := sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)):
                    self._lose(classify(code), named(code))
                    return
                if not mask & (select.EPOLLOUT | select.EPOLLHUP):
                    return
                self.connected = self.attempt.connected = time.monotonic()
                self._send(self.job.preamble)
            while self.sock is sock:
                self._take(sock.recv(CHUNK))
        except BlockingIOError:
            return
        except OSError as error:
            words = named(error.errno or 0)
            self._lose(classify(error.errno or 0), words if self.attempt is not None else f"{words}, while idle")

    def _take(self, data: bytes) -> None:
        attempt = self.attempt
        if attempt is None:
            if data:
                self._lose("invalid", f"unasked: {shown(data)}")
            else:
                self._lose("reset", "closed while idle")
            return
        attempt.received += data
        answer, newline, rest = attempt.received.partition(b"\n")
        if newline:
            document, problem = echo_document(answer, attempt.nonce)
            if document is None:
                self._lose("invalid", f"{problem}: {shown(attempt.received)}")
                return
            self.prober.finish(attempt, "answered", echo=document)
            if rest:
                self._lose("invalid", f"unasked: {shown(rest)}")
        elif not data and not attempt.received:
            self._lose("reset", "closed without an answer")
        elif not data or len(attempt.received) > MAX_ANSWER:
            self._lose("invalid", f"cut short: {shown(attempt.received)}")

    def _lose(self, outcome: str, detail: str) -> None:
        if self.attempt is not None:
            self.prober.finish(self.attempt, outcome, detail=detail)
        elif self.sock is not None:
            self.lost = (time.monotonic(), outcome, detail)
            self.close()

    def tell(self, result: dict[str, Any]) -> None:
        """Add to the result of the exchange what concerns the connection, which is kept only if that was answered."""
        result["connection"] = self.number
        if self.lost is not None:
            result["lost"] = self.lost[0]
            self.lost = None
        self.attempt = None
        if result["outcome"] == "answered":
            self.idle = True
            self.prober.idle += 1
        else:
            self.close()

    def close(self) -> None:
        """Close the connection with a reset, as all are."""
        if self.idle:
            self.idle = False
            self.prober.idle -= 1
        if self.sock is not None:
            if self.connected is not None:
                self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, CLOSE_WITH_RESET)
            self.prober.close(self.sock)
            self.prober.held.discard((self.job.family, self.source[1]))
            self.sock = None


class Resolver:
    """Asks the system's resolver, by whose files and search domains all of the pod goes.

    It blocks for as long as it likes. So each lookup has a thread, which says when it is done by ringing a bell.
    """

    def __init__(self, prober: Prober) -> None:
        self.prober = prober
        self.busy = 0  # threads, also those whose probe is over
        self.waiting: deque[Attempt] = deque()  # until one of them is done
        self.ended_probes: deque[tuple[Attempt, str, list[str], str | None]] = deque()  # by the threads
        self.bell = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        prober.handlers[self.bell] = self.ready
        prober.epoll.register(self.bell, select.EPOLLIN)

    def ask(self, attempt: Attempt) -> None:
        """Look a name up, as soon as there is room."""
        while self.waiting and self.waiting[0].over:
            self.waiting.popleft()
        if self.busy >= MAX_LOOKUPS:
            self.waiting.append(attempt)
            return
        try:
            _thread.start_new_thread(self._look_up, (attempt,))
        except RuntimeError as error:  # none to be had
            self.prober.finish(attempt, "error", detail=str(error))
        else:
            self.busy += 1

    def _look_up(self, attempt: Attempt) -> None:  # in a thread of its own: of what the loop uses, deques and bell only
        outcome, addresses, detail = "answered", list[str](), None
        try:
            name = attempt.job.target[0].encode()  # as bytes: no codec of Python shall have a say
            found = socket.getaddrinfo(name, None, attempt.job.family, socket.SOCK_STREAM)
            addresses = sorted({str(each[4][0]) for each in found})
        except socket.gaierror as error:
            code = next((key for key in dir(socket) if key[:4] == "EAI_" and getattr(socket, key) == error.errno), "")
            outcome, detail = "unresolved" if code in UNRESOLVED else "error", f"{code}: {error.strerror}"
        except Exception as error:  # whatever it is, the place must come free
            outcome, detail = "error", repr(error)[:MAX_DETAIL]
        self.ended_probes.append((attempt, outcome, addresses, detail))
        os.eventfd_write(self.bell, 1)

    def ready(self, _mask: int) -> None:
        """Take the results of the threads."""
        os.eventfd_read(self.bell)
        while self.ended_probes:
            attempt, outcome, addresses, detail = self.ended_probes.popleft()
            self.busy -= 1
            self.prober.finish(attempt, outcome, detail=detail, addresses=addresses)
        while self.waiting and self.busy < MAX_LOOKUPS:
            if not (attempt := self.waiting.popleft()).over:
                self.ask(attempt)


def neighbour_messages(data: bytes) -> list[tuple[int, str, str]]:
    """What the kernel sent about neighbours (rtnetlink): the kind of message, address, link address ("" if none)."""
    found, at = list[tuple[int, str, str]](), 0
    while at + NETLINK_HEAD.size <= len(data):
        length, kind, *_ = NETLINK_HEAD.unpack_from(data, at)
        end, inner = at + length, at + NETLINK_HEAD.size
        if length < NETLINK_HEAD.size or end > len(data):
            break
        if kind == NLMSG_DONE:
            found.append((kind, "", ""))
        elif kind in (RTM_NEWNEIGH, RTM_DELNEIGH) and inner + NEIGHBOUR_HEAD.size <= end:
            family, *_ = NEIGHBOUR_HEAD.unpack_from(data, inner)
            inner += NEIGHBOUR_HEAD.size
            values: dict[int, bytes] = {}
            while inner + ATTRIBUTE_HEAD.size <= end:
                size, name = ATTRIBUTE_HEAD.unpack_from(data, inner)
                if size < ATTRIBUTE_HEAD.size or inner + size > end:
                    break
                values[name] = data[inner + ATTRIBUTE_HEAD.size : inner + size]
                inner += size + 3 & ~3
            address = values.get(NDA_DST, b"")
            if len(address) == {socket.AF_INET: 4, socket.AF_INET6: 16}.get(family):
                link = values.get(NDA_LLADDR, b"").hex(":") if kind == RTM_NEWNEIGH else ""
                found.append((kind, socket.inet_ntop(family, address), link))
        at = end + 3 & ~3
    return found


class Neighbours:
    """The kernel's neighbour tables, ARP's and NDP's: where the frames to an address on the own link go.

    It reads them once, and then follows their changes.
    """

    def __init__(self, prober: Prober) -> None:
        self.prober = prober
        self.links: dict[str, str] = {}
        self.whole = False  # whether the tables have been read once; nothing is told before
        self.jobs: dict[str, tuple[Job, str, list[str]]] = {}  # by id, with what it told last
        self.sock = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_NONBLOCK, 0)
        try:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
            self.sock.bind((0, RTMGRP_NEIGH))
            self._dump()
        except OSError:
            self.sock.close()
            raise
        prober.watch(self.sock, self.ready, select.EPOLLIN)

    def _dump(self) -> None:
        body = NEIGHBOUR_HEAD.pack(socket.AF_UNSPEC, 0, 0, 0, 0)
        head = NETLINK_HEAD.pack(NETLINK_HEAD.size + len(body), RTM_GETNEIGH, NLM_REQUEST_DUMP, 1, 0)
        self.sock.send(head + body)

    def follow(self, job: Job) -> None:
        """Tell the link address of the job's host and who else has it: now if it is known, and if that changes."""
        self.jobs[job.id] = (job, "", [])
        self._look(self.links.get(job.target[0], ""))

    def ready(self, _mask: int) -> None:
        """Take what the kernel tells."""
        while True:
            try:
                data = self.sock.recv(1 << 16)
            except BlockingIOError:
                return
            except OSError as error:
                if error.errno != errno.ENOBUFS:  # of these messages some are lost
                    raise
                self._dump()
                continue
            for kind, address, link in neighbour_messages(data):
                if kind == NLMSG_DONE:
                    self.whole = True
                    for each in {*self.links.values()}:
                        self._look(each)
                elif link:
                    self.links[address] = link
                    self._look(link)
                else:
                    self.links.pop(address, None)

    def _look(self, link: str) -> None:
        for job, told, known in list(self.jobs.values()):
            host = job.target[0]
            if not self.whole or not link or self.links.get(host) != link:
                continue
            others = sorted(each for each, of in self.links.items() if of == link and each != host)
            if told == link and set(others) <= set(known):
                continue
            self.jobs[job.id] = (job, link, others)
            self.prober.say(self.result(job, link, others))
            job.finished += 1
            if job.finished == job.count:
                self.prober.done(job)

    @staticmethod
    def result(job: Job, link: str, others: list[str]) -> dict[str, Any]:
        """What a job tells of a link address: with it come the other addresses that have it."""
        now = time.monotonic()
        return {
            "id": job.id, "seq": job.finished, "outcome": "answered", "started": now, "ended": now,
            "time": time.time(), "link": link, "addresses": others, "detail": None,
        }  # fmt: skip


def interface_of(family: int, target: tuple[Any, ...]) -> str:
    """The interface by which a host on an own link is reached, by the routes; empty if it is behind a gateway."""
    if family == socket.AF_INET6 and target[3]:
        return socket.if_indextoname(target[3])
    name, found = ("route", route4) if family == socket.AF_INET else ("ipv6_route", route6)
    try:
        with open(f"/proc/net/{name}") as file:  # noqa: PTH123 - pathlib would double the start
            lines = file.read().splitlines()
    except OSError:  # a kernel without that family
        return ""
    routes = [route for line in lines if (route := found(line.split(), target[0]))]
    return min(routes, default=(0, 0, False, ""))[3]


Route = tuple[
    int, int, bool, str
]  # what is best comes first: the length of its prefix, negative; metric; gateway; name


def route4(words: list[str], address: str) -> Route | None:
    """A line of /proc/net/route as the route to an address; None if it leads elsewhere."""
    if len(words) < 8 or words[1] == "Destination":
        return None
    network, gateway, flags, mask = (int(words[at], 16) for at in (1, 2, 3, 7))  # of addresses: as they are in memory
    if int.from_bytes(socket.inet_aton(address), sys.byteorder) & mask != network or flags & RTF_REJECT:
        return None
    return (-mask.bit_count(), int(words[6]), bool(gateway), "" if gateway else words[0])


def route6(words: list[str], address: str) -> Route | None:
    """A line of /proc/net/ipv6_route as the route to an address; None if it leads elsewhere."""
    if len(words) < 10 or words[9] == "lo" or int(words[8], 16) & RTF_REJECT:
        return None
    length, behind = int(words[1], 16), words[4].strip("0") != ""
    away = 128 - length
    wanted = int.from_bytes(socket.inet_pton(socket.AF_INET6, address), "big")
    if wanted >> away != int(words[0], 16) >> away:
        return None
    return (-length, int(words[5], 16), behind, "" if behind else words[9])


def link_local(interface: str) -> tuple[Any, ...] | None:
    """The socket address of an interface's link-local address; None if it has none."""
    try:
        with open("/proc/net/if_inet6") as file:  # noqa: PTH123 - pathlib would double the start
            lines = file.read().splitlines()
    except OSError:
        lines = []
    for line in lines:
        digits, index, _, scope, flags, name = line.split()
        if name == interface and scope == "20" and not int(flags, 16) & 0x48:  # neither tentative nor a duplicate
            return (socket.inet_ntop(socket.AF_INET6, bytes.fromhex(digits)), 0, 0, int(index, 16))
    return None


def hardware_address(interface: str) -> bytes:
    """The link address of an interface."""
    with socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, 0) as scout:
        scout.bind((interface, 0))
        return bytes(scout.getsockname()[4])


def solicitation(target: str, own: bytes) -> bytes:
    """NDP's question who has an address (RFC 4861, 4.3); the kernel puts in the checksum."""
    option = bytes([SOURCE_LINK, 1]) + own
    return bytes([SOLICITATION, 0, 0, 0, 0, 0, 0, 0]) + socket.inet_pton(socket.AF_INET6, target) + option


def advertised(packet: bytes) -> tuple[str, str]:
    """The address and the link address of an answer to NDP's question (RFC 4861, 4.4); empty for anything else."""
    if len(packet) < 24 or packet[0] != ADVERTISEMENT or not packet[4] & SOLICITED:
        return "", ""
    options = packet[24:]
    while len(options) >= 8 and options[1]:
        if options[0] == TARGET_LINK and options[1] == 1:
            return socket.inet_ntop(socket.AF_INET6, packet[8:24]), options[2:8].hex(":")
        options = options[8 * options[1] :]
    return "", ""


def replied(packet: bytes, own: bytes) -> tuple[str, str]:
    """The address and the link address of an answer to ARP's question of this address; empty for anything else."""
    if len(packet) < ARP.size:
        return "", ""
    kind, protocol, _, _, operation, link, address, _, asked = ARP.unpack_from(packet)
    if (kind, protocol, operation, asked) != (ETHERNET, 0x0800, ARP_REPLY, own):
        return "", ""
    return socket.inet_ntoa(address), link.hex(":")


class WhoHas:
    """Asks all hosts of a link who has an address, and takes all their answers: ARP, or NDP for IPv6."""

    def __init__(self, prober: Prober, family: int, interface: str) -> None:
        self.prober, self.family, self.interface = prober, family, interface
        self.asking: dict[str, list[Attempt]] = {}  # by the address that is asked for
        self.link, self.own = hardware_address(interface), b""
        if family == socket.AF_INET:
            self.sock = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK, 0)
            self.sock.bind((interface, ETH_P_ARP))
        else:
            self.sock = socket.socket(family, socket.SOCK_RAW | socket.SOCK_NONBLOCK, socket.IPPROTO_ICMPV6)
            passes = bytearray(b"\xff" * 32)  # a bit for each type that is kept out
            struct.pack_into("=I", passes, 4 * (ADVERTISEMENT // 32), 0xFFFFFFFF & ~(1 << ADVERTISEMENT % 32))
            self.sock.setsockopt(socket.IPPROTO_ICMPV6, ICMPV6_FILTER, bytes(passes))
            self.sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_HOPS, 255)
            self.sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_MULTICAST_IF, socket.if_nametoindex(interface))
        prober.watch(self.sock, self.ready, select.EPOLLIN)

    def ask(self, attempt: Attempt) -> None:
        """Send the question; the probe's time is for all answers to come."""
        host = attempt.job.target[0]
        try:
            if self.family == socket.AF_INET:
                self.own = socket.inet_aton(routed_source(attempt.job)[0])
                words = (ETHERNET, 0x0800, 6, 4, ARP_REQUEST, self.link, self.own, bytes(6), socket.inet_aton(host))
                self.sock.sendto(ARP.pack(*words), (self.interface, ETH_P_ARP, 0, 0, b"\xff" * 6))
            else:
                last = socket.inet_pton(socket.AF_INET6, host)[-3:]
                group = bytes.fromhex("ff0200000000000000000001ff") + last
                where = (socket.inet_ntop(socket.AF_INET6, group), 0, 0, socket.if_nametoindex(self.interface))
                self.sock.sendto(solicitation(host, self.link), where)
        except OSError as error:
            code = error.errno or 0
            self.prober.finish(attempt, unsent(code), detail=f"{named(code)} (at once)")
            return
        self.asking.setdefault(host, []).append(attempt)

    def ready(self, _mask: int) -> None:
        """Take what has arrived."""
        for _ in range(DRAIN):
            try:
                packet = self.sock.recvfrom(2048)[0]
            except OSError:
                return
            arp = self.family == socket.AF_INET
            address, link = replied(packet, self.own) if arp else advertised(packet)
            open_ones = [each for each in self.asking.get(address, ()) if not each.over]
            for each in open_ones:
                each.links.add(link)
            if address in self.asking:
                self.asking[address] = open_ones


def bind_address(family: int, source: tuple[Any, ...] | None, port: int) -> tuple[Any, ...]:
    """Where a probe's own socket is bound."""
    if source is None:
        return ("0.0.0.0", port) if family == socket.AF_INET else ("::", port, 0, 0)
    return (source[0], port, *source[2:])


def path_mtu(job: Job) -> int:
    """The bytes of a datagram that fills a packet of the route's MTU, as the kernel knows it now."""
    four = job.family == socket.AF_INET
    try:
        with socket.socket(job.family, socket.SOCK_DGRAM) as scout:
            scout.connect(job.target)
            mtu = scout.getsockopt(*((socket.IPPROTO_IP, IP_MTU) if four else (socket.IPPROTO_IPV6, IPV6_MTU)))
    except OSError as error:
        raise JobError(f"no MTU: {named(error.errno or 0)}") from error
    return min(mtu - (28 if four else 48), MAX_DATAGRAM)  # IP and UDP headers


def routed_source(job: Job) -> tuple[Any, ...]:
    """The socket address that a job's packets have: its own, or the route's, which an unbound socket does not tell."""
    with socket.socket(job.family, socket.SOCK_DGRAM) as scout:
        if job.source:
            scout.bind(job.source)
        scout.connect(job.target)
        source: tuple[Any, ...] = scout.getsockname()
        return source


def endpoint(address: str, port: int) -> str:
    """An address and a port, written as usual."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


class Channel:
    """A UDP socket with the probes whose answers it waits for; not connected, so that it hears whoever answers."""

    def __init__(self, prober: Prober, job: Job, port: int) -> None:
        self.prober, self.job = prober, job
        self.only: Attempt | None = None  # the probe this socket was opened for, if not for all of the job
        source = job.source or routed_source(job)
        self.sock = socket.socket(job.family, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK)
        try:
            if job.one_socket:  # the kernel gives what it allows
                self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
            hear_errors(self.sock)
            prober.bind(self.sock, job, source, port)
        except OSError:
            self.sock.close()
            raise
        self.source = self.sock.getsockname()
        prober.watch(self.sock, self.ready, select.EPOLLIN)

    def send(self, attempt: Attempt) -> None:
        """Send a probe's datagram."""
        attempt.source = self.source
        payload = self.job.payload(attempt.nonce)
        try:
            try:
                self.sock.sendto(payload, self.job.target)
            except OSError:  # perhaps an earlier datagram's
                self._errors()
                if not attempt.over:
                    self.sock.sendto(payload, self.job.target)
        except OSError as error:
            code = error.errno or 0
            self.prober.finish(attempt, unsent(code), detail=f"{named(code)} (at once)")
        else:
            if self.job.size:
                attempt.bytes = len(payload)
            if self.job.one_way:
                self.prober.finish(attempt, "sent")

    def ready(self, mask: int) -> None:
        """Take what has arrived."""
        if mask & select.EPOLLERR:
            self._errors()
        for _ in range(DRAIN):
            try:
                data, peer = self.sock.recvfrom(MAX_ANSWER)
            except OSError:
                return
            self._answer(data, peer)

    def _answer(self, data: bytes, peer: tuple[Any, ...]) -> None:
        attempt = self._owner(data)
        if attempt is not None and attempt.over:
            attempt.copies += attempt.nonce.encode() in data
            return
        if attempt is None:
            if self.job.prefix.encode() in data or not self.job.open:
                return  # late or twice
            attempt = next(iter(self.job.open.values()))  # it has no owner, but something did answer
        document, problem = echo_document(data, attempt.nonce)
        if document is not None and len(data) < self.job.size:
            document, problem = None, f"{len(data)} bytes in answer to {self.job.size}"
        detail = None if document else f"{problem}: {shown(data)}"
        if peer[:2] != self.job.target[:2]:
            self.prober.finish(attempt, "misdirected", document, detail, answered_from=endpoint(peer[0], peer[1]))
        else:
            self.prober.finish(attempt, "answered" if document else "invalid", document, detail)

    def _owner(self, data: bytes) -> Attempt | None:
        """The probe that a datagram, ours or an answer to it, belongs to."""
        if self.only is not None:
            return self.only
        try:
            nonce = json.loads(data).get("nonce")
        except (ValueError, AttributeError, RecursionError):
            nonce = data.decode("latin-1").removeprefix(self.job.token).partition(" ")[0]
        if not isinstance(nonce, str):
            return None
        return self.job.open.get(nonce) or self.job.lingering.get(nonce)

    def _errors(self) -> None:
        for _ in range(DRAIN):
            try:
                data, ancillary, _flags, _target = self.sock.recvmsg(2048, 512, socket.MSG_ERRQUEUE)
            except OSError:
                return
            if (error := network_error(ancillary)) and (attempt := self._owner(data)):
                code, detail = error
                self.prober.finish(attempt, classify(code), detail=detail)

    def close(self) -> None:
        """Close the socket."""
        self.prober.close(self.sock)


def hear_errors(sock: socket.socket) -> None:
    """Have ICMP errors reach a socket that is not connected."""
    if sock.family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, IPV6_RECVERR, 1)
    else:
        sock.setsockopt(socket.IPPROTO_IP, IP_RECVERR, 1)


def network_error(ancillary: list[tuple[int, int, bytes]]) -> tuple[int, str] | None:
    """The errno of what a socket's error queue holds, and the detail that names who sent it."""
    for level, kind, value in ancillary:
        if (level, kind) in ((socket.IPPROTO_IP, IP_RECVERR), (socket.IPPROTO_IPV6, IPV6_RECVERR)):
            code, origin, icmp_type, icmp_code = struct.unpack_from("@IBBB", value)
            detail = named(code)
            if origin in (2, 3):
                detail += f" (ICMP type {icmp_type} code {icmp_code} from {offender(value[16:])})"
            return code, detail
    return None


def offender(raw: bytes) -> str:
    """Who sent an ICMP error, from the socket address behind it."""
    family = struct.unpack_from("@H", raw)[0] if len(raw) >= 8 else 0
    if family == socket.AF_INET:
        return socket.inet_ntop(socket.AF_INET, raw[4:8])
    if family == socket.AF_INET6 and len(raw) >= 24:
        return socket.inet_ntop(socket.AF_INET6, raw[8:24])
    return "unknown"


def crc32c_table() -> list[int]:
    """What each byte does to the checksum of SCTP packets."""
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ 0x82F63B78 if value & 1 else value >> 1
        table.append(value)
    return table


CRC32C = crc32c_table()


def sealed(header: bytes, chunk: bytes) -> bytes:
    """An SCTP packet with its checksum."""
    crc = 0xFFFFFFFF
    for byte in header + bytes(4) + chunk:
        crc = CRC32C[crc & 0xFF ^ byte] ^ crc >> 8
    return header + struct.pack("<I", crc ^ 0xFFFFFFFF) + chunk


def sctp_init(source: int, target: int, tag: int, nonce: bytes) -> bytes:
    """The packet that asks for an association."""
    parameter = struct.pack("!HH", SCTP_NONCE, 4 + len(nonce)) + nonce
    chunk = SCTP_CHUNK.pack(SCTP_INIT, 0, SCTP_CHUNK.size + len(parameter), tag, 65536, 1, 1, tag) + parameter
    return sealed(struct.pack("!HHI", source, target, 0), chunk + bytes(-len(chunk) % 4))


def sctp_document(packet: bytes, nonce: str) -> tuple[dict[str, Any] | None, str]:
    """The document in the state cookie of an INIT-ACK, or else what is wrong with it."""
    if sealed(packet[:8], packet[12:]) != packet:
        return None, "INIT-ACK with a bad checksum"
    end = min(len(packet), 12 + int.from_bytes(packet[14:16], "big"))
    at = 12 + SCTP_CHUNK.size
    while at + 4 <= end:
        kind, size = struct.unpack_from("!HH", packet, at)
        if kind == SCTP_COOKIE:
            return echo_document(packet[at + 4 : min(end, at + size)], nonce)
        at += max(4, size + -size % 4)
    return None, "INIT-ACK without a state cookie"


class Raw:
    """The SCTP socket of a family: a raw one, as many kernels have no other. The association is left at its beginning.

    It hears every SCTP packet that comes to this network namespace; ours are known by tag and port.
    """

    def __init__(self, prober: Prober, family: int) -> None:
        self.prober, self.family = prober, family
        self.by_tag: dict[int, Attempt] = {}
        self.by_flow: dict[tuple[str, int, int], Attempt] = {}  # target, its port, our port: what ICMP errors quote
        self.sock = socket.socket(family, socket.SOCK_RAW | socket.SOCK_NONBLOCK, SCTP)
        hear_errors(self.sock)
        for buffer in (socket.SO_RCVBUF, socket.SO_SNDBUF):  # the kernel gives what it allows
            self.sock.setsockopt(socket.SOL_SOCKET, buffer, 4 << 20)
        prober.watch(self.sock, self.ready, select.EPOLLIN)

    def send(self, attempt: Attempt) -> None:
        """Send a probe's packet, from the address that the result will name."""
        job = attempt.job
        try:
            source = routed_source(job)
        except OSError as error:
            code = error.errno or 0
            self.prober.finish(attempt, unsent(code), detail=f"{named(code)} (at once)")
            return
        port, tag = attempt.port or job.one_port, 0
        while not tag or tag in self.by_tag:
            tag = int.from_bytes(os.urandom(4), "big")
        while not port or (not attempt.port and not job.one_port and (*job.target[:2], port) in self.by_flow):
            port = self.prober.next_port(job)
        if job.one_socket:
            job.one_port = port
            self.prober.held.add((job.family, port))
        attempt.source, attempt.tag = (source[0], port), tag
        before = self.by_flow.get((*job.target[:2], port))
        if before is not None and not (job.one_socket and before.job is job):
            self.prober.finish(attempt, "error", detail=f"{named(errno.EADDRINUSE)} (source)")
            return
        attempt.raw = self
        self.by_tag[tag] = self.by_flow[(*job.target[:2], port)] = attempt
        if self.family == socket.AF_INET:
            info = struct.pack("@I", 0) + socket.inet_aton(source[0]) + bytes(4)
            control = (socket.IPPROTO_IP, IP_PKTINFO, info)
        else:
            info = socket.inet_pton(socket.AF_INET6, source[0]) + struct.pack("@I", source[3])
            control = (socket.IPPROTO_IPV6, socket.IPV6_PKTINFO, info)
        packet = sctp_init(port, job.target[1], tag, (job.token + attempt.nonce).encode())
        try:
            self.sock.sendmsg([packet], [control], 0, (job.target[0], 0, *job.target[2:]))
        except OSError as error:
            code = error.errno or 0
            self.prober.finish(attempt, unsent(code), detail=f"{named(code)} (at once)")

    def forget(self, attempt: Attempt) -> None:
        """Wait for this answer no more."""
        self.by_tag.pop(attempt.tag or 0, None)
        flow = (*attempt.job.target[:2], attempt.source[1])
        if self.by_flow.get(flow) is attempt:  # the last of those from one port
            del self.by_flow[flow]

    def ready(self, mask: int) -> None:
        """Take what has arrived."""
        if mask & select.EPOLLERR:
            self._errors()
        for _ in range(DRAIN):
            try:
                packet, peer = self.sock.recvfrom(MAX_ANSWER)
            except OSError:
                return
            if self.family == socket.AF_INET:  # only there the IP header comes with it
                packet = packet[(packet[0] & 15) * 4 :]
            if len(packet) >= 16:
                self._answer(packet, peer)

    def _answer(self, packet: bytes, peer: tuple[Any, ...]) -> None:
        source, port, tag = struct.unpack_from("!HHI", packet)
        attempt = self.by_tag.get(tag)
        if attempt is None or attempt.source[1] != port:
            return  # not ours, late or twice
        target = attempt.job.target
        kind, document, detail = packet[12], None, None
        if attempt.over:
            attempt.copies += kind == SCTP_INIT_ACK
            return
        if kind == SCTP_INIT_ACK:
            document, problem = sctp_document(packet, attempt.nonce)
            detail = None if document else f"{problem}: {shown(packet)}"
        elif kind != SCTP_ABORT:
            detail = f"neither INIT-ACK nor ABORT: {shown(packet)}"
        if (peer[0], source) != target[:2]:
            self.prober.finish(attempt, "misdirected", document, detail, answered_from=endpoint(peer[0], source))
        elif kind == SCTP_ABORT:  # may be a kernel's that knows of no listener, beside the answer: the answer wins
            attempt.aborted = True
        else:
            self.prober.finish(attempt, "answered" if document else "invalid", document, detail)

    def _errors(self) -> None:
        for _ in range(DRAIN):
            try:
                data, ancillary, _flags, target = self.sock.recvmsg(2048, 512, socket.MSG_ERRQUEUE)
            except OSError:
                return
            if len(data) < 4 or not (error := network_error(ancillary)):
                continue
            port, dialled = struct.unpack_from("!HH", data)
            attempt = self.by_flow.get((target[0], dialled, port))
            if attempt is not None:
                code, detail = error
                refused = code in (errno.ENOPROTOOPT, errno.EPROTO)  # over there nobody speaks SCTP
                self.prober.finish(attempt, "refused" if refused else classify(code), detail=detail)


class Prober:
    """The loop: jobs in, probes out, results back."""

    def __init__(self, limit: int) -> None:
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
            soft = hard
        except (OSError, ValueError):
            pass
        room = limit if soft == resource.RLIM_INFINITY else max(1, soft // 2 - 32)  # half is for those being closed
        self.limit = min(limit, room)
        self.epoll = select.epoll()
        self.handlers: dict[int, Callable[[int], None]] = {}
        self.jobs: dict[str, Job] = {}
        self.runnable: deque[Job] = deque()
        self.paced: deque[Job] = deque()  # whose time has come; they go first
        self.going: deque[Job] = deque()  # of these the ones that have a connection, and so take no more room
        self.waiting: list[tuple[float, int, Job | Attempt]] = []
        self.ticket = 0
        self.in_flight = 0
        self.idle = 0  # connections of lasting jobs between two exchanges; they take as much room as one in flight
        self.fresh = 0
        self.fresh_queues: tuple[deque[Attempt], deque[Attempt]] = (deque(), deque())  # oldest first
        self.raws: dict[int, Raw] = {}
        self.resolver = Resolver(self)
        self.neighbours: Neighbours | None = None
        self.askers: dict[tuple[int, str], WhoHas] = {}
        self.ports = local_ports()
        self.reserved = reserved_ports()
        self.turns: dict[tuple[str, int, bool], int] = {}  # by protocol, family and range: the last port that was given
        self.stood_still: deque[tuple[float, float]] = deque(maxlen=MAX_STANDSTILLS)  # when, and for how many seconds
        self.woken = time.monotonic()
        self.held: set[tuple[int, int]] = set()  # by family: the ports of connections that last
        self.unread = b""
        self.backlog = 0  # bytes of all that is queued for stdout
        self.lines: list[str] = []
        self.blocked = False
        self.input = b""
        self.skipping = False
        self.regular_input = False

    def next_port(self, job: Job) -> int:
        """The next source port in turn.

        The kernel would give two connections to different destinations the same port. But many services lead to one
        backend: behind their NAT that would be one connection twice, and the second would be rewritten or held up. So
        nobody gets the port of a connection that lasts, either.
        """
        protocol = "tcp" if job.protocol in ("http", "get", "lasting", "bulk") else str(job.protocol)
        key = (protocol, job.family, job.wide is not None)
        turn = self.turns.get(key, int.from_bytes(os.urandom(2), "big") if job.wide is None else job.wide)
        while True:
            port = self.ports[turn % len(self.ports)] if job.wide is None else wide_port(turn)
            turn += 1
            kept = job.wide is not None and (port in self.reserved or port in job.spare)
            if not kept and (job.family, port) not in self.held:
                self.turns[key] = turn
                return port

    def bind(self, sock: socket.socket, job: Job, source: tuple[Any, ...] | None, port: int) -> None:
        """Bind a probe's socket to the port that it must have, or to the next one that is free."""
        if port:
            sock.bind(bind_address(job.family, source, port))
            return
        for left in reversed(range(PORTS_TRIED)):
            try:
                sock.bind(bind_address(job.family, source, self.next_port(job)))
                return
            except OSError as error:
                if error.errno not in TAKEN or not left:
                    raise

    def watch(self, sock: socket.socket, handler: Callable[[int], None], mask: int) -> None:
        """Call this when something happens on the socket."""
        self.handlers[sock.fileno()] = handler
        self.epoll.register(sock.fileno(), mask)

    def close(self, sock: socket.socket) -> None:
        """Close a watched socket."""
        self.handlers.pop(sock.fileno(), None)
        sock.close()

    def later(self, when: float, what: Job | Attempt) -> None:
        """Have it looked at again at that time; an entry whose time is no longer its deadline is void."""
        what.deadline = when
        self.ticket += 1
        heapq.heappush(self.waiting, (when, self.ticket, what))
        if len(self.waiting) > 4096 + 4 * (self.in_flight + len(self.jobs)):
            self.waiting = [entry for entry in self.waiting if entry[2].deadline == entry[0]]
            heapq.heapify(self.waiting)

    def say(self, message: dict[str, Any]) -> None:
        """Queue a line for stdout."""
        line = json.dumps(message)
        self.backlog += len(line) + 1
        self.lines.append(line)

    def flush(self) -> None:
        """Write what stdout takes now; the prober ends when nobody reads it any more."""
        if self.blocked or not self.backlog:
            return
        if self.lines:
            self.unread += ("\n".join(self.lines) + "\n").encode()
            self.lines.clear()
        try:
            written = os.write(1, self.unread)
        except BlockingIOError:
            written = 0
        except OSError:
            os._exit(1)
        self.unread = self.unread[written:]
        self.backlog -= written
        if self.unread:
            self.blocked = True
            self.handlers[1] = self._unblock
            self.epoll.register(1, select.EPOLLOUT)

    def _unblock(self, _mask: int) -> None:
        self.blocked = False
        self.epoll.unregister(1)

    def about(self, event: str) -> dict[str, Any]:
        """What this prober is and where it stands."""
        return {
            "event": event, "prober": PROTOCOL, "version": VERSION, "hostname": socket.gethostname(),
            "pid": os.getpid(), "addresses": own_addresses(), "limit": self.limit, "time": time.time(),
            "monotonic": time.monotonic(), "stood_still": list(self.stood_still),
        }  # fmt: skip

    def read(self, _mask: int) -> None:
        """Take what has arrived on stdin."""
        data = os.read(0, 65536)
        if not data:
            self.leave()
        *lines, self.input = (self.input + data).split(b"\n")
        for line in lines:
            if self.skipping:
                self.skipping = False
            elif len(line) > MAX_LINE:
                self.say({"error": f"a line of more than {MAX_LINE} bytes"})
            elif line.strip():
                self.command(line)
        if len(self.input) > MAX_LINE:
            if not self.skipping:
                self.say({"error": f"a line of more than {MAX_LINE} bytes"})
            self.skipping, self.input = True, b""

    def leave(self) -> None:
        """End at once: whatever is still open concerns nobody."""
        if not self.blocked:
            self.flush()
        os._exit(0)

    def command(self, line: bytes) -> None:
        """Do what a line says."""
        known: dict[str, Any] = {}
        try:
            message = json.loads(line)
            if not isinstance(message, dict):
                raise JobError("not an object")
            name = message.get("cancel", message.get("id"))
            if not isinstance(name, str) or not 0 < len(name) <= 200 or not name.isprintable():
                raise JobError("id is a string of 1 to 200 characters")
            known = {"id": name}
            if "cancel" in message:
                self.cancel(name)
            elif "describe" in message:
                self.say({**self.about("description"), "id": name})
            elif name in self.jobs:
                raise JobError("a job of this id is under way")
            elif len(self.jobs) >= MAX_JOBS:
                raise JobError(f"more than {MAX_JOBS} jobs")
            else:
                job = Job(message)
                self.jobs[name] = job
                job.planned = time.monotonic()
                if job.protocol == "neighbour":
                    self._follow(job)
                else:
                    self.runnable.append(job)
        except JobError as error:
            self.say({"error": str(error), **known})
        except (ValueError, RecursionError):
            self.say({"error": "not a line of JSON"})

    def _follow(self, job: Job) -> None:
        try:
            self.neighbours = self.neighbours or Neighbours(self)
        except OSError as error:
            self.say({**Neighbours.result(job, "", []), "outcome": "error", "detail": named(error.errno or 0)})
            self.done(job)
        else:
            self.neighbours.follow(job)

    def cancel(self, name: str) -> None:
        """Stop a job; its probes in flight have no result."""
        job = self.jobs.get(name)
        if job is None:
            raise JobError("no such job")
        for attempt in job.open.values():
            attempt.close(abort=True)
            self._land(attempt)
        job.open.clear()
        job.count = -1  # the last of those that linger is not the end
        for attempt in list(job.lingering.values()):
            self.tell(attempt)
        self.done(job, cancelled=True)

    def done(self, job: Job, cancelled: bool = False) -> None:
        """Nothing more comes of a job; say so."""
        del self.jobs[job.id]
        if self.neighbours is not None:
            self.neighbours.jobs.pop(job.id, None)
        job.deadline = 0.0
        job.count = 0  # if it still stands among the runnable
        if job.channel is not None:
            job.channel.close()
        if job.lasting is not None:
            job.lasting.close()
        self.held.discard((job.family, job.one_port))
        for group in job.groups.values():
            self.say(group)
        message = {"id": job.id, "done": True, "probes": job.finished}
        self.say({**message, "cancelled": True} if cancelled else message)

    def _land(self, attempt: Attempt) -> None:
        """It is in flight no more."""
        attempt.over = True
        self.in_flight -= 1
        self.fresh -= attempt.fresh

    def _age(self, now: float) -> None:
        """See which probes are fresh no more."""
        new, answered = self.fresh_queues
        while new and (new[0].over or new[0].started + FRESH_SECONDS <= now):
            first = new.popleft()
            if first.job.answered:
                answered.append(first)
            elif not first.over:
                first.fresh = False
                self.fresh -= 1
        while answered and (answered[0].over or answered[0].started + FRESH_SECONDS_ANSWERED <= now):
            first = answered.popleft()
            if not first.over:
                first.fresh = False
                self.fresh -= 1

    def _room(self) -> bool:
        """Whether another probe may be started, but for the fresh ones."""
        waits = self.paced or self.runnable
        return bool(waits) and self.in_flight + self.idle < self.limit and self.backlog <= MAX_UNREAD

    def _may_start(self) -> bool:
        if self.going and self.backlog <= MAX_UNREAD:
            return True
        return self._room() and (bool(self.paced) or self.fresh < FRESH)

    def _queue(self, job: Job) -> None:
        if job.lasting is not None and job.lasting.sock is not None:
            self.going.append(job)
        else:
            (self.paced if job.paced else self.runnable).append(job)

    def _grow_old(self, attempt: Attempt) -> None:
        """It does not count among the parallel ones of its job any more."""
        job = attempt.job
        if attempt.young:
            attempt.young = False
            job.young -= 1
        if job.held:
            job.held = False
            self._queue(job)

    def start(self) -> None:
        """Start what is due, a probe of each job in turn."""
        self._age(time.monotonic())
        for _ in range(BATCH):
            if not self._may_start():
                return
            going = bool(self.going)
            job = (self.going or self.paced or self.runnable).popleft()
            if not job.count:
                continue
            if going and job.lasting is not None and job.lasting.sock is None:  # lost meanwhile: it needs room again
                self._queue(job)
                continue
            if job.young >= job.parallel:
                job.held = True
                continue
            self._probe(job)
            if job.started >= job.count:
                continue
            # Paced by the plan, so that starts do not drift; after a stall the plan starts anew, without a burst.
            now = time.monotonic()
            job.planned = job.planned + job.spacing if now - job.planned < job.spacing else now + job.spacing
            if job.spacing:
                self.later(job.planned, job)
            else:
                self.runnable.append(job)

    def _probe(self, job: Job) -> None:
        attempt = Attempt(self, job)
        job.started += 1
        job.open[attempt.nonce] = attempt
        job.young += 1
        self.in_flight += 1
        if attempt.fresh:
            self.fresh += 1
            self.fresh_queues[job.answered].append(attempt)
        self.later(attempt.deadline, attempt)
        if job.unable:
            self.finish(attempt, "unreachable", detail=job.unable)
            return
        if job.protocol == "who-has":
            self._ask_link(attempt)
            return
        if job.protocol == "sctp":
            self._raw_probe(attempt)
            return
        if job.protocol == "resolve":
            self.resolver.ask(attempt)
            return
        if job.protocol == "lasting":
            job.lasting = job.lasting or Lasting(self, job)
            job.lasting.exchange(attempt)
            return
        if job.protocol != "udp":
            attempt.bulk = Bulk(attempt) if job.protocol == "bulk" else None
            attempt.dial(attempt.ready if attempt.bulk is None else attempt.bulk.ready)
            return
        try:
            channel = job.channel or Channel(self, job, attempt.port)
        except OSError as error:
            code = error.errno or 0
            self.finish(attempt, unsent(code), detail=f"{named(code)} (at once)")
            return
        if job.one_socket:
            job.channel = channel
        else:
            channel.only = attempt
            attempt.sock = channel.sock
        channel.send(attempt)

    def _ask_link(self, attempt: Attempt) -> None:
        key = (attempt.job.family, attempt.job.interface)
        if key not in self.askers:
            try:
                self.askers[key] = WhoHas(self, *key)
            except OSError as error:
                detail = f"{named(error.errno or 0)} (raw socket: it needs root and CAP_NET_RAW)"
                self.finish(attempt, "error", detail=detail)
                return
        self.askers[key].ask(attempt)

    def _raw_probe(self, attempt: Attempt) -> None:
        family = attempt.job.family
        if family not in self.raws:
            try:
                self.raws[family] = Raw(self, family)
            except OSError as error:
                detail = f"{named(error.errno or 0)} (raw socket: it needs root and CAP_NET_RAW)"
                self.finish(attempt, "error", detail=detail)
                return
        self.raws[family].send(attempt)

    def finish(self, attempt: Attempt, outcome: str, echo: dict[str, Any] | None = None, detail: str | None = None,
               answered_from: str | None = None, response: dict[str, Any] | None = None,
               addresses: list[str] | None = None) -> None:  # fmt: skip
        """Tell what came of a probe, once."""
        if attempt.over:
            return
        now = time.monotonic()
        self._land(attempt)
        job, source = attempt.job, attempt.source
        known = source[0] not in ("", "0.0.0.0", "::")
        message = {
            "id": job.id, "seq": attempt.seq, "outcome": outcome, "nonce": attempt.nonce, "started": attempt.started,
            "connected": attempt.connected, "ended": now, "time": attempt.time,
            "source_address": source[0] if known else None, "source_port": source[1] or None,
            "echo": echo, "detail": detail,
        }  # fmt: skip
        if attempt.tag is not None:
            message["tag"] = attempt.tag
        if attempt.bytes is not None:
            message["bytes"] = attempt.bytes
        if answered_from is not None:
            message["answered_from"] = answered_from
        if job.protocol == "get":
            message["response"] = response
        elif job.lasting is not None:
            job.lasting.tell(message)
        elif job.protocol == "resolve":
            message["addresses"] = addresses or []
        elif job.protocol == "who-has":
            message["links"] = sorted(attempt.links)
        job.answered = job.answered or echo is not None or response is not None
        del job.open[attempt.nonce]
        self._grow_old(attempt)
        attempt.result = message
        if job.linger and outcome == "answered":
            job.lingering[attempt.nonce] = attempt
            attempt.ends = now + job.linger
            self.later(attempt.ends, attempt)
        else:
            self.tell(attempt)

    def tell(self, attempt: Attempt) -> None:
        """Tell the result of a probe that is over; also if its SYN was sent again, or its answer came late or twice."""
        job, result = attempt.job, attempt.result
        if result["outcome"] == "answered" and job.protocol in AT_ONCE:
            started, ended, again, copies = result["started"], result["ended"], attempt.again, attempt.copies
            if again or copies or ended - started >= LATE_SECONDS:
                connected = None if result["connected"] is None else round(result["connected"], 3)
                result["irregular"] = [(round(started, 3), connected, round(ended, 3), again, copies)]
        if job.brief:
            job.tally(result)
        else:
            self.say(result)
        attempt.close(abort=result["outcome"] in ("answered", "timeout"))
        job.lingering.pop(attempt.nonce, None)
        job.finished += 1
        if job.finished == job.count:
            self.done(job)

    def run(self) -> None:
        """Work until stdin ends."""
        for fd in (0, 1):
            if not os.isatty(fd):
                os.set_blocking(fd, fd == 0)
        try:
            self.epoll.register(0, select.EPOLLIN)
            self.handlers[0] = self.read
        except PermissionError:  # a regular file: it cannot be waited for, and need not
            self.regular_input = True
        self.say(self.about("ready"))
        while True:
            self.start()
            self.flush()
            if self.regular_input:
                self.read(0)
            wait = -1.0
            if self.regular_input or self._may_start():
                wait = 0.0
            elif self.waiting:
                wait = max(0.0, self.waiting[0][0] - time.monotonic())
                if self._room():
                    wait = min(wait, FRESH_SECONDS / 4)
            self._turn(wait)

    def _turn(self, wait: float) -> None:
        """Handle what happens within so many seconds, then whose time is up.

        It is up only if it was before the sockets were looked at: on a busy machine this process may stand still for
        seconds, and what arrived meanwhile is no timeout.
        """
        looked = time.monotonic()
        events = self.epoll.poll(wait, EVENTS_AT_ONCE)
        woken = time.monotonic()
        for began, late in ((self.woken, looked - self.woken), (looked, woken - looked - wait if wait >= 0 else 0.0)):
            if late > STANDSTILL_SECONDS:
                self.stood_still.append((round(began, 3), round(woken - began, 3)))
        self.woken = woken
        for fd, mask in events:
            if handler := self.handlers.get(fd):
                handler(mask)
        while self.waiting and self.waiting[0][0] <= looked:
            when, _, what = heapq.heappop(self.waiting)
            if what.deadline != when:
                continue
            if isinstance(what, Job):
                what.deadline = 0.0
                self._queue(what)
            elif what.ends > when:
                self.later(what.ends, what)
                self._grow_old(what)
            else:
                what.due()


def main() -> int:
    """Run the prober."""
    arguments = sys.argv[1:]
    limit = "4096"
    if arguments[:1] == ["--limit"] and len(arguments) == 2:
        limit = arguments[1]
    elif arguments:
        limit = ""
    if not (limit.isascii() and limit.isdigit() and 1 <= len(limit) <= 6 and int(limit)):
        print("usage: prober.py [--limit PROBES_IN_FLIGHT]", file=sys.stderr)
        return 2
    try:
        Prober(int(limit)).run()
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
