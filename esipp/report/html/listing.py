"""The page's list of checks by suite: a matrix of the path checks, groups of the others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from esipp.checks.catalog import title_of
from esipp.checks.check import Verdict
from esipp.checks.patterns import patterns
from esipp.ledger.reading import RecordedRun
from esipp.ledger.recorded_checks import RecordedCheck
from esipp.report.html.marks import MARKS, WORDS, Count, counts, letters, said_of, worst
from esipp.report.matrix import grid


class Field(NamedTuple):
    """A field of a matrix: the letters seen, the worst verdict, and its checks, the worst first."""

    seen: str
    verdict: str
    mark: str
    label: str
    first: str
    checks: str


class Line(NamedTuple):
    """A line of a matrix: its title and its fields; None for a field without checks."""

    title: str
    fields: list[Field | None]


class Matrix(NamedTuple):
    """A matrix: clients and families across, lines down."""

    clients: list[str]
    families: list[str]
    lines: list[Line]


class Member(NamedTuple):
    """A check of a group: the part of its id that differs from the others, and its verdict."""

    id: str
    number: int
    own: str
    verdict: str
    mark: str
    word: str


class Group(NamedTuple):
    """Checks of one requirement: their ids as patterns, and each check."""

    requirement: str
    patterns: list[str]
    level: str
    expect: str
    members: list[Member]


@dataclass(frozen=True)
class Suite:
    """The section of one suite."""

    id: str
    title: str
    checks: Sequence[RecordedCheck]
    counts: list[Count]
    matrix: Matrix | None
    groups: list[Group]


def suites_of(run: RecordedRun) -> list[Suite]:
    """Each suite, in the ledger's order."""
    numbers = {check.id: number for number, check in enumerate(run.checks)}
    found: dict[str, list[RecordedCheck]] = {}
    for check in run.checks:
        found.setdefault(check.suite, []).append(check)
    return [_suite(name, checks, run.verdicts, numbers) for name, checks in found.items()]


def _suite(
    name: str, checks: list[RecordedCheck], verdicts: Mapping[str, Verdict], numbers: Mapping[str, int]
) -> Suite:
    others = [check for check in checks if not check.place]
    return Suite(
        name,
        title_of(name),
        checks,
        counts(checks, verdicts),
        _matrix([check for check in checks if check.place], verdicts, numbers),
        _groups(others, verdicts, numbers),
    )


# ------------------------------------------------------------------------------------------------------- the matrix
def _matrix(checks: list[RecordedCheck], verdicts: Mapping[str, Verdict], numbers: Mapping[str, int]) -> Matrix | None:
    whole = grid(checks, verdicts)
    if whole is None:
        return None
    columns = [(client, family.value) for client in whole.clients for family in whole.families]
    lines = []
    for line, title in zip(whole.lines, whole.titles, strict=True):
        made = ((column, [check for check, _ in line.made.get(column, ())]) for column in columns)
        lines.append(Line(title, [_field(own, column, verdicts, numbers) if own else None for column, own in made]))
    return Matrix(list(whole.clients), [family.value for family in whole.families], lines)


def _field(
    checks: list[RecordedCheck], column: tuple[str, str], verdicts: Mapping[str, Verdict], numbers: Mapping[str, int]
) -> Field:
    said = {check.id: said_of(verdicts.get(check.id)) for check in checks}
    bad = worst(said.values())
    first = next(check for check in checks if said[check.id] == bad)
    seen = letters([verdicts.get(check.id) for check in checks])
    of = sum(1 for each in said.values() if each == bad)
    many = f"{of} of {len(checks)} checks" if len(checks) > 1 else "1 check"
    mark = "" if bad == "pass" else MARKS[bad]
    label = f"{seen or 'nothing'}{mark}: {WORDS[bad]}, {many}; {column[0]}, {column[1]}"
    ordered = sorted(checks, key=lambda check: check is not first)
    return Field(seen, bad, mark, label, first.id, " ".join(str(numbers[check.id]) for check in ordered))


# ------------------------------------------------------------------------------------------------------- the groups
def _groups(checks: list[RecordedCheck], verdicts: Mapping[str, Verdict], numbers: Mapping[str, int]) -> list[Group]:
    alike: dict[tuple[str, str, str], list[RecordedCheck]] = {}
    for check in checks:
        alike.setdefault((check.requirement, check.level.value, check.expect), []).append(check)
    groups = []
    for (requirement, level, expect), own in alike.items():
        members = []
        for check, short in zip(own, _own_parts([check.id for check in own]), strict=True):
            said = said_of(verdicts.get(check.id))
            members.append(Member(check.id, numbers[check.id], short, said, MARKS[said], WORDS[said]))
        ids = patterns([check.id for check in own])
        groups.append(Group(requirement, ids, level, expect, members))
    return groups


def _own_parts(ids: Sequence[str]) -> list[str]:
    """The distinguishing parts of each id; the last part if nothing distinguishes it."""
    apart = [one.split(".") for one in ids]
    shared = set(apart[0]).intersection(*apart[1:]) if len(apart) > 1 else set()
    return [".".join(part for part in parts if len(apart) > 1 and part not in shared) or parts[-1] for parts in apart]
