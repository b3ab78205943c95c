"""A document's sections as JSON: the same tree with plain texts, and numbers as they are. Figures as words."""

from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import Discriminator
from typing_extensions import TypedDict

from esipp.base import document
from esipp.base.document import Block, Cell, parts, plain

Value = str | int | float | None


class Text(TypedDict):
    """A paragraph, or a command."""

    kind: Literal["text"]
    text: str


class Pairs(TypedDict):
    """Labels and their texts; an empty label continues the one before."""

    kind: Literal["pairs"]
    pairs: list[list[str]]


class Item(TypedDict):
    """A heading about some checks, labelled details, and the ids of the checks as patterns."""

    head: str
    details: list[list[str]]
    ids: list[str]


class Items(TypedDict):
    """A list of items."""

    kind: Literal["items"]
    items: list[Item]


class Table(TypedDict):
    """A table. The first cell of a row names the row."""

    kind: Literal["table"]
    caption: str
    head: list[str]
    rows: list[list[Value]]
    more: str


class Figure(TypedDict):
    """A drawing of the page in words."""

    kind: Literal["figure"]
    caption: str
    words: str


class Section(TypedDict):
    """A heading and what is below it."""

    kind: Literal["section"]
    title: str
    blocks: "list[AnyBlock]"


AnyBlock = Annotated[Text | Pairs | Items | Table | Figure | Section, Discriminator("kind")]


def as_json(blocks: Iterable[Block]) -> list[AnyBlock]:
    """Blocks as JSON; details that a page folds are a section."""
    return [_of(each) for each in blocks]


def _of(block: Block) -> AnyBlock:
    match block:
        case document.Section():
            return {"kind": "section", "title": block.title, "blocks": as_json(block.blocks)}
        case document.Fold():
            return {"kind": "section", "title": block.summary, "blocks": as_json(block.blocks)}
        case document.Text():
            return {"kind": "text", "text": plain(block.words)}
        case document.Command():
            return {"kind": "text", "text": block.text}
        case document.Pairs():
            return {"kind": "pairs", "pairs": [[label, plain(words)] for label, words in block.pairs]}
        case document.Items():
            return {"kind": "items", "items": [_item(each) for each in block.items]}
        case document.Table():
            rows = [[_cell(each) for each in row] for row in block.rows]
            return {
                "kind": "table",
                "caption": block.caption,
                "head": list(block.head),
                "rows": rows,
                "more": block.more,
            }
        case document.Figure():
            return {"kind": "figure", "caption": block.caption, "words": block.drawing.words}


def _item(item: document.Item) -> Item:
    details = [[label, plain(words)] for label, words in item.details]
    return {"head": plain(item.head), "details": details, "ids": list(item.ids)}


def _cell(cell: Cell) -> Value:
    return cell if cell is None or isinstance(cell, (int, float)) else plain(parts(cell))
