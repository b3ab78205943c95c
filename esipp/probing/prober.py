"""The prober's protocol, our side: one process a client, jobs in, results out (images/echoserver/README.md)."""

import contextlib
import json
import subprocess
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass
from typing import Any, cast

from esipp.errors import HarnessError
from esipp.model import Observation, Outcome, Path

START_SECONDS = 20.0
"""Until a prober says that it is ready: an exec into a container plus the start of Python."""

PROTOCOL_VERSION = 1

IN_FLIGHT = 512
"""Probes a prober has in flight at most; more wait their turn."""


@dataclass(frozen=True)
class Job:
    """What to dial: ``count`` probes, each its own connection from its own source port, ``spacing`` seconds apart."""

    path: Path
    host: str
    port: int
    count: int
    timeout: float
    spacing: float = 0.0


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
        order = {
            "id": identity,
            "protocol": job.path.protocol.value.lower(),
            "host": job.host,
            "port": job.port,
            "count": job.count,
            "spacing": job.spacing,
            "timeout": job.timeout,
        }
        try:
            assert self._process.stdin is not None
            with self._lock:
                self._process.stdin.write(json.dumps(order) + "\n")
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
    """One result line of the prober as an observation."""
    echo = message.get("echo")
    seen = None
    if echo:
        seen = (str(echo.get("peer_address")), int(echo.get("peer_port") or 0))
    source = None
    if message.get("source_address"):
        source = (str(message["source_address"]), int(message.get("source_port") or 0))
    connected = message.get("connected")
    return Observation(
        path=job.path.key,
        seq=int(message["seq"]),
        outcome=Outcome(cast(str, message["outcome"])),
        source=source,
        dialled=(job.host, job.port),
        seen=seen,
        echo=echo,
        started=float(message.get("started") or 0.0),
        connected=None if connected is None else float(connected),
        ended=float(message.get("ended") or 0.0),
        time=float(message.get("time") or 0.0),
        detail=str(message.get("detail") or ""),
        nonce=str(message.get("nonce") or ""),
    )
