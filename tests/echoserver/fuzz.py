"""Fuzzes the echo server: valid requests are mutated and delivered oddly; whatever comes, it must stay sound.

usage: python -m tests.echoserver.fuzz [--seconds N] [--inputs N] [--seed N]

It starts an echo server of its own on loopback. After each round of inputs valid requests must be answered right; at
the end the server must hold no more memory than after warming up, and as many descriptors and threads as when it was
idle. The last lines say how many inputs there were, the seed that repeats them, and what the server held. Exit code 1:
something was found.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import json
import os
import random
import secrets
import socket
import struct
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from images.echoserver import http1, prober
from tests.echoserver.harness import LOOPBACK, PATIENCE, EchoServer, Line, Response, connect, read_all

STATUSES = {200, 400, 404, 405, 413, 431, 503, 505}
ROUND = 200
"""Inputs between two checks that the server still answers right."""

WARM_UP = 5
"""Rounds before the server's memory is looked at for the first time."""

MOST_HELD = 100
"""Connections that are left open at a time: half a request, or an answer that nobody reads."""

GROWTH_KIB = 2048
"""What the server may hold more at the end than after warming up: pools that the allocator keeps."""

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
V4 = socket.inet_aton("192.0.2.7") + socket.inet_aton("198.51.100.1") + struct.pack("!HH", 40000, 443)
V6 = socket.inet_pton(socket.AF_INET6, "2001:db8::7") + socket.inet_pton(socket.AF_INET6, "2001:db8::1") + V4[8:]
TLV = struct.pack("!BH", 0xEA, 40) + bytes(40)
PROXIED = (
    b"PROXY TCP4 192.0.2.7 198.51.100.1 40000 443\r\n",
    b"PROXY TCP6 2001:db8::7 2001:db8::1 40000 443\r\n",
    b"PROXY UNKNOWN\r\n",
    *(
        SIGNATURE + struct.pack("!BBH", command, transport, len(rest)) + rest
        for command, transport, rest in ((0x21, 0x11, V4), (0x21, 0x21, V6), (0x21, 0x11, V4 + TLV), (0x20, 0, b""))
    ),
)
REQUESTS = (
    b"GET / HTTP/1.1\r\nHost: h\r\nX-Esipp-Nonce: n1\r\n\r\n",
    b"GET /?nonce=n%3A1&x=2 HTTP/1.1\r\nHost: h\r\nX-Forwarded-For: 1.2.3.4, 5.6.7.8\r\nX-Forwarded-For: ::1\r\n\r\n",
    b"HEAD /clientip HTTP/1.0\r\n\r\n",
    b"GET http://h:80/hostname HTTP/1.1\r\nHost: h\r\nAccept: text/plain\r\n\r\n",
    b"GET /readyz HTTP/1.1\nHost: h\n\n",
    b"POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 12\r\n\r\nhello, world",
    b"PUT /ready HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\ntrue",
    b"POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    b"OPTIONS * HTTP/1.1\r\nHost: h\r\n\r\n",
)
LINES = (b"n1\n", b"keep n1\n", b"keep a\nkeep b\nc\n", b"A.b_c:d-" * 16 + b"\n")
TOKENS = (
    b"\0", b"\r", b"\n", b"\r\n", b"\r\n\r\n", b" ", b":", b"%", b"\xff", b"\xc3\x28", b"-1", b"0", b"65535", b"65536",
    b"9" * 30, b"9" * 5000, b"1e9", "²".encode("latin-1"), b"PROXY ", SIGNATURE, b"keep ", b"HTTP/1.1", b"HTTP/2.0",
    b"chunked", b"Content-Length: 5\r\n", b"Transfer-Encoding: chunked\r\n", b"Host: g\r\n", b"::ffff:1.2.3.4",
)  # fmt: skip


