"""Controls of the health check scenarios: the nodes' control listeners, probed to explain late answers."""

import contextlib
from collections.abc import Iterator

from esipp.base.errors import HarnessError
from esipp.checks.model import OUTSIDE, Protocol
from esipp.judging.timeline.streams import Stream, read_request
from esipp.probing.jobs import Job
from esipp.probing.orders import Stream as Running
from esipp.scenarios.health.evidence import Node
from esipp.scenarios.health.probes import Asker

SPACING = 0.2
TIMEOUT = 3.0
"""Seconds until a request counts as lost: two SYNs are sent again meanwhile."""

ENDLESS = 1_000_000
END_SECONDS = 10.0


@contextlib.contextmanager
def listened(asker: Asker) -> Iterator[dict[Node, Stream]]:
    """The streams of all nodes with an agent, by place and family; whole once this is over.

    Raises:
        HarnessError: the prober is gone.
    """
    prober = asker.clients.probers.get(OUTSIDE.name)
    streams: dict[Node, Stream] = {}
    if prober is None:
        yield streams
        return
    ours, running = prober.clock().ours, list[Running]()
    for place, name in asker.places.items():
        port = asker.testbed.listeners.get(name, {}).get(Protocol.TCP)
        for family in asker.families:
            host = asker.address(place, family)
            if host and port:
                stream = streams[place, family] = Stream(f"listener of {name} {family}", SPACING)
                job = Job(stream.name, "tcp", host, port, ENDLESS, TIMEOUT, SPACING)
                running.append(prober.stream(job, lambda line, to=stream: to.add(read_request(line, ours))))  # type: ignore[misc]
    try:
        yield streams
    finally:
        for each in running:
            each.cancel()
        for each in running:
            with contextlib.suppress(HarnessError):  # a prober that is gone has told so where it was asked
                each.wait(END_SECONDS)
        for stream in streams.values():
            stream.freeze()
