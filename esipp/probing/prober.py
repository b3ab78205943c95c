"""esipp's side of the prober's protocol (images/echoserver/README.md): jobs, results, one process per client; and
steady streams of probes, each from its start until it is stopped, on our clock.
"""

import contextlib
import ipaddress
import json
import math
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent import futures
from concurrent.futures import Future, InvalidStateError
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, field, replace
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, cast

from esipp.base.clock import Clock
from esipp.base.echo_token import ECHOED, TOKEN
from esipp.base.errors import HarnessError
from esipp.checks.model import Claim, Family, Outcome, Path, Port, Vantage
from esipp.checks.stream import MTU, Reuse, StreamKind
from esipp.judging.link_owners import ANSWERED_WITHIN, LinkAnswer
from esipp.judging.observation import Irregular, Observation
from esipp.judging.timeline import (
    Arrived,
    Reader,
    Sample,
    Stream,
    count_arrived,
    read_arrived,
    read_health,
    read_request,
)

# ----------------------------------------------------------------------------------------------------------------- jobs
CLAIMED = "203.0.113.7"
"""The address that a client claims in a forged header; it is reserved for documentation (RFC 5737)."""

NODE_PORTS = (30000, 32767)
"""The default range of nodePorts (``--service-node-port-range`` of the API server)."""


@dataclass(frozen=True)
class Job:
    """A job: ``count`` probes, each on its own connection from its own source port, except for lasting jobs.

    Args:
        key: the subject of the observations, such as a path's key.
        protocol: ``tcp``, ``http``, ``udp`` or ``sctp``: a request to an echo server. ``get``: one plain HTTP request
            to any server; the results contain the whole answer as ``response``. ``lasting``: exchanges with the raw TCP
            port of an echo server over one connection, or a new one if it is lost. ``bulk``: ``size`` bytes
            to the raw TCP port of an echo server, which come back. ``resolve``: a DNS lookup. ``neighbour``: no
            probes, but a result for each link address to which the client's frames to ``host`` go (ARP, NDP).
            ``who-has``: questions to all hosts of the client's link who has ``host``; the results have all link
            addresses that answer within the timeout.
        host: a literal address; for ``resolve`` the name.
        port: 0 for ``resolve``, ``neighbour`` and ``who-has``.
        timeout: timeout of a probe in seconds.
        spacing: seconds from start to start; at least 0.005 for ``lasting``.
        parallel: maximum number of probes of this job in flight; 0 for no limit.
        brief: whether equal results are combined, with their count.
        one_socket: whether all datagrams, or SCTP packets, come from one source port.
        one_way: whether datagrams are counted by the backend and not answered; implies ``one_socket``.
        size: bytes of a datagram and its answer, or of a transfer; 0 for no more than needed, ``MTU`` for datagrams
            that fill a packet of the route's MTU.
        ports: the first and the last source port, taken in turn; any if None.
        headers: headers of an HTTP request (``http`` or ``get``).
        preamble: bytes to send first.
        url: path of an HTTP request.
        method: method of a ``get``: ``GET`` or ``HEAD``.
        family: address family of the addresses for ``resolve``.
        wide: a number with which source ports from 1,024 up begin; None for those that the kernel gives out.
        on_a_node: whether the client is a process of a node; then it leaves out the default range of nodePorts, at
            which a service proxy may take answers for requests.
        link_local: whether the client dials from the link-local address of the interface by which it reaches the
            host; IPv6 only.
        linger: seconds for which an answered probe listens on for answers that come twice (UDP, SCTP).
    """

    key: str
    protocol: str
    host: str
    port: int
    count: int
    timeout: float
    spacing: float = 0.0
    parallel: int = 0
    brief: bool = False
    one_socket: bool = False
    one_way: bool = False
    size: int = 0
    ports: tuple[int, int] | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    preamble: bytes = b""
    url: str = "/"
    method: str = "GET"
    family: Family = Family.IPV4
    wide: int | None = None
    on_a_node: bool = False
    linger: float = 0.0
    link_local: bool = False

    def order(self, identity: str) -> dict[str, Any]:
        """The job in the prober's protocol."""
        order: dict[str, Any] = {
            "id": identity,
            "protocol": self.protocol,
            "host": self.host,
            "count": self.count,
        }
        if self.protocol == "neighbour":
            return order
        order |= {"spacing": self.spacing, "timeout": self.timeout}
        if self.protocol == "resolve":
            order["family"] = self.family.value.lower()
        elif self.protocol != "who-has":
            order["port"] = self.port
        if self.parallel:
            order["parallel"] = self.parallel
        if self.brief:
            order["brief"] = True
        if self.one_socket:
            order["one_socket"] = True
        if self.one_way:
            order["one_way"] = True
        if self.ports:
            order["source_port"] = list(self.ports)
        if self.size:
            order["size"] = "mtu" if self.size == MTU else self.size
        if self.protocol == "get":
            order["method"] = self.method
        if self.protocol in ("http", "get"):
            order |= {"path": self.url, "headers": dict(self.headers)}
        if self.protocol in ECHOED:
            order["token"] = TOKEN
        if self.wide is not None:
            order["wide"] = self.wide
            if self.on_a_node:
                order["spare"] = NODE_PORTS
        if self.linger and self.protocol in ("udp", "sctp"):
            order["linger"] = self.linger
        if self.link_local:
            order["source_address"] = "link-local"
        if self.preamble:
            order["preamble"] = self.preamble.hex()
        return order


