"""Strict reading of tables from TOML or YAML into dataclasses: an error is one sentence that names its place.

cattrs structures; this module makes it strict and reports its first error. Nothing is converted: a number is no text.
A field's ``metadata`` may name its ``key`` in the file. A callable in ``Annotated`` checks a value and may replace it;
what it or a ``__post_init__`` raises as ValueError is the error's text.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from types import GenericAlias
from typing import Any, Literal, NoReturn, TypeVar, get_args, get_origin

from cattrs import Converter
from cattrs.errors import (
    AttributeValidationNote,
    BaseValidationError,
    ClassValidationError,
    ForbiddenExtraKeysError,
    IterableValidationError,
)
from cattrs.gen import make_dict_structure_fn, override

T = TypeVar("T")
Hook = Callable[[Any, Any], Any]


class FormError(ValueError):
    """A value in a file is not what its reader accepts.

    Args:
        place: the keys that lead to it, as ``limits[2].outcome``; list items count from 1. Empty for the file itself.
        what: what is wrong with it.
    """

    def __init__(self, place: str, what: str) -> None:
        self.place, self.what = place, what
        super().__init__(f"{place}: {what}" if place else what)


def read(value: Any, of: Any, by: Converter, place: str = "") -> Any:
    """The object of a type that a value from a file describes.

    Args:
        value: what the file has.
        of: a dataclass, or another type.
        by: from ``converter``.
        place: the keys that lead to the value.

    Raises:
        FormError: it describes no such object.
    """
    try:
        return by.structure(value, of)
    except (BaseValidationError, ValueError) as error:
        keys, what = _first(error)
        raise FormError((place + keys).removeprefix("."), what) from None


def _first(error: Exception) -> tuple[str, str]:
    """The place of the first error and its text; an unknown key comes first, as it may be a missing one misspelled."""
    if not isinstance(error, ClassValidationError | IterableValidationError):
        return "", _text(error)
    inner, others = error.group_exceptions()
    for other in others:
        if isinstance(other, ForbiddenExtraKeysError) or not inner:
            return "", _text(other)
    below, note = inner[0]
    keys, what = _first(below)
    if isinstance(error, ClassValidationError) and isinstance(note, AttributeValidationNote):
        return f".{_keys(error.cl)[note.name]}{keys}", what
    return (f"[{note.index + 1}]" if isinstance(note.index, int) else f".{note.index}") + keys, what


def _text(error: Exception) -> str:
    if isinstance(error, ForbiddenExtraKeysError):
        known = ", ".join(sorted(_keys(error.cl).values()))
        return f"unknown key '{sorted(error.extra_fields)[0]}'; known: {known}"
    return "missing" if isinstance(error, KeyError) else str(error)


def _keys(of: Any) -> dict[str, str]:
    """The keys in the file, by the names of the fields."""
    return {each.name: each.metadata.get("key", each.name) for each in fields(get_origin(of) or of)}


def converter() -> Converter:
    """A converter for ``read``; its user may register more hooks."""
    made = Converter(forbid_extra_keys=True)
    for kind, name in ((bool, "true or false"), (int, "a whole number"), (float, "a number"), (str, "a text")):
        made.register_structure_hook(kind, _scalar(kind, name))
    made.register_structure_hook(Enum, _member)
    made.register_structure_hook_func(lambda of: _origin(of) is Literal, _literal)
    made.register_structure_hook_factory(_is_checked, lambda of: _checked(of, made))
    made.register_structure_hook_factory(_is_list, lambda of: _list(of, made))
    made.register_structure_hook_factory(_is_object, lambda of: _object(of, made))
    made.register_structure_hook_factory(lambda of: _origin(of) is Mapping, lambda of: _mapping(of, made))
    return made


def _origin(of: Any) -> Any:
    return get_origin(of)


def _scalar(kind: type, name: str) -> Hook:
    kinds = (int, float) if kind is float else (kind,)

    def take(value: Any, of: Any) -> Any:
        if issubclass(of, Enum):  # a StrEnum is a str
            return _member(value, of)
        if not isinstance(value, kinds) or (isinstance(value, bool) and kind is not bool) or value == "":
            raise ValueError(f"expected {name}, not {value!r}")
        return kind(value)

    return take


def _unexpected(value: Any, known: Iterable[Any]) -> NoReturn:
    raise ValueError(f"expected one of {', '.join(map(str, known))}, not {value!r}")


def _member(value: Any, of: Any) -> Any:
    try:
        return of(value)
    except ValueError:
        _unexpected(value, (each.value for each in of))


def _literal(value: Any, of: Any) -> Any:
    return value if value in get_args(of) else _unexpected(value, get_args(of))


def _is_checked(of: Any) -> bool:
    return hasattr(of, "__metadata__") and any(map(callable, of.__metadata__))


def _checked(of: Any, by: Converter) -> Hook:
    (check,) = filter(callable, of.__metadata__)
    base = of.__origin__
    return lambda value, _: check(by.structure(value, base))


def _is_list(of: Any) -> bool:
    return _origin(of) in (frozenset, tuple)


def _list(of: Any, by: Converter) -> Hook:
    """A list without duplicates, or of a fixed length."""
    kinds = get_args(of)
    fixed = get_origin(of) is tuple and kinds[1:] != (...,)
    items: Any = GenericAlias(list, kinds[:1])

    def take(value: Any, _: Any) -> Any:
        if not isinstance(value, list):
            raise ValueError(f"expected a list, not {value!r}")
        if fixed and len(value) != len(kinds):
            raise ValueError(f"expected a list of {len(kinds)}, not {value!r}")
        if fixed:
            return tuple(map(by.structure, value, kinds))
        found = by.structure(value, items)
        if any(each in found[:number] for number, each in enumerate(found)):
            raise ValueError("the list has a duplicate")
        return get_origin(of)(found)

    return take


def _must_be_table(value: Any) -> None:
    if not isinstance(value, Mapping):
        raise ValueError(f"expected a table of keys and values, not {value!r}")


def _mapping(of: Any, by: Converter) -> Hook:
    inner: Any = GenericAlias(dict, get_args(of))

    def take(value: Any, _: Any) -> Any:
        _must_be_table(value)
        return by.structure(value, inner)

    return take


def _is_object(of: Any) -> bool:
    return is_dataclass(get_origin(of) or of)


def _object(of: Any, by: Converter) -> Hook:
    if any(isinstance(each.type, str) for each in fields(get_origin(of) or of)):
        raise TypeError(f"{of}: with annotations from __future__, cattrs does not see what is Annotated")
    renamed: dict[str, Any] = {name: override(rename=key) for name, key in _keys(of).items() if name != key}
    fill = make_dict_structure_fn(of, by, **renamed)

    def take(value: Any, _: Any) -> Any:
        _must_be_table(value)
        return fill(value, of)

    return take
