"""The table of events and streams of continuity, from its checks."""

from esipp.checks.check import Level
from esipp.checks.continuity import Phase, What
from esipp.checks.crossing import Crossing, Field
from esipp.checks.stream import StreamKind
from suites.continuity.checks import CHECKS, WAYS
from suites.continuity.events import EVENTS, STREAMS, Event, why_empty
from suites.continuity.requirements import EXPECTED, SUITE, stream_expected, with_grace
from suites.streams import TCP_LASTING, TCP_NEW

CLAIMS = {TCP_LASTING: (What.LASTING,), TCP_NEW: tuple(set(What) - {What.LASTING, What.ONE_NODE, What.STREAM})}
"""The claims about the two streams that have more than one."""


def field(event: Event, stream: StreamKind) -> Field:
    """Return one field of the table."""
    judged, recorded = dict[str, None](), dict[str, None]()
    for check in CHECKS:
        subject = check.subject
        about = subject.stream == stream if subject.stream else subject.what in CLAIMS.get(stream, ())
        if subject.phase is event.phase and about:
            (recorded if check.level is Level.RECORD else judged)[subject.way.slug] = None
    empty = {way.slug: why_empty(event, way, stream) for way in WAYS if stream in STREAMS}
    only = tuple(way for way in recorded if way not in judged)
    return Field(tuple(judged), only, {way: why for way, why in empty.items() if why})


def required(stream: StreamKind) -> tuple[str, str]:
    """Return what is required of a stream while nothing changes, and during an event."""
    if stream == TCP_LASTING:
        return EXPECTED[What.LASTING], EXPECTED[What.LASTING]
    if stream == TCP_NEW:
        always = f"{EXPECTED[What.SOURCE]}; {EXPECTED[What.PLACE]}"
        return (
            f"{EXPECTED[What.NO_LOSS]}; {EXPECTED[What.NO_DELAY]}; {always}",
            f"{always}; {EXPECTED[What.NO_LOSS]} and {EXPECTED[What.NO_DELAY]}; instead of these two, where a load "
            f"balancer follows health checks, {EXPECTED[What.GAP]}, and at the cluster's own load balancer, "
            f"{EXPECTED[What.LOSSES]}",
        )
    quiet, other = (next(event for event in EVENTS if (event.phase is Phase.QUIET) == still) for still in (True, False))
    return stream_expected(quiet, stream), "-" if stream.count else stream_expected(other, stream)


ALL = (TCP_NEW, TCP_LASTING, *STREAMS)
CROSSING = Crossing(
    SUITE,
    {event.phase.value: with_grace(event, event.meanwhile) for event in EVENTS},
    {stream.name: stream.sent for stream in ALL},
    {stream.name: required(stream) for stream in ALL},
    {(event.phase.value, stream.name): field(event, stream) for event in EVENTS for stream in ALL},
)
