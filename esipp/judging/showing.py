"""What the sections of several scenarios share: numbers that a ledger may lack, counts in words, malformed evidence."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence

from esipp.base.document import MISSING, Block, Section, Strong, Text


def attempt(what: str, make: Callable[[], Iterable[Block]]) -> list[Block]:
    """The blocks; a note instead if their evidence is malformed."""
    try:
        return list(make())
    except (LookupError, ValueError, TypeError, AttributeError, ArithmeticError) as broken:
        why = f"{type(broken).__name__}: {shorten(broken)}"
        return [Text((Strong(f"{what} cannot be shown"), f": the evidence is malformed ({why})."))]


def attempted(name: str, title: str, parts: Mapping[str, Callable[[], Iterable[Block]]]) -> Section:
    """A section of parts, each by what it shows; a part with malformed evidence hinders no other."""
    return Section(title, tuple(block for what, make in parts.items() for block in attempt(what, make)), f"seen-{name}")


def headed(title: str, blocks: Iterable[Block]) -> list[Block]:
    """The blocks under a heading; nothing without any."""
    inner = tuple(blocks)
    return [Section(title, inner)] if inner else []


def shorten(text: object, most: int = 60) -> str:
    """The text cut to at most ``most`` characters."""
    whole = str(text)
    return whole if len(whole) <= most else whole[: most - 1] + "…"


def real(value: object) -> float | None:
    """A finite number, or None."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    return float(value)


def quantile(samples: Sequence[float], share: float) -> float:
    """The quantile by nearest rank, as in the ledger: the smallest sample that this share of all does not exceed."""
    ordered = sorted(samples)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def summed(found: Iterable[Mapping[str, int] | None]) -> Counter[str]:
    """The sum of several counts."""
    total: Counter[str] = Counter()
    for each in found:
        for what, count in (each or {}).items():
            total[str(what)] += int(count)
    return total


def tallied(tally: Counter[str], most: int = 8) -> str:
    """Counts in words, the most frequent first."""
    ordered = sorted(tally.items(), key=lambda item: (-item[1], item[0]))
    words = "; ".join(f"{shorten(' '.join(what.split()), 90)} x{count}" for what, count in ordered[:most])
    left = len(ordered) - most
    return words + (f"; and {left} other kinds" if left > 0 else "") if words else MISSING
