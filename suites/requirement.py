"""What checks of scenarios say about themselves."""

from dataclasses import dataclass

from esipp.checks.check import Level
from esipp.checks.reference import Reference
from esipp.checks.timing import GIVES_UP

IN_TIME = f"an answer within the timeout of the load balancer's health checks ({GIVES_UP:.0f} s if no profile names it)"
"""The expectation of checks of how soon health ports answer."""


@dataclass(frozen=True)
class Requirement:
    """The requirement of a check as a sentence, what it expects, which fault it detects, its references, its level."""

    sentence: str
    expected: str
    fails_if: str
    references: tuple[Reference, ...]
    level: Level = Level.CORE
