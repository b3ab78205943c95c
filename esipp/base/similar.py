"""Words like a wrong one, for hints."""

from collections.abc import Iterable
from difflib import get_close_matches

MOST = 3


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A question that names the known words most like a wrong one, and ends with a space; empty if none is like it."""
    names = list(known)
    found = get_close_matches(word, names, MOST) or [name for name in names if len(word) > 3 and word in name][:MOST]
    return f"did you mean {' or '.join(found)}? " if found else ""


def which_check(pattern: str, ids: Iterable[str]) -> str:
    """A hint for a pattern that matches no check: the parts of ids, and the ids, that are most like it."""
    names, words = list(ids), pattern.strip("*.").split(".")
    parts = {".".join(name.split(".")[: len(words)]) for name in names}
    return f"{did_you_mean(pattern, sorted(parts)) or did_you_mean(pattern, names)}'esipp list' lists all checks."
