"""Strict reading of tables: nothing is converted, and an error names its place."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import pytest

from esipp.base import strict


def even(value: int) -> int:
    if value % 2:
        raise ValueError(f"expected an even number, not {value}")
    return value


@dataclass(frozen=True)
class Wheel:
    spokes: Annotated[int, even] = 2
    kind: Literal["wire", "wood"] = field(default="wire", metadata={"key": "class"})


@dataclass(frozen=True)
class Bicycle:
    name: str
    wheels: tuple[Wheel, ...] = ()
    size: tuple[float, float] | None = None
    gears: Mapping[Literal["front", "rear"], int] = field(default_factory=dict)
    free: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.gears and not self.wheels:
            raise ValueError("gears need wheels")


def test_a_table_becomes_an_object() -> None:
    table = {"name": "b", "wheels": [{"spokes": 4, "class": "wood"}], "size": [1, 2.5], "gears": {"rear": 7},
             "free": {"x": [1]}}  # fmt: skip
    found = strict.read(table, Bicycle, strict.converter())
    assert found == Bicycle("b", (Wheel(4, "wood"),), (1.0, 2.5), {"rear": 7}, {"x": [1]})


@pytest.mark.parametrize(
    ("table", "said"),
    [
        (3, "expected a table of keys and values, not 3"),
        ({}, "name: missing"),
        ({"nam": "b"}, "unknown key 'nam'; known: free, gears, name, size, wheels"),
        ({"name": ""}, "name: expected a text, not ''"),
        ({"name": 3}, "name: expected a text, not 3"),
        ({"name": "b", "wheels": "w"}, "wheels: expected a list, not 'w'"),
        ({"name": "b", "wheels": [{}, 1]}, "wheels[2]: expected a table of keys and values, not 1"),
        ({"name": "b", "wheels": [{}, {}]}, "wheels: the list has a duplicate"),
        ({"name": "b", "wheels": [{"spokes": 3}]}, "wheels[1].spokes: expected an even number, not 3"),
        ({"name": "b", "wheels": [{"spokes": True}]}, "wheels[1].spokes: expected a whole number, not True"),
        ({"name": "b", "wheels": [{"class": "tin"}]}, "wheels[1].class: expected one of wire, wood, not 'tin'"),
        ({"name": "b", "wheels": [{"kind": "wood"}]}, "wheels[1]: unknown key 'kind'; known: class, spokes"),
        ({"name": "b", "size": [1]}, "size: expected a list of 2, not [1]"),
        ({"name": "b", "size": [1, "x"]}, "size: expected a number, not 'x'"),
        ({"name": "b", "gears": [1]}, "gears: expected a table of keys and values, not [1]"),
        ({"name": "b", "gears": {"side": 1}}, "gears.side: expected one of front, rear, not 'side'"),
        ({"name": "b", "gears": {"rear": "many"}}, "gears.rear: expected a whole number, not 'many'"),
        ({"name": "b", "gears": {"rear": 7}}, "gears need wheels"),
    ],
)
def test_an_error_is_one_sentence_that_names_its_place(table: Any, said: str) -> None:
    with pytest.raises(strict.FormError) as refused:
        strict.read(table, Bicycle, strict.converter())
    assert str(refused.value) == said
    with pytest.raises(strict.FormError) as refused:
        strict.read({"name": "b", "free": table}, Mapping[str, Bicycle], strict.converter(), "bicycles")
    assert refused.value.place.startswith("bicycles.")
