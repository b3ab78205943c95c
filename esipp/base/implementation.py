"""What the user says was tested (``--implementation key=value``): the head of a conformance report."""

from collections.abc import Iterable
from typing import Any

from esipp.base.errors import PreflightError

FIELDS = ("organization", "project", "url", "version", "contact")
"""Gateway API's words; there may be several contacts, and one of each other."""

Pairs = tuple[tuple[str, str], ...]


def read_implementation(words: Iterable[str]) -> Pairs:
    """Keys and values of ``key=value`` words, in their order.

    Raises:
        PreflightError: a word is none, its key is unknown, or is said twice.
    """
    pairs: list[tuple[str, str]] = []
    for word in words:
        name, equals, value = word.partition("=")
        hint = f"key=value, with {', '.join(FIELDS)}; contact may be repeated."
        if not equals or not value.strip() or name not in FIELDS:
            raise PreflightError(f"--implementation '{word}' says nothing of what is tested.", hint)
        if name != "contact" and name in dict(pairs):
            raise PreflightError(f"--implementation says the {name} twice.", hint)
        pairs.append((name, value.strip()))
    return tuple(pairs)


def as_json(pairs: Pairs) -> dict[str, Any]:
    """The same as the ledger's header has it: only what was said, the contacts as a list."""
    told: dict[str, Any] = {name: value for name, value in pairs if name != "contact"}
    contacts = [value for name, value in pairs if name == "contact"]
    return told | ({"contact": contacts} if contacts else {})