def job_on(path: Path, host: str, port: int, count: int, timeout: float) -> Job:
    """The job for a path, with the protocol of its port and the client's forged claim, if any."""
    http = path.port is Port.HTTP
    headers = {"X-Forwarded-For": CLAIMED} if path.claim is Claim.FORWARDED_FOR else {}
    return Job(
        path.key,
        "http" if http else path.protocol.value.lower(),
        host,
        port,
        count,
        timeout,
        one_socket=path.one_socket,
        headers=headers,
        preamble=_preamble(path.claim, path.family),
        on_a_node=path.client.vantage is Vantage.NODE,
    )


def _preamble(claim: Claim, family: Family) -> bytes:
    """A PROXY protocol header that claims another source (HAProxy, The PROXY protocol, 2.1 and 2.2)."""
    four = family is Family.IPV4
    source, destination = (CLAIMED, "192.0.2.1") if four else ("2001:db8::7", "2001:db8::1")
    if claim is Claim.PROXY_V1:
        return f"PROXY TCP{'4' if four else '6'} {source} {destination} 1111 80\r\n".encode()
    if claim is Claim.PROXY_V2:
        packed = ipaddress.ip_address(source).packed + ipaddress.ip_address(destination).packed
        addresses = packed + (1111).to_bytes(2) + (80).to_bytes(2)
        kind = 0x11 if four else 0x21
        return b"\r\n\r\n\x00\r\nQUIT\n" + bytes([0x21, kind]) + len(addresses).to_bytes(2) + addresses
    return b""


def read_result(job: Job, message: dict[str, Any]) -> Observation:
    """Convert a result line of the prober to an observation; for a brief job, it represents many probes."""
    echo = message.get("echo")
    brief, ports = (
        bool(message.get("brief")),
        tuple((int(own or 0), other) for own, other in message.get("ports") or ()),
    )
    own_port, seen_port = ports[0] if ports else (message.get("source_port"), (echo or {}).get("peer_port"))
    source = (str(message["source_address"]), int(own_port or 0)) if message.get("source_address") else None
    moments = tuple((float(began), float(ended)) for began, ended in message.get("moments") or ())
    connected = message.get("connected")
    if brief and message.get("connected_count"):
        connected = message.get("started")
    return Observation(
        path=job.key,
        seq=int(message.get("seq") or 0),
        outcome=Outcome(cast(str, message["outcome"])),
        source=source,
        dialled=(job.host, job.port),
        seen=(str(echo.get("peer_address")), int(seen_port or 0)) if echo else None,
        echo=echo,
        started=float(message.get("started") or 0.0),
        connected=None if connected is None else float(connected),
        ended=float(message.get("ended") or 0.0),
        time=float(message.get("time") or 0.0),
        detail=str(message.get("detail") or ""),
        nonce=str(message.get("nonce") or ""),
        tag=message.get("tag"),
        count=int(message.get("count") or 1),
        ports=ports if brief else (),
        connection=int(message.get("connection") or 0),
        addresses=tuple(map(str, message.get("addresses") or ())),
        moments=moments if brief else (),
        irregular=tuple(Irregular(*each) for each in message.get("irregular") or ()),
    )


