"""A document as text of 100 columns, without colours: for terminals, pipes and files. rich lays it out."""

import io
import re
from collections.abc import Iterable, Iterator

from rich.box import Box
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text as Line

from esipp.base.document import WIDTH, Block, Cell, Code, Command, Document, Items, Pairs, Section, Table, Text, plain
from esipp.report.escaping import one_line

MOST_IDS = 6
"""How many patterns of ids an item lists; JSON and a page have all."""

_PARTS = re.compile(r"[^.,-]*[.,-]|[^.,-]+$")

MOST_LENGTH = 4000
"""Maximum length of one text."""

APART = (Section, Table, Items)
"""Blocks with an empty line around them."""

RULED = Box("    \n    \n -- \n    \n    \n    \n    \n    \n", ascii=True)
"""A rule below the head of a table, and nothing else."""


def as_text(document: Document) -> str:
    """The document as text."""
    out: list[RenderableType] = [_line(document.sentence)] if document.sentence else []
    out += [_line(f"INCOMPLETE: {alarm}") for alarm in document.alarms]
    return "\n".join([*_laid_out(out), *apart(document.blocks, begun=bool(out))]) + "\n"


def apart(blocks: Iterable[Block], *, begun: bool = False) -> list[str]:
    """Blocks as lines, with an empty line before and after each section and table."""
    lines: list[str] = []
    after = begun
    for block in blocks:
        part = as_lines(block)
        if part:
            before = isinstance(block, APART)
            lines += [""] * bool((lines or begun) and (before or after)) + part
            after = before
    return lines


def as_lines(*blocks: Block) -> list[str]:
    """Blocks as lines."""
    return _laid_out([part for block in blocks for part in _of(block)])


def _laid_out(parts: list[RenderableType]) -> list[str]:
    console = Console(
        file=io.StringIO(), width=WIDTH, color_system=None, force_terminal=False, legacy_windows=False, _environ={}
    )
    with console.capture() as captured:
        for part in parts:
            console.print(part, highlight=False, markup=False, emoji=False, soft_wrap=isinstance(part, str))
    return [line.rstrip() for line in captured.get().splitlines()]


def _of(block: Block) -> Iterator[RenderableType]:
    """The parts of a block. Figures and folded details are left out: a page has them."""
    match block:
        case Section():
            yield from _section(block)
        case Text():
            yield _line(block.words)
        case Command():
            yield _line(block.text)
        case Pairs():
            yield _pairs(block)
        case Items():
            yield from _items(block)
        case Table():
            yield from _table(block)


def _section(block: Section) -> Iterator[RenderableType]:
    inner: list[RenderableType] = []
    after = False
    for each in block.blocks:
        if found := list(_of(each)):
            before = isinstance(each, APART)
            inner += [""] * (before or after) + found
            after = before
    if inner:
        yield _line(block.title)
        yield from map(_indented, inner)


def _indented(part: RenderableType) -> Padding:
    return Padding(Line(part, overflow="fold") if isinstance(part, str) else part, (0, 0, 0, 2))


def _pairs(block: Pairs) -> Grid:
    grid = Grid.grid(padding=(0, 2, 0, 0), pad_edge=False)
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for label, words in block.pairs:
        grid.add_row(_line(label), _line(words))
    return grid


def _items(block: Items) -> Iterator[RenderableType]:
    for number, item in enumerate(block.items[: block.most]):
        yield from [""] if number else []
        yield _line(item.head)
        texts = tuple((label, words) for label, words in item.details if not isinstance(words, Code))
        yield _indented(_pairs(Pairs(texts)))
        width = max((len(label) for label, _ in texts), default=0)
        for label, words in item.details:
            if isinstance(words, Code):  # a command to copy stays on one line, however long
                yield f"  {label:<{width}}  {one_line(words.text, MOST_LENGTH)}"
        below: list[RenderableType] = [_Id(each) for each in item.ids[:MOST_IDS]]
        if len(item.ids) > MOST_IDS:
            below.append(f"and {len(item.ids) - MOST_IDS} more patterns of ids")
        yield from map(_indented, below)
    if len(block.items) > block.most:
        yield ""
        yield _line(f"and {len(block.items) - block.most} more; see --format json or html")


def _table(table: Table) -> Iterator[RenderableType]:
    grid = Grid(box=RULED, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for at, text in enumerate(table.head):
        # a head wraps between its words where the cells below it are short
        needed = max([*map(len, text.split()), *(len(one_line(plain(row[at]), MOST_LENGTH)) for row in table.rows)])
        grid.add_column(
            _line(text), justify="right" if at in table.numeric else "left", overflow="fold", max_width=max(1, needed)
        )
    for row in table.rows:
        grid.add_row(*map(_cell, row))
    if table.caption:
        yield _line(table.caption)
    yield grid
    if table.more:
        yield _line(table.more)


def _cell(cell: Cell) -> RenderableType:
    return _Id(cell.text) if isinstance(cell, Code) and " " not in cell.text else _line(cell)


def _line(words: Cell) -> Line:
    return Line(one_line(plain(words), MOST_LENGTH), overflow="fold")


class _Id:
    """An id, which has no blanks: it wraps after a comma, a full stop or a hyphen."""

    def __init__(self, text: str) -> None:
        self._text = one_line(text, MOST_LENGTH)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(min(20, len(self._text)), len(self._text))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        lines = [""]
        for part in _PARTS.findall(self._text):
            if lines[-1] and len(lines[-1]) + len(part) > options.max_width:
                lines.append("")
            lines[-1] += part
        yield from (Line(line, overflow="fold") for line in lines)
