"""Column encoding: a list of similar JSON values as one compact column, and back, exactly. Pure.

A column is a JSON object with one way to tell its values:

- ``all``: every one is this;
- ``int``: whole numbers, each as what it is more than the one before;
- ``per`` and ``ticks``: seconds, the same way in ticks of which so many are one, or as ticks ``since`` another column;
- ``of`` and ``which``: few different values, and which of them each one is;
- ``keys``: objects of the same keys, a column a key; ``items``: lists of the same length, a column a place;
- ``those`` and ``there``: values and nulls;
- ``list``: as they are.
"""

import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import accumulate, groupby
from operator import sub
from typing import Any

Json = Any
Column = dict[str, Json]
Ticks = tuple[int, list[int]]
"""How many are a second, and each value's number of them."""

TICKS = (10**6, 10**9)
MOST_EXACT = 2**53
"""Whole numbers up to this one are floats as well."""

SINGLE = {str, int, float, bool, type(None)}


def write_numbers(numbers: Iterable[int]) -> str:
    """Whole numbers as text; ``7*3`` means three times seven."""
    parts = []
    for number, same in groupby(numbers):
        count = len(list(same))
        parts.append(f"{number}*{count}" if count > 1 else str(number))
    return " ".join(parts)


def read_numbers(text: str) -> list[int]:
    """The numbers in a text.

    Raises:
        ValueError: there are none.
    """
    if "*" not in text:
        return list(map(int, text.split()))
    found: list[int] = []
    for part in text.split():
        if "*" in part:
            number, _, count = part.partition("*")
            found += [int(number)] * int(count)
        else:
            found.append(int(part))
    return found


def as_ticks(values: Sequence[float]) -> Ticks | None:
    """Seconds as whole ticks, if each of them is exact; None if not."""
    for per in TICKS:
        ticks = []
        for value in values:
            if abs(value) >= MOST_EXACT / per or (value == 0.0 and math.copysign(1.0, value) < 0):
                break
            tick = round(value * per)
            if tick / per != value:
                break
            ticks.append(tick)
        else:
            return per, ticks
    return None


def pack(values: Sequence[Json], before: Mapping[str, Ticks] | None = None) -> Column:
    """One column of JSON values.

    Args:
        values: at least one.
        before: the ticks of other columns of the same table, relative to which times may be written.
    """
    kinds = {*map(type, values)}
    if len(values) > 1 and len(kinds) == 1 and kinds <= SINGLE and _all_are(values[0], values):
        return {"all": values[0]}
    if kinds == {int}:
        return {"int": write_numbers(_steps(values))}
    if kinds == {float}:
        ticks = as_ticks(values)
        return _seconds(ticks, before or {}) if ticks else {"list": list(values)}
    if kinds == {dict}:
        keys = values[0].keys()
        if keys and all(value.keys() == keys for value in values):
            return {"keys": {key: pack([value[key] for value in values]) for key in keys}}
    if kinds <= {list, tuple}:
        length = len(values[0])
        if length and all(len(value) == length for value in values):
            return {"items": [pack([value[place] for value in values]) for place in range(length)]}
    if type(None) in kinds and len(kinds) == 2 and kinds & {dict, list, tuple, float}:
        there = [value for value in values if value is not None]
        return {"those": pack(there), "there": write_numbers(int(value is not None) for value in values)}
    return _few(values) or {"list": list(values)}


def _all_are(first: Json, values: Sequence[Json]) -> bool:
    """Whether all are the same; 0.0 and -0.0 are equal, and are not."""
    return values.count(first) == len(values) and (first != 0.0 or len(set(map(repr, values))) == 1)


def _steps(numbers: Sequence[int]) -> list[int]:
    return [*numbers[:1], *map(sub, numbers[1:], numbers)]


def _seconds(ticks: Ticks, before: Mapping[str, Ticks]) -> Column:
    """The shortest form."""
    per, numbers = ticks
    forms: list[Column] = [{"per": per, "ticks": write_numbers(_steps(numbers))}]
    for name, (other, theirs) in before.items():
        if other == per:
            since = [mine - their for mine, their in zip(numbers, theirs, strict=True)]
            forms.append({"per": per, "ticks": write_numbers(since), "since": name})
    return min(forms, key=lambda column: len(column["ticks"]))


def _few(values: Sequence[Json]) -> Column | None:
    """Few different values, and which of them each one is; None where most are different."""
    keys = [value if type(value) is str else (json.dumps(value),) for value in values]  # 1, 1.0, true, "1": all differ
    different = dict(zip(keys, values, strict=True))
    if 2 * len(different) > len(values):
        return None
    numbers = {key: number for number, key in enumerate(different)}
    return {"of": list(different.values()), "which": write_numbers(map(numbers.__getitem__, keys))}


def unpack(
    column: Column, count: int, read: Callable[[Json], Json] | None = None, ticks: Ticks | None = None
) -> list[Json]:
    """The values of a column.

    Args:
        column: as ``pack`` wrote it.
        count: how many values it must have.
        read: what makes something of each value; values that are equal may then be one object.
        ticks: those of the column, if they are known already; else they must not be relative to another column's.

    Raises:
        ValueError: it is not such a column.
    """
    try:
        values = _unpack(column, count, read or _as_it_is, ticks)
    except (KeyError, TypeError, IndexError, AttributeError) as broken:
        raise ValueError(f"not a column: {broken!r}") from None
    if len(values) != count:
        raise ValueError(f"a column has {len(values)} values instead of {count}")
    return values


def _as_it_is(value: Json) -> Json:
    return value


def _unpack(column: Column, count: int, read: Callable[[Json], Json], ticks: Ticks | None) -> list[Json]:
    if "all" in column:
        return [read(column["all"])] * count
    if "of" in column:
        different = [read(value) for value in column["of"]]
        return [different[number] for number in read_numbers(column["which"])]
    if "ticks" in column:
        per, numbers = ticks or ticks_of(column, {})
        return _each([number / per for number in numbers], read)
    if "int" in column:
        return _each(_summed(read_numbers(column["int"])), read)
    return [read(value) for value in _plain(column, count)]


def _each(numbers: list[Json], read: Callable[[Json], Json]) -> list[Json]:
    """What is made of numbers of one type: if the first stays as it is, all do."""
    as_they_are = numbers and read(numbers[0]) is numbers[0]
    return numbers if as_they_are else [read(number) for number in numbers]


def _plain(column: Column, count: int) -> list[Json]:
    if "keys" in column:
        names = list(column["keys"])
        parts = [unpack(part, count) for part in column["keys"].values()]
        return [dict(zip(names, values, strict=True)) for values in zip(*parts, strict=True)]
    if "items" in column:
        return [list(values) for values in zip(*(unpack(part, count) for part in column["items"]), strict=True)]
    if "those" in column:
        there = read_numbers(column["there"])
        values = iter(unpack(column["those"], sum(there)))
        return [next(values) if each else None for each in there]
    return list(column["list"])


def ticks_of(column: Column, before: Mapping[str, Ticks]) -> Ticks:
    """The ticks of a column of seconds."""
    numbers = read_numbers(column["ticks"])
    if "since" not in column:
        return column["per"], _summed(numbers)
    _, theirs = before[column["since"]]
    return column["per"], [their + number for their, number in zip(theirs, numbers, strict=True)]


def _summed(steps: Iterable[int]) -> list[int]:
    return list(accumulate(steps))
