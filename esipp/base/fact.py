"""A fact: what was found about a cluster, and how that was decided."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Fact:
    """What was found, and how that was decided."""

    value: str
    decided: str
