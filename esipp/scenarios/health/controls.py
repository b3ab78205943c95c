"""Controls of the health check scenarios: the nodes' control listeners, probed to explain late answers."""

import contextlib
from collections.abc import Iterator

from esipp.base.errors import HarnessError
from esipp.checks.model import OUTSIDE, Protocol
from esipp.judging.timeline.streams import Stream
from esipp.probing.traffic import Pace, Target, Traffic
from esipp.scenarios.health.evidence import Node
from esipp.scenarios.health.probes import Asker

PACE = Pace(0.2, 3.0)
"""Requests to a control listener; until one counts as lost, two SYNs are sent again."""


@contextlib.contextmanager
def listened(asker: Asker) -> Iterator[dict[Node, Stream]]:
    """The streams of all nodes with an agent, by place and family; whole once this is over."""
    prober = asker.clients.probers.get(OUTSIDE.name)
    streams: dict[Node, Stream] = {}
    if prober is None:
        yield streams
        return
    traffic = Traffic(prober, prober.clock())
    for place, name in asker.places.items():
        port = asker.testbed.listeners.get(name, {}).get(Protocol.TCP)
        for family in asker.families:
            host = asker.address(place, family)
            if host and port:
                streams[place, family] = traffic.connect(f"listener of {name} {family}", Target(host, port), PACE)
    try:
        yield streams
    finally:
        with contextlib.suppress(HarnessError):  # a prober that is gone has told so where it was asked
            traffic.stop_all()