NOT_ON_LINK = "not on a link of this host"
"""What the prober says of a host that it reaches through a gateway, and so cannot ask from its own link."""


def who_has(host: str, count: int, spacing: float) -> Job:
    """The job that asks the client's link who has an address."""
    return Job(f"who has {host}", "who-has", host, 0, count, ANSWERED_WITHIN, spacing)


def read_who_has(line: Mapping[str, Any]) -> LinkAnswer:
    """The answers to a question, from a result line of the prober; at the prober's own time."""
    links = tuple(map(str, line.get("links") or ()))
    return LinkAnswer(float(line["started"]), Outcome(str(line["outcome"])), links, str(line.get("detail") or ""))


# ----------------------------------------------------------------------------------------------------------- the prober
Line = dict[str, Any]
"""A line of the prober's protocol."""


class Order(Protocol):
    """A receiver of the lines about one order, called in the reader's thread or when the prober is found dead."""

    def take(self, line: Line) -> None:
        """Receive a result."""

    def done(self) -> None:
        """Receive the end of the results."""

    def fail(self, error: HarnessError) -> None:
        """Receive an error, which ends the order."""


class Pulse:
    """A receiver for liveness requests, which ignores the answer."""

    def take(self, line: Line) -> None:
        """Ignore the answer."""

    def done(self) -> None:
        """Ignore the end."""

    def fail(self, error: HarnessError) -> None:
        """Ignore the error, which the receivers of other orders get too."""


T = TypeVar("T")


class Collection(Generic[T]):
    """A receiver that collects all results."""

    def __init__(self, read: Callable[[Line], T]) -> None:
        self._read = read
        self._found: list[T] = []
        self.future: Future[list[T]] = Future()
        self.future.set_running_or_notify_cancel()  # from now on it cannot be cancelled

    def take(self, line: Line) -> None:
        """Collect a result."""
        self._found.append(self._read(line))

    def done(self) -> None:
        """Complete the future with all results."""
        self.future.set_result(self._found)

    def fail(self, error: HarnessError) -> None:
        """Complete the future with an error."""
        self.future.set_exception(error)


class Running:
    """A receiver that passes on each result as it arrives. ``Prober.stream`` creates it."""

    def __init__(self, name: str, sink: Callable[[Line], None], cancel: Callable[[], None]) -> None:
        self._name = name
        self._sink = sink
        self._cancel = cancel
        self._count = 0
        self._broken = False
        self._future: Future[int] = Future()
        self._future.set_running_or_notify_cancel()

    def cancel(self) -> None:
        """Stop the job, without results for its probes in flight. It has no effect on a finished job."""
        self._cancel()

    def ends(self, timeout: float) -> bool:
        """Wait until the job is done, has failed or is cancelled, but no longer than so many seconds.

        Returns:
            Whether it ended; ``wait`` tells how.
        """
        return bool(futures.wait([self._future], max(0.0, timeout)).done)

    def wait(self, timeout: float) -> int:
        """Wait until the job is done or cancelled.

        Returns:
            The number of results; for a brief job, the number of its groups.

        Raises:
            HarnessError: the prober died or refused the job, the sink failed, or the timeout is over (the job then
                continues).
        """
        try:
            return self._future.result(timeout=timeout)
        except FutureTimeoutError:
            raise HarnessError(
                f"A job of the prober of {self._name} is not done after {timeout:g} s ({self._count} results so far).",
                "check whether the machine is overloaded.",
            ) from None
        finally:
            if self._broken:
                self.cancel()

    def take(self, line: Line) -> None:
        """Pass on a result, in the reader's thread."""
        if self._broken:
            return
        try:
            self._sink(line)
        except BaseException as broken:  # whatever it is, it must not end the reader
            self._broken = True
            error = HarnessError(
                f"Cannot process a result of the prober of {self._name}: {type(broken).__name__}: {broken}.",
                "this is a bug in esipp, not a verdict on the product; please report it.",
            )
            error.__cause__ = broken
            self.fail(error)
        else:
            self._count += 1

    def done(self) -> None:
        """Complete the future."""
        with contextlib.suppress(InvalidStateError):  # the sink failed before
            self._future.set_result(self._count)

    def fail(self, error: HarnessError) -> None:
        """Complete the future with an error."""
        with contextlib.suppress(InvalidStateError):  # the first error counts
            self._future.set_exception(error)


