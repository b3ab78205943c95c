"""Recorded checks: checks as the ledger describes them, so that an old ledger needs no current check."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from esipp.checks.check import REFERENCE, Check, Level
from esipp.checks.model import Vantage
from esipp.checks.reference import Reference, read_reference


def check_record(check: Check) -> dict[str, Any]:
    """A check as the ledger's header has it: all that reports say of it."""
    more = {"profile": check.subject.profile.value, "fails_if": check.fails_if, "asked": check.asked}
    return check.as_json() | more | check.subject.recorded()


@dataclass(frozen=True)
class Place:
    """The place of a path check in the matrix.

    Args:
        service, entry: the line's words; ``kind``: only lines of one kind may be joined; ``order`` sorts them.
        client, family: the column; ``client_order`` sorts columns; ``vantage`` is the kind of client. ``protocol`` is
            named where it makes a difference.
        axes: its value on each axis on which checks are siblings; ``siblings``: what all those have in common that
            differ from it on that axis only.
    """

    service: str
    entry: str
    kind: str
    order: tuple[Any, ...]
    client: str
    client_order: tuple[Any, ...]
    vantage: Vantage
    family: str
    protocol: str
    axes: Mapping[str, str] = field(default_factory=dict)
    siblings: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class RecordedCheck:
    """A check as a ledger describes it.

    ``path`` is the path of its observations, empty for checks other than paths; ``place`` is None then. ``expect`` is
    the expectation in a word or two. ``data`` is the whole record.
    """

    id: str
    suite: str
    level: Level
    requirement: str
    references: tuple[Reference, ...]
    profile: str
    expect: str
    fails_if: str = ""
    asked: str = ""
    features: tuple[str, ...] = ()
    path: str = ""
    accept: frozenset[str] = frozenset()
    place: Place | None = None
    data: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    @property
    def instrument(self) -> bool:
        """Whether it asks by way of the reference load balancer, as ``Check.instrument``."""
        return any(name.startswith(REFERENCE) for name in self.features)

    @property
    def way_in(self) -> str:
        """Service and entry, as a line of the matrix names them; of a check that is no path's, its suite."""
        return f"{self.place.service}  {self.place.entry}".rstrip() if self.place else self.suite


def read_check(record: Mapping[str, Any]) -> RecordedCheck:
    """A check of a ledger's header.

    Raises:
        LookupError, ValueError, TypeError: it is none.
    """
    expect = record.get("expect", "")
    classes = frozenset(expect) if isinstance(expect, list) else frozenset()
    place = None
    if "place" in record:
        where = record["place"]
        place = Place(
            where["service"], where["entry"], where["kind"], tuple(where["order"]), record["client"],
            (*where["client"], record["client"]), [*Vantage][where["client"][1]], record["family"], record["protocol"],
            record["axes"], record["siblings"],
        )  # fmt: skip
    return RecordedCheck(
        record["id"],
        record["suite"],
        Level(record["level"]),
        record["requirement"],
        tuple(map(read_reference, record["references"])),
        record["profile"],
        "|".join(sorted(classes)) if classes else str(expect),
        record["fails_if"],
        record["asked"],
        tuple(record["features"]),
        record["path"] if "entry" in record else "",
        classes,
        place,
        record,
    )
