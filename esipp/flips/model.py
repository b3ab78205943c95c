"""Rows about traffic while policies flip."""

from dataclasses import dataclass

from esipp.rows import Row


@dataclass(frozen=True, kw_only=True)
class FlipRow(Row):
    """A row that is judged from what flowed while policies flipped."""
