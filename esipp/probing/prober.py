"""The prober's protocol, our side: one process a client, jobs in, results out (images/echoserver/README.md)."""

import contextlib
import json
import re
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as FutureTimeoutError
from typing import Any

from esipp.base.clock import Clock
from esipp.base.errors import HarnessError
from esipp.checks.observation import Observation
from esipp.probing.jobs import Job, read_result
from esipp.probing.orders import Collection, Line, Order, Pulse, Stream

START_SECONDS = 60.0
"""Until a prober says that it is ready: an exec into a container plus the start of Python, on a busy machine."""

CLOCK_SECONDS = 10.0
"""For one reading of a prober's clock; the way there and back takes milliseconds."""

PULSE_SECONDS = 5.0
"""Between two looks at a prober that has work to do; one that is silent so long is asked whether it lives."""

SILENT_SECONDS = 60.0
"""After which a prober that says nothing, although it was asked, is given up: its node, or the way there, is lost. An
API server that stands still for a while only holds up what probers say."""

KLOG = re.compile(r"^[EFIW]\d{4} [\d:.]+ +\d+ \S+\] ")
"""What stands before kubectl's own complaints: severity, time, thread, line of its source."""

PROTOCOL_VERSION = 5


class ProberLostError(HarnessError):
    """A prober is gone, with the pod, node, host or connection that it needed."""


class Prober:
    """A running prober.

    Args:
        name: the client it is, for messages.
        command: how to start it (transports).
        prelude: lines that the command wants before the prober is there. It is to fit into a pipe (64 KiB), so that
            nobody waits here for a host that is far away. Until the first line of JSON whatever is said is skipped:
            login scripts greet.

    Raises:
        HarnessError: it did not start.
    """

    def __init__(self, name: str, command: Sequence[str], prelude: str = "") -> None:
        self.name = name
        self._greeted = bool(prelude)
        self._orders: dict[str, Order] = {}
        self._cancelled: set[str] = set()  # orders whose cancellation has no answer yet
        self._lock = threading.Lock()
        self._pen = threading.Lock()  # of its own, so that a pipe that is full never holds up the reader
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
        self._heard = time.monotonic()
        self._over = threading.Event()
        threads = (self._read, self._read_complaints, self._feel_its_pulse)
        self._readers = [threading.Thread(target=each, daemon=True) for each in threads]
        for reader in self._readers:
            reader.start()
        if prelude:
            self._send(prelude)

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
        collection = Collection(lambda line: read_result(job, line))
        self._place(collection, job.order)
        return collection.future

    def ask(self, job: Job) -> "Future[list[Line]]":
        """Send a job as ``submit`` does; the future holds its result lines as the prober wrote them."""
        collection = Collection(lambda line: line)
        self._place(collection, job.order)
        return collection.future

    def stream(self, job: Job, sink: Callable[[Line], None]) -> Stream:
        """Start a job whose result lines go to a sink as they arrive.

        Args:
            job: what to dial.
            sink: called with each line, in the reader's thread: it must be cheap. If it raises, it is not called again,
                and the stream's ``wait`` raises a HarnessError and ends the job.
        """
        identity = self._identity()
        stream = Stream(self.name, sink, lambda: self._stop(identity))
        self._place(stream, job.order, identity)
        return stream

    def clock(self, rounds: int = 8) -> Clock:
        """Compare the prober's monotonic clock with ours, by the quickest of so many questions.

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
                f"The prober of {self.name} did not tell its time within {CLOCK_SECONDS:.0f} s.{self._said()}",
                "is the machine, or the way to the prober, busy?",
            ) from None
        # It read its clock somewhere between the two times of ours; so the middle is wrong by half of that at most.
        return Clock(theirs - (sent + arrived) / 2, (arrived - sent) / 2)

    def _identity(self) -> str:
        with self._lock:
            self._serial += 1
            return f"{self._serial}"

    def _place(self, order: Order, words: Callable[[str], Line], identity: str = "") -> str:
        """Send an order, whose lines then come to it; gives its id."""
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
        except (OSError, ValueError):  # closed over there, or by us
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
                self._heard = time.monotonic()
                if self._greeted and not line.startswith("{"):
                    continue
                self._greeted = False
                try:
                    self._take(json.loads(line))
                except (ValueError, KeyError, TypeError, AttributeError) as broken:
                    self._bury(f"it sent something unreadable ({broken}): {line[:120]!r}")
        self._readers[1].join(timeout=1.0)  # so that its last complaints are told
        self._bury("it ended")

    def _feel_its_pulse(self) -> None:
        """While something is wanted of it: it has to say something now and then, if only that it lives."""
        pulse = Pulse()
        while not self._over.wait(PULSE_SECONDS):
            silent = time.monotonic() - self._heard
            if self._dead:
                return
            with self._lock:
                wanted = any(order is not pulse for order in self._orders.values())
                asked = any(order is pulse for order in self._orders.values())
            if not wanted and not asked:
                self._heard = time.monotonic()
            elif silent > SILENT_SECONDS:
                self._bury(f"it says nothing any more, not even whether it lives, for {SILENT_SECONDS:.0f} s")
                self._process.kill()  # whoever still writes to it would wait for ever
            elif silent >= PULSE_SECONDS and not asked and not self._pen.locked():
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
            "look at the pod, container or host it ran in, and, for a pod, at the API server, by which 'kubectl exec' "
            "goes; nothing is said about the product.",
        )

    def _said(self) -> str:
        words = " ".join(dict.fromkeys(KLOG.sub("", line) for line in self._complaints if line))
        return f" It said: {words[:300]}" if words else ""
