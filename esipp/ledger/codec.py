"""Codec of the ledger: dataclasses to JSON and back into equal objects, by their type hints. ``judged`` and
``read_judged`` make and read the one record in which a scenario's evidence stands, ``record_of`` and ``read_record``
those of observations, witnesses and verdicts.

cattrs does what every such library does; what is ours is below: names of fields are checked both ways, maps whose keys
are no text are lists of pairs, and lists of objects are tables (columns.py), which are a tenth as long.
"""

import ipaddress
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, Field, fields, is_dataclass
from enum import Enum, StrEnum
from functools import partial
from operator import attrgetter
from types import GenericAlias
from typing import Any, TypeVar, get_args, get_origin, get_type_hints

from cattrs import Converter
from cattrs.errors import BaseValidationError, ForbiddenExtraKeysError
from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn, override

from esipp.base.redaction import KNOWN
from esipp.checks.check import Verdict
from esipp.checks.reference import Reference, read_reference
from esipp.judging.observation import Observation, Witness
from esipp.judging.scenario import recorded_as
from esipp.judging.timeline import Sample, Stream
from esipp.judging.topology import IPAddress
from esipp.ledger.columns import Json, Ticks, pack, ticks_of, unpack

LEAST = 3
"""The least number of objects that form a table; fewer are written one by one."""

RARE = ("connection", "addresses", "moments", "irregular")
"""What a record of an observation has only if there is any."""

T = TypeVar("T")
Hook = Callable[[Any], Any]
TypedHook = Callable[[Any, Any], Any]


class EvidenceError(ValueError):
    """What was kept cannot be read as what a judge is given: it is damaged, or of another esipp."""


def encode(what: Any, of: Any = None) -> Json:
    """An object as JSON; ``of`` is its type, where that is not its class."""
    return _CONVERTER.unstructure(what, unstructure_as=of or type(what))


def decode(data: Json, of: type[T]) -> T:
    """The object that JSON describes.

    Raises:
        EvidenceError: it does not describe such an object.
    """
    try:
        return _CONVERTER.structure(data, of)
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, BaseValidationError) as broken:
        raise EvidenceError(f"{type(broken).__name__}: {broken}") from broken
    except ForbiddenExtraKeysError as broken:
        raise EvidenceError(str(broken)) from None


_CONVERTER = Converter(omit_if_default=True, forbid_extra_keys=True, detailed_validation=False)


# ----------------------------------------------------------------------------------------------------- single values
def _float(value: float) -> Json:
    """JSON has no infinity."""
    return float(value) if math.isfinite(value) else str(value)


def _enum(value: Enum) -> str:
    return value.value if isinstance(value.value, str) else value.name


def _read_enum(data: Json, of: type[Enum]) -> Enum:
    return of(data) if issubclass(of, str) else of[data]


def _is_enum(of: Any) -> bool:
    return isinstance(of, type) and issubclass(of, Enum)


def _read_single(data: Json, of: type) -> Any:
    """A value that must be of this type already: cattrs would make a text of anything."""
    if issubclass(of, Enum):
        return _read_enum(data, of)
    if type(data) is not of:
        raise TypeError(f"{data!r:.40} is no {of.__name__}")
    return data


def _read_float(data: Json, _: Any) -> float:
    if type(data) is int or type(data) is float or data in ("inf", "-inf"):
        return float(data)
    raise TypeError(f"{data!r:.40} is no number")


for _single in (str, int, bool):
    _CONVERTER.register_structure_hook(_single, _read_single)
_CONVERTER.register_unstructure_hook(float, _float)
_CONVERTER.register_structure_hook(float, _read_float)
_CONVERTER.register_unstructure_hook_func(_is_enum, _enum)
_CONVERTER.register_structure_hook_func(_is_enum, _read_enum)
_CONVERTER.register_unstructure_hook_func(lambda of: of is Any, lambda value: value)
_CONVERTER.register_unstructure_hook_func(lambda of: of == IPAddress, str)
_CONVERTER.register_structure_hook_func(lambda of: of == IPAddress, lambda data, _: ipaddress.ip_address(data))


# ------------------------------------------------------------------------------------------------------- collections
def _is_map(of: Any) -> bool:
    return (get_origin(of) or of) in (dict, Mapping, Counter)


def _map_types(of: Any) -> tuple[Any, Any]:
    key, value = (*get_args(of), int)[:2] if get_origin(of) is Counter else get_args(of) or (str, Any)
    return key, value


def _is_text(of: Any) -> bool:
    """Whether a map's keys are possible as those of a JSON object."""
    return isinstance(of, type) and issubclass(of, str)


def _map_hook(of: Any) -> Hook:
    key, value = map(_CONVERTER.get_unstructure_hook, _map_types(of))
    if _is_text(_map_types(of)[0]):
        return lambda found: {key(name): value(each) for name, each in found.items()}
    return lambda found: [[key(name), value(each)] for name, each in found.items()]


