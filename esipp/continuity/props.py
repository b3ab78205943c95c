"""What the continuity suite has on the stage."""

from esipp.continuity.scene import continuity_props
from esipp.props import Ground, Props
from esipp.rows import Row


def props(rows: list[Row], ground: Ground) -> Props:
    """Everything these rows need."""
    return continuity_props(rows, ground)
