"""The document of ``esipp diff`` and ``esipp merge``: sections of items and tables, as text and Markdown."""

import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from esipp.report.escaping import code, one_line, prose, table_cell
from esipp.report.matrix import WIDTH

MOST_IDS = 6
"""How many patterns of ids an item lists; JSON and HTML have all."""

_PARTS = re.compile(r"[^.,-]*[.,-]|[^.,-]+$")

MOST_LENGTH = 4000
"""Maximum length of one text."""


@dataclass(frozen=True)
class Item:
    """An item about several checks: a line, labelled details, and the ids as patterns."""

    head: str
    details: tuple[tuple[str, str], ...] = ()
    ids: tuple[str, ...] = ()


@dataclass(frozen=True)
class Table:
    """A table. Columns in ``wide`` share the remaining width; columns in ``ids`` hold ids of checks.

    ``loud`` are texts that the HTML page emphasises.
    """

    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    wide: frozenset[int] = frozenset({0})
    ids: frozenset[int] = frozenset()
    loud: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Section:
    """A heading, an introduction, items and a table; text and Markdown list at most ``most`` items."""

    title: str
    about: str = ""
    items: tuple[Item, ...] = ()
    table: Table | None = None
    most: int = 1000


@dataclass(frozen=True)
class Paper:
    """The document. ``sentence`` comes first, then the ``alarms``."""

    title: str
    sentence: str
    alarms: tuple[str, ...] = ()
    sections: tuple[Section, ...] = field(default=())


# ------------------------------------------------------------------------------------------------------------ text
def as_text(paper: Paper) -> str:
    """The document as plain text for a terminal."""
    lines = _wrap(paper.sentence)
    for alarm in paper.alarms:
        lines += _wrap(f"INCOMPLETE: {alarm}", "", "  ")
    for section in paper.sections:
        lines += ["", section.title, *_wrap(section.about, "  ", "  ")]
        for item in section.items[: section.most]:
            lines += ["", *_item(item)]
        if len(section.items) > section.most:
            lines += ["", f"  and {len(section.items) - section.most} more; see --format json or html"]
        if section.table:
            lines += ["", *_table(section.table)]
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _item(item: Item) -> list[str]:
    lines = _wrap(item.head, "  ", "    ")
    for label, text in item.details:
        lines += _wrap(text, f"    {label:<9} ", " " * 14)
    for each in item.ids[:MOST_IDS]:
        lines += _wrap(each, "    ", "      ")
    if len(item.ids) > MOST_IDS:
        lines.append(f"    and {len(item.ids) - MOST_IDS} more patterns of ids")
    return lines


def _table(table: Table) -> list[str]:
    widths = [_needed(table, place) for place in range(len(table.head))]
    narrow = sum(width + 2 for place, width in enumerate(widths) if place not in table.wide)
    many = max(1, len(table.wide))
    room = max(40 // many, (WIDTH - 2 - narrow) // many - 2)
    widths = [min(width, room) if place in table.wide else width for place, width in enumerate(widths)]
    lines = []
    for row in (table.head, tuple("-" * width for width in widths), *table.rows):
        cells = [_fold(text, width) for text, width in zip(row, widths, strict=True)]
        for parts in zip_longest(*cells, fillvalue=""):
            lines.append("  " + "  ".join(f"{part:<{width}}" for part, width in zip(parts, widths, strict=True)))
    return lines


def _needed(table: Table, place: int) -> int:
    """The maximum width of a column; its head may wrap between words."""
    words = max((len(word) for word in table.head[place].split()), default=0)
    return max([words, *(len(one_line(row[place], MOST_LENGTH)) for row in table.rows)])


def _fold(text: str, width: int) -> list[str]:
    return _broken(one_line(text, MOST_LENGTH), width) or [""]


def _wrap(text: str, first: str = "", rest: str = "") -> list[str]:
    return _broken(one_line(text, MOST_LENGTH), WIDTH, first, rest)


def _broken(text: str, width: int, first: str = "", rest: str = "") -> list[str]:
    """The text wrapped. Ids have no blanks: they wrap after a comma, a full stop or a hyphen."""
    if " " in text or len(first) + len(text) <= width:
        return textwrap.wrap(text, width, initial_indent=first, subsequent_indent=rest, break_on_hyphens=False)
    lines = [first]
    for part in _PARTS.findall(text):
        if len(lines[-1]) + len(part) > width and lines[-1] not in (first, rest):
            lines.append(rest)
        lines[-1] += part
    return lines


# -------------------------------------------------------------------------------------------------------- Markdown
def as_markdown(paper: Paper) -> str:
    """The document as Markdown for a pull request."""
    lines = [f"## {prose(paper.title)}", "", f"**{prose(paper.sentence, MOST_LENGTH)}**"]
    for alarm in paper.alarms:
        lines += ["", f"> **INCOMPLETE**: {prose(alarm)}"]
    for section in paper.sections:
        lines += ["", f"### {prose(section.title)}", ""]
        lines += [prose(section.about, MOST_LENGTH), ""] if section.about else []
        for item in section.items[: section.most]:
            lines += _listed(item)
        if len(section.items) > section.most:
            lines.append(f"- and {len(section.items) - section.most} more; see JSON or HTML")
        if section.table:
            lines += ["", *_grid(section.table)] if section.items else _grid(section.table)
    return "\n".join(lines) + "\n"


def _listed(item: Item) -> list[str]:
    lines = [f"- {prose(item.head, MOST_LENGTH)}"]
    lines += [f"  - {label}: {prose(text)}" if label else f"  - {prose(text)}" for label, text in item.details]
    lines += [f"  - {code(each, 1000)}" for each in item.ids[:MOST_IDS]]
    if len(item.ids) > MOST_IDS:
        lines.append(f"  - and {len(item.ids) - MOST_IDS} more patterns of ids")
    return lines


def _grid(table: Table) -> list[str]:
    def line(parts: Iterable[str]) -> str:
        return f"| {' | '.join(parts)} |"

    def row(texts: Sequence[str]) -> Iterable[str]:
        for place, text in enumerate(texts):
            yield table_cell(text, 1000) if place in table.ids and text else prose(text)

    return [line(prose(text) for text in table.head), line("---" for _ in table.head), *map(line, map(row, table.rows))]
