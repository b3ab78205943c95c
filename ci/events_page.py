"""The generator of docs/events.md: each suite's table of events and streams, and why fields are empty."""

from collections.abc import Iterable, Iterator

from esipp.base import markdown
from esipp.checks.catalog import crossings, title_of
from esipp.checks.crossing import Crossing
from esipp.judging.scenario import scenarios
from esipp.judging.schedule import PlannedEvent, Touches

HEAD = """# Events and streams

Generated from the checks by `ci/generate`. Do not edit.

Steady traffic of several kinds, the *streams*, flows while something happens. Each event is seen by each stream, on
each *way* into the cluster. `esipp explain events` prints the same tables.

How to read a field: *3 of 7, 1 recorded (a)* has checks on three of seven ways that require something, and on one way a
check that only records what it sees. The letters below the table say why the other ways have no check. A reason that
holds for every stream of an event is in the event's second column alone. The tables of backward compatibility and of
convergence count claims instead of ways.

Why events run side by side or alone: [side-by-side.md](side-by-side.md). `esipp plan` tells the seconds of a whole run.
"""


def page() -> str:
    """The page."""
    return HEAD + "".join("\n".join(["", *_section(each), ""]) for each in crossings())


def _section(crossing: Crossing) -> Iterator[str]:
    yield f"## {title_of(crossing.suite)}"
    yield ""
    yield from markdown.table(("event", "asked by no stream", *crossing.streams), crossing.rows())
    yield ""
    yield from markdown.table(("", "no check, because"), ((letter, why) for why, letter in crossing.reasons.items()))
    yield ""
    planned = _planned(crossing.suite)
    if planned.keys() >= crossing.events.keys():
        times = ((name, when, planned[name]) for name, when in crossing.events.items())
        rows = ((name, when, f"{event.seconds:.0f}", _runs(event, planned.values())) for name, when, event in times)
        yield from markdown.table(("event", "when", "usual seconds", "runs"), rows)
    else:
        yield from markdown.table(("event", "when"), crossing.events.items())
    yield ""
    streams = ((name, sent, *crossing.required[name]) for name, sent in crossing.streams.items())
    yield from markdown.table(
        ("stream", "what one client sends", "required while nothing changes", "required during an event"), streams
    )


def _planned(suite: str) -> dict[str, PlannedEvent]:
    """The events of a suite's scenarios by name."""
    phases = (phase for scenario in scenarios() if scenario.suite == suite for phase in scenario.phases)
    return {event.name: event for phase in phases for event in phase.events}


def _runs(event: PlannedEvent, planned: Iterable[PlannedEvent]) -> str:
    """What runs beside an event."""
    sharing = ", ".join(each.name for each in planned if each is not event and each.may_run_beside(event))
    if event.disrupts and sharing:
        return f"with {sharing}: one disruption for all"
    if event.touches is not Touches.OWN_SERVICES:
        return f"alone: it touches {event.touches}"
    return "alone: it shares its Services with the others" if event.services else "beside the others"
