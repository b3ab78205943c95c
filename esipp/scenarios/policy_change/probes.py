"""Continuous probes from one client on one clock: new connections, and probes of health-check node ports."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from esipp.base.clock import Clock
from esipp.judging.timeline.streams import Sample, Stream, read_health, read_request
from esipp.probing.jobs import Job
from esipp.probing.orders import Stream as Running
from esipp.probing.prober import Prober
from esipp.scenarios.policy_change.timeline import REOPENED

SPACING = 0.08
"""Seconds between two new connections at one entry."""

HEALTH_SPACING = 0.15

TIMEOUT = 0.9
"""Seconds until a connection counts as unanswered: below the second SYN, which may meet the next policy."""

PATIENT = 2.5
"""The same where every connection must be answered: what is late on a busy machine is not lost."""

KEPT_SPACING = 0.25
"""Seconds between two exchanges on a connection that stays open."""

ENDLESS = 1_000_000
END_SECONDS = 10.0


def read_port(service: str, namespace: str) -> Callable[[dict[str, Any], Callable[[float], float]], Sample]:
    """Reads an answer at a health-check node port.

    The outcome is the HTTP status; ``foreign`` where it is that of another Service, which may have the port once it is
    free; ``accepted`` if a connection was accepted without any data.
    """

    def read(result: dict[str, Any], ours: Callable[[float], float]) -> Sample:
        sample = read_health(result, ours)
        if result["outcome"] == "timeout" and result.get("connected") is not None:
            return sample._replace(outcome="accepted")
        try:
            told = json.loads((result.get("response") or {}).get("body") or "null")
            whose = (told["service"]["namespace"], told["service"]["name"])
        except (ValueError, KeyError, TypeError):
            return sample
        return sample if whose == (namespace, service) else sample._replace(outcome="foreign")

    return read


def read_kept(result: dict[str, Any], ours: Callable[[float], float]) -> Sample:
    """How an exchange on a connection that is to stay open is read; on the one made for a lost one it is another's."""
    sample = read_request(result, ours)
    return sample._replace(outcome=REOPENED) if result.get("connection") else sample


@dataclass
class Asking:
    """One client's probes; each stream flies until it is ended."""

    prober: Prober
    clock: Clock
    _running: dict[int, Running] = field(default_factory=dict)

    def connect(self, name: str, host: str, port: int, *, spacing: float = SPACING, timeout: float = TIMEOUT) -> Stream:
        """New connections to an echo server."""
        return self._start(Job(name, "tcp", host, port, ENDLESS, timeout, spacing), read_request)

    def health(self, name: str, host: str, port: int, service: str, namespace: str) -> Stream:
        """Questions to a health-check port of a Service."""
        job = Job(name, "get", host, port, ENDLESS, TIMEOUT, HEALTH_SPACING, url="/healthz")
        return self._start(job, read_port(service, namespace))

    def keep(self, name: str, host: str, port: int) -> Stream:
        """Exchanges on one connection, for as long as it lasts."""
        return self._start(Job(name, "lasting", host, port, ENDLESS, PATIENT, KEPT_SPACING), read_kept)

    def _start(self, job: Job, read: Callable[[dict[str, Any], Callable[[float], float]], Sample]) -> Stream:
        stream, ours = Stream(job.key, job.spacing), self.clock.ours
        self._running[id(stream)] = self.prober.stream(job, lambda line: stream.add(read(line, ours)))
        return stream

    def end(self, *streams: Stream) -> None:
        """Stop asking, and put what came in order.

        Raises:
            HarnessError: the prober is gone.
        """
        running = [self._running.pop(id(stream)) for stream in streams if id(stream) in self._running]
        for each in running:
            each.cancel()
        for each in running:
            each.wait(END_SECONDS)
        for stream in streams:
            stream.freeze()
