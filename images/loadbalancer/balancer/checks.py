"""HTTP health checks: GET /healthz of every node for every Service, each on a steady schedule of its own.

One event loop runs them all on bare sockets: 200 Services on four nodes with both families are 1,600 checks a second.
A check takes a fresh connection, as the nodes' answers differ from one to the next, and ends it with a reset once the
status line is there, so that no TIME_WAIT stays on either side.
"""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import struct
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from .faults import Faults
from .objects import Key
from .thresholds import PASSES, Health, Result

RESET = struct.pack("ii", 1, 0)
LONGEST_ANSWER = 4096
MOST_DIGITS = 9  # Python refuses to read numbers of thousands of them
MOST_WEIGHT = 100
SLACK = 0.05
"""Of the period: a check that has no longer to wait when the next one is due has timed out. Else a timeout as long as
the period, which ends a moment after the next slot, would skip every second check."""


@dataclass(frozen=True)
class Target:
    """Whom to ask about what."""

    service: Key
    uid: str  # one that comes again by the same name is another
    family: str
    node: str

    @property
    def phase(self) -> float:
        """Where in the period it is asked, from 0 to 1: spread, and the same in every life of the balancer."""
        return zlib.crc32("/".join((*self.service, self.family, self.node)).encode()) / 2**32


def next_slot(phase: float, period: float, now: float) -> float:
    """The next time of a schedule that has one at (k + phase) * period for every whole k."""
    slot = ((now / period - phase) // 1 + 1 + phase) * period
    return slot if slot > now else slot + period


@dataclass
class Check:
    """One target, how it is, and the check of it that is under way."""

    target: Target
    address: str
    port: int
    health: Health
    count: int = 0
    weight: int = 1
    sock: socket.socket | None = None
    answer: bytes = b""
    next: asyncio.TimerHandle | None = None
    timeout: asyncio.TimerHandle | None = None  # of the check that is under way


def weight_of(head: bytes) -> int:
    """The share of connections that a node's answer asks for; 1 where it says nothing that can be used."""
    for line in head.splitlines()[1:]:
        name, _, weight = line.partition(b":")
        weight = weight.strip()
        if (
            name.strip().lower() == b"x-load-balancing-endpoint-weight"
            and weight.isdigit()
            and len(weight) <= MOST_DIGITS
        ):
            return min(MOST_WEIGHT, max(1, int(weight)))
    return 1


def status_of(head: bytes) -> int | None:
    """The status of an answer; None if it is no HTTP/1."""
    words = head.partition(b"\n")[0].split()
    sound = len(words) > 1 and words[0].startswith(b"HTTP/1.") and words[1].isdigit() and len(words[1]) == 3
    return int(words[1]) if sound else None


class Checker:
    """Runs the checks of the targets it was given last."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        timing: tuple[float, float],
        thresholds: tuple[int, int],
        faults: Faults,
        turned: Callable[[Check], None],
        weighed: Callable[[Check], None] | None = None,
    ) -> None:
        self._loop, self._faults, self._turned = loop, faults, turned
        self._period, self._timeout = faults.period(timing[0]), timing[1]
        self._thresholds = thresholds
        self._weighed = weighed  # called with every weight that changed; None: weights are not read
        self._end_of_head = b"\r\n\r\n" if weighed else b"\n"  # else the status line is all that is waited for
        self.checks: dict[Target, Check] = {}

    def set_targets(self, wanted: Mapping[Target, tuple[str, int]]) -> None:
        """Check these, at these addresses and ports; a target that stays keeps its health and schedule."""
        for target in [target for target in self.checks if target not in wanted]:
            check = self.checks.pop(target)
            self._close(check)
            if check.next:
                check.next.cancel()
        for target, (address, port) in wanted.items():
            known = self.checks.get(target)
            if known:
                known.address, known.port = address, port
                continue
            health = Health(*self._thresholds, since=self._loop.time(), healthy=self._faults.joins_unchecked)
            check = Check(target, address, port, health)
            self.checks[target] = check
            self._schedule(check)

    def health(self, target: Target) -> Health | None:
        """How a target is, if it is checked."""
        check = self.checks.get(target)
        return check.health if check else None

    def weight(self, target: Target) -> int:
        """The share that a target asked for at last."""
        check = self.checks.get(target)
        return check.weight if check else 1

    def close(self) -> None:
        """Stop all."""
        self.set_targets({})

    def _schedule(self, check: Check) -> None:
        slot = next_slot(check.target.phase, self._period, self._loop.time())
        check.next = self._loop.call_at(slot, self._start, check)

    def _start(self, check: Check) -> None:
        self._schedule(check)
        if check.timeout:
            if check.timeout.when() - self._loop.time() > SLACK * self._period:
                return  # still waiting for the last one, whose timeout is longer than the period
            self._end(check, None, "timeout")
            if self.checks.get(check.target) is not check:
                return  # that it turned has removed it
        sock = socket.socket(socket.AF_INET6 if ":" in check.address else socket.AF_INET, socket.SOCK_STREAM)
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
        check.sock, check.answer = sock, b""
        check.timeout = self._loop.call_later(self._timeout, self._end, check, None, "timeout")
        error = sock.connect_ex((check.address, check.port))
        if error not in (0, errno.EINPROGRESS):
            self._end(check, None, os.strerror(error))
        else:
            self._loop.add_writer(sock, self._connected, check)

    def _connected(self, check: Check) -> None:
        assert check.sock
        self._loop.remove_writer(check.sock)
        error = check.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if error:
            self._end(check, None, os.strerror(error))
            return
        host = f"[{check.address}]" if ":" in check.address else check.address
        request = f"GET {self._faults.path} HTTP/1.1\r\nHost: {host}:{check.port}\r\n"
        request += "User-Agent: esipp-reference\r\nConnection: close\r\n\r\n"
        try:
            check.sock.send(request.encode())
        except OSError as trouble:
            self._end(check, None, str(trouble.strerror))
            return
        self._loop.add_reader(check.sock, self._readable, check)

    def _readable(self, check: Check) -> None:
        assert check.sock
        try:
            data = check.sock.recv(LONGEST_ANSWER)
        except BlockingIOError:
            return
        except OSError as trouble:
            self._end(check, None, str(trouble.strerror))
            return
        check.answer += data
        head, end, _ = check.answer.partition(self._end_of_head)
        if end:
            status = status_of(head)
            before = check.weight
            if status == PASSES:
                check.weight = weight_of(head)
            self._end(check, status, "no HTTP answer" if status is None else None)
            if self._weighed and check.weight != before:
                self._weighed(check)
        elif not data or len(check.answer) > LONGEST_ANSWER:
            self._end(check, None, "closed without an answer" if not check.answer else "no HTTP answer")

    def _end(self, check: Check, status: int | None, error: str | None) -> None:
        self._close(check)
        result = Result(status, error, self._loop.time())
        check.count += 1
        passed = self._faults.result(result.passed, check.count, result.at)
        if check.health.record(result, passed=passed):
            self._turned(check)

    def _close(self, check: Check) -> None:
        if check.timeout:
            check.timeout.cancel()
            check.timeout = None
        if check.sock:
            self._loop.remove_writer(check.sock)
            self._loop.remove_reader(check.sock)
            check.sock.close()
            check.sock = None
