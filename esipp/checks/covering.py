"""Covering designs: few combinations of several factors that hold every pair of values. Pure.

The full product of clients, entries, nodes, protocols, families and policies is too long for a run. Most defects need
one value or two together, so a design holds each pair that is possible at least once.
"""

import random
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Generic

from typing_extensions import TypeVar

Row = tuple[Hashable, ...]
"""One value of each factor."""

V = TypeVar("V", bound=Row)


def combined(rows: Iterable[Row], several: int) -> set[tuple[tuple[int, Hashable], ...]]:
    """Return the combinations of so many values that rows hold, each value with the number of its factor."""
    return {held for row in rows for held in combinations(enumerate(row), several)}


@dataclass(frozen=True)
class Covering(Generic[V]):
    """A choice of rows from a full product.

    Args:
        factors: the names of the factors, in the order of a row's values.
        product: every possible row.
        rows: the chosen ones.
    """

    factors: tuple[str, ...]
    product: tuple[V, ...]
    rows: tuple[V, ...]

    @cached_property
    def _possible(self) -> dict[int, int]:
        return {several: len(combined(self.product, several)) for several in (2, 3)}

    def share(self, several: int, rows: Iterable[V] | None = None) -> tuple[int, int]:
        """Return how many combinations of so many values these rows hold, and how many the full product has.

        Args:
            several: 2 for pairs, 3 for threes.
            rows: by default all rows of the design.
        """
        return len(combined(self.rows if rows is None else rows, several)), self._possible[several]


def cover(factors: Sequence[str], product: Sequence[V], seed: int, first: Sequence[V] = ()) -> Covering[V]:
    """Return rows of a product that hold every pair of values in it, after those that come first.

    It is greedy: the next row is the one with most pairs that no row has yet. The same arguments give the same rows.

    Args:
        factors: the names of the factors.
        product: every possible row.
        seed: decides between rows that are equally good.
        first: rows that the design has in any case.
    """
    pairs = {pair: 1 << number for number, pair in enumerate(sorted(combined(product, 2), key=repr))}
    held = {row: sum(pairs[pair] for pair in combinations(enumerate(row), 2)) for row in product}
    shuffled = list(product)
    random.Random(seed).shuffle(shuffled)  # noqa: S311 - no secret
    rows = list(dict.fromkeys(first))
    left = (1 << len(pairs)) - 1
    for row in rows:
        left &= ~held[row]
    while left:
        best = max(shuffled, key=lambda row: (held[row] & left).bit_count())
        rows.append(best)
        left &= ~held[best]
    return Covering(tuple(factors), tuple(product), tuple(rows))
