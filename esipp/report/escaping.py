"""Text of others in Markdown: it stays text, whatever it holds.

GitHub turns ``@name``, ``#123``, addresses and commit digests into links and mentions after it has read the Markdown,
so that no backslash hinders it; only code is spared. What could become any of these therefore stands as code.
"""

import re
import unicodedata
from collections.abc import Iterable

from esipp.checks.reference import Reference

_SPECIAL = re.compile(r"([\\`*_\[\]<>#!|~&$])")
"""What Markdown, its tables, HTML and formulas may take for more than text, anywhere but where a line begins."""

_LINKED = re.compile(r"@|#\s*\d|\bGH-\d|://|\bwww\.|\bmailto:|\bxmpp:|\b[0-9a-f]{7,40}\b|:\w+:", re.IGNORECASE)
"""What GitHub makes a mention, a reference, a link or a picture of."""

_ADDRESS = re.compile(r"https://[\w.~:/?#\[\]@!$&'*+,;=%-]+", re.ASCII)
"""An address that can stand in a link: nothing in it ends the link, or a cell of a table."""

_INVISIBLE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
"""Unicode categories of what cannot be seen: control characters, changes of direction, halves of characters."""


def one_line(text: str, most: int = 300) -> str:
    """The text on one line, without what cannot be seen, and cut where it is longer than ``most`` characters."""
    seen = "".join(" " if unicodedata.category(each) in _INVISIBLE else each for each in text[: 4 * most])
    told = " ".join(seen.split())
    return told if len(told) <= most and len(text) <= 4 * most else told[: most - 1].rstrip() + "…"


def code(text: str, most: int = 300) -> str:
    """The text as code: nothing in it means anything. An empty one is a dash."""
    told = one_line(text, most)
    if not told:
        return "-"
    longest = max((len(run) for run in re.findall(r"`+", told)), default=0)
    fence = "`" * (longest + 1)
    space = " " if told[0] == "`" or told[-1] == "`" else ""
    return f"{fence}{space}{told}{space}{fence}"


def table_cell(text: str, most: int = 120) -> str:
    """As ``code``, in a table: there a bar would begin the next cell, code or not."""
    return code(one_line(text, most).replace("|", "¦"), most)


def prose(text: str, most: int = 300) -> str:
    """The text as text where it is harmless, and as code where GitHub would link anything in it.

    Not for the beginning of a line, where more has a meaning.
    """
    told = one_line(text, most)
    return code(told, most) if _LINKED.search(told) else _SPECIAL.sub(r"\\\1", told)


def links(references: Iterable[Reference]) -> str:
    """The titles as links, or as code where an address is missing or not safe."""
    return "; ".join(map(_link, references))


def _link(reference: Reference) -> str:
    if not _ADDRESS.fullmatch(reference.url):
        return code(reference.title)
    title = _SPECIAL.sub(r"\\\1", one_line(reference.title))
    return f"[{title}]({reference.url})"


def block(text: str, most: int = 1000) -> list[str]:
    """A block of code with one line."""
    told = one_line(text, most)
    longest = max((len(run) for run in re.findall(r"`+", told)), default=0)
    fence = "`" * max(3, longest + 1)
    return [f"{fence}sh", told, fence]
