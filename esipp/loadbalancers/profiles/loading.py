"""A strict reader of load balancer profiles: an unknown key or value is an error that names its place."""

import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from esipp.base.errors import PreflightError
from esipp.checks.model import Family, Protocol
from esipp.checks.profile import (
    Annotation,
    Asks,
    Class,
    Datapath,
    Destination,
    Grade,
    HealthCheck,
    Limit,
    LoadBalancer,
    Marks,
    Outcome,
    Source,
    Status,
    Steering,
    Target,
    Times,
    Told,
    Trap,
)
from esipp.loadbalancers.profiles.values import (
    among,
    classes,
    count,
    flag,
    one_of,
    prober,
    seconds,
    several,
    span,
    url_path,
)

FOLDER = Path(__file__).parent
HINT = "docs/load-balancers.md describes the form of a profile; 'esipp load-balancers' lists the built-in ones."

Table = dict[str, Any]
T = TypeVar("T")

OWN = ("name", "title", "like", "without", "found")
"""Keys that a profile does not take over from the one it extends."""

LISTS = ("traps", "annotations", "limits")
"""Lists that it appends to, unless ``without`` names them."""

HEADERS = ("x-forwarded-for", "proxy-v1", "proxy-v2")
POLICIES, VANTAGES = ("Local", "Cluster", "unset"), ("outside", "pod", "node")


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
        raise PreflightError(f"Unknown load balancer '{name}'.", f"known: {', '.join(names())}; or FILE.toml.")
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
    if table.get("name") != path.stem:
        raise _wrong(path, "", f"the name must match the file's, '{path.stem}'")
    return _Reader(path, _whole(path, table, [path.stem])).profile(str(table.get("like", "")))


def _table_of(path: Path) -> Table:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as broken:
        raise PreflightError(f"Cannot read the profile {path}: {broken.strerror}.", HINT) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as broken:
        raise PreflightError(f"The profile {path} is not valid TOML: {broken}.", HINT) from None


def _whole(path: Path, table: Table, seen: list[str]) -> Table:
    """The table, completed from the profile that it extends."""
    like, without = table.get("like", ""), table.get("without", [])
    if not like:
        return table
    if not isinstance(like, str) or like not in names():
        raise _wrong(path, "like", f"unknown profile '{like}'")
    if like in seen:
        raise _wrong(path, "like", f"profiles extend each other in a cycle: {' -> '.join([*seen, like])}")
    if not isinstance(without, list) or not set(map(str, without)) <= set(LISTS):
        raise _wrong(path, "without", f"expected a list of {', '.join(LISTS)}")
    base = _whole(path, _table_of(FOLDER / f"{like}.toml"), [*seen, like])
    marks, own = base.get("found", {}), table.get("found", {})
    if (
        isinstance(own, dict) and "needs" in own and isinstance(own["needs"], list)
    ):  # identified like the base, and by these
        marks = {key: value for key, value in marks.items() if key != "default"}
        table = {**table, "found": {**marks, **own, "needs": [*marks.get("needs", []), *own["needs"]]}}
    base = {key: value for key, value in base.items() if key not in OWN}
    for key in LISTS:
        own = table.get(key, [])
        if isinstance(own, list):
            taken = [] if key in without else [each for each in base.get(key, []) if not _replaced(each, own)]
            table = {**table, key: [*taken, *own]}
    return _laid_over(base, table)


def _replaced(each: Table, own: list[Any]) -> bool:
    """Whether the profile sets an annotation of the base to another value."""
    marks = [(other.get("purpose"), other.get("key")) for other in own if isinstance(other, dict)]
    return "purpose" in each and (each["purpose"], each.get("key")) in marks


def _laid_over(base: Table, table: Table) -> Table:
    """Merge tables key by key. The base's figures keep their source if the section names its own."""
    merged = dict(base)
    default = base.get("source")
    if default is not None and "source" in table:
        merged = {key: value if key == "source" else _sourced(value, default) for key, value in base.items()}
    for key, value in table.items():
        both = isinstance(value, dict) and isinstance(merged.get(key), dict) and "value" not in value
        merged[key] = _laid_over(merged[key], value) if both else value
    return merged


def _sourced(value: Any, source: Any) -> Any:
    return value if isinstance(value, dict) else {"value": value, "source": source}


def _wrong(path: Path, where: str, what: str) -> PreflightError:
    place = f"{path.name}: {where}: " if where else f"{path.name}: "
    return PreflightError(f"Invalid load balancer profile: {place}{what}.", HINT)