START_SECONDS = 60.0
"""Timeout until a prober is ready: an exec into a container plus the start of Python, on a busy machine."""

CLOCK_SECONDS = 10.0
"""Timeout of one reading of a prober's clock; the round trip takes milliseconds."""

PULSE_SECONDS = 5.0
"""Interval of liveness checks of a prober with open orders. After this silence, esipp sends it a request."""

SILENT_SECONDS = 60.0
"""Silence after which a prober with open requests counts as lost, with its node or the connection. An API server that
is stopped for a shorter time only delays the lines of probers."""

KLOG = re.compile(r"^[EFIW]\d{4} [\d:.]+ +\d+ \S+\] ")
"""The prefix of kubectl's own error messages: severity, time, thread, source line."""

PROTOCOL_VERSION = 8


class ProberLostError(HarnessError):
    """A prober is gone, with its pod, node, host or connection."""


class Prober:
    """A running prober.

    Args:
        name: name of the client, for messages.
        command: the command that starts it (transports).
        prelude: lines that the command needs before the prober runs. It must fit into a pipe (64 KiB), so that this
            does not block on a slow host. Output before the first JSON line, such as a login message, is skipped.

    Raises:
        HarnessError: it did not start.
    """

    def __init__(self, name: str, command: Sequence[str], prelude: str = "") -> None:
        self.name = name
        self._greeted = bool(prelude)
        self._orders: dict[str, Order] = {}
        self._cancelled: set[str] = set()  # orders whose cancellation has no answer yet
        self._lock = threading.Lock()
        self._pen = threading.Lock()  # a separate lock, so that a full pipe never blocks the reader
        self._serial = 0
        self._dead = ""
        self._ready: Future[dict[str, Any]] = Future()
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1
            )
        except OSError as broken:
            raise HarnessError(
                f"Cannot start the prober of {name}: {broken}.", f"check that {command[0]} is on PATH."
            ) from None
        self._complaints: list[str] = []
        self._last_event = time.monotonic()
        self._over = threading.Event()
        threads = (self._read, self._read_complaints, self._check_liveness)
        self._readers = [threading.Thread(target=each, daemon=True) for each in threads]
        for reader in self._readers:
            reader.start()
        if prelude:
            self._send(prelude)

    @property
    def ended(self) -> bool:
        """Whether it is gone: its process, or the way to it, ended."""
        return bool(self._dead)

    def hello(self) -> dict[str, Any]:
        """Wait for the prober's first line: its addresses, host name and version."""
        try:
            hello = self._ready.result(timeout=START_SECONDS)
        except FutureTimeoutError:
            raise HarnessError(
                f"The prober of {self.name} did not start within {START_SECONDS:.0f} s.{self._said()}",
                "try to run the image's /esipp/prober.py there by hand.",
            ) from None
        if hello.get("prober") != PROTOCOL_VERSION:
            raise HarnessError(
                f"The prober of {self.name} has protocol version {hello.get('prober')}; this suite needs "
                f"{PROTOCOL_VERSION}.",
                "use the echo image of the same version.",
            )
        return hello

    def submit(self, job: Job) -> "Future[list[Observation]]":
        """Send a job; the future holds its observations, or a HarnessError if the prober dies."""
        collection = Collection(lambda line: read_result(job, line))
        self._place(collection, job.order)
        return collection.future

    def ask(self, job: Job) -> "Future[list[Line]]":
        """Send a job as ``submit`` does; the future holds its result lines as the prober wrote them."""
        collection = Collection(lambda line: line)
        self._place(collection, job.order)
        return collection.future

    def stream(self, job: Job, sink: Callable[[Line], None]) -> Running:
        """Start a job whose result lines go to a sink as they arrive.

        Args:
            job: what to dial.
            sink: called with each line, in the reader's thread: it must be cheap. If it raises, it is not called again,
                and the stream's ``wait`` raises a HarnessError and ends the job.
        """
        identity = self._identity()
        stream = Running(self.name, sink, lambda: self._stop(identity))
        self._place(stream, job.order, identity)
        return stream

    def clock(self, rounds: int = 8) -> Clock:
        """Measure the offset of the prober's monotonic clock, by the fastest of several requests.

        Raises:
            HarnessError: the prober is gone, or does not answer.
        """
        assert rounds > 0
        return min((self._read_clock() for _ in range(rounds)), key=lambda clock: clock.uncertainty)

    def _read_clock(self) -> Clock:
        answer = Collection(lambda line: (time.monotonic(), float(line["monotonic"])))
        sent = time.monotonic()
        identity = self._place(answer, lambda identity: {"describe": True, "id": identity})
        try:
            ((arrived, theirs),) = answer.future.result(timeout=CLOCK_SECONDS)
        except FutureTimeoutError:
            with self._lock:
                self._orders.pop(identity, None)
            raise HarnessError(
                f"The prober of {self.name} did not report its time within {CLOCK_SECONDS:.0f} s.{self._said()}",
                "check the load of this machine and the connection to the prober.",
            ) from None
        # The prober read its clock between our two times, so the middle is wrong by at most half of their distance.
        return Clock(theirs - (sent + arrived) / 2, (arrived - sent) / 2)

    def standstills(self) -> list[tuple[float, float]]:
        """The latest times in which the prober's process should have run and did not: start, by its clock, and length.

        Raises:
            HarnessError: the prober is gone, or does not answer.
        """
        answer = Collection(lambda line: [(float(began), float(seconds)) for began, seconds in line["stood_still"]])
        self._place(answer, lambda identity: {"describe": True, "id": identity})
        try:
            (found,) = answer.future.result(timeout=CLOCK_SECONDS)
        except FutureTimeoutError:
            raise HarnessError(f"The prober of {self.name} did not report within {CLOCK_SECONDS:.0f} s.") from None
        return found

    def _identity(self) -> str:
        with self._lock:
            self._serial += 1
            return f"{self._serial}"

    def _place(self, order: Order, words: Callable[[str], Line], identity: str = "") -> str:
        """Send an order, which then receives its result lines, and return its id."""
        identity = identity or self._identity()
        with self._lock:
            dead = self._dead
            if not dead:
                self._orders[identity] = order
        if dead:
            order.fail(self._death())
        else:
            self._write(words(identity))
        return identity

    def _stop(self, identity: str) -> None:
        with self._lock:
            if identity not in self._orders or identity in self._cancelled:
                return
            self._cancelled.add(identity)
        self._write({"cancel": identity})

    def _write(self, line: Line) -> None:
        self._send(json.dumps(line) + "\n")

    def _send(self, lines: str) -> None:
        assert self._process.stdin is not None
        try:
            with self._pen:
                self._process.stdin.write(lines)
        except (OSError, ValueError):  # either side closed it
            self._bury("its input was closed")

    def close(self) -> None:
        """End the prober; it stops at the end of its input."""
        self._over.set()
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(timeout=3)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        for reader in self._readers:
            reader.join(timeout=3)
        for stream in (self._process.stdout, self._process.stderr):
            if stream is not None:
                stream.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        with contextlib.suppress(ValueError, OSError):
            for line in self._process.stdout:
                self._last_event = time.monotonic()
                if self._greeted and not line.startswith("{"):
                    continue
                self._greeted = False
                try:
                    self._take(json.loads(line))
                except (ValueError, KeyError, TypeError, AttributeError) as broken:
                    self._bury(f"it sent an unreadable line ({broken}): {line[:120]!r}")
        self._readers[1].join(timeout=1.0)  # so that the error contains its last messages
        self._bury("it ended")

    def _check_liveness(self) -> None:
        """While there are open orders, check that the prober sends something from time to time."""
        pulse = Pulse()
        while not self._over.wait(PULSE_SECONDS):
            silent = time.monotonic() - self._last_event
            if self._dead:
                return
            with self._lock:
                wanted = any(order is not pulse for order in self._orders.values())
                pending = any(order is pulse for order in self._orders.values())
            if not wanted and not pending:
                self._last_event = time.monotonic()
            elif silent > SILENT_SECONDS:
                self._bury(f"it has not answered for {SILENT_SECONDS:.0f} s, not even to a liveness request")
                self._process.kill()  # a thread that still writes to it would wait forever
            elif silent >= PULSE_SECONDS and not pending and not self._pen.locked():
                self._place(pulse, lambda identity: {"describe": True, "id": identity})

    def _read_complaints(self) -> None:
        assert self._process.stderr is not None
        with contextlib.suppress(ValueError, OSError):
            for line in self._process.stderr:
                self._complaints = [*self._complaints[-4:], line.strip()]

    def _take(self, message: Line) -> None:
        event = message.get("event")
        if event == "ready":
            self._ready.set_result(message)
            return
        identity = str(message.get("id", ""))
        with self._lock:
            order = self._orders.get(identity)
        if order is not None and ("outcome" in message or event == "description"):
            order.take(message)
        if "outcome" in message:
            return
        with self._lock:
            order = self._orders.pop(identity, None)
            late = order is None and identity in self._cancelled  # the job was done before it could be cancelled
            if late or message.get("cancelled"):
                self._cancelled.discard(identity)
        if order is None:
            if "error" in message and not late:
                self._bury(f"it refused an order: {message['error']}")
        elif "error" in message:
            order.fail(HarnessError(f"The prober of {self.name} refused a job: {message['error']}."))
        else:
            order.done()

    def _bury(self, why: str) -> None:
        with self._lock:
            self._dead = self._dead or why
            orphans = list(self._orders.values())
            self._orders.clear()
            self._cancelled.clear()
        if not self._ready.done():
            self._ready.set_exception(self._death())
        for orphan in orphans:
            orphan.fail(self._death())

    def _death(self) -> HarnessError:
        return ProberLostError(
            f"The prober of {self.name} is gone: {self._dead}.{self._said()}",
            "check the pod, container or host that it ran in and, for a pod, the API server, which 'kubectl exec' "
            "uses; this is not a verdict on the product.",
        )

    def _said(self) -> str:
        complaints = " ".join(dict.fromkeys(KLOG.sub("", line) for line in self._complaints if line))
        return f" Its last output: {complaints[:300]}" if complaints else ""


