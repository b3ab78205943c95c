"""Covering designs: few combinations of several factors that hold every pair of values. Pure.

The full product of clients, entries, nodes, protocols, families and policies is too long for a run. Most defects need
one value or two together, so a design holds each pair that is possible at least once.
"""

import random
from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, reduce
from itertools import combinations
from operator import or_
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
        elsewhere: those of the chosen rows that are asked without the design.
        excluded: rows that are not in the product, each with the reason.
    """

    factors: tuple[str, ...]
    product: tuple[Any, ...]
    rows: tuple[Any, ...]
    path: Callable[[Any], Path]
    checks: Callable[[Any], Iterable[Check]] = lambda _: ()
    absent: Mapping[str, str] = field(default_factory=dict)
    elsewhere: frozenset[Any] = frozenset()
    excluded: tuple[tuple[Any, str], ...] = ()

    @property
    def own(self) -> tuple[Any, ...]:
        """Return the rows that the design adds."""
        return tuple(row for row in self.rows if row not in self.elsewhere)

    @property
    def without(self) -> "Design":
        """Return what would be asked without the design."""
        return replace(self, rows=tuple(row for row in self.rows if row in self.elsewhere))

    def only(self, paths: Collection[Path]) -> "Design":
        """Return the design with those of its rows that a run asks."""
        return replace(self, rows=tuple(row for row in self.rows if self.path(row) in paths))

    def share(self, several: int) -> tuple[int, int]:
        """Return how many combinations of so many values the rows hold, and how many the full product has."""
        return len(combined(self.rows, several)), len(_of_product(self.product, several))

    @property
    def missing(self) -> list[dict[str, str]]:
        """Return the pairs of values that the full product has and no row: each value's name by its factor."""
        return self._named(_of_product(self.product, PAIRS) - combined(self.rows, PAIRS))

    @property
    def excluded_pairs(self) -> list[tuple[dict[str, str], str]]:
        """Return the pairs of values that the product does not have, in the same form, each with the reason."""
        why = {pair: why for row, why in self.excluded for pair in combined([row], PAIRS)}
        apart = why.keys() - _of_product(self.product, PAIRS)
        return [(named, why[pair]) for pair in self._ordered(apart) for named in self._named([pair])]

    def _ordered(self, pairs: Collection[Any]) -> list[Any]:
        """Return pairs by factors, and in the order of the rows."""
        ordered = _ordered((*self.product, *(row for row, _ in self.excluded)))
        return [pair for pair in ordered if pair in pairs]

    def _named(self, pairs: Collection[Any]) -> list[dict[str, str]]:
        return [{self.factors[at]: self._name(at, value) for at, value in pair} for pair in self._ordered(pairs)]

    def _name(self, at: int, value: Hashable) -> str:
        if value is None:
            return self.absent.get(self.factors[at], "none")
        return value.name if isinstance(value, Client) else str(value)

    def _rows_with(self, values: Mapping[str, str]) -> list[Any]:
        """Return the rows of the product that have these values."""
        at = {self.factors.index(factor): value for factor, value in values.items()}
        return [row for row in self.product if all(self._name(each, row[each]) == at[each] for each in at)]

    def not_asked(self, why: Callable[[Sequence[Any]], str] = lambda _rows: "") -> Iterator[str]:
        """Yield what no row has, as text: values, then pairs of other values by name, or many by factor and value.

        Args:
            why: why none of these rows of the product is asked; empty if there is no single reason.
        """
        every = Counter(item for pair in self._named(_of_product(self.product, PAIRS)) for item in pair.items())
        lacking = Counter(item for pair in self.missing for item in pair.items())
        absent = [item for item, count in every.items() if lacking[item] == count]
        for name in self.factors:
            values = [value for factor, value in absent if factor == name]
            for reason, those in _by_reason((value, why(self._rows_with({name: value}))) for value in values):
                yield f"no path has {name} {' or '.join(those)}{f'; {reason}' if reason else ''}"
        pairs = [pair for pair in self.missing if not pair.items() & absent]
        if pairs and len(pairs) < MOST_NAMED:
            for reason, those in _by_reason((_with(pair), why(self._rows_with(pair))) for pair in pairs):
                yield f"no path has {', '.join(those)}{f'; {reason}' if reason else ''}"
        elif pairs:
            left = Counter(item for pair in pairs for item in pair.items())
            for name in self.factors:
                values = [f"{value} {left[factor, value]}" for factor, value in every if factor == name]
                yield f"of {len(pairs)} more pairs that no path has, by {name}: {', '.join(values)}"

    def say_excluded(self) -> Iterator[str]:
        """Yield these pairs as text."""
        for reason, those in _by_reason((_with(pair), why) for pair, why in self.excluded_pairs):
            yield f"left out of the product: {', '.join(those)}: {reason}"

    @property
    def words(self) -> str:
        """Return what it asks, and how much of the full product that is, as text."""
        factors = f"{', '.join(self.factors[:-1])} and {self.factors[-1]}"
        every = f"{len(self.rows):,} of {len(self.product):,} paths; of {factors} {self._shares}"
        if not self.without.rows or not self.own:
            return every
        return f"{every}; without the {len(self.own):,} paths that it adds, {self.without._shares}"

    @property
    def _shares(self) -> str:
        return " and ".join(
            f"{held:,} of {all_of:,} {name} ({100 * held // all_of}%)"
            for name, (held, all_of) in (("pairs", self.share(PAIRS)), ("triples", self.share(THREES)))
        )


