"""Covering designs: few combinations of several factors that hold every pair of values. Pure.

The full product of clients, entries, nodes, protocols, families and policies is too long for a run. Most defects need
one value or two together, so a design holds each pair that is possible at least once.
"""

import random
from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

from esipp.checks.check import Check
from esipp.checks.model import Path

Row = tuple[Hashable, ...]
"""One value of each factor."""

PAIRS, THREES = 2, 3


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
    """

    factors: tuple[str, ...]
    product: tuple[Any, ...]
    rows: tuple[Any, ...]
    path: Callable[[Any], Path]
    checks: Callable[[Any], Iterable[Check]] = lambda _: ()

    def only(self, paths: Collection[Path]) -> "Design":
        """Return the design with those of its rows that a run asks."""
        return replace(self, rows=tuple(row for row in self.rows if self.path(row) in paths))

    def share(self, several: int) -> tuple[int, int]:
        """Return how many combinations of so many values the rows hold, and how many the full product has."""
        return len(combined(self.rows, several)), len(combined(self.product, several))

    @property
    def words(self) -> str:
        """Return what it asks, and what it does not, as text."""
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
