"""Traffic: steady streams of probes from one client, each from its start until it is stopped, on our clock."""

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import TimeoutError as FutureTimeoutError
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from esipp.base.clock import Clock
from esipp.base.echo_token import TOKEN
from esipp.base.errors import HarnessError
from esipp.checks.observation import Observation
from esipp.checks.stream import Reuse, StreamKind
from esipp.judging.timeline import (
    Arrived,
    Reader,
    Stream,
    count_arrived,
    read_arrived,
    read_health,
    read_request,
)
from esipp.probing.prober import Job, Line, Prober, read_result
from esipp.probing.prober import Stream as Running

ENDLESS = 1_000_000
"""The number of probes of a stream: more than any scenario takes."""

DETAILED = ("tcp", "udp", "sctp", "bulk", "lasting")
"""Job protocols whose details on probes without an answer are kept."""

ASK_SECONDS = 3.0
"""Seconds that a pod has to say what it counted."""

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

    ``nonces`` is the common part of their nonces, ``arrived`` what pods counted of them, if nobody answers them.
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

    def newest_arrived(self, stream: Stream) -> int:
        """The number of the newest probe of a one-way stream that a pod has reported; -1 if there is none."""
        with self._lock:
            found = [each for flow in self._flows if flow.stream is stream for each in flow.arrived]
        return max((last for each in found for _, last in each.runs), default=-1)

    def ask_arrived(self, prober: Prober, pod: Target, node: str) -> None:
        """Ask a pod which datagrams of the one-way streams it has counted so far.

        Args:
            prober: one that reaches the pod without a Service.
            pod: the pod's address and HTTP port.
            node: the pod's node.

        Raises:
            HarnessError: the prober is gone, or the pod does not say.
        """
        with self._lock:
            flows = [flow for flow in self._flows if flow.nonces]
        asked = []
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
                raise HarnessError(f"A pod on node {node} does not say what it counted: {broken}.") from None
            with self._lock:
                flow.arrived += found

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
