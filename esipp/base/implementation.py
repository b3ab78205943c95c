"""The tested implementation, as the user describes it with ``--implementation`` for the conformance report."""

from collections.abc import Iterable
from typing import Any

from esipp.base.errors import PreflightError

FIELDS = ("organization", "project", "url", "version", "contact")
"""The fields, as in Gateway API. Only contact may be repeated."""

Pairs = tuple[tuple[str, str], ...]


def read_implementation(values: Iterable[str]) -> Pairs:
    """Parse ``key=value`` pairs.

    Raises:
        PreflightError: a pair is invalid, or its key is unknown or repeated.
    """
    pairs: list[tuple[str, str]] = []
    for given in values:
        name, equals, value = given.partition("=")
        hint = f"use KEY=VALUE with a key of {', '.join(FIELDS)}; contact may be repeated."
        if not equals or not value.strip() or name not in FIELDS:
            raise PreflightError(f"--implementation '{given}' is invalid.", hint)
        if name != "contact" and name in dict(pairs):
            raise PreflightError(f"--implementation sets {name} twice.", hint)
        pairs.append((name, value.strip()))
    return tuple(pairs)


def as_json(pairs: Pairs) -> dict[str, Any]:
    """The pairs as JSON for the ledger's header, with the contacts as a list."""
    fields: dict[str, Any] = {name: value for name, value in pairs if name != "contact"}
    contacts = [value for name, value in pairs if name == "contact"]
    return fields | ({"contact": contacts} if contacts else {})
