"""Words like a wrong one, for hints."""

from collections.abc import Iterable
from difflib import get_close_matches

MOST = 3


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A question that names the known words most like a wrong one, and ends with a space; empty if none is like it."""
    names = list(known)
    found = get_close_matches(word, names, MOST) or [name for name in names if len(word) > 3 and word in name][:MOST]
    return f"did you mean {' or '.join(found)}? " if found else ""
