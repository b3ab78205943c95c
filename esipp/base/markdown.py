"""Tables in Markdown, for generated pages."""

from collections.abc import Iterable, Iterator, Sequence


def table(heads: Sequence[str], rows: Iterable[Iterable[object]]) -> Iterator[str]:
    """The lines of a table.

    Args:
        heads: the titles of the columns.
        rows: the cells of each row, which are Markdown already: without line breaks and unescaped bars.
    """
    yield f"| {' | '.join(heads)} |"
    yield f"|{'---|' * len(heads)}"
    yield from (f"| {' | '.join(map(str, cells))} |" for cells in rows)


def table_text(heads: Sequence[str], rows: Iterable[Iterable[object]]) -> str:
    """The same as one text, which ends with a line break."""
    return "".join(f"{line}\n" for line in table(heads, rows))
