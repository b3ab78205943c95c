"""What the compatibility suite has on the stage."""

from esipp.flips.model import FlipRow
from esipp.flips.props import props as flip_props
from esipp.props import Ground, Props
from esipp.rows import Row


def props(rows: list[Row], ground: Ground) -> Props:
    """Everything these rows need; rows about the API alone make their own Services."""
    flips: list[Row] = [row for row in rows if isinstance(row, FlipRow)]
    return flip_props(flips, ground) if flips else Props()
