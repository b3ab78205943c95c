"""Values of one kind in a profile: each reads what TOML gave, or says in a ValueError what is wanted."""

import re
from collections.abc import Callable, Iterable
from ipaddress import ip_network
from typing import Any, TypeVar

from esipp.checks.model import AddressClass

T = TypeVar("T")

SEES = frozenset(
    {AddressClass.CLIENT, AddressClass.NODE, AddressClass.POD, AddressClass.LOAD_BALANCER, AddressClass.OTHER}
)
"""Whose address a pod can see as a source."""

LONGEST = 86_400.0
"""Seconds that no figure of a profile exceeds."""


def one_of(words: Callable[[Any], T]) -> Callable[[Any], T]:
    """One word of an enumeration."""

    def read(value: Any) -> T:
        try:
            return words(value)
        except ValueError:
            known = ", ".join(str(each.value) for each in words)  # type: ignore[attr-defined]
            raise ValueError(f"'{value}' is none of {known}") from None

    return read


def among(words: Iterable[str]) -> Callable[[Any], str]:
    """One of these words."""
    known = tuple(words)

    def read(value: Any) -> str:
        if value not in known:
            raise ValueError(f"'{value}' is none of {', '.join(known)}")
        return str(value)

    return read


def several(read: Callable[[Any], T]) -> Callable[[Any], tuple[T, ...]]:
    """A list of texts, none twice, each read so."""

    def read_all(value: Any) -> tuple[T, ...]:
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise ValueError("a list of texts is wanted")
        if len(set(value)) < len(value):
            raise ValueError("something stands there twice")
        return tuple(read(each) for each in value)

    return read_all


def classes(value: Any) -> frozenset[AddressClass]:
    """Whose addresses: some of ``SEES``."""
    seen = frozenset(several(one_of(AddressClass))(value))
    if not seen or not seen <= SEES:
        raise ValueError(f"some of {', '.join(sorted(SEES))} are wanted")
    return seen


def seconds(value: Any) -> float:
    """Seconds, more than none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= LONGEST:
        raise ValueError(f"seconds are wanted, more than 0 and at most {LONGEST:.0f}, not {value!r}")
    return float(value)


def span(value: Any) -> tuple[float, float]:
    """Seconds from and to; of one number, from nothing on."""
    first, last = value if isinstance(value, list) and len(value) == 2 else (0, value)
    until = seconds(last)
    since = seconds(first) if first else 0.0
    if since > until:
        raise ValueError(f"from {since:.0f} to {until:.0f} s goes backwards")
    return since, until


def count(value: Any) -> int:
    """How often."""
    if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 1000:
        raise ValueError(f"a number from 1 to 1000 is wanted, not {value!r}")
    return value


def url_path(value: Any) -> str:
    """The path of a URL; ``none`` takes away that of the profile that this one is like."""
    if value != "none" and not re.match(r"/[!-~]*\Z", str(value)):
        raise ValueError(f"a path is wanted, '/healthz', or 'none', not {value!r}")
    return "" if value == "none" else str(value)


def flag(value: Any) -> bool:
    """Yes or no."""
    if not isinstance(value, bool):
        raise ValueError("true or false is wanted")
    return value


def prober(value: Any) -> str:
    """A CIDR, or words where nobody can name one."""
    text = str(value)
    if re.match(r"[0-9a-fA-F.:]+(/|\Z)", text):
        ip_network(text)
    return text
