"""Recorded checks: checks as the ledger describes them, so that an old ledger needs no current check."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from esipp.checks.check import REFERENCE, Check, Level
from esipp.checks.reference import Reference, read_reference


def check_record(check: Check) -> dict[str, Any]:
    """A check as the ledger's header has it: all that reports say of it."""
    told = {"profile": check.subject.profile.value, "fails_if": check.fails_if, "asked": check.asked}
    return check.as_json() | told | check.subject.recorded()


@dataclass(frozen=True)
class Place:
    """The place of a path check in the matrix.

    Args:
        service, entry: the line's words; ``kind``: only lines of one kind may be told as one; ``order`` sorts them.
        client, family: the column; ``client_order`` sorts columns. ``protocol`` is told where it makes a difference.
        axes: its value on each axis on which checks are siblings; ``siblings``: what all those have in common that
            differ from it on that axis only.
    """

    service: str
    entry: str
    kind: str
    order: tuple[Any, ...]
    client: str
    client_order: tuple[Any, ...]
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


def read_check(told: Mapping[str, Any]) -> RecordedCheck:
    """A check of a ledger's header.

    Raises:
        KeyError, ValueError, TypeError: it is none.
    """
    expect = told.get("expect", "")
    classes = frozenset(expect) if isinstance(expect, list) else frozenset()
    place = None
    if "place" in told:
        where = told["place"]
        place = Place(
            where["service"], where["entry"], where["kind"], tuple(where["order"]), told["client"],
            (*where["client"], told["client"]), told["family"], told["protocol"], told["axes"], told["siblings"],
        )  # fmt: skip
    return RecordedCheck(
        told["id"],
        told["suite"],
        Level(told["level"]),
        told["requirement"],
        tuple(map(read_reference, told["references"])),
        told["profile"],
        "|".join(sorted(classes)) if classes else str(expect),
        told["fails_if"],
        told["asked"],
        tuple(told["features"]),
        told["path"] if "entry" in told else "",
        classes,
        place,
        told,
    )