def _map_back(of: Any) -> TypedHook:
    of_key, of_value = _map_types(of)
    key, value = _CONVERTER.get_structure_hook(of_key), _CONVERTER.get_structure_hook(of_value)
    make: Callable[[Any], Any] = Counter if get_origin(of) is Counter else dict

    def read(data: Any, _: Any) -> Any:
        pairs = data.items() if _is_text(of_key) else data
        return make({key(name, of_key): value(each, of_value) for name, each in pairs})

    return read


def _is_set(of: Any) -> bool:
    return get_origin(of) in (frozenset, set)


def _set_hook(of: Any) -> Hook:
    item = _CONVERTER.get_unstructure_hook(get_args(of)[0])
    return lambda found: sorted(map(item, found), key=str)


def _is_any_sequence(of: Any) -> bool:
    return get_origin(of) is Sequence


def _list_of(of: Any) -> Any:
    return GenericAlias(list, get_args(of))


def _sequence_hook(of: Any) -> Hook:
    """A list stays one, and so does a tuple: they are not equal."""
    items = _CONVERTER.get_unstructure_hook(_list_of(of))
    return lambda found: {"tuple" if isinstance(found, tuple) else "list": items(found)}


def _sequence_back(of: Any) -> TypedHook:
    as_list = _list_of(of)
    items = _CONVERTER.get_structure_hook(as_list)

    def read(data: Any, _: Any) -> Any:
        ((kind, found),) = data.items()
        return {"list": list, "tuple": tuple}[kind](items(found, as_list))

    return read


for _fits, _hook, _back in ((_is_map, _map_hook, _map_back), (_is_any_sequence, _sequence_hook, _sequence_back)):
    _CONVERTER.register_unstructure_hook_factory(_fits, _hook)
    _CONVERTER.register_structure_hook_factory(_fits, _back)
_CONVERTER.register_unstructure_hook_factory(_is_set, _set_hook)


# ----------------------------------------------------------------------------------------------------------- objects
def _kept(of: Any) -> list[Field[Any]]:
    """The fields that are evidence; what an object remembers of its own work is not."""
    return [each for each in fields(of) if not each.name.startswith("_")]


def _is_object(of: Any) -> bool:
    return isinstance(of, type) and is_dataclass(of)


def _own(of: Any) -> dict[str, Any]:
    return {each.name: override(omit=True) for each in fields(of) if each.name.startswith("_")}


def _object_hook(of: Any) -> Hook:
    return make_dict_unstructure_fn(of, _CONVERTER, _cattrs_omit_if_default=True, **_own(of))


def _object_back(of: Any) -> TypedHook:
    return make_dict_structure_fn(
        of, _CONVERTER, _cattrs_forbid_extra_keys=True, _cattrs_detailed_validation=False, **_own(of)
    )


_CONVERTER.register_unstructure_hook_factory(_is_object, _object_hook)
_CONVERTER.register_structure_hook_factory(_is_object, _object_back)


# ------------------------------------------------------------------------------------------------------------ tables
def _is_record(of: Any) -> bool:
    """Whether many such objects make a table: dataclasses and named tuples."""
    return _is_object(of) or (isinstance(of, type) and issubclass(of, tuple) and hasattr(of, "_fields"))


def _is_table(of: Any) -> bool:
    arguments = get_args(of)
    if get_origin(of) is tuple:
        return len(arguments) == 2 and arguments[1] is ... and _is_record(arguments[0])
    return get_origin(of) is list and _is_record(arguments[0])


class _Table:
    """Objects of one class, a column a field; fields that are objects themselves are tables in it."""

    def __init__(self, of: Any) -> None:
        self.of: Any = of
        self.is_tuple = issubclass(of, tuple)
        hints = get_type_hints(of)
        makes: dict[str, Callable[[], Any] | None]
        if self.is_tuple:
            self.names = list(of._fields)
            makes = {name: partial(_as_it_is, value) for name, value in of._field_defaults.items()}
        else:
            self.names = [each.name for each in _kept(of)]
            makes = {each.name: _maker(each) for each in _kept(of)}
        self.makes = {name: makes.get(name) for name in self.names}
        self.tables = {name: _Table(hints[name]) for name in self.names if _is_record(hints[name])}
        self.types = {name: hints[name] for name in self.names if name not in self.tables}

    def encode(self, checks: Sequence[Any]) -> dict[str, Json]:
        columns: dict[str, Json] = {}
        before: dict[str, Ticks] = {}
        for name in self.names:
            values = list(map(attrgetter(name), checks))
            make = self.makes[name]
            if make is not None and values.count(make()) == len(values):
                continue
            if name in self.tables:
                columns[name] = self.tables[name].encode(values)
                continue
            hook = _CONVERTER.get_unstructure_hook(self.types[name])
            written = list(map(hook, values))
            if any(issubclass(kind, dict) for kind in {*map(type, written)}):
                # Secrets are recognised by the key before them, and columns separate the two: so redact first.
                written = KNOWN.value(written)
            columns[name] = pack(written, before)
            if "ticks" in columns[name]:
                before[name] = ticks_of(columns[name], before)
        return {"rows": len(checks), "columns": columns}

    def decode(self, data: dict[str, Json]) -> list[Any]:
        count, columns = data["rows"], data["columns"]
        strange = columns.keys() - set(self.names)
        if strange:
            raise ValueError(f"{self.of.__name__} has no {sorted(strange)[0]}")
        before: dict[str, Ticks] = {}
        found = {name: self._column(name, columns, count, before) for name in self.names}
        if self.is_tuple:
            return list(map(self.of, *found.values()))
        return [self.of(**dict(zip(self.names, values, strict=True))) for values in zip(*found.values(), strict=True)]

    def _column(self, name: str, columns: dict[str, Json], count: int, before: dict[str, Ticks]) -> list[Any]:
        make = self.makes[name]
        if name not in columns:
            if make is None:
                raise ValueError(f"{self.of.__name__} needs {name}")
            return [make() for _ in range(count)]
        if name in self.tables:
            return self.tables[name].decode(columns[name])
        of = self.types[name]
        hook = _CONVERTER.get_structure_hook(of)
        if "ticks" in columns[name]:
            before[name] = ticks_of(columns[name], before)
        return unpack(columns[name], count, lambda value: hook(value, of), before.get(name))


