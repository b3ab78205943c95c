"""``Crossing``: a suite's table of events and streams, and the reason for each empty field. No I/O."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import product
from string import ascii_lowercase


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
        letters = (*ascii_lowercase, *map("".join, product(ascii_lowercase, repeat=2)))
        return dict(zip(reasons, letters, strict=False))

    def rows(self) -> Iterator[tuple[str, ...]]:
        """The rows of the table: an event, and each stream's field as text."""
        for event in self.events:
            yield event, *(self._cell(self.fields[event, stream]) for stream in self.streams)

    def _cell(self, field: Field) -> str:
        empty, letters = field.empty or {}, self.reasons
        total = len(field.judged) + len(field.recorded) + len(empty)
        words = f"{len(field.judged)} of {total}" if field.judged else "-"
        words += f", {len(field.recorded)} recorded" if field.recorded else ""
        why = ", ".join(sorted({letters[each] for each in empty.values()}, key=lambda each: (len(each), each)))
        return f"{words} ({why})" if why else words


def as_text(crossing: Crossing) -> Iterator[str]:
    """The table as lines for ``esipp explain events``."""
    yield f"Events and streams of the suite {crossing.suite}: how many of its {crossing.counts} are required"
    yield ""
    names = list(crossing.streams)
    wide = max(map(len, crossing.events))
    for row in crossing.rows():
        cells = ", ".join(f"{name} {cell}" for name, cell in zip(names, row[1:], strict=True) if cell[0] != "-")
        yield f"{row[0]:<{wide}}  {cells}"
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
