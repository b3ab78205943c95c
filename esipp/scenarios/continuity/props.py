"""What the continuity suite has on the stage."""

from esipp.checks.check import Row
from esipp.scenarios.continuity.objects import continuity_props
from esipp.testbed.objects import Ground, Props


def props(rows: list[Row], ground: Ground) -> Props:
    """Everything these rows need."""
    return continuity_props(rows, ground)
