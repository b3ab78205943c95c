"""The document that every report is made of: sections of texts, items, tables and figures. No renderer, no markup.

All text in a document is plain. ``report/rendering`` turns it into text for a terminal, Markdown or an HTML page, and
escapes it there.
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Protocol

from esipp.base.plural import counted

WIDTH = 100
"""The columns of texts for a terminal."""


# ---------------------------------------------------------------------------------------------------------- in a line
@dataclass(frozen=True)
class Code:
    """An id, an address or a command within a line."""

    text: str


@dataclass(frozen=True)
class Strong:
    """Emphasised words; ``tone`` is the verdict whose colour a page gives them."""

    text: str
    tone: str = ""


@dataclass(frozen=True)
class Link:
    """Words that lead to an address, or to a place on the page (``#row=ID``)."""

    text: str
    url: str


Inline = str | Code | Strong | Link
Words = Inline | tuple[Inline, ...]
"""Words of one line; a tuple joins its parts without blanks."""

Cell = Words | int | float | None
"""A cell of a table. Numbers are aligned to the right, None is shown as a dash."""


_CELLS = (str, Code, Strong, Link, tuple, int, float, type(None))


def parts(words: Words) -> tuple[Inline, ...]:
    """The parts of a line."""
    return words if isinstance(words, tuple) else (words,)


def plain(words: Cell, digits: int = 2) -> str:
    """The words of a cell without emphasis, numbers with ``digits`` decimals."""
    if words is None:
        return MISSING
    if isinstance(words, (int, float)):
        return number(words, digits) if isinstance(words, float) else str(words)
    return "".join(each if isinstance(each, str) else each.text for each in parts(words))


MISSING = "\u2013"
"""Replaces a missing number."""


def number(value: float | None, digits: int = 2) -> str:
    """A number with decimals, never minus zero; a dash for None."""
    if value is None:
        return MISSING
    text = f"{value:.{digits}f}"
    return text.removeprefix("-") if not text.strip("-0.") else text


FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that no page may hold: most control characters, and surrogates."""


def clean(text: str) -> str:
    """The text with replacement characters for forbidden ones: a ledger may hold an unpaired surrogate."""
    return FORBIDDEN.sub("\ufffd", text)


# ------------------------------------------------------------------------------------------------------------- blocks
@dataclass(frozen=True)
class Text:
    """A paragraph."""

    words: Words


@dataclass(frozen=True)
class Command:
    """A command to copy, on lines of its own."""

    text: str


@dataclass(frozen=True)
class Pairs:
    """Labels and their texts. An empty label continues the one above it."""

    pairs: tuple[tuple[str, Words], ...]

    @classmethod
    def of(cls, pairs: Iterable[tuple[str, Words]]) -> "Pairs":
        """The pairs that have a text."""
        return cls(tuple((label, words) for label, words in pairs if words))


@dataclass(frozen=True)
class Item:
    """A heading about some checks, labelled details, and the ids of the checks as patterns.

    Only a page shows the ``blocks``, colours the item by its ``tone``, a verdict, and gives it a place, the ``id``.
    """

    head: Words
    details: tuple[tuple[str, Words], ...] = ()
    ids: tuple[str, ...] = ()
    blocks: "tuple[Block, ...]" = ()
    tone: str = ""
    id: str = ""


@dataclass(frozen=True)
class Items:
    """A list of items; text and Markdown show the first ``most``, a page and JSON show all."""

    items: tuple[Item, ...]
    most: int = 1000


@dataclass(frozen=True)
class Table:
    """A table. The first cell of a row names the row; ``more`` says what was left out."""

    head: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str = ""
    more: str = ""

    @classmethod
    def of(cls, head: Iterable[str], rows: Iterable[Iterable[object]], caption: str = "", most: int = 120) -> "Table":
        """The first ``most`` rows; a note counts the rest. Cells of other types are shown as text."""
        every = [tuple(each if isinstance(each, _CELLS) else str(each) for each in row) for row in rows]
        left = max(0, len(every) - most)
        more = f"and {counted(left, 'more line')} in the ledger" if left else ""
        return cls(tuple(head), tuple(every[:most]), caption, more)

    @property
    def numeric(self) -> frozenset[int]:
        """The columns that hold numbers."""
        return frozenset(
            at for at in range(1, len(self.head)) if any(isinstance(row[at], (int, float)) for row in self.rows)
        )


class Drawable(Protocol):
    """A drawing: SVG for a page, and the same in words."""

    title: str
    words: str

    def render(self) -> str:
        """The SVG element; all text in it is escaped."""
        ...


@dataclass(frozen=True)
class Figure:
    """A drawing with its caption. Text and Markdown leave it out; its numbers stand in a table."""

    drawing: Drawable
    caption: str = ""


@dataclass(frozen=True)
class Fold:
    """Details that a page folds. Text and Markdown leave them out."""

    summary: str
    blocks: "tuple[Block, ...]"


@dataclass(frozen=True)
class Section:
    """A heading and its blocks. Sections nest; ``id`` names a place on the page."""

    title: str
    blocks: "tuple[Block, ...]" = ()
    id: str = ""


Block = Text | Command | Pairs | Items | Table | Figure | Fold | Section


@dataclass(frozen=True)
class Document:
    """The whole: the ``sentence`` comes first, then the ``alarms``, then the blocks."""

    title: str
    sentence: str = ""
    alarms: tuple[str, ...] = ()
    blocks: tuple[Block, ...] = ()


def rewritten(part: Any, change: Callable[[str], str]) -> Any:
    """A document, or a part of one, with each of its texts changed: redaction does so before any line is wrapped."""
    if isinstance(part, str):
        return change(part)
    if isinstance(part, tuple):
        return tuple(rewritten(each, change) for each in part)
    if is_dataclass(part) and not isinstance(part, type):
        return replace(part, **{each.name: rewritten(getattr(part, each.name), change) for each in fields(part)})
    return part