def mutated(chance: random.Random, data: bytes) -> bytes:
    """The data after a few random changes; sometimes none."""
    for _ in range(chance.choice((0, 1, 1, 2, 3, 8))):
        at, to = sorted(chance.choices(range(len(data) + 1), k=2))
        change = chance.randrange(9)
        if change == 0 and data:
            spot = chance.randrange(len(data))
            data = data[:spot] + bytes([data[spot] ^ 1 << chance.randrange(8)]) + data[spot + 1 :]
        elif change == 1:
            data = data[:at] + data[to:]
        elif change == 2:
            data = data[:to] + data[at:]  # a piece twice
        elif change == 3:
            data = data[:at] + chance.randbytes(chance.randrange(20)) + data[at:]
        elif change in (4, 5):
            data = data[:at] + chance.choice(TOKENS) + data[at:]
        elif change == 6:
            data = data[:at]
        elif change == 7:
            data = data[:at] + chance.choice((*REQUESTS, *PROXIED, *LINES))[chance.randrange(9) :]
        else:  # much of one kind: huge headers, lines and numbers
            data = data[:at] + chance.choice(TOKENS) * chance.choice((10, 300, 4000)) + data[at:]
    return data[:100_000]


def stream(chance: random.Random, name: str) -> bytes:
    """What a client of a TCP listener sends."""
    header = b"".join(chance.choices(PROXIED, k=chance.choice((0, 0, 1, 2))))
    return mutated(chance, header + chance.choice(LINES if name == "tcp" else REQUESTS))


def datagram(chance: random.Random) -> bytes:
    """What a client of the UDP listener sends."""
    return mutated(chance, chance.choice((b"n1", b"n1\n", b"x" * 128)))[:60_000]


def init(chance: random.Random, port: int) -> bytes:
    """What a client of the SCTP listener sends: mostly with a right checksum, so that more than that is looked at."""
    packet = prober.sctp_init(chance.randrange(1, 65536), port, chance.randrange(1, 1 << 32), b"n1")
    packet = packet[:4] + mutated(chance, packet[4:])[:1400]
    return packet if chance.random() < 0.2 or len(packet) < 12 else bytes(prober.sealed(packet[:8], packet[12:]))


class Watched(EchoServer):
    """An echo server whose documents are counted and not kept, and whose log is sometimes not read."""

    documents_logged = 0

    def _read(self) -> None:
        self.readable = threading.Event()
        self.readable.set()
        assert self.process.stdout is not None
        for raw in self.process.stdout:
            self.readable.wait()
            try:
                line: Line = json.loads(raw)
            except ValueError:
                line = {"not json": raw.decode(errors="replace")[:500]}
            with self.changed:
                if line.get("schema") == 1:
                    self.documents_logged += 1
                elif line.get("event") != "log_dropped":
                    self.lines.append(line)
                    self.raw.append(str(line))
                self.changed.notify_all()
        with self.changed:
            self.ended = True
            self.changed.notify_all()

    def holds(self) -> tuple[int, int, int]:
        """Resident memory in KiB, open descriptors, threads; nothing when it has ended."""
        if self.process.poll() is not None:
            return 0, 0, 0
        here = Path(f"/proc/{self.process.pid}")
        try:
            return self.memory_kib(), len(list((here / "fd").iterdir())), len(list((here / "task").iterdir()))
        except (StopIteration, OSError):  # it is ending: what it held goes before it does
            self.process.wait(PATIENCE)
            return 0, 0, 0


@dataclass
class Findings:
    """What came of it."""

    seed: int
    inputs: Counter[str]
    answers: Counter[str]
    before: tuple[int, int, int]
    after: tuple[int, int, int]
    seconds: float
    faults: list[str]

    def lines(self) -> Iterator[str]:
        """For people."""
        by_kind = ", ".join(f"{name} {count:,}" for name, count in sorted(self.inputs.items()))
        yield f"{self.inputs.total():,} inputs in {self.seconds:.0f} s ({by_kind}), --seed {self.seed}"
        yield "answers: " + ", ".join(f"{name} {count:,}" for name, count in sorted(self.answers.items()))
        for name, was, held in zip(("memory, KiB", "descriptors", "threads"), self.before, self.after, strict=True):
            yield f"{name}: {was} after warming up, {held} at the end"
        yield from self.faults or ["the server answers as it should"]