def _maker(of: Field[Any]) -> Callable[[], Any] | None:
    """What makes a field's value where none is given; None where one must be."""
    if of.default_factory is not MISSING:
        return of.default_factory
    return None if of.default is MISSING else partial(_as_it_is, of.default)


def _as_it_is(value: Any) -> Any:
    return value


def _table_hook(of: Any) -> Hook:
    item = get_args(of)[0]
    one, table = _CONVERTER.get_unstructure_hook(item), _Table(item)
    return lambda checks: table.encode(checks) if len(checks) >= LEAST else [one(check) for check in checks]


def _table_back(of: Any) -> TypedHook:
    item, make = get_args(of)[0], get_origin(of)
    one, table = _CONVERTER.get_structure_hook(item), _Table(item)

    def read(data: Any, _: Any) -> Any:
        return make(table.decode(data) if isinstance(data, dict) else [one(each, item) for each in data])

    return read


_CONVERTER.register_unstructure_hook_factory(_is_table, _table_hook)
_CONVERTER.register_structure_hook_factory(_is_table, _table_back)


# ----------------------------------------------------------------------------------------------------------- streams
def _stream(stream: Stream) -> Json:
    samples = _CONVERTER.unstructure(stream.samples, unstructure_as=list[Sample])
    return {"name": stream.name, "spacing": _float(stream.spacing), "frozen": stream.frozen, "samples": samples}


def _read_stream(data: dict[str, Json], _: Any) -> Stream:
    made = Stream(data["name"], float(data["spacing"]), _CONVERTER.structure(data["samples"], list[Sample]))
    if data["frozen"]:
        made.freeze()
    return made


_CONVERTER.register_unstructure_hook(Stream, _stream)
_CONVERTER.register_structure_hook(Stream, _read_stream)


# ----------------------------------------------------------------------------------------------- one object a record
_ONE = Converter(detailed_validation=False, unstruct_collection_overrides={tuple: list})
_ONE.register_unstructure_hook(StrEnum, _enum)
_ONE.register_structure_hook(Reference, lambda data, _: read_reference(data))
_ONE.register_unstructure_hook_func(lambda of: of == Mapping[str, int], lambda tally: dict(sorted(tally.items())))
_OWN_NAMES: dict[type, dict[str, Any]] = {
    Observation: {name: override(omit_if_default=True) for name in RARE},
    Witness: {},
    Verdict: {"check_id": override(rename="id")},
}
for _of, _names in _OWN_NAMES.items():
    _ONE.register_unstructure_hook(_of, make_dict_unstructure_fn(_of, _ONE, **_names))
    _ONE.register_structure_hook(_of, make_dict_structure_fn(_of, _ONE, _cattrs_detailed_validation=False, **_names))


def record_of(what: Observation | Witness | Verdict) -> dict[str, Any]:
    """The fields of the record that is this object."""
    found: dict[str, Any] = _ONE.unstructure(what)
    return found | {"backend": what.backend} if isinstance(what, Observation) else found


def read_record(record: Mapping[str, Any], of: type[T]) -> T:
    """The object that a record is.

    Raises:
        KeyError, ValueError, TypeError: it is no such record.
    """
    return _ONE.structure(record, of)


# --------------------------------------------------------------------------------------- the evidence of a scenario
def judged(record: str, evidence: object) -> dict[str, Any]:
    """The fields of the record.

    Args:
        record: the name that the scenario's evidence has in ledgers.
        evidence: what it observed.
    """
    scenario = recorded_as(record)
    packed = scenario.pack(evidence)
    assert isinstance(packed, scenario.evidence), f"the evidence of {record} is {scenario.evidence.__name__}"
    return {"suite": record, "seen": encode(packed)}


def read_judged(record: str, seen: Any) -> Any:
    """The evidence in a record, as it was packed.

    Raises:
        EvidenceError: it cannot be read.
        KeyError: no scenario has this name in ledgers.
    """
    return decode(seen, recorded_as(record).evidence)
