"""What judges are given comes back from JSON as it was: every float, every tuple, every key."""

import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from ipaddress import ip_address
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from esipp.checks.model import Family
from esipp.judging.scenario import recorded_as
from esipp.judging.timeline import Sample, Stream
from esipp.judging.topology import IPAddress
from esipp.ledger.codec import EvidenceError, decode, encode, judged, read_judged
from esipp.ledger.columns import Ticks, as_ticks, pack, read_numbers, ticks_of, unpack, write_numbers
from tests.unit.rejudging_world import NAMES, PATHS, can_be_decided, checks, decide, judge_of, seen

FUZZED = settings(deadline=None, database=None, max_examples=80)  # a busy machine is slow


def back(what: Any, of: Any = None) -> Any:
    return decode(json.loads(json.dumps(encode(what, of), allow_nan=False)), of or type(what))


def kept(name: str) -> Any:
    return recorded_as(name).pack(seen()[name])


@pytest.mark.parametrize("name", NAMES)
def test_what_every_judge_is_given_comes_back_as_it_was(name: str) -> None:
    data = json.loads(json.dumps(judged(name, seen()[name]), allow_nan=False))
    assert read_judged(data["suite"], data["seen"]) == kept(name)
    assert data["seen"] == json.loads(json.dumps(encode(read_judged(name, data["seen"]))))


@pytest.mark.parametrize("name", [name for name in NAMES if name != PATHS])
def test_every_verdict_is_the_same(name: str) -> None:
    again = {name: back(kept(name))}
    own = [check for check in checks() if judge_of(check) == name and can_be_decided(check)]
    assert own
    for check in own:
        assert decide(check, again) == decide(check, seen())


@pytest.mark.parametrize("name", NAMES)
def test_a_field_that_nobody_knows_is_no_evidence(name: str) -> None:
    data = judged(name, seen()[name])["seen"]
    with pytest.raises(EvidenceError):
        read_judged(name, {**data, "surprise": 1})


# --------------------------------------------------------------------------------------------- the kinds of things
class Colour(Enum):
    """One whose values are no text."""

    RED = ("red", 1)
    BLUE = ("blue", 2)


class Point(NamedTuple):
    at: float
    who: str = ""
    near: float | None = None


@dataclass(frozen=True)
class Inner:
    point: Point
    number: int = 0
    data: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Outer:
    """Everything that evidence is made of."""

    inner: tuple[Inner, ...] = ()
    many: Sequence[Inner] = ()
    by_pair: Mapping[tuple[str, Family], list[Point]] = field(default_factory=dict)
    by_object: Mapping[Inner, int] = field(default_factory=dict)
    by_number: Mapping[int, float] = field(default_factory=dict)
    by_colour: Mapping[Colour, Counter[str]] = field(default_factory=dict)
    addresses: frozenset[IPAddress] = frozenset()
    ends: tuple[str, int] | None = None
    opened: Sequence[tuple[str, float]] = ()
    stream: Stream | None = None
    _worked_out: dict[str, int] = field(default_factory=dict, compare=False)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
seconds = st.floats(allow_nan=False)
points = st.builds(Point, seconds, st.sampled_from(["", "a", "b"]), st.none() | seconds)
inners = st.builds(
    Inner, points, st.integers(), st.none() | st.dictionaries(st.sampled_from("ab"), anything, max_size=2)
)
samples = st.builds(Sample, st.integers(), seconds, seconds, st.sampled_from(["answered", "timeout"]), st.text())
outers = st.builds(
    Outer,
    st.lists(inners, max_size=6).map(tuple),
    st.lists(inners, max_size=6) | st.lists(inners, max_size=6).map(tuple),
    st.dictionaries(st.tuples(st.text(), st.sampled_from(Family)), st.lists(points, max_size=5), max_size=3),
    st.dictionaries(points.map(Inner), st.integers(), max_size=3),
    st.dictionaries(st.integers(), seconds, max_size=3),
    st.dictionaries(st.sampled_from(Colour), st.dictionaries(st.text(), st.integers(1)).map(Counter), max_size=2),
    st.frozensets(st.ip_addresses()),
    st.none() | st.tuples(st.text(), st.integers()),
    st.lists(st.tuples(st.text(), seconds), max_size=5),
    st.none() | st.builds(Stream, st.text(), seconds, st.lists(samples, max_size=5)),
)


@FUZZED
@given(outers)
@example(Outer(stream=Stream("s", math.inf, [Sample(1, -math.inf, math.inf, "answered")])))
def test_whatever_evidence_is_made_of_comes_back(made: Outer) -> None:
    assert back(made) == made


def test_what_an_object_has_worked_out_is_no_evidence() -> None:
    assert back(Outer(_worked_out={"a": 1}))._worked_out == {}


