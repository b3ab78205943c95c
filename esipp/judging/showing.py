"""What the sections of several scenarios share: numbers that a ledger may lack, counts in words, malformed evidence."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from esipp.base.document import MISSING, Block, Section, Strong, Text
from esipp.base.drawing import INK, Drawing, Scale
from esipp.checks.model import Balancer
from esipp.judging.timeline import Stretch

T = TypeVar("T")


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


def of_the_cluster(found: Iterable[T], balancer: Callable[[T], Balancer | None]) -> tuple[list[T], str]:
    """What the key figures are about: the cluster's own load balancer and its nodePorts (``balancer`` is None).

    The reference load balancer is our instrument: what it does counts only where there is nothing else, and the words
    that come second say so.
    """
    every = list(found)
    own = [each for each in every if balancer(each) in (Balancer.DEFAULT, None)]
    return (own, "") if own else (every, " (reference load balancer)")


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


def summed(found: Iterable[Mapping[str, int] | None]) -> Counter[str]:
    """The sum of several counts."""
    total: Counter[str] = Counter()
    for each in found:
        for what, count in (each or {}).items():
            total[str(what)] += int(count)
    return total


MOST_KINDS = 8


def tallied(tally: Counter[str]) -> str:
    """Counts in words, the most frequent first."""
    ordered = sorted(tally.items(), key=lambda item: (-item[1], item[0]))
    words = "; ".join(f"{shorten(' '.join(what.split()), 90)} x{count}" for what, count in ordered[:MOST_KINDS])
    left = len(ordered) - MOST_KINDS
    return words + (f"; and {left} other kinds" if left > 0 else "") if words else MISSING


def health_strip(drawing: Drawing, found: Iterable[Stretch], scale: Scale, y: float) -> None:
    """A strip of a health check's answers: 200 a full bar, 503 an empty bar, no answer a dotted line."""
    for each in found:
        if each.until < scale.low or each.since > scale.high:
            continue
        left, right = scale(max(each.since, scale.low)), scale(min(each.until, scale.high))
        if each.outcome == "200":
            drawing.box(left, y, right - left, 9, fill=INK)
        elif each.outcome == "503":
            drawing.box(left, y, right - left, 9, stroke=INK)
        else:
            drawing.line((left, y + 5), (max(right, left + 2), y + 5), stroke=INK, wide=1.4, dash="1.5 2.5")
        if right - left > 34 and each.outcome in ("200", "503"):
            fill = "var(--paper,#fff)" if each.outcome == "200" else INK
            drawing.text(left + 4, y + 8, each.outcome, size=9, fill=fill)