@cache
def _of_product(product: tuple[Row, ...], several: int) -> frozenset[tuple[tuple[int, Hashable], ...]]:
    """Return the combinations of a product; it is the same for every part of a design."""
    return frozenset(combined(product, several))


@cache
def _ordered(rows: tuple[Row, ...]) -> tuple[Any, ...]:
    """Return the pairs that rows hold, by factors, and in the order of the rows."""
    every = {pair: None for row in rows for pair in combinations(enumerate(row), PAIRS)}
    return tuple(sorted(every, key=lambda pair: [number for number, _ in pair]))


def _with(pair: Mapping[str, str]) -> str:
    return " with ".join(pair.values())


def _by_reason(texts: Iterable[tuple[str, str]]) -> Iterator[tuple[str, list[str]]]:
    """Yield each reason with the texts that have it."""
    found: dict[str, list[str]] = {}
    for text, reason in texts:
        found.setdefault(reason, []).append(text)
    yield from found.items()


def cover(
    product: Sequence[Row], seed: int, first: Sequence[Row] = (), lacking: Sequence[Callable[[Row], bool]] = ()
) -> tuple[Row, ...]:
    """Return rows of a product that hold every pair of values in it, after those that come first.

    It is greedy: the next row is the one with most pairs that no row has yet. The same arguments give the same rows.

    Args:
        product: every possible row.
        seed: decides between rows that are equally good.
        first: rows that the design has in any case.
        lacking: the rows that a cluster may lack, for one reason each. Whichever of them it lacks, the others hold
            every pair that is possible without them.
    """
    pairs = {pair: 1 << number for number, pair in enumerate(sorted(combined(product, PAIRS), key=repr))}
    held = {row: sum(pairs[pair] for pair in combinations(enumerate(row), PAIRS)) for row in product}
    shuffled = random.Random(seed).sample(product, len(product))
    rows = list(dict.fromkeys(first))
    gone = {row: sum(1 << number for number, lacks in enumerate(lacking) if lacks(row)) for row in product}
    for without in sorted(range(1 << len(lacking)), key=int.bit_count, reverse=True):
        possible = [row for row in shuffled if not gone[row] & without]
        left = reduce(or_, (held[row] for row in possible), 0)
        left &= ~reduce(or_, (held[row] for row in rows if not gone[row] & without), 0)
        while left:
            possible = [row for row in possible if held[row] & left]
            best = max(possible, key=lambda row: (held[row] & left).bit_count())
            rows.append(best)
            left &= ~held[best]
    return tuple(rows)