def test_a_secret_is_known_by_its_name_in_columns_too() -> None:
    made = [Inner(Point(n), data={"set-cookie": "id=7c6f1d2e9a", "password": "hunter22", "n": n}) for n in range(5)]
    text = json.dumps(encode(Outer(inner=tuple(made))))
    assert "keys" in text
    assert "hunter22" not in text
    assert "7c6f1d2e9a" not in text
    assert [each.data["n"] for each in back(Outer(inner=tuple(made))).inner] == list(range(5))


def test_an_address_stays_one_of_its_family() -> None:
    addresses = frozenset(map(ip_address, ("192.0.2.1", "2001:db8::1")))
    assert back(Outer(addresses=addresses)).addresses == addresses


def test_a_stream_to_which_nothing_is_added_any_more_can_be_cut() -> None:
    stream = Stream("s", 0.1, [Sample(n, n / 10, n / 10 + 1 - n / 100, "answered") for n in range(10)])
    stream.freeze()
    assert back(stream).frozen
    assert back(stream).view(0.2, 0.4) == stream.view(0.2, 0.4)
    assert not back(Stream("s", 0.1)).frozen


@pytest.mark.parametrize(
    "data",
    [
        {"at": 1.0, "wrong": 2},
        {"inner": 7},
        {"many": {"heap": []}},
        {"inner": {"rows": 3, "columns": {}}},
        {"inner": {"rows": 3, "columns": {"point": {"rows": 2, "columns": {"at": {"all": 1.0}}}}}},
        {"inner": {"rows": 3, "columns": {"point": {"rows": 3, "columns": {"at": {"list": [1.0]}}}}}},
        {"inner": {"rows": 3, "columns": {"point": {"rows": 3, "columns": {"at": {"what": 1}}}}}},
        {"inner": {"rows": 3, "columns": {"point": {"rows": 3, "columns": {"at": {"all": 1.0}, "of": {"all": 1}}}}}},
        {"by_colour": [["GREEN", {}]]},
        {"addresses": ["192.0.2.256"]},
        {"stream": {}},
        [],
        None,
    ],
)
def test_what_is_damaged_is_reported(data: Any) -> None:
    with pytest.raises(EvidenceError):
        decode(data, Outer)


# --------------------------------------------------------------------------------------------------------- columns
@FUZZED
@given(st.lists(st.integers(-5, 5) | st.integers()))
def test_numbers_are_written_shortly_and_read_back(numbers: list[int]) -> None:
    assert read_numbers(write_numbers(numbers)) == numbers


def test_equal_numbers_are_written_once() -> None:
    assert write_numbers([7, 7, 7, 8]) == "7*3 8"


columns = st.one_of(
    st.lists(each, min_size=1, max_size=12)
    for each in (
        anything,
        st.integers(),
        st.sampled_from([1, 1.0, True, "1", None]),
        seconds.filter(math.isfinite),
        st.integers(0, 10**10).map(lambda micro: micro / 10**6),
        st.fixed_dictionaries({"a": st.integers(0, 2), "b": st.none() | st.lists(st.text(), max_size=2)}),
        st.none() | st.fixed_dictionaries({"a": st.floats(0, 1)}),
        st.lists(st.integers(), min_size=2, max_size=2),
    )
)


@FUZZED
@given(columns)
@example([-0.0, -0.0])
@example([-0.0, 0.0, 0.0])
@example([1.0, -0.0])
@example([True, True, 1, 1])
def test_a_column_has_its_values_back_each_of_its_own_kind(values: list[Any]) -> None:
    text = json.dumps(pack(values))
    assert json.dumps(unpack(json.loads(text), len(values)), sort_keys=True) == json.dumps(values, sort_keys=True)


@FUZZED
@given(st.lists(st.tuples(seconds, seconds), min_size=1, max_size=8))
def test_times_are_written_from_others_where_that_is_shorter(times: list[tuple[float, float]]) -> None:
    first, second = ([each[place] for each in times] for place in (0, 1))
    ticks = as_ticks(first) if all(map(math.isfinite, first)) else None
    before: dict[str, Ticks] = {"first": ticks} if ticks else {}
    if all(map(math.isfinite, second)):
        column = pack(second, before)
        known = ticks_of(column, before) if "ticks" in column else None
        assert unpack(column, len(second), ticks=known) == second


def test_regular_times_take_a_few_letters_each() -> None:
    started = [40738.149587 + n * 0.02 for n in range(1000)]
    started = [round(each, 6) for each in started]
    ended = [round(each + 0.0015, 6) for each in started]
    column = pack(started)
    packed = pack(ended, {"started": ticks_of(column, {})})
    assert packed == {"per": 10**6, "ticks": "1500*1000", "since": "started"}
    assert len(json.dumps(column)) < 8 * 1000
