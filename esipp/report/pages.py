"""Documentation pages generated from the rows, so that prose cannot drift from checks."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from esipp.base.plural import counted
from esipp.checks.check import Level, Row
from esipp.checks.model import NO_ANSWER, AddressClass, Balancer, Claim, Family, Protocol
from esipp.checks.path import Cell, Spread
from esipp.checks.reference import Reference
from esipp.report import plain
from esipp.report.escaping import links

HEAD = """# Rows

Generated from the rows themselves by `ci/generate`. Do not edit. `esipp explain ROW` tells more of each: what is sent,
what every answer would mean, which controls must hold.

A line stands for one row of each protocol and family in braces: `{tcp,udp}.{ipv4,ipv6}` are four rows, whose ids are
the line's with one of each put in. Where a protocol's level is another, it is named. Numbers are the references at the
end.
"""

_EVERYTHING = frozenset(AddressClass)
_Line = tuple[Cell, ...]


TITLES = {
    "health_checks": "Health checks",
    "convergence": "Convergence",
    "interoperability": "Inter-operation",
    "compatibility": "Backward compatibility",
    "continuity": "Continuity",
}
"""What the other suites' rows are about."""


def rows_page(rows: Sequence[Row]) -> str:
    """One table for each kind of service, then those of each other suite: its paths, and what else it looks at."""
    lines = [HEAD, f"{counted(len(rows), 'row')}: {_levels(rows)}.", ""]
    references = list(dict.fromkeys(each for row in rows for each in row.references))
    source_ip = [row for row in rows if row.suite == "source_ip"]
    for title, group in _groups(row for row in source_ip if isinstance(row, Cell)).items():
        lines += [
            f"## {title}",
            "",
            f"{counted(len(group), 'row')}: {_levels(group)}.",
            "",
            *_table(group, references),
            "",
        ]
    for suite in dict.fromkeys(row.suite for row in rows if row.suite != "source_ip"):
        of_it = [row for row in rows if row.suite == suite]
        paths, others = (
            [row for row in of_it if isinstance(row, Cell)],
            [row for row in of_it if not isinstance(row, Cell)],
        )
        lines += [f"## {TITLES.get(suite, suite)}", "", f"{counted(len(of_it), 'row')}: {_levels(of_it)}.", ""]
        lines += [*_table(paths, references), ""] if paths else []
        lines += [*plain.table(others, references), ""] if others else []
    lines += ["## References", "", *(f"{number}. {links([each])}" for number, each in enumerate(references, 1)), ""]
    return "\n".join(lines)


def _table(cells: Iterable[Cell], references: Sequence[Reference]) -> list[str]:
    lines = ["| rows | level | the backend must see | requirement | because |", "|---|---|---|---|---|"]
    return lines + [_line(line, references) for line in _fold(cells)]


def _levels(rows: Iterable[Row]) -> str:
    found = Counter(row.level for row in rows)
    return ", ".join(f"{found[level]} {level.value}" for level in Level if level in found)


def _groups(cells: Iterable[Cell]) -> dict[str, list[Cell]]:
    """Rows by kind of service, the kinds in a fixed order."""
    titles = ("Pod IP", "ClusterIP", "NodePort", "externalIPs", "LoadBalancer", "Reference load balancer")
    found: dict[str, list[Cell]] = {title: [] for title in titles}
    for cell in cells:
        found[_kind(cell)].append(cell)
    return {title: group for title, group in found.items() if group}


def _kind(cell: Cell) -> str:
    service = cell.path.service
    if service is None:
        return "Pod IP"
    if service.external_ips:
        return "externalIPs"
    return "Reference load balancer" if service.balancer is not Balancer.DEFAULT else service.type.value


def _fold(cells: Iterable[Cell]) -> list[_Line]:
    """Rows that differ in nothing but protocol and family, and are there in every combination of both."""
    alike: dict[tuple[object, ...], list[Cell]] = {}
    for cell in cells:
        key = (_stem(cell), _requirement(cell), cell.accept, cell.told, cell.spread, cell.references)
        alike.setdefault(key, []).append(cell)
    lines: list[_Line] = []
    for group in alike.values():
        by_protocol: dict[Protocol, list[Cell]] = {}
        for cell in group:
            by_protocol.setdefault(cell.path.protocol, []).append(cell)
        whole: dict[frozenset[Family], list[Cell]] = {}
        for rows in by_protocol.values():  # protocols that have the same families make up one line
            whole.setdefault(frozenset(cell.path.family for cell in rows), []).extend(rows)
        lines += [tuple(rows) for rows in whole.values()]
    return lines


def _stem(cell: Cell) -> str:
    """The id with a star for protocol and family."""
    return cell.id.replace(_axes(cell), ".*.", 1)


def _axes(cell: Cell) -> str:
    return f".{cell.path.protocol.value.lower()}.{cell.path.family.value.lower()}."


def _requirement(cell: Cell) -> str:
    return cell.requirement.replace(f" over {cell.path.protocol.value} and {cell.path.family.value}", "", 1)


def pattern(line: Sequence[Cell]) -> str:
    """The ids of rows as one: ``nodeport.local.{tcp,udp}.{ipv4,ipv6}.outside-1-to-bare-node``."""
    protocols = [p.value.lower() for p in Protocol if any(cell.path.protocol is p for cell in line)]
    families = [f.value.lower() for f in Family if any(cell.path.family is f for cell in line)]
    braced = (f"{{{','.join(each)}}}" if len(each) > 1 else each[0] for each in (protocols, families))
    return _stem(line[0]).replace(".*.", f".{'.'.join(braced)}.", 1)


def _line(line: _Line, references: Sequence[Reference]) -> str:
    because = ", ".join(str(references.index(each) + 1) for each in line[0].references)
    return f"| `{pattern(line)}` | {_level(line)} | {_must_see(line[0])} | {_requirement(line[0])} | {because} |"


def _level(line: _Line) -> str:
    """The level of the first protocol, and those of others that have another."""
    levels: Mapping[Protocol, Level] = {cell.path.protocol: cell.level for cell in line}
    first = line[0].level
    others = [f"{protocol.value}: {level.value}" for protocol, level in levels.items() if level is not first]
    return ", ".join([first.value, *others])


def _must_see(cell: Cell) -> str:
    if cell.accept == _EVERYTHING:
        return "anything"
    if cell.accept <= NO_ANSWER:
        return "nothing"
    seen = " or ".join(sorted(each.value.replace("_", " ") for each in cell.accept))
    seen += f", told the client in {cell.told.value}" if cell.told is not Claim.NOTHING else ""
    return seen + (", one backend" if cell.spread is Spread.ONE else "")
