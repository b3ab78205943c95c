"""A document as Markdown for GitHub: pull requests, job summaries. Text from outside is escaped (``escaping.py``)."""

import re
from collections.abc import Iterator

from esipp.base.document import (
    Block,
    Cell,
    Code,
    Command,
    Document,
    Inline,
    Items,
    Pairs,
    Section,
    Strong,
    Table,
    Text,
    Words,
    parts,
    plain,
)
from esipp.report.escaping import ADDRESS, block, code, prose, table_cell
from esipp.report.rendering.terminal import MOST_IDS, MOST_LENGTH

MOST_OF_A_CELL = 1000

_START = re.compile(r"^([-+=]|\d+(?=[.)]))")
"""What makes a list or a heading at the start of a line."""


def as_markdown(document: Document) -> str:
    """The document as Markdown."""
    lines = [f"# {prose(document.title)}"]
    lines += ["", f"**{prose(document.sentence, MOST_LENGTH)}**"] if document.sentence else []
    for alarm in document.alarms:
        lines += ["", f"> **INCOMPLETE**: {prose(alarm)}"]
    return "\n".join([*lines, *_blocks(document.blocks, 2)]) + "\n"


def _blocks(blocks: tuple[Block, ...], level: int) -> Iterator[str]:
    for each in blocks:
        if isinstance(each, Section):
            inner = list(_blocks(each.blocks, level + 1))
            yield from ["", f"{'#' * level} {prose(each.title)}", *inner] if inner else []
        else:
            found = list(_of(each))
            yield from ["", *found] if found else []


def _of(each: Block) -> Iterator[str]:
    """The lines of a block. Figures and folded details are left out: a page has them."""
    match each:
        case Text():
            text = _words(each.words)
            yield _START.sub(r"\\\1", text) if isinstance(each.words, str) else text
        case Command():
            yield from block(each.text)
        case Pairs():
            yield from (f"- {label}: {_words(words)}" if label else f"- {_words(words)}" for label, words in each.pairs)
        case Items():
            yield from _items(each)
        case Table():
            yield from _table(each)


def _items(items: Items) -> Iterator[str]:
    for item in items.items[: items.most]:
        yield f"- {_words(item.head)}"
        yield from (f"  - {label}: {_words(w)}" if label else f"  - {_words(w)}" for label, w in item.details)
        yield from (f"  - {code(each, MOST_OF_A_CELL)}" for each in item.ids[:MOST_IDS])
        if len(item.ids) > MOST_IDS:
            yield f"  - and {len(item.ids) - MOST_IDS} more patterns of ids"
    if len(items.items) > items.most:
        yield f"- and {len(items.items) - items.most} more; see JSON or HTML"


def _table(table: Table) -> Iterator[str]:
    if table.caption:
        yield from (prose(table.caption), "")
    yield f"| {' | '.join(map(prose, table.head))} |"
    yield f"| {' | '.join('--:' if at in table.numeric else '---' for at in range(len(table.head)))} |"
    yield from (f"| {' | '.join(map(_cell, row))} |" for row in table.rows)
    if table.more:
        yield from ("", prose(table.more))


def _cell(cell: Cell) -> str:
    if isinstance(cell, Code):
        return table_cell(cell.text, MOST_OF_A_CELL) if cell.text else ""
    if cell is None or isinstance(cell, (int, float)):
        return plain(cell)
    return "".join(_cell(each) if isinstance(each, Code) else _inline(each) for each in parts(cell))


def _words(words: Words) -> str:
    return "".join(map(_inline, parts(words)))


def _inline(part: Inline) -> str:
    if isinstance(part, str):
        # an edge of a part is a blank of the line
        return (
            f"{' ' * part.startswith(' ')}{prose(part, MOST_LENGTH)}{' ' * part.endswith(' ')}"
            if part.strip()
            else part
        )
    if isinstance(part, Code):
        return code(part.text, MOST_OF_A_CELL)
    if isinstance(part, Strong):
        return f"**{prose(part.text)}**"
    return f"[{prose(part.text)}]({part.url})" if ADDRESS.fullmatch(part.url) else code(part.text)
