"""What stands on the stage for flips."""

from esipp.props import Ground, Props
from esipp.rows import Row


def props(rows: list[Row], ground: Ground) -> Props:
    """Everything these rows need."""
    del rows, ground
    return Props()
