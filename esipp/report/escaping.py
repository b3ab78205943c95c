"""Markdown escaping for text from outside.

GitHub turns ``@name``, ``#123``, addresses and commit digests into links and mentions after it has parsed the Markdown.
Backslashes do not prevent that; only code is exempt. Text that could become a link is therefore written as code.
"""

import re
import unicodedata
from collections.abc import Iterable

from esipp.checks.reference import Reference

_SPECIAL = re.compile(r"([\\`*_\[\]<>#!|~&$])")
"""Characters with a meaning in Markdown, tables, HTML or formulas, anywhere but at the start of a line."""

_LINKED = re.compile(r"@|#\s*\d|\bGH-\d|://|\bwww\.|\bmailto:|\bxmpp:|\b[0-9a-f]{7,40}\b|:\w+:", re.IGNORECASE)
"""Text that GitHub turns into a mention, a reference, a link or a picture."""

ADDRESS = re.compile(r"https://[\w.~:/?#\[\]@!$&'*+,;=%-]+", re.ASCII)
"""An address that is safe in a link: nothing in it ends the link or a table cell."""

_INVISIBLE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
"""Unicode categories of invisible characters: control characters, direction changes, surrogates."""


def one_line(text: str, most: int = 300) -> str:
    """The text on one line, without invisible characters, cut to at most ``most`` characters."""
    seen = "".join(" " if unicodedata.category(each) in _INVISIBLE else each for each in text[: 4 * most])
    line = " ".join(seen.split())
    return line if len(line) <= most and len(text) <= 4 * most else line[: most - 1].rstrip() + "…"


def code(text: str, most: int = 300) -> str:
    """The text as code, which Markdown does not interpret. An empty text becomes a dash."""
    line = one_line(text, most)
    if not line:
        return "-"
    longest = max((len(run) for run in re.findall(r"`+", line)), default=0)
    fence = "`" * (longest + 1)
    space = " " if line[0] == "`" or line[-1] == "`" else ""
    return f"{fence}{space}{line}{space}{fence}"


def table_cell(text: str, most: int = 120) -> str:
    """The text as ``code`` for a table, where a bar would start the next cell."""
    return code(one_line(text, most).replace("|", "¦"), most)


def prose(text: str, most: int = 300) -> str:
    """The text escaped, or as code if GitHub would link something in it.

    Not for the start of a line, where more characters have a meaning.
    """
    line = one_line(text, most)
    return code(line, most) if _LINKED.search(line) else _SPECIAL.sub(r"\\\1", line)


def links(references: Iterable[Reference]) -> str:
    """The titles as links, or as code if the address is missing or unsafe."""
    return "; ".join(map(_link, references))


def _link(reference: Reference) -> str:
    if not ADDRESS.fullmatch(reference.url):
        return code(reference.title)
    title = _SPECIAL.sub(r"\\\1", one_line(reference.title))
    return f"[{title}]({reference.url})"


def block(text: str, most: int = 1000) -> list[str]:
    """A code block with one line."""
    line = one_line(text, most)
    longest = max((len(run) for run in re.findall(r"`+", line)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}sh", line, fence]
