"""Covering designs: few combinations of several factors that hold every pair of values. Pure.

The full product of clients, entries, nodes, protocols, families and policies is too long for a run. Most defects need
one value or two together, so a design holds each pair that is possible at least once.
"""

import random
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any

from esipp.checks.check import Check
from esipp.checks.model import Client, Path

Row = tuple[Hashable, ...]
"""One value of each factor."""

PAIRS, THREES = 2, 3

MOST_NAMED = 20
"""From so many pairs on that no row has, a text has only their numbers, by factor and value."""


def combined(rows: Iterable[Row], several: int) -> set[tuple[tuple[int, Hashable], ...]]:
    """Return the combinations of so many values that rows hold, each value with the number of its factor."""
    return {held for row in rows for held in combinations(enumerate(row), several)}


@dataclass(frozen=True)
class Design:
    """A choice of rows from a full product.

    Args:
        factors: the names of the factors, in the order of a row's values.
        product: every possible row.
        rows: the chosen ones.
        path: the path of a row.
        checks: the checks of a row.
        absent: what it is called that a factor has no value.
    """

    factors: tuple[str, ...]
    product: tuple[Any, ...]
    rows: tuple[Any, ...]
    path: Callable[[Any], Path]
    checks: Callable[[Any], Iterable[Check]] = lambda _: ()
    absent: Mapping[str, str] = field(default_factory=dict)

    def only(self, paths: Collection[Path]) -> "Design":
        """Return the design with those of its rows that a run asks."""
        return replace(self, rows=tuple(row for row in self.rows if self.path(row) in paths))

    def share(self, several: int) -> tuple[int, int]:
        """Return how many combinations of so many values the rows hold, and how many the full product has."""
        return len(combined(self.rows, several)), len(combined(self.product, several))

    @property
    def missing(self) -> list[dict[str, str]]:
        """Return the pairs of values that the full product has and no row: each value's name by its factor."""
        return self._pairs(without=combined(self.rows, PAIRS))

    def _pairs(self, without: Collection[Any] = ()) -> list[dict[str, str]]:
        """Return the pairs of the full product by factors, and in its order; all, or without some."""
        every = {pair: None for row in self.product for pair in combinations(enumerate(row), PAIRS)}
        ordered = sorted(every, key=lambda pair: [number for number, _ in pair])
        return [{self.factors[at]: self._name(at, value) for at, value in pair} for pair in ordered
                if pair not in without]  # fmt: skip

    def _name(self, at: int, value: Hashable) -> str:
        if value is None:
            return self.absent.get(self.factors[at], "none")
        return value.name if isinstance(value, Client) else str(value)

    def not_asked(self) -> Iterator[str]:
        """Yield what no row has, as text: values, then pairs of other values by name, or many by factor and value."""
        every = Counter(item for pair in self._pairs() for item in pair.items())
        lacking = Counter(item for pair in self.missing for item in pair.items())
        absent = [item for item, count in every.items() if lacking[item] == count]
        for name in self.factors:
            if values := [value for factor, value in absent if factor == name]:
                yield f"no path has {name} {' or '.join(values)}"
        pairs = [pair for pair in self.missing if not pair.items() & absent]
        if pairs and len(pairs) < MOST_NAMED:
            yield f"no path has {'; '.join(' with '.join(pair.values()) for pair in pairs)}"
        elif pairs:
            left = Counter(item for pair in pairs for item in pair.items())
            for name in self.factors:
                values = [f"{value} {left[factor, value]}" for factor, value in every if factor == name]
                yield f"of {len(pairs)} more pairs that no path has, by {name}: {', '.join(values)}"

    @property
    def words(self) -> str:
        """Return what it asks, and how much of the full product that is, as text."""
        shares = (f"{held:,} of {all_of:,} {name}" for name, (held, all_of) in
                  (("pairs", self.share(PAIRS)), ("triples", self.share(THREES))))  # fmt: skip
        factors = f"{', '.join(self.factors[:-1])} and {self.factors[-1]}"
        return f"{len(self.rows):,} of {len(self.product):,} paths; of {factors} {' and '.join(shares)}"


def cover(product: Sequence[Row], seed: int, first: Sequence[Row] = ()) -> tuple[Row, ...]:
    """Return rows of a product that hold every pair of values in it, after those that come first.

    It is greedy: the next row is the one with most pairs that no row has yet. The same arguments give the same rows.

    Args:
        product: every possible row.
        seed: decides between rows that are equally good.
        first: rows that the design has in any case.
    """
    pairs = {pair: 1 << number for number, pair in enumerate(sorted(combined(product, PAIRS), key=repr))}
    held = {row: sum(pairs[pair] for pair in combinations(enumerate(row), PAIRS)) for row in product}
    shuffled = random.Random(seed).sample(product, len(product))
    rows = list(dict.fromkeys(first))
    left = (1 << len(pairs)) - 1
    for row in rows:
        left &= ~held[row]
    while left:
        best = max(shuffled, key=lambda row: (held[row] & left).bit_count())
        rows.append(best)
        left &= ~held[best]
    return tuple(rows)
