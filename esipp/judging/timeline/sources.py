"""Sources: which addresses pods saw, and which of them are right. Pure."""

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field

from esipp.judging.timeline.streams import Sample
from esipp.judging.topology import IPAddress, parse_address

Sourced = tuple[Sample, Collection[IPAddress]]
"""An answer, and its right sources."""


@dataclass
class Sources:
    """The number of answers by their source; ``first`` is the first answer with a wrong one."""

    right: Counter[str] = field(default_factory=Counter)
    wrong: Counter[str] = field(default_factory=Counter)
    first: Sample | None = None

    @property
    def total(self) -> int:
        """The answers with a source."""
        return self.right.total() + self.wrong.total()

    @property
    def words(self) -> str:
        """How many are right, as text."""
        return f"the right source in {self.right.total()} of {self.total} answers"

    @property
    def fault(self) -> str:
        """The wrong sources, as text; empty if there are none."""
        return f"wrong sources: {say_sources(self.wrong)}" if self.wrong else ""


def say_sources(counts: Counter[str]) -> str:
    """Addresses and their numbers, as text."""
    return ", ".join(f"{source} x{count}" for source, count in sorted(counts.items()))


def sources(answers: Iterable[Sourced]) -> Sources:
    """Count the answers by their source."""
    found = Sources()
    for sample, allowed in answers:
        if not sample.source:
            continue
        if parse_address(sample.source) in allowed:
            found.right[sample.source] += 1
        else:
            found.wrong[sample.source] += 1
            found.first = found.first or sample
    return found
