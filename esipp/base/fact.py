"""Facts about a cluster."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Fact:
    """A fact about a cluster, and how esipp determined it."""

    value: str
    decided: str
