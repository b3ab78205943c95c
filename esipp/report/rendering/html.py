"""A document as one HTML page that loads nothing. All text is escaped; the policy allows our own style and script.

``page.html.j2`` and ``page.css`` are the one template and the one style sheet; report.html extends the template.
"""

import base64
import hashlib
import re
from collections.abc import Iterable
from itertools import count
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup, escape

from esipp.base.document import (
    Block,
    Cell,
    Code,
    Command,
    Document,
    Figure,
    Fold,
    Inline,
    Items,
    Pairs,
    Section,
    Strong,
    Table,
    Text,
    clean,
    parts,
    plain,
)

HERE = Path(__file__).parent

BESIDE = re.compile(r"([\w-]+/)*[\w-]+\.html(#[\w=.-]+)?", re.ASCII)
"""The address of a page of the same site."""


def as_html(document: Document) -> str:
    """The page of a document."""
    return page("page.html.j2", HERE, document=document)


def page(template: str, folder: Path, *, script: Markup | str = "", **data: Any) -> str:
    """A page from a template of ours, in ``folder`` or here, with the one style sheet."""
    made = jinja2.Environment(
        loader=jinja2.FileSystemLoader([folder, HERE]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_clean,
    )
    made.globals.update(blocks=blocks, digest=_digest)
    style = Markup((HERE / "page.css").read_text(encoding="utf-8"))  # noqa: S704 - our own file
    return made.get_template(template).render(style=style, script=script, **data) + "\n"


def _clean(text: Any) -> Any:
    return type(text)(clean(text)) if isinstance(text, str) else text


def _digest(text: str) -> str:
    """The digest of a style or a script for the content security policy."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


# ------------------------------------------------------------------------------------------------------------- markup
def tag(name: str, *inner: object, **attributes: object) -> Markup:
    """An element; ``class_`` stands for ``class``, ``aria_label`` for ``aria-label``. Empty attributes are left out."""
    said = (
        Markup(' {}="{}"').format(key.rstrip("_").replace("_", "-"), clean(str(value)))
        for key, value in attributes.items()
        if value != ""
    )
    return Markup("<{0}{1}>{2}</{0}>").format(name, Markup().join(said), joined(inner))


def joined(inner: Iterable[object]) -> Markup:
    """Several pieces; those that are not markup are escaped."""
    return Markup().join(escape(_clean(each)) for each in inner)


def blocks(of: Iterable[Block], level: int = 2) -> Markup:
    """The markup of blocks; their headings begin at ``level``."""
    numbers = count(1)
    return Markup("\n").join(
        _section(each, f"s{next(numbers)}") if level == 2 and isinstance(each, Section) else _of(each, level)
        for each in of
    )


def _section(section: Section, number: str) -> Markup:
    """A section of the page, with a landmark and an id."""
    name = section.id or number
    head = tag("h2", section.title, id=f"{name}-h")
    return tag("section", head, "\n", blocks(section.blocks, 3), id=name, class_="drawn", aria_labelledby=f"{name}-h")


def _of(block: Block, level: int) -> Markup:
    match block:
        case Section():
            return joined([tag(f"h{min(level, 6)}", block.title), "\n", blocks(block.blocks, level + 1)])
        case Text():
            return tag("p", *map(inline, parts(block.words)))
        case Command():
            copy = tag("button", "Copy", type="button", class_="copy", hidden="hidden", data_copy=block.text)
            return tag("div", tag("pre", tag("code", block.text), tabindex="0"), copy, class_="command")
        case Pairs():
            return tag("dl", *(_pair(label, words) for label, words in block.pairs), class_="details")
        case Items():
            return _items(block, level)
        case Table():
            return _table(block)
        case Figure():
            drawing = Markup(block.drawing.render())  # noqa: S704 - the drawing escapes its text
            wide = tag("div", drawing, class_="scroll", tabindex="0", role="region", aria_label=block.drawing.title)
            return tag("figure", wide, tag("figcaption", block.caption), class_="drawing")
        case Fold():
            return tag("details", tag("summary", block.summary), blocks(block.blocks, level))


def _pair(label: str, words: Cell) -> Markup:
    return tag("div", tag("dt", label), tag("dd", _cell(words)))


def _items(items: Items, level: int) -> Markup:
    made = []
    for item in items.items:
        head = tag(f"h{min(level, 6)}", *map(inline, parts(item.head)))
        details = _of(Pairs(item.details), level) if item.details else ""
        ids = tag("ul", *(tag("li", tag("code", each)) for each in item.ids), class_="links") if item.ids else ""
        more = blocks(item.blocks, level + 1)
        kind = f"trouble t-{item.tone or 'plain'}"
        made.append(tag("article", head, details, ids, more, id=item.id, class_=kind))
    return Markup("\n").join(made)


def _table(table: Table) -> Markup:
    kinds = dict.fromkeys(_wordy(table), "wordy") | dict.fromkeys(table.numeric, "num")

    def row(cells: Iterable[Cell], first: str, others: str) -> Markup:
        made = []
        for at, cell in enumerate(cells):
            scope = others if at else first
            made.append(tag("th" if scope else "td", _cell(cell), scope=scope, class_=kinds.get(at, "")))
        return tag("tr", *made)

    caption = tag("caption", table.caption) if table.caption else ""
    head = tag("thead", row(table.head, "col", "col"))
    body = tag("tbody", *(Markup("{}\n").format(row(each, "row", "")) for each in table.rows))
    more = tag("p", table.more) if table.more else ""
    name = table.caption or next(filter(None, table.head), "Table")
    made = tag("table", caption, head, "\n", body, class_="figures")
    return tag("div", made, more, class_="scroll", tabindex="0", role="region", aria_label=name)


WORDY = 40
"""From this number of characters on, words in a cell need a wider column on a phone."""


def _wordy(table: Table) -> set[int]:
    """The columns that hold sentences; the first says what a row is about."""
    return {at for row in table.rows for at, cell in enumerate(row) if at and len(plain(cell)) >= WORDY}


def _cell(cell: Cell) -> Markup:
    if cell is None or isinstance(cell, (int, float)):
        return escape(plain(cell))
    return joined(map(inline, parts(cell)))


def inline(part: Inline) -> Markup:
    """The markup of words; only HTTPS, places on the page and pages beside it are linked, as a ledger can come from
    anywhere.
    """
    if isinstance(part, str):
        return escape(clean(part))
    if isinstance(part, Code):
        return tag("code", part.text)
    if isinstance(part, Strong):
        return tag("strong", part.text, class_=f"v v-{part.tone}" if part.tone else "")
    if part.url.startswith("#") or BESIDE.fullmatch(part.url):
        return tag("a", part.text, href=part.url)
    return (
        tag("a", part.text, href=part.url, rel="noreferrer") if part.url.startswith("https://") else escape(part.text)
    )
