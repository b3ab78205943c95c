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

_ADDRESS = re.compile(r"https://[\w.~:/?#\[\]@!$&'*+,;=%-]+", re.ASCII)
"""An address that is safe in a link: nothing in it ends the link or a table cell."""

_INVISIBLE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
"""Unicode categories of invisible characters: control characters, direction changes, surrogates."""


def one_line(text: str, most: int = 300) -> str:
    """The text on one line, without invisible characters, cut to at most ``most`` characters."""
    seen = "".join(" " if unicodedata.category(each) in _INVISIBLE else each for each in text[: 4 * most])
    told = " ".join(seen.split())
    return told if len(told) <= most and len(text) <= 4 * most else told[: most - 1].rstrip() + "…"


def code(text: str, most: int = 300) -> str:
    """The text as code, which Markdown does not interpret. An empty text becomes a dash."""
    told = one_line(text, most)
    if not told:
        return "-"
    longest = max((len(run) for run in re.findall(r"`+", told)), default=0)
    fence = "`" * (longest + 1)
    space = " " if told[0] == "`" or told[-1] == "`" else ""
    return f"{fence}{space}{told}{space}{fence}"


def table_cell(text: str, most: int = 120) -> str:
    """The text as ``code`` for a table, where a bar would start the next cell."""
    return code(one_line(text, most).replace("|", "¦"), most)


def prose(text: str, most: int = 300) -> str:
    """The text escaped, or as code if GitHub would link something in it.

    Not for the start of a line, where more characters have a meaning.
    """
    told = one_line(text, most)
    return code(told, most) if _LINKED.search(told) else _SPECIAL.sub(r"\\\1", told)


def links(references: Iterable[Reference]) -> str:
    """The titles as links, or as code if the address is missing or unsafe."""
    return "; ".join(map(_link, references))


def _link(reference: Reference) -> str:
    if not _ADDRESS.fullmatch(reference.url):
        return code(reference.title)
    title = _SPECIAL.sub(r"\\\1", one_line(reference.title))
    return f"[{title}]({reference.url})"


def block(text: str, most: int = 1000) -> list[str]:
    """A code block with one line."""
    told = one_line(text, most)
    longest = max((len(run) for run in re.findall(r"`+", told)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}sh", told, fence]
