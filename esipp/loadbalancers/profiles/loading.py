"""Reads load balancer profiles: finds a file, completes it from the profile that it extends, and reads it strictly.

The form of a file is that of ``LoadBalancer``.
"""

import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from esipp.base import strict
from esipp.base.errors import PreflightError, did_you_mean
from esipp.base.strict import FormError
from esipp.checks.profile import LoadBalancer, Source

FOLDER = Path(__file__).parent
HINT = "docs/load-balancers.md describes the form of a profile; 'esipp load-balancers' lists the built-in ones."

Table = dict[str, Any]

OWN = ("name", "title", "like", "without", "found")
"""Keys that a profile does not take over from the one it extends."""

LISTS = ("traps", "annotations", "limits")
"""Lists that it appends to, unless ``without`` names them."""

FIGURES = ("datapath", "check.local", "check.cluster", "steering", "probes", "carries", "status", "times")
"""Sections of figures: each has its own source, or its section's."""


def names() -> list[str]:
    """Names of the built-in profiles."""
    return sorted(path.stem for path in FOLDER.glob("*.toml"))


@cache
def all_profiles() -> tuple[LoadBalancer, ...]:
    """The built-in profiles, sorted by name."""
    return tuple(named(name) for name in names())


@cache
def named(name: str) -> LoadBalancer:
    """The built-in profile of a name.

    Raises:
        PreflightError: there is none.
    """
    if name not in names():
        raise PreflightError(
            f"Unknown load balancer '{name}'.",
            f"{did_you_mean(name, names())}known: {', '.join(names())}; or FILE.toml.",
        )
    return read_file(FOLDER / f"{name}.toml")


def provider(text: str) -> LoadBalancer:
    """The profile that ``--provider`` names, by its name or by a file that ends with .toml.

    Raises:
        PreflightError: there is no such profile or file, or the file is not a profile.
    """
    return read_file(Path(text)) if text.endswith(".toml") else named(text)


def read_file(path: Path) -> LoadBalancer:
    """The profile in a file.

    Raises:
        PreflightError: the file cannot be read, or is not a profile.
    """
    table = _table_of(path)
    try:
        if table.get("name") != path.stem:
            raise FormError("", f"the name must match the file's, '{path.stem}'")
        return _read(_whole(table, [path.stem]))
    except FormError as wrong:
        raise PreflightError(f"Invalid load balancer profile: {path.name}: {wrong}.", HINT) from None


def _table_of(path: Path) -> Table:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as broken:
        raise PreflightError(f"Cannot read the profile {path}: {broken.strerror}.", HINT) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as broken:
        raise PreflightError(f"The profile {path} is not valid TOML: {broken}.", HINT) from None


# ------------------------------------------------------------------------------------------------- extending a profile
def _whole(table: Table, heirs: list[str]) -> Table:
    """The table, completed from the profile that it extends."""
    like = table.get("like")
    if not like:
        return table
    if like not in names():
        raise FormError("like", f"unknown profile '{like}'")
    if like in heirs:
        raise FormError("like", f"profiles extend each other in a cycle: {' -> '.join([*heirs, like])}")
    base = _whole(_table_of(FOLDER / f"{like}.toml"), [*heirs, like])
    _cite(base)
    marks, own = base.get("found", {}), table.get("found", {})
    if isinstance(own, dict) and isinstance(own.get("needs"), list):  # identified like the base, and by these
        marks = {key: value for key, value in marks.items() if key != "default"}
        table = {**table, "found": {**marks, **own, "needs": [*marks.get("needs", []), *own["needs"]]}}
    base = {key: value for key, value in base.items() if key not in OWN}
    without = table.get("without")
    for key in LISTS:
        own = table.get(key, [])
        if isinstance(own, list):
            dropped = isinstance(without, list) and key in without
            taken = [] if dropped else [each for each in base.get(key, []) if not _replaced(each, own)]
            table = {**table, key: [*taken, *own]}
    return _laid_over(base, table)


def _replaced(each: Table, own: list[Any]) -> bool:
    """Whether the profile sets an annotation of the base to another value."""
    marks = [(other.get("purpose"), other.get("key")) for other in own if isinstance(other, dict)]
    return "purpose" in each and (each["purpose"], each.get("key")) in marks


def _laid_over(base: Table, table: Table) -> Table:
    """Merge tables key by key."""
    merged = dict(base)
    for key, value in table.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict) and "value" not in value
        merged[key] = _laid_over(merged[key], value) if both else value
    return merged


# ----------------------------------------------------------------------------------------------------------- reading
def _sections(table: Table) -> Iterator[Table]:
    """The sections of figures that are there."""
    for name in FIGURES:
        found: Any = table
        for key in name.split("."):
            found = found.get(key) if isinstance(found, dict) else None
        if isinstance(found, dict):
            yield found


def _cite(table: Table) -> None:
    """Make each figure a table of its value and its sources: its own, or its section's."""
    for section in _sections(table):
        cited = {"source": section["source"]} if "source" in section else {}
        for key, value in section.items():
            if key != "source":
                section[key] = {**cited, **(value if isinstance(value, dict) else {"value": value})}


def _citing(table: Table) -> Iterator[Table]:
    """All tables with a ``source``: figures, and items of lists."""
    figures = (value for section in _sections(table) for key, value in section.items() if key != "source")
    items = (each for key in LISTS if isinstance(table.get(key), list) for each in table[key])
    yield from (each for each in (*figures, *items) if isinstance(each, dict) and "source" in each)


def _read(table: Table) -> LoadBalancer:
    if "sources" in table:
        table["sources"] = strict.read(table["sources"], Mapping[str, Source], _SOURCES, "sources")
    _cite(table)
    sources = table.get("sources", {})
    for cited in _citing(table):
        ids = cited["source"] if isinstance(cited["source"], list) else [cited["source"]]
        cited["source"] = [sources.get(str(each), each) for each in ids]
    for section in _sections(table):
        section.pop("source", None)
    try:
        profile: LoadBalancer = strict.read(table, LoadBalancer, _PROFILES)
    except FormError as wrong:
        place = wrong.place.replace(".value", "", 1) if wrong.place.startswith(FIGURES) else wrong.place
        raise FormError(place, wrong.what) from None
    return profile


def _cited(given: Any, _: type[Source]) -> Source:
    if isinstance(given, Source):
        return given
    raise ValueError(f"no section [sources.{given}]")


_SOURCES, _PROFILES = strict.converter(), strict.converter()
_PROFILES.register_structure_hook(Source, _cited)
