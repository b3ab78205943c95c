"""``Crossing``: a suite's table of events and streams, and the reason for each empty field. No I/O."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby, product
from string import ascii_lowercase

LETTERS = (*ascii_lowercase, *map("".join, product(ascii_lowercase, repeat=2)))
"""The reasons' letters: a to z, aa to zz."""


@dataclass(frozen=True)
class Field:
    """One event, seen by one stream.

    Args:
        judged: the ways in on which a check requires something.
        recorded: those on which checks only record.
        empty: those without a check, each with the reason.
    """

    judged: tuple[str, ...] = ()
    recorded: tuple[str, ...] = ()
    empty: Mapping[str, str] | None = None


@dataclass(frozen=True)
class Crossing:
    """Events and streams of a suite.

    Args:
        suite: its name.
        events: what happens, by the event's name in ids.
        streams: what is sent, by the stream's name in ids.
        required: what is required of each stream while nothing changes, and during an event.
        fields: the table, by event and stream.
        counts: what its fields count: ways in, or claims.
    """

    suite: str
    events: Mapping[str, str]
    streams: Mapping[str, str]
    required: Mapping[str, tuple[str, str]]
    fields: Mapping[tuple[str, str], Field]
    counts: str = "ways in"

    @property
    def reasons(self) -> dict[str, str]:
        """The reasons for empty fields, each with its letter."""
        reasons = dict.fromkeys(why for field in self.fields.values() for why in (field.empty or {}).values())
        return dict(zip(reasons, LETTERS, strict=False))

    def rows(self) -> Iterator[tuple[str, ...]]:
        """The rows of the table: an event, the reasons that hold for each of its streams, and the fields as text."""
        order = [*self.reasons]
        for event in self.events:
            fields = [self.fields[event, stream] for stream in self.streams]
            shared = set.intersection(*({*(field.empty or {}).values()} for field in fields))
            yield event, _letters(order, shared), *(_cell(field, order, shared) for field in fields)


def _cell(field: Field, order: list[str], shared: set[str]) -> str:
    """A field as text: how many ways are required and recorded, and the reasons of its own."""
    empty = field.empty or {}
    total = len(field.judged) + len(field.recorded) + len(empty)
    words = f"{len(field.judged)} of {total}" if field.judged else "-"
    words += f", {len(field.recorded)} recorded" if field.recorded else ""
    own = _letters(order, {*empty.values()} - shared)
    return f"{words} ({own})" if own else words


def _letters(order: list[str], reasons: set[str]) -> str:
    """Letters of reasons; three and more that follow each other are a range: ``a, c-f``."""
    places = sorted(map(order.index, reasons))
    parts: list[str] = []
    for _, group in groupby(enumerate(places), lambda numbered: numbered[1] - numbered[0]):
        run = [LETTERS[place] for _, place in group]
        parts += [f"{run[0]}-{run[-1]}"] if len(run) > 2 else run
    return ", ".join(parts)


def as_text(crossing: Crossing) -> Iterator[str]:
    """The table as lines for ``esipp explain events``."""
    yield f"Events and streams of the suite {crossing.suite}: how many of its {crossing.counts} are required"
    yield ""
    names = list(crossing.streams)
    wide = max(map(len, crossing.events))
    for row in crossing.rows():
        event, shared, *fields = row
        cells = ", ".join(f"{name} {cell}" for name, cell in zip(names, fields, strict=True) if cell[0] != "-")
        yield f"{event:<{wide}}  {cells}{f'; no stream: {shared}' if shared else ''}"
    yield ""
    for name, sent in crossing.streams.items():
        quiet, during = crossing.required[name]
        yield f"{name}: {sent}"
        yield f"    while nothing changes: {quiet}"
        yield f"    during an event: {during}"
    yield ""
    yield "Fields without a check:"
    for why, letter in crossing.reasons.items():
        yield f"({letter}) {why}"
