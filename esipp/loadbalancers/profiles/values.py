"""Readers of a profile's TOML values; each raises a ValueError that says what it expects."""

import re
from collections.abc import Callable, Iterable
from ipaddress import ip_network
from typing import Any, TypeVar

from esipp.checks.model import AddressClass

T = TypeVar("T")

SEES = frozenset(
    {AddressClass.CLIENT, AddressClass.NODE, AddressClass.POD, AddressClass.LOAD_BALANCER, AddressClass.OTHER}
)
"""Owners of the source addresses that a pod can see."""

LONGEST = 86_400.0
"""Upper limit for seconds in a profile."""


def one_of(kind: Callable[[Any], T]) -> Callable[[Any], T]:
    """A reader of one value of an enumeration."""

    def read(value: Any) -> T:
        try:
            return kind(value)
        except ValueError:
            known = ", ".join(str(each.value) for each in kind)  # type: ignore[attr-defined]
            raise ValueError(f"expected one of {known}, not '{value}'") from None

    return read


def among(values: Iterable[str]) -> Callable[[Any], str]:
    """A reader of one of these words."""
    known = tuple(values)

    def read(value: Any) -> str:
        if value not in known:
            raise ValueError(f"expected one of {', '.join(known)}, not '{value}'")
        return str(value)

    return read


def several(read: Callable[[Any], T]) -> Callable[[Any], tuple[T, ...]]:
    """A reader of a list of distinct strings."""

    def read_all(value: Any) -> tuple[T, ...]:
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise ValueError("expected a list of strings")
        if len(set(value)) < len(value):
            raise ValueError("the list has a duplicate")
        return tuple(read(each) for each in value)

    return read_all


def classes(value: Any) -> frozenset[AddressClass]:
    """Owners of addresses: some of ``SEES``."""
    found = frozenset(several(one_of(AddressClass))(value))
    if not found or not found <= SEES:
        raise ValueError(f"expected some of {', '.join(sorted(SEES))}")
    return found


def seconds(value: Any) -> float:
    """A positive number of seconds."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= LONGEST:
        raise ValueError(f"expected seconds, more than 0 and at most {LONGEST:.0f}, not {value!r}")
    return float(value)


def span(value: Any) -> tuple[float, float]:
    """Seconds from and to; a single number starts at 0."""
    first, last = value if isinstance(value, list) and len(value) == 2 else (0, value)
    until = seconds(last)
    since = seconds(first) if first else 0.0
    if since > until:
        raise ValueError(f"{since:.0f} to {until:.0f} s: the first is larger")
    return since, until


def count(value: Any) -> int:
    """A number of times."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 1000:
        raise ValueError(f"expected a whole number from 1 to 1000, not {value!r}")
    return value


def url_path(value: Any) -> str:
    """The path of a URL; ``none`` removes the path taken over from another profile."""
    if value != "none" and not re.match(r"/[!-~]*\Z", str(value)):
        raise ValueError(f"expected a path like '/healthz', or 'none', not {value!r}")
    return "" if value == "none" else str(value)


def flag(value: Any) -> bool:
    """Yes or no."""
    if not isinstance(value, bool):
        raise ValueError("expected true or false")
    return value


def prober(value: Any) -> str:
    """A CIDR, or a description where none can be named."""
    text = str(value)
    if re.match(r"[0-9a-fA-F.:]+(/|\Z)", text):
        ip_network(text)
    return text
