"""Waivers: failures that somebody answers for until a day (``--waivers FILE``).

A waiver changes no verdict. The failures that it covers do not decide the result, and are counted apart: never as
required. One that is expired, or that covers no failure, makes the run fail, so that the file stays true.
"""

import re
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict, dataclass
from datetime import date
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any

import yaml
from typing_extensions import TypedDict

from esipp.base import strict
from esipp.base.errors import PreflightError, which_check

OPTION = "--waivers"
HINT = "docs/verdicts.md#waivers describes the file."


def _pattern(text: str) -> str:
    if not re.fullmatch(r"[a-z0-9.*_-]+", text):
        raise ValueError(f"expected the id of a check, or parts of one with '*' between, not '{text}'")
    return text


def _day(text: str) -> str:
    try:
        return date.fromisoformat(text).isoformat()
    except ValueError:
        raise ValueError(f"expected a day as YYYY-MM-DD, not '{text}'") from None


def _url(text: str) -> str:
    if not re.fullmatch(r"https?://\S+", text):
        raise ValueError(f"expected a URL, not '{text}'")
    return text


@dataclass(frozen=True)
class Waiver:
    """Who answers for the failures of which checks, why, and until which day, that day included.

    ``check`` is the id of a check, or a pattern with ``*``. ``reference`` is a URL, such as an issue's.
    """

    check: Annotated[str, _pattern]
    reason: str
    owner: str
    expires: Annotated[str, _day]
    reference: Annotated[str, _url]

    def covers(self, check: str) -> bool:
        """Whether a check is meant."""
        return fnmatchcase(check, self.check)

    @property
    def words(self) -> str:
        """What reports say of it."""
        return f"{self.check}: {self.reason} ({self.owner}, until {self.expires}, {self.reference})"


class RecordedWaivers(TypedDict):
    """The waivers of a run as its ledger has them, and the day (UTC) that decides which are expired."""

    day: str
    entries: list[dict[str, str]]


@dataclass(frozen=True)
class Waivers:
    """The waivers of a run, and the day on which it began."""

    entries: tuple[Waiver, ...] = ()
    day: str = ""

    @cached_property
    def valid(self) -> tuple[Waiver, ...]:
        """Those that are not expired."""
        return tuple(each for each in self.entries if each.expires >= self.day)

    def of(self, check: str) -> Waiver | None:
        """The valid waiver of a check; the first one counts."""
        return next((each for each in self.valid if each.covers(check)), None)

    def expired(self, checks: Collection[str]) -> list[Waiver]:
        """Those that are expired, and mean one of these checks."""
        return [each for each in self.entries if each not in self.valid and any(map(each.covers, checks))]

    def unused(self, held: Collection[str], others: Collection[str]) -> list[Waiver]:
        """The valid ones that cover nothing.

        Args:
            held: the checks that are as required.
            others: the checks that failed, or that nobody could decide here.
        """
        covered = {waiver for each in others if (waiver := self.of(each))}
        return [each for each in self.valid if each not in covered and any(self.of(check) is each for check in held)]

    def as_json(self) -> RecordedWaivers:
        """As the ledger has them."""
        return {"day": self.day, "entries": [asdict(each) for each in self.entries]}


NONE = Waivers()


def recorded(header: Mapping[str, Any]) -> Waivers:
    """The waivers in the header of a ledger; older ones have none."""
    found = header.get("waivers")
    if not found:
        return NONE
    return Waivers(tuple(Waiver(**each) for each in found["entries"]), found["day"])


def merged(all_of: Iterable[Waivers]) -> Waivers:
    """The waivers of several runs, as of the last of their days."""
    found = list(all_of)
    entries = dict.fromkeys(waiver for each in found for waiver in each.entries)
    return Waivers(tuple(entries), max((each.day for each in found), default=""))


def read_waivers(file: str, ids: Collection[str]) -> tuple[Waiver, ...]:
    """Read a file with the key ``waivers``, a list.

    Args:
        file: its path.
        ids: the ids of all checks.

    Raises:
        PreflightError: it cannot be read, is not of that form, or a waiver matches no check.
    """
    try:
        text = Path(file).read_text(encoding="utf-8")
        file_read: _File = strict.read(yaml.safe_load(_with_days_as_text(text)), _File, _CONVERTER)
    except (OSError, UnicodeDecodeError) as broken:
        raise PreflightError(f"{OPTION}: cannot read {file}: {getattr(broken, 'strerror', broken)}.", HINT) from None
    except yaml.YAMLError as wrong:
        raise PreflightError(f"{OPTION}: {file} is not YAML: {' '.join(str(wrong).split())}.", HINT) from None
    except strict.FormError as wrong:
        raise PreflightError(f"{OPTION}: {file}: {wrong}.", HINT) from None
    for each in file_read.waivers:
        if not any(map(each.covers, ids)):
            raise PreflightError(f"{OPTION}: {file}: no check matches '{each.check}'.", which_check(each.check, ids))
    return file_read.waivers


def _with_days_as_text(text: str) -> str:
    """YAML takes 2026-12-31 for a date; here it is a text, so that a day that does not exist is reported as one."""
    return re.sub(r"^(\s*(?:- )?expires:\s*)(\d{4}-\d{2}-\d{2})\s*(#.*)?$", r"\1'\2'", text, flags=re.MULTILINE)


@dataclass(frozen=True)
class _File:
    waivers: tuple[Waiver, ...]


_CONVERTER = strict.converter()