# ------------------------------------------------------------------------------------------------------- steady streams
ENDLESS = 1_000_000
"""The number of probes of a stream: more than any scenario takes."""

DETAILED = ("tcp", "udp", "sctp", "bulk", "lasting")
"""Job protocols whose details on probes without an answer are kept."""

ASK_SECONDS = 3.0
"""Seconds that a pod has to say what it counted."""

ASKS = 3
"""How often a pod is asked what it counted. It is our own question: on a busy machine one went unanswered, and 98
checks were undecided (kind-flannel, run 1129-065633-8a9b)."""

END_SECONDS = 15.0
"""Seconds until a prober has ended all probes that it has to cancel."""


class Target(NamedTuple):
    """An address and a port."""

    host: str
    port: int


class Pace(NamedTuple):
    """How often a stream probes, and how long it waits: seconds between two probes, and until one counts as lost."""

    every: float
    timeout: float


def steady(name: str, protocol: str, target: Target, pace: Pace, count: int = ENDLESS) -> Job:
    """The job of a steady stream."""
    return Job(name, protocol, *target, count, pace.timeout, spacing=pace.every, url="/healthz")


FIRST_PORT, LAST_PORT = 20000, 29999
"""Source ports of streams that take certain ones: below nodePorts and those that kernels give out."""


