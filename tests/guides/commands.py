"""Commands in pages: what a reader would paste into a shell. No cluster, no shell."""

import re
import shlex
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from esipp.checks.catalog import HOUSE

_BLOCK = re.compile(r"^```console\n(.*?)^```", re.DOTALL | re.MULTILINE)
_PROMPT = "$ "
_OPERATORS = "&;|"


@dataclass(frozen=True)
class Command:
    """A command of a page, as a shell reads it: it may have several lines.

    Args:
        page: the page, from the root of the checkout.
        line: the number of its first line there.
        text: the command, without the prompt.
    """

    page: str
    line: int
    text: str

    @property
    def where(self) -> str:
        """Page and line."""
        return f"{self.page}:{self.line}"

    @property
    def first(self) -> str:
        """The command in one line without its comment, for readers."""
        words = " ".join(re.sub(r"\s+#\s.*", "", self.text).replace("\\\n", " ").split())
        return words if len(words) <= 100 else f"{words[:99]}…"


def name_of(page: Path) -> str:
    """A page, from the root of the checkout."""
    return str(page.relative_to(HOUSE))


def of_page(page: Path) -> list[Command]:
    """The commands of a page's console blocks; lines that are output are left out."""
    text, found = page.read_text(), list[Command]()
    for block in _BLOCK.finditer(text):
        at = text.count("\n", 0, block.start(1)) + 1
        lines = block[1].splitlines()
        for number, line in enumerate(lines):
            if line.startswith(_PROMPT):
                found.append(Command(name_of(page), at + number, _whole(lines[number:]).removeprefix(_PROMPT)))
    return found


def _whole(lines: list[str]) -> str:
    """The command that begins with the first of these lines, with its continuation."""
    taken = list[str]()
    for line in lines:
        taken.append(line)
        text = "\n".join(taken)
        in_loop = len(re.findall(r"\bdo\b", text)) > len(re.findall(r"\bdone\b", text))
        if not line.endswith("\\") and not in_loop:
            break
    return "\n".join(taken)


def of_esipp(commands: list[Command]) -> list[list[str]]:
    """The command lines of esipp among these, with what earlier ones assign put for variables."""
    known: dict[str, str] = {}
    found = []
    for each in commands:
        lexer = shlex.shlex(each.text.replace("\\\n", " "), posix=True, punctuation_chars=_OPERATORS)
        lexer.whitespace_split = True
        for operator, part in groupby(lexer, lambda word: not word.strip(_OPERATORS)):
            words = [] if operator else list(part)
            while words and (given := re.fullmatch(r"([A-Z_]+)=(.*)", words[0])):
                known[given[1]] = put(given[2], known)
                words.pop(0)
            words = words[1:] if words[:1] == ["./ci/enter"] else words
            if words[:1] == ["esipp"]:
                found.append([put(word, known) for word in words[1:]])
    return found


def put(word: str, known: dict[str, str]) -> str:
    """A word with variables replaced; unknown ones become a name that fits anywhere."""
    found = re.sub(r"\$\{?(\w+)\}?", lambda match: known.get(match[1], "example"), word)
    return "example" if found in ("…", "") else found.replace("…", "example")
