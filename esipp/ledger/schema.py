"""Schema validation: whether a record has the shape of the ledger's schema, for every line.

What reports read they may then sort, add and join without looking again. The schema itself says what is checked: here
are those words of JSON Schema that it uses, made into functions once, because a ledger has 100,000 lines.
"""

import json
import math
import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from esipp.ledger.file import SCHEMA

Fault = str
"""What is wrong and where, as ``seq: not a whole number``; empty if nothing is."""

Check = Callable[[Any], Fault]

MOST = 2**63
"""Numbers are below this, so that all programs that read a report can read them."""

DEEPEST = 40
"""Levels that anything may be nested."""


@cache
def record_checks() -> Mapping[str, Check]:
    """The check of each kind of record, by its name."""
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    return {
        kind: _Compiler(schema).check(schema["$defs"][kind] | {"properties": _joined(schema, kind)})
        for kind in schema["properties"]["record"]["enum"]
    }


def _joined(schema: Mapping[str, Any], kind: str) -> dict[str, Any]:
    """The properties of a kind of record, with what is said of all kinds where it says nothing of its own."""
    own = schema["$defs"][kind]["properties"]
    return {name: schema["properties"][name] if rule is True else rule for name, rule in own.items()}


def plain(value: Any, depth: int = 0) -> Fault:
    """Whether every report can show a value of any form: its numbers are finite, and it is not nested too deep."""
    if isinstance(value, str) or value is None or value is True or value is False:
        return ""
    if isinstance(value, int | float):
        return "" if -MOST < value < MOST else "a number out of range"
    if depth > DEEPEST:
        return "nested too deep"
    for each in value.values() if isinstance(value, dict) else value:
        fault = plain(each, depth + 1)
        if fault:
            return fault
    return ""


def _text(value: Any) -> Fault:
    return "" if isinstance(value, str) else "not a string"


def _boolean(value: Any) -> Fault:
    return "" if value is True or value is False else "not a boolean"


def _null(value: Any) -> Fault:
    return "" if value is None else "not null"


def _array(value: Any) -> Fault:
    return "" if isinstance(value, list) else "not a list"


TYPES: Mapping[str, Check] = {"string": _text, "boolean": _boolean, "null": _null, "array": _array}


class _Compiler:
    """Makes checks of a schema's rules."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = schema

    def check(self, rule: Any) -> Check:
        """The check of one rule."""
        if rule is True:
            return plain
        if "$ref" in rule:
            return self.check(self._schema["$defs"][rule["$ref"].rsplit("/", 1)[1]])
        if "enum" in rule or "const" in rule:
            return _one_of(rule.get("enum", [rule.get("const")]))
        if "anyOf" in rule:
            return _any([self.check(each) for each in rule["anyOf"]])
        kind = rule.get("type")
        if isinstance(kind, list):
            return _any([self.check(rule | {"type": each}) for each in kind])
        if kind in ("integer", "number"):
            return _number(rule)
        if kind == "string" and "pattern" in rule:
            return _pattern(rule["pattern"])
        if kind == "array":
            return self._list(rule)
        if kind == "object" or "properties" in rule:
            return self._object(rule)
        return TYPES[kind] if kind else plain

    def _list(self, rule: Mapping[str, Any]) -> Check:
        first = [self.check(each) for each in rule.get("prefixItems", ())]
        rest = self.check(rule.get("items", True))
        least, most = rule.get("minItems", 0), rule.get("maxItems", math.inf)

        def check(value: Any) -> Fault:
            if not isinstance(value, list):
                return "not a list"
            if not least <= len(value) <= most:
                return f"a list of {len(value)}"
            for number, each in enumerate(value):
                fault = (first[number] if number < len(first) else rest)(each)
                if fault:
                    return fault
            return ""

        return check

    def _object(self, rule: Mapping[str, Any]) -> Check:
        known = {name: self.check(each) for name, each in rule.get("properties", {}).items()}
        others = rule.get("additionalProperties", True)
        other = None if others is False else self.check(others)
        required = frozenset(rule.get("required", ()))
        branch = self._branch(rule)

        def check(value: Any) -> Fault:
            if not isinstance(value, dict):
                return "not an object"
            if not required <= value.keys():
                return "lacks " + ", ".join(sorted(required - value.keys()))
            for name, each in value.items():
                test = known.get(name, other)
                if test is None:
                    return f"unknown field {name!r:.40}"
                fault = test(each)
                if fault:
                    return f"{name}: {fault}"
            return branch(value)

        return check

    def _branch(self, rule: Mapping[str, Any]) -> Check:
        """``if``, which asks for names only, ``then`` and ``else``."""
        if "if" not in rule:
            return lambda _: ""
        names = frozenset(rule["if"]["required"])
        so, otherwise = self.check(rule["then"]), self.check(rule["else"])
        return lambda value: (so if names <= value.keys() else otherwise)(value)


def _one_of(words: list[Any]) -> Check:
    allowed = {(type(each), each) for each in words}

    def check(value: Any) -> Fault:
        known = value is None or isinstance(value, str | int)
        return "" if known and (type(value), value) in allowed else f"{value!r:.40} is not an allowed value"

    return check


def _any(checks: list[Check]) -> Check:
    def check(value: Any) -> Fault:
        fault = ""
        for each in checks:
            fault = each(value)
            if not fault:
                return ""
        return fault

    return check


def _number(rule: Mapping[str, Any]) -> Check:
    low, high = rule.get("minimum", 1 - MOST), rule.get("maximum", MOST - 1)
    kinds = (int,) if rule["type"] == "integer" else (int, float)
    what = "not a whole number" if rule["type"] == "integer" else "not a number"

    def check(value: Any) -> Fault:
        if not isinstance(value, kinds) or value is True or value is False:
            return what
        return "" if low <= value <= high else "a number out of range"  # NaN is in no range

    return check


def _pattern(pattern: str) -> Check:
    fits = re.compile(pattern.removesuffix("$") + r"\Z").search

    def check(value: Any) -> Fault:
        if not isinstance(value, str):
            return "not a string"
        return "" if fits(value) else f"{value!r:.40} has the wrong form"

    return check