def job_of(kind: StreamKind, name: str, target: Target, first_port: int = FIRST_PORT) -> Job:
    """The job of a stream of this kind."""
    return replace(
        steady(name, kind.job_protocol, target, Pace(kind.every, kind.timeout), kind.count or ENDLESS),
        ports=(first_port, first_port + kind.ports - 1) if kind.ports else None,
        one_socket=kind.reuse is Reuse.ONE_SOCKET,
        one_way=kind.reuse is Reuse.ONE_WAY,
        size=kind.size,
    )


@dataclass(eq=False)
class _Flow:
    """Probes that go on, and the stream that they belong to.

    Of probes without answers, ``nonces`` is what their nonces begin with, and ``arrived`` what pods counted of them.
    """

    job: Job
    stream: Stream | None = None
    running: Running = field(init=False)
    nonces: str = ""
    arrived: list[Arrived] = field(default_factory=list)


@dataclass
class Traffic:
    """The steady streams of one prober, for any number of threads; results come in as they arrive.

    ``details`` are the prober's words on requests without an answer, by stream and number. ``observations`` are the
    whole requests to echo servers, by the same, so that packets can follow some of them; None keeps none.
    """

    prober: Prober
    clock: Clock
    details: dict[tuple[str, int], str] = field(default_factory=dict)
    observations: dict[tuple[str, int], Observation] | None = None
    _flows: list[_Flow] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def connect(self, name: str, target: Target, pace: Pace) -> Stream:
        """New connections to an echo server."""
        return self._start(name, "tcp", target, pace, read_request)

    def check_health(self, name: str, target: Target, pace: Pace, read: Reader = read_health) -> Stream:
        """Requests to a health-check node port."""
        return self._start(name, "get", target, pace, read)

    def exchange(self, name: str, target: Target, pace: Pace, read: Reader = read_request) -> Stream:
        """Exchanges on one connection for as long as it lasts, and then on another one."""
        return self._start(name, "lasting", target, pace, read)

    def send(self, kind: StreamKind, name: str, target: Target, first_port: int = FIRST_PORT) -> Stream:
        """Probes of a kind to an echo server. Of datagrams that get no answer, ``stop`` takes the pods' counts.

        Args:
            kind: what is sent.
            name: the stream's name.
            target: where to.
            first_port: the first source port of a kind that takes certain ones.
        """
        stream = Stream(name, kind.every)
        self._run(stream, job_of(kind, name, target, first_port), read_request)
        return stream

    def wait(self, streams: Iterable[Stream], seconds: float) -> None:
        """Wait until all probes of streams with a count are over.

        Raises:
            HarnessError: the prober is gone, or they are not over in time.
        """
        waited = {id(stream) for stream in streams}
        with self._lock:
            flows = [flow for flow in self._flows if id(flow.stream) in waited]
        for flow in flows:
            flow.running.wait(seconds)

    def counted(self, stream: Stream, since: float = -math.inf, until: float = math.inf) -> list[Sample]:
        """A stream's probes that started in [since, until): one-way ones as pods had counted them when asked last."""
        with self._lock:
            found = [each for flow in self._flows if flow.stream is stream for each in flow.arrived]
        return count_arrived(stream.view(since, until), found)

    def ask_arrived(self, prober: Prober, pod: Target, node: str, streams: Iterable[Stream] | None = None) -> None:
        """Ask a pod which datagrams of the one-way streams it has counted so far.

        Args:
            prober: one that reaches the pod without a Service.
            pod: the pod's address and HTTP port.
            node: the pod's node.
            streams: those that are asked about; None for all.

        Raises:
            HarnessError: the prober is gone, or the pod does not say.
        """
        only = None if streams is None else {id(stream) for stream in streams}
        with self._lock:
            flows = [flow for flow in self._flows if flow.nonces and (only is None or id(flow.stream) in only)]
        broken = ""
        for _ in range(ASKS):
            flows, broken = self._ask_arrived(prober, pod, node, flows)
            if not flows:
                return
        raise HarnessError(f"A pod on node {node} does not say what it counted, asked {ASKS} times: {broken}.")

    def _ask_arrived(self, prober: Prober, pod: Target, node: str, flows: Sequence[_Flow]) -> tuple[list[_Flow], str]:
        """Ask once; return the streams about which the pod does not say, and why."""
        asked, silent, why = [], list[_Flow](), ""
        for flow in flows:
            url = f"/counted?nonce={TOKEN}/{flow.nonces}"
            asked.append(prober.ask(Job(flow.job.key, "get", *pod, 1, ASK_SECONDS, url=url)))
        for flow, answer in zip(flows, asked, strict=True):
            try:
                (line,) = answer.result(END_SECONDS)
            except FutureTimeoutError:
                raise HarnessError(f"A pod on node {node} cannot be asked what it counted: no result.") from None
            try:
                found = read_arrived(line, node)
            except ValueError as broken:
                silent.append(flow)
                why = str(broken)
            else:
                with self._lock:
                    flow.arrived += found
        return silent, why

    def follow(self, job: Job, take: Callable[[Line], None]) -> None:
        """Start probes whose result lines go to a function, in the reader's thread."""
        self._add(_Flow(job), take)

    def redirect(self, port: int, new: int) -> None:
        """Request the health checks that are requested at one port at another one from now on."""
        for flow in [each for each in self._flows if (each.job.protocol, each.job.port) == ("get", port)]:
            stream, flow.stream = flow.stream, None
            flow.running.cancel()
            if stream is not None:
                self._run(stream, replace(flow.job, port=new), read_health)

    def stop(self, streams: Iterable[Stream]) -> None:
        """Stop these streams, and put what came in order. Those that were stopped before stay as they are.

        Raises:
            HarnessError: the prober is gone.
        """
        ended = {id(stream) for stream in streams}
        self._end(lambda flow: id(flow.stream) in ended)

    def stop_all(self) -> None:
        """Stop everything, as ``stop`` does."""
        self._end(lambda _: True)

    def _end(self, which: Callable[[_Flow], bool]) -> None:
        with self._lock:
            ended = [flow for flow in self._flows if which(flow)]
            self._flows = [flow for flow in self._flows if flow not in ended]
        for flow in ended:
            flow.running.cancel()
        try:
            for flow in ended:
                flow.running.wait(END_SECONDS)
        finally:
            for flow in ended:
                if flow.stream is not None:
                    flow.stream.samples = count_arrived(flow.stream.samples, flow.arrived)
                    flow.stream.freeze()

    def _start(self, name: str, protocol: str, target: Target, pace: Pace, read: Reader) -> Stream:
        stream = Stream(name, pace.every)
        self._run(stream, steady(name, protocol, target, pace), read)
        return stream

    def _run(self, stream: Stream, job: Job, read: Reader) -> None:
        ours = self.clock.ours

        def take(line: Line) -> None:
            sample = read(line, ours)
            stream.add(sample)
            if job.one_way and not flow.nonces:
                flow.nonces = str(line["nonce"]).rpartition(":")[0]
            if job.protocol in DETAILED and not sample.answered and line.get("detail"):
                self.details[stream.name, sample.seq] = str(line["detail"])
            if self.observations is not None and job.protocol in DETAILED and not job.one_way:
                self.observations[stream.name, sample.seq] = read_result(job, line)

        flow = _Flow(job, stream)
        self._add(flow, take)

    def _add(self, flow: _Flow, take: Callable[[Line], None]) -> None:
        flow.running = self.prober.stream(flow.job, take)
        with self._lock:
            self._flows.append(flow)
