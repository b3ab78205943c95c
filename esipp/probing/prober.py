"""The prober's protocol, our side: one process a client, jobs in, results out (images/echoserver/README.md)."""

import contextlib
import ipaddress
import json
import subprocess
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, field
from typing import Any, cast

from esipp.errors import HarnessError
from esipp.model import Claim, Family, Path, Port
from esipp.observation import Observation, Outcome

START_SECONDS = 20.0
"""Until a prober says that it is ready: an exec into a container plus the start of Python."""

PROTOCOL_VERSION = 3

CLAIMED = "203.0.113.7"
"""The address that a client claims for itself in a forged header: of a range that is nobody's (RFC 5737)."""


@dataclass(frozen=True)
class Job:
    """What to dial: ``count`` probes, each its own connection from its own source port.

    Args:
        key: what the observations are of; a path's key.
        protocol: ``tcp``, ``http``, ``udp`` or ``sctp``.
        timeout: seconds a probe may take.
        spacing: seconds from start to start.
        parallel: probes of this job in flight at most; 0 for no bound.
        brief: equal results come as one, with their count.
        one_socket: all datagrams from one source port.
        headers: of an HTTP request.
        preamble: bytes that are sent first.
        url: path of an HTTP request.
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
    headers: Mapping[str, str] = field(default_factory=dict)
    preamble: bytes = b""
    url: str = "/"

    def order(self, identity: str) -> dict[str, Any]:
        """The job as the prober takes it."""
        order: dict[str, Any] = {
            "id": identity,
            "protocol": self.protocol,
            "host": self.host,
            "port": self.port,
            "count": self.count,
            "spacing": self.spacing,
            "timeout": self.timeout,
        }
        if self.parallel:
            order["parallel"] = self.parallel
        if self.brief:
            order["brief"] = True
        if self.one_socket:
            order["one_socket"] = True
        if self.protocol == "http":
            order |= {"path": self.url, "headers": dict(self.headers)}
        if self.preamble:
            order["preamble"] = self.preamble.hex()
        return order


def job_on(path: Path, host: str, port: int, count: int, timeout: float) -> Job:
    """The job of a path: which protocol is spoken there, and what the client claims about itself."""
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


class Prober:
    """A running prober.

    Args:
        name: the client it is, for messages.
        command: how to start it (transports).

    Raises:
        HarnessError: it did not start.
    """

    def __init__(self, name: str, command: Sequence[str]) -> None:
        self.name = name
        self._jobs: dict[str, tuple[Job, list[Observation], Future[list[Observation]]]] = {}
        self._lock = threading.Lock()
        self._serial = 0
        self._dead = ""
        self._ready: Future[dict[str, Any]] = Future()
        try:
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1
            )
        except OSError as broken:
            raise HarnessError(f"The prober of {name} cannot be started: {broken}.", "is it on PATH?") from None
        self._complaints: list[str] = []
        self._readers = [threading.Thread(target=each, daemon=True) for each in (self._read, self._read_complaints)]
        for reader in self._readers:
            reader.start()

    def hello(self) -> dict[str, Any]:
        """Wait for the prober's first line: its addresses, host name and version."""
        try:
            hello = self._ready.result(timeout=START_SECONDS)
        except FutureTimeoutError:
            raise HarnessError(
                f"The prober of {self.name} did not start within {START_SECONDS:.0f} s.{self._said()}",
                "can the image's /esipp/prober.py be run there by hand?",
            ) from None
        if hello.get("prober") != PROTOCOL_VERSION:
            raise HarnessError(
                f"The prober of {self.name} speaks protocol {hello.get('prober')}, this suite {PROTOCOL_VERSION}.",
                "use the echo image of this checkout.",
            )
        return hello

    def submit(self, job: Job) -> "Future[list[Observation]]":
        """Send a job; the future holds its observations, or a HarnessError if the prober dies."""
        future: Future[list[Observation]] = Future()
        with self._lock:
            if self._dead:
                future.set_exception(self._death())
                return future
            self._serial += 1
            identity = f"{self._serial}"
            self._jobs[identity] = (job, [], future)
        try:
            assert self._process.stdin is not None
            with self._lock:
                self._process.stdin.write(json.dumps(job.order(identity)) + "\n")
        except OSError:
            self._bury("its input was closed")
        return future

    def close(self) -> None:
        """End the prober; it stops at the end of its input."""
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
                try:
                    self._take(json.loads(line))
                except (ValueError, KeyError, TypeError) as broken:
                    self._bury(f"it sent something unreadable ({broken}): {line[:120]!r}")
        self._bury("it ended")

    def _read_complaints(self) -> None:
        assert self._process.stderr is not None
        with contextlib.suppress(ValueError, OSError):
            for line in self._process.stderr:
                self._complaints = [*self._complaints[-4:], line.strip()]

    def _take(self, message: dict[str, Any]) -> None:
        if message.get("event") == "ready":
            self._ready.set_result(message)
            return
        identity = str(message.get("id", ""))
        with self._lock:
            entry = self._jobs.get(identity)
        if entry is None:
            if "error" in message:
                self._bury(f"it refused an order: {message['error']}")
            return
        job, observations, future = entry
        if "outcome" in message:
            observations.append(read_result(job, message))
            return
        with self._lock:
            self._jobs.pop(identity, None)
        if "error" in message:
            future.set_exception(HarnessError(f"The prober of {self.name} refused a job: {message['error']}."))
        else:
            future.set_result(observations)

    def _bury(self, why: str) -> None:
        with self._lock:
            self._dead = self._dead or why
            orphans = list(self._jobs.values())
            self._jobs.clear()
        if not self._ready.done():
            self._ready.set_exception(self._death())
        for _, _, future in orphans:
            if not future.done():
                future.set_exception(self._death())

    def _death(self) -> HarnessError:
        return HarnessError(
            f"The prober of {self.name} is gone: {self._dead}.{self._said()}",
            "look at the pod or container it ran in; nothing is said about the product.",
        )

    def _said(self) -> str:
        words = " ".join(line for line in self._complaints if line)
        return f" It said: {words[:300]}" if words else ""


def read_result(job: Job, message: dict[str, Any]) -> Observation:
    """One result line of the prober as an observation; of a brief job it stands for many probes."""
    echo = message.get("echo")
    brief, ports = bool(message.get("brief")), tuple((int(own), seen) for own, seen in message.get("ports") or ())
    own_port, seen_port = ports[0] if ports else (message.get("source_port"), (echo or {}).get("peer_port"))
    source = (str(message["source_address"]), int(own_port or 0)) if message.get("source_address") else None
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
    )