class Fuzz:
    """One client that does all of it, to one server."""

    def __init__(self, server: Watched, seed: int) -> None:
        self.server, self.seed, self.chance = server, seed, random.Random(seed)
        self.inputs: Counter[str] = Counter()
        self.answers: Counter[str] = Counter()
        self.faults: list[str] = []
        self.held: deque[socket.socket] = deque()
        self.ways: list[tuple[str, Callable[[], None]]] = [
            (name, partial(self._stream, name)) for name in ("tcp", "http", "control")
        ]
        self.ways += [("udp", self._datagram)]
        self.ways += [("sctp", self._init)] if "sctp" in server.ports else []

    def run(self, seconds: float, most: int) -> Findings:
        """Rounds until the time is over, or so many inputs were sent; the first fault ends it."""
        began = time.monotonic()
        idle = self.server.holds()
        for _ in range(WARM_UP):
            if not self.faults:
                self._round()
        before = self._settled(idle)
        while not self.faults and time.monotonic() - began < seconds and self.inputs.total() < most:
            self._round()
        after = self._settled(idle)
        if after[0] - before[0] > GROWTH_KIB:
            self.faults.append(f"it holds {after[0] - before[0]} KiB more")
        if after[1:] != idle[1:]:
            self.faults.append(f"descriptors and threads: {idle[1:]} became {after[1:]}")
        spent = time.monotonic() - began
        return Findings(self.seed, self.inputs, self.answers, before, after, spent, self.faults)

    def _round(self) -> None:
        deaf = self.chance.random() < 0.1
        if deaf:
            self.server.readable.clear()
        try:
            for _ in range(ROUND):
                name, send = self.chance.choice(self.ways)
                self.inputs[name] += 1
                try:
                    send()
                except TimeoutError:
                    self.faults.append(f"{name}: no answer and no end within {PATIENCE:.0f} s")
                except (ConnectionError, AssertionError):
                    self.faults.append(f"{name}: nobody listens any more")
                if self.faults:
                    return
        finally:
            self.server.readable.set()
        try:
            self._put_ready()
            self.server.check()
        except (AssertionError, OSError) as wrong:
            self.faults.append(f"a valid request after input {self.inputs.total()}: {wrong!r}")

    def _put_ready(self) -> None:
        """Make what a stray request to the control port may have switched off ready again."""
        with connect("ipv4", self.server.ports["control"]) as sock:
            sock.sendall(b"PUT /ready HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\ntrue")
            assert Response(read_all(sock)).text == "true\n"

    def _settled(self, idle: tuple[int, int, int]) -> tuple[int, int, int]:
        """What the server holds once it has noticed that all connections are closed, or should have."""
        while self.held:
            self.held.popleft().close()
        deadline = time.monotonic() + PATIENCE
        while (now := self.server.holds())[1:] != idle[1:] and time.monotonic() < deadline:
            threading.Event().wait(0.05)
        return now

    def _stream(self, name: str) -> None:
        data = stream(self.chance, name)
        sock = connect(self.chance.choice(list(LOOPBACK)), self.server.ports[name])
        keeps = False
        try:
            way = self.chance.randrange(10)
            pieces = [data]
            if way in (0, 1) and len(data) < 2000:
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                cuts = sorted({0, len(data), *self.chance.choices(range(len(data) + 1), k=5)})
                pieces = [data[cut:end] for cut, end in itertools.pairwise(cuts)]
            if way == 2:  # nobody reads the answer, and the window is small
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                for piece in pieces:
                    sock.sendall(piece)
                if way in (2, 3, 4):  # left open: the rest may come later, a byte at a time, or never
                    self._hold(sock)
                    keeps = True
                elif way == 5:
                    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # reset
                else:
                    with contextlib.suppress(OSError):  # the server has reset it
                        sock.shutdown(socket.SHUT_WR)
                    self._judge(name, data, read_all(sock))
        finally:
            if not keeps:
                sock.close()

    def _hold(self, sock: socket.socket) -> None:
        self.held.append(sock)
        if len(self.held) > MOST_HELD:
            self.held.popleft().close()
        for slow in self.chance.sample(list(self.held), k=min(5, len(self.held))):
            with contextlib.suppress(OSError):
                slow.send(self.chance.choice((b"a", b"\r", b"\n", b"\0", b"keep a\n" * 50)), socket.MSG_DONTWAIT)

    def _judge(self, name: str, data: bytes, answer: bytes) -> None:
        """An answer is nothing, or whole and of the listener's form; that of a request may be cut off by a reset."""
        if not answer:
            self.answers[f"{name} none"] += 1
            return
        try:
            if name == "tcp":
                for line in answer.splitlines():
                    said = json.loads(line)
                    assert (said["schema"], said["protocol"]) == (1, "tcp")
                    assert http1.valid_nonce(said["nonce"].encode())
                self.answers["tcp document"] += 1
            else:
                response = Response(answer)
                assert response.status in STATUSES
                assert len(response.body) in (0, int(response.headers["content-length"]))
                self.answers[f"{name} {response.status}"] += 1
        except (AssertionError, ValueError, KeyError, IndexError) as wrong:
            self.faults.append(f"{name}: {data[:300]!r} was answered with {answer[:300]!r} ({wrong!r})")

    def _datagram(self) -> None:
        data = datagram(self.chance)
        family = self.chance.choice(list(LOOPBACK))
        with socket.socket(socket.AF_INET6 if family == "ipv6" else socket.AF_INET, socket.SOCK_DGRAM) as sock:
            sock.settimeout(PATIENCE)
            sock.connect((LOOPBACK[family], self.server.ports["udp"]))
            sock.send(data)
            sock.send(b"next")
            first = sock.recv(65536)
            answered = json.loads(first)["nonce"].encode()
            self.answers["udp none" if answered == b"next" else "udp document"] += 1
            nonce, _, padding = data.removesuffix(b"\n").partition(b" ")  # dots after a space make a question long
            valid = http1.valid_nonce(nonce) and not padding.strip(b".")
            if (answered != b"next") != valid and nonce != b"next":
                self.faults.append(f"udp: {data[:300]!r} was answered with {first[:300]!r}")

    def _init(self) -> None:
        """Raw packets, whose answers nobody waits for; the server's form of them has tests of its own."""
        family, address = self.chance.choice(((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")))
        with socket.socket(family, socket.SOCK_RAW, 132) as sock:
            sock.sendto(init(self.chance, self.server.ports["sctp"]), (address, 0))


def fuzz(seconds: float, most: int, seed: int, *arguments: str) -> Findings:
    """Fuzz a new server for so long, or with so many inputs."""
    with Watched(*arguments) as server:
        found = Fuzz(server, seed).run(seconds, most)
        if server.process.poll() is not None:
            found.faults.append(f"the server ended with {server.process.returncode}: {server.raw[-3:]}")
        return found


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="fuzz", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=600.0, metavar="N", help="at most (%(default)s)")
    parser.add_argument("--inputs", type=int, default=100_000_000, metavar="N", help="at most (%(default)s)")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 32), metavar="N", help="repeats the inputs")
    options = parser.parse_args()
    raw = ["--sctp", "7000"] if os.geteuid() == 0 else []
    report = fuzz(options.seconds, options.inputs, options.seed, *raw)
    print("\n".join(report.lines()))
    return 1 if report.faults else 0


if __name__ == "__main__":
    sys.exit(main())
