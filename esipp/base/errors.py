"""Errors that are not the product's fault: one sentence, one hint, one exit code (docs/architecture.md, law 8);
hints about a word that is like a known one.
"""

import contextlib
from collections.abc import Iterable, Iterator
from difflib import get_close_matches
from enum import IntEnum

from esipp.base.redaction import redact


class ExitCode(IntEnum):
    """The exit codes of every esipp command."""

    CONFORMANT = 0
    NOT_CONFORMANT = 1
    INTERRUPTED = 2
    HARNESS = 3
    USAGE = 4
    NOTHING_SELECTED = 5


class EsippError(Exception):
    """A failure of esipp or its environment: a sentence and a hint, both without secrets.

    Args:
        sentence: what is wrong, in one sentence.
        hint: what to do about it.
    """

    exit_code = ExitCode.HARNESS

    def __init__(self, sentence: str, hint: str = "") -> None:
        self.sentence = redact(sentence)
        self.hint = redact(hint)
        super().__init__(self.sentence)

    def __str__(self) -> str:
        return f"{self.sentence}\n  hint: {self.hint}" if self.hint else self.sentence


class PreflightError(EsippError):
    """An error before anything was created: invalid input, missing rights, an unfit cluster."""

    exit_code = ExitCode.USAGE


class HarnessError(EsippError):
    """An error during a run: the verdict on the product is open, not negative."""

    exit_code = ExitCode.HARNESS


@contextlib.contextmanager
def if_not_writable(sentence: str, hint: str) -> Iterator[None]:
    """Refuse what the file system refuses in the body: with this sentence, which ends with why, and this hint."""
    try:
        yield
    except OSError as broken:
        raise PreflightError(f"{sentence}: {broken.strerror}.", hint) from None


MOST_NAMES = 3


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A question that names the known words most like a wrong one, and ends with a space; empty if none is like it."""
    names = list(known)
    found = (
        get_close_matches(word, names, MOST_NAMES)
        or [name for name in names if len(word) > 3 and word in name][:MOST_NAMES]
    )
    return f"did you mean {' or '.join(found)}? " if found else ""


def which_check(pattern: str, ids: Iterable[str]) -> str:
    """A hint for a pattern that matches no check: the parts of ids, and the ids, that are most like it."""
    names, words = list(ids), pattern.strip("*.").split(".")
    parts = {".".join(name.split(".")[: len(words)]) for name in names}
    return f"{did_you_mean(pattern, sorted(parts)) or did_you_mean(pattern, names)}'esipp list' lists all checks."
