"""The table of events and streams of changes, from its checks."""

from esipp.checks.crossing import Crossing, Field
from esipp.checks.stream import StreamKind
from esipp.scenarios.service_change.subject import Claim, Event
from suites.changes.checks import CHECKS, EXPECTED, SUITE
from suites.changes.events import EVENTS, why_not
from suites.changes.streams import ENTRIES, HEALTH_CHECKS, STREAMS

JUDGED: dict[tuple[str, str], dict[str, None]] = {}
"""The entries with a check, by the names of event and stream."""
for _subject in (check.subject for check in CHECKS):
    JUDGED.setdefault((_subject.event.name, _subject.stream.name), {})[_subject.at.value] = None


def field(event: Event, stream: StreamKind) -> Field:
    """Return one field of the table."""
    empty = {at.value: why_not(event, at, stream) for at in ENTRIES}
    judged = JUDGED.get((event.name, stream.name), ())
    return Field(tuple(judged), empty={at: why for at, why in empty.items() if why})


def required(stream: StreamKind) -> tuple[str, str]:
    """Return what is required of a stream while nothing changes, and during an event."""
    own = [check for check in CHECKS if check.subject.stream == stream]
    if stream in HEALTH_CHECKS:
        fine = EXPECTED[Claim.STATUS]
        return fine, "; ".join(dict.fromkeys((fine, *(check.expected.removesuffix(f", else {fine}") for check in own))))
    made = {check.subject.claim for check in own}
    return EXPECTED[Claim.SERVED], "; ".join(EXPECTED[claim] for claim in Claim if claim in made)


CROSSING = Crossing(
    SUITE,
    {event.name: event.meanwhile for event in EVENTS},
    {stream.name: stream.sent for stream in STREAMS},
    {stream.name: required(stream) for stream in STREAMS},
    {(event.name, stream.name): field(event, stream) for event in EVENTS for stream in STREAMS},
)
