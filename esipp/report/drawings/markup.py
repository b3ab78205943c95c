"""HTML elements, tables and sections; all text is escaped. Pure."""

import html
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from esipp.base.plural import counted as many

NOTHING = "\u2013"
"""Replaces a missing number."""

FORBIDDEN = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that no document may hold: most control characters, and surrogates."""

MOST_ROWS = 120
"""Maximum number of lines of a table; a note counts the rest."""


class Html(str):
    """Escaped markup."""

    __slots__ = ()


@dataclass(frozen=True)
class Section:
    """A section of the page.

    Args:
        id: the id of its element; all ids within begin with it.
        title: plain text, not escaped.
        html: markup, escaped.
    """

    id: str
    title: str
    html: str


def esc(text: object) -> Html:
    """Text as markup; forbidden characters become replacement characters."""
    if isinstance(text, Html):
        return text
    return Html(html.escape(FORBIDDEN.sub("\ufffd", str(text))))


def shorten(text: object, most: int = 60) -> str:
    """The text cut to at most ``most`` characters."""
    said = str(text)
    return said if len(said) <= most else said[: most - 1] + "…"


def joined(parts: Iterable[object], by: str = "") -> Html:
    """Several pieces joined; pieces that are not markup are escaped, empty ones left out."""
    return Html(by.join(esc(part) for part in parts if part != ""))


def tag(name: str, *inner: object, **attributes: object) -> Html:
    """An element; ``class_`` stands for ``class``, ``aria_label`` for ``aria-label``."""
    said = "".join(f' {key.rstrip("_").replace("_", "-")}="{esc(value)}"' for key, value in attributes.items())
    return Html(f"<{name}{said}>{joined(inner)}</{name}>")


def number(value: float | None, digits: int = 2) -> str:
    """A number of a table; a dash for None."""
    if value is None:
        return NOTHING
    said = f"{value:.{digits}f}"
    return said.removeprefix("-") if not said.strip("-0.") else said


def table(head: Sequence[str], rows: Iterable[Sequence[object]], caption: object = "") -> Html:
    """A table; the first cell of a line is its head, numbers are aligned to the right."""
    lines = [list(row) for row in rows]
    shown = lines[:MOST_ROWS]
    numeric = {
        at for at in range(len(head)) if at and any(isinstance(row[at], (int, float)) for row in shown if at < len(row))
    }
    heads = joined(
        tag("th", text, scope="col", class_="num") if at in numeric else tag("th", text, scope="col")
        for at, text in enumerate(head)
    )
    body = joined((_line(row, numeric) for row in shown), "\n")
    title = tag("caption", caption) if caption else ""
    made = tag(
        "table", title, tag("thead", tag("tr", heads)), "\n", tag("tbody", body), class_="figures", style="width:auto"
    )
    left = len(lines) - len(shown)
    more = tag("p", f"and {many(left, 'more line')} in the ledger") if left else ""
    return tag("div", made, more, class_="scroll", tabindex="0", role="region", aria_label=_plain(caption or head[0]))


def _plain(text: object) -> str:
    """The plain text of markup, for a label."""
    said = str(text)
    return html.unescape(said) if isinstance(text, Html) and "<" not in said else said.replace("<", " ")


def _line(row: Sequence[object], numeric: set[int]) -> Html:
    cells = [tag("th", _cell(row[0]), scope="row")]
    cells += [
        tag("td", _cell(cell), class_="num") if at in numeric else tag("td", _cell(cell))
        for at, cell in enumerate(row[1:], 1)
    ]
    return tag("tr", *cells)


def _cell(cell: object) -> str:
    if cell is None:
        return NOTHING
    return number(cell) if isinstance(cell, float) else cell if isinstance(cell, str) else str(cell)


def details(summary: object, *inner: object) -> Html:
    """A foldable part."""
    return tag("details", tag("summary", summary), *inner)


def figure(drawing: object, caption: object, *below: object) -> Html:
    """A figure with its caption."""
    return tag("figure", drawing, tag("figcaption", caption), *below, class_="drawing")


def heading(text: object) -> Html:
    """The heading of a part of a section."""
    return tag("h3", text)


def paragraph(*inner: object) -> Html:
    """A paragraph."""
    return tag("p", *inner)


def attempt(what: str, make: Callable[[], Html | str]) -> Html:
    """A part of a section; a note instead if its evidence is malformed."""
    try:
        return esc(make())
    except (LookupError, ValueError, TypeError, AttributeError, ArithmeticError) as broken:
        why = f"{type(broken).__name__}: {shorten(broken)}"
        return paragraph(tag("strong", f"{what} cannot be shown"), f": the evidence is malformed ({why}).")


def real(value: object) -> float | None:
    """A finite number, or None."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return float(value)


def quantile(samples: Sequence[float], share: float) -> float:
    """The quantile by nearest rank, as in the ledger: the smallest sample that this share of all does not exceed."""
    ordered = sorted(samples)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def summed(found: Iterable[Mapping[str, int] | None]) -> Counter[str]:
    """The sum of several counts."""
    total: Counter[str] = Counter()
    for each in found:
        for what, count in (each or {}).items():
            total[str(what)] += int(count)
    return total


def counted(tally: Counter[str], most: int = 8) -> str:
    """Counts in words, the most frequent first."""
    ordered = sorted(tally.items(), key=lambda item: (-item[1], item[0]))
    said = "; ".join(f"{shorten(' '.join(what.split()), 90)} x{count}" for what, count in ordered[:most])
    left = len(ordered) - most
    return said + (f"; and {left} other kinds" if left > 0 else "") if said else NOTHING
