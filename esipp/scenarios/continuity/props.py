"""Testbed objects that the continuity checks need."""

from esipp.checks.check import Check
from esipp.scenarios.continuity.objects import continuity_props
from esipp.testbed.objects import Ground, Objects


def props(checks: list[Check], ground: Ground) -> Objects:
    """Everything these checks need."""
    return continuity_props(checks, ground)