@dataclass
class _Reader:
    """A reader of one table; its errors name the place in the file."""

    path: Path
    table: Table

    def profile(self, like: str) -> LoadBalancer:
        known = {"name", "title", "system", "noun", "like", "without", "sources", "datapath", "check", "steering",
                 "probes", "carries", "status", "times", "traps", "annotations", "limits", "found"}  # fmt: skip
        self._only("", self.table, known)
        self.sources = {name: self._source(name, each) for name, each in self._section("sources", self.table).items()}
        checks = self._section("check", self.table)
        self._only("check", checks, {"local", "cluster"})
        steering = self._section("steering", self.table)
        self._only("steering", steering, {"source", "by", "membership", "spreads", "bound"})
        carries = self._section("carries", self.table)
        self._only("carries", carries, {"source", "families", "protocols"})
        probes = self._section("probes", self.table, needed=False)
        self._only("probes", probes, {"source", "from"})
        return LoadBalancer(
            name=self._text("name", self.table),
            title=self._text("title", self.table),
            system=self._text("system", self.table),
            noun=self._text("noun", self.table),
            datapath=self._datapath(),
            local=self._check("local", checks),
            cluster=self._check("cluster", checks),
            steering=self._must(steering, "steering", "by", several(one_of(Steering))),
            membership=self._told(steering, "steering", "membership", seconds),
            probes=self._told(probes, "probes", "from", several(prober)),
            families=self._must(carries, "carries", "families", several(one_of(Family))),
            protocols=self._must(carries, "carries", "protocols", several(one_of(Protocol))),
            status=self._status(),
            times=self._times(),
            traps=tuple(self._trap(where, each) for where, each in self._list("traps")),
            annotations=tuple(self._annotation(where, each) for where, each in self._list("annotations")),
            limits=tuple(self._limit(where, each) for where, each in self._list("limits")),
            found=self._marks(),
            like=like,
            spreads=self._told(steering, "steering", "spreads", flag),
            own_bound=self._told(steering, "steering", "bound", seconds),
        )

    # ------------------------------------------------------------------------------------------------- the sections
    def _source(self, name: str, table: Any) -> Source:
        where = f"sources.{name}"
        self._only(where, table, {"grade", "text", "url"})
        grade = self._parse(f"{where}.grade", one_of(Grade), table.get("grade"))
        if grade is Grade.DERIVED:
            self._refuse(f"{where}.grade", "a derived figure does not belong in a profile")
        url = table.get("url", "")
        if url and not re.match(r"https://[^\s<>\"()]+\Z", str(url)):
            self._refuse(f"{where}.url", "expected an https:// address")
        return Source(name, grade, self._text("text", table, where), str(url))

    def _datapath(self) -> Datapath:
        table = self._section("datapath", self.table)
        self._only("datapath", table, {"source", "class", "local", "cluster", "destination", "out_of_band"})
        return Datapath(
            self._must(table, "datapath", "class", one_of(Class)),
            self._must(table, "datapath", "local", classes),
            self._must(table, "datapath", "cluster", classes),
            self._must(table, "datapath", "destination", one_of(Destination)),
            self._told(table, "datapath", "out_of_band", several(among(HEADERS))),
        )

    def _check(self, policy: str, checks: Table) -> HealthCheck:
        where, table = f"check.{policy}", self._section(policy, checks, "check.")
        self._only(where, table, {"source", *HealthCheck.__dataclass_fields__})
        check = HealthCheck(
            self._must(table, where, "protocol", one_of(Asks)),
            self._must(table, where, "target", one_of(Target)),
            path=self._told(table, where, "path", url_path),
            period=self._told(table, where, "period", seconds),
            timeout=self._told(table, where, "timeout", seconds),
            healthy=self._told(table, where, "healthy", count),
            unhealthy=self._told(table, where, "unhealthy", count),
            no_traffic_period=self._told(table, where, "no_traffic_period", seconds),
            first_failure=self._told(table, where, "first_failure", flag),
            off_by_default=self._told(table, where, "off_by_default", flag),
        )
        if check.there == (check.target.value is Target.NONE):
            self._refuse(where, "protocol and target must both be 'none', or neither")
        if check.there and (check.period is None or check.unhealthy is None):
            self._refuse(where, "a health check needs a period and an unhealthy threshold")
        return check

    def _status(self) -> Status:
        table = self._section("status", self.table)
        self._only("status", table, {"source", "form", "ip_mode"})
        return Status(
            self._must(table, "status", "form", among(("ip", "hostname", "none"))),
            self._told(table, "status", "ip_mode", among(("VIP", "Proxy"))),
        )

    def _times(self) -> Times:
        table = self._section("times", self.table, needed=False)
        self._only("times", table, {"source", *Times.__dataclass_fields__})
        created, answering, removed, idle = (
            self._told(table, "times", name, seconds) for name in ("created", "answering", "removed", "idle")
        )
        return Times(self._told(table, "times", "usual", span), created, answering, removed, idle)

    def _trap(self, where: str, table: Table) -> Trap:
        self._only(where, table, {"kind", "text", "source"})
        return Trap(self._text("kind", table, where), self._text("text", table, where), self._cited(where, table))

    def _annotation(self, where: str, table: Table) -> Annotation:
        self._only(where, table, {"purpose", "key", "value", "source"})
        purpose, key, value = (self._text(name, table, where) for name in ("purpose", "key", "value"))
        return Annotation(purpose, key, value, self._cited(where, table))

    def _limit(self, where: str, table: Table) -> Limit:
        self._only(where, table, {"source", *Limit.__dataclass_fields__} - {"sources"})
        readers: dict[str, Callable[[Any], str]] = {
            "protocols": among([each.value for each in Protocol]),
            "families": among([each.value for each in Family]),
            "policies": among(POLICIES),
            "clients": among(VANTAGES),
            "what": str,
        }
        parsed = {
            name: frozenset(self._parse(f"{where}.{name}", several(read), table[name]))
            for name, read in readers.items()
            if name in table
        }
        outcome = self._parse(f"{where}.outcome", one_of(Outcome), table.get("outcome"))
        return Limit(outcome, self._text("why", table, where), self._cited(where, table), **parsed)

    def _marks(self) -> Marks:
        table = self._section("found", self.table, needed=False)
        self._only("found", table, set(Marks.__dataclass_fields__))
        texts = {name: self._parse(f"found.{name}", several(str), table[name]) for name in table if name != "default"}
        for name in ("workloads", "hostnames"):
            for pattern in texts.get(name, ()):
                try:
                    re.compile(pattern)
                except re.error as broken:
                    self._refuse(f"found.{name}", f"'{pattern}' is not a valid pattern: {broken}")
        sets = {name: frozenset(texts.get(name, ())) for name in
                ("platforms", "classes", "finalizers", "annotations", "ip_modes", "conditions")}  # fmt: skip
        default = self._parse("found.default", flag, table.get("default", False))
        return Marks(
            default=default,
            workloads=texts.get("workloads", ()),
            hostnames=texts.get("hostnames", ()),
            needs=texts.get("needs", ()),
            objects=texts.get("objects", ()),
            **sets,
        )

    # --------------------------------------------------------------------------------------------- what they share
    def _refuse(self, where: str, what: str) -> NoReturn:
        raise _wrong(self.path, where, what)

    def _only(self, where: str, table: Any, known: Iterable[str]) -> None:
        if not isinstance(table, dict):
            self._refuse(where, "expected a table")
        for key in table:
            if key not in set(known):
                self._refuse(where or key, f"unknown key '{key}'; known: {', '.join(sorted(known))}")

    def _section(self, name: str, of: Table, within: str = "", *, needed: bool = True) -> Table:
        if name not in of:
            if needed:
                self._refuse(f"{within}{name}", "missing")
            return {}
        table = of[name]
        if not isinstance(table, dict):
            self._refuse(f"{within}{name}", "expected a table")
        return dict(table)

    def _list(self, name: str) -> list[tuple[str, Table]]:
        given = self.table.get(name, [])
        if not isinstance(given, list) or not all(isinstance(each, dict) for each in given):
            self._refuse(name, f"expected tables, each [[{name}]]")
        return [(f"{name}[{number}]", each) for number, each in enumerate(given, 1)]

    def _text(self, name: str, table: Mapping[str, Any], where: str = "") -> str:
        value = table.get(name)
        if not isinstance(value, str) or not value.strip():
            self._refuse(f"{where}.{name}".lstrip("."), "expected a text")
        return value

    def _cited(self, where: str, table: Mapping[str, Any]) -> tuple[Source, ...]:
        given = table.get("source")
        ids = [str(each) for each in (given if isinstance(given, list) else [given]) if each is not None]
        if not ids:
            self._refuse(where, "missing source")
        for each in ids:
            if each not in self.sources:
                self._refuse(where, f"no section [sources.{each}]")
        return tuple(self.sources[each] for each in ids)

    def _parse(self, where: str, read: Callable[[Any], T], value: Any) -> T:
        if value is None:
            self._refuse(where, "missing")
        try:
            return read(value)
        except (ValueError, TypeError) as wrong:
            self._refuse(where, str(wrong))

    def _told(self, table: Table, where: str, name: str, read: Callable[[Any], T]) -> Told[T] | None:
        """A figure with its own source, or with its section's."""
        if name not in table:
            return None
        given, place = table[name], f"{where}.{name}"
        if isinstance(given, dict):
            self._only(place, given, {"value", "source"})
            value, cited = given.get("value"), given if "source" in given else table
        else:
            value, cited = given, table
        return Told(self._parse(place, read, value), self._cited(place, cited))

    def _must(self, table: Table, where: str, name: str, read: Callable[[Any], T]) -> Told[T]:
        told = self._told(table, where, name, read)
        if told is None:
            self._refuse(f"{where}.{name}", "missing")
        return told
