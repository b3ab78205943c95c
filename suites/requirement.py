"""What checks of scenarios say about themselves."""

from dataclasses import dataclass

from esipp.checks.check import Level
from esipp.checks.reference import Reference


@dataclass(frozen=True)
class Requirement:
    """The requirement of a check as a sentence, what it expects, which fault it detects, its references, its level."""

    sentence: str
    expected: str
    fails_if: str
    references: tuple[Reference, ...]
    level: Level = Level.CORE
