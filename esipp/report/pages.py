"""The documentation page of all checks, generated from the checks."""

from collections.abc import Iterable, Mapping, Sequence

from esipp.base import markdown
from esipp.base.plural import counted
from esipp.checks.catalog import title_of
from esipp.checks.check import Check, Level, checks_about
from esipp.checks.model import NO_ANSWER, AddressClass, Balancer, Claim, Family, Protocol
from esipp.checks.path import OnPath, PathCheck, Spread
from esipp.checks.patterns import patterns
from esipp.checks.reference import Reference
from esipp.report.causes import by_level
from esipp.report.escaping import links

HEAD = """# Checks

Generated from the checks by `ci/generate`. Do not edit. `esipp explain CHECK` shows more about a check: what it sends,
what each answer means, and which controls must hold.

A line with braces stands for several checks: `{tcp,udp}.{ipv4,ipv6}` are four checks, one for each combination. A line
names the levels of protocols whose level differs. Numbers refer to the references at the end.
"""

_EVERYTHING = frozenset(AddressClass)
_Line = tuple[PathCheck, ...]


def checks_page(checks: Sequence[Check]) -> str:
    """The page: a table for each kind of Service, then the path checks and other checks of each other suite."""
    lines = [HEAD, _counted(checks), ""]
    references = list(dict.fromkeys(each for check in checks for each in check.references))
    source_ip = [check for check in checks if check.suite == "source_ip"]
    for title, group in _groups(checks_about(OnPath, source_ip)).items():
        lines += [f"## {title}", "", _counted(group), "", *_table(group, references), ""]
    together = [check for check in source_ip if not check.subject.judged]
    lines += ["## Many connections together", "", _counted(together), "", *_other_table(together, references), ""]
    for suite in dict.fromkeys(check.suite for check in checks if check.suite != "source_ip"):
        of_it = [check for check in checks if check.suite == suite]
        paths, others = checks_about(OnPath, of_it), [check for check in of_it if not check.subject.judged]
        lines += [f"## {title_of(suite)}", "", _counted(of_it), ""]
        lines += [*_table(paths, references), ""] if paths else []
        lines += [*_other_table(others, references), ""] if others else []
    lines += ["## References", "", *(f"{number}. {links([each])}" for number, each in enumerate(references, 1)), ""]
    return "\n".join(lines)


def _table(path_checks: Iterable[PathCheck], references: Sequence[Reference]) -> list[str]:
    heads = ("checks", "level", "the backend must see", "requirement", "references")
    return [*markdown.table(heads, (_cells(line, references) for line in _fold(path_checks)))]


def _other_table(checks: Sequence[Check], references: Sequence[Reference]) -> list[str]:
    """The checks as a table; checks that differ only in their ids share a line, with braces in the id."""
    rows: list[tuple[str, ...]] = []
    alike: dict[tuple[object, ...], list[Check]] = {}
    for check in checks:
        key = (check.requirement, check.level, check.expected, check.references)
        alike.setdefault(key, []).append(check)
    for group in alike.values():
        because = ", ".join(str(references.index(each) + 1) for each in group[0].references)
        for pattern in patterns([check.id for check in group]):
            first = group[0]
            rows.append((f"`{pattern}`", first.level.words, first.expected, first.requirement, because))
    return [*markdown.table(("checks", "level", "expected", "requirement", "references"), rows)]


def _counted(checks: Sequence[Check]) -> str:
    return f"{counted(len(checks), 'check')}: {by_level(check.level for check in checks)}."


def _groups(path_checks: Iterable[PathCheck]) -> dict[str, list[PathCheck]]:
    """Checks by kind of Service, in a fixed order."""
    titles = ("Pod IP", "ClusterIP", "NodePort", "externalIPs", "LoadBalancer", "Reference load balancer")
    found: dict[str, list[PathCheck]] = {title: [] for title in titles}
    for path_check in path_checks:
        found[_kind(path_check)].append(path_check)
    return {title: group for title, group in found.items() if group}


def _kind(path_check: PathCheck) -> str:
    service = path_check.subject.path.service
    if service is None:
        return "Pod IP"
    if service.external_ips:
        return "externalIPs"
    return "Reference load balancer" if service.balancer is not Balancer.DEFAULT else service.type.value


def _fold(path_checks: Iterable[PathCheck]) -> list[_Line]:
    """Groups of checks that differ only in protocol and family and exist in every combination of both."""
    alike: dict[tuple[object, ...], list[PathCheck]] = {}
    for path_check in path_checks:
        about = path_check.subject
        key = (_stem(path_check), _requirement(path_check), about.accept, about.reported, about.spread)
        alike.setdefault((*key, path_check.references), []).append(path_check)
    lines: list[_Line] = []
    for group in alike.values():
        by_protocol: dict[Protocol, list[PathCheck]] = {}
        for path_check in group:
            by_protocol.setdefault(path_check.subject.path.protocol, []).append(path_check)
        whole: dict[frozenset[Family], list[PathCheck]] = {}
        for checks in by_protocol.values():  # protocols that have the same families make up one line
            whole.setdefault(frozenset(path_check.subject.path.family for path_check in checks), []).extend(checks)
        lines += [tuple(checks) for checks in whole.values()]
    return lines


def _stem(path_check: PathCheck) -> str:
    """The id with a star for protocol and family."""
    path = path_check.subject.path
    return path_check.id.replace(f".{path.protocol.value.lower()}.{path.family.value.lower()}.", ".*.", 1)


def _requirement(path_check: PathCheck) -> str:
    path = path_check.subject.path
    return path_check.requirement.replace(f" over {path.protocol.value} and {path.family.value}", "", 1)


def pattern(line: Sequence[PathCheck]) -> str:
    """The ids of checks as one: ``nodeport.local.{tcp,udp}.{ipv4,ipv6}.outside-1-to-bare-node``."""
    protocols = [p.value.lower() for p in Protocol if any(path_check.subject.path.protocol is p for path_check in line)]
    families = [f.value.lower() for f in Family if any(path_check.subject.path.family is f for path_check in line)]
    braced = (f"{{{','.join(each)}}}" if len(each) > 1 else each[0] for each in (protocols, families))
    return _stem(line[0]).replace(".*.", f".{'.'.join(braced)}.", 1)


def _cells(line: _Line, references: Sequence[Reference]) -> tuple[str, ...]:
    because = ", ".join(str(references.index(each) + 1) for each in line[0].references)
    return f"`{pattern(line)}`", _level(line), _must_see(line[0]), _requirement(line[0]), because


def _level(line: _Line) -> str:
    """The level of the first protocol, and the levels of protocols that differ."""
    levels: Mapping[Protocol, Level] = {path_check.subject.path.protocol: path_check.level for path_check in line}
    first = line[0].level
    others = [f"{protocol.value}: {level.words}" for protocol, level in levels.items() if level is not first]
    return ", ".join([first.words, *others])


def _must_see(path_check: PathCheck) -> str:
    about = path_check.subject
    if about.accept == _EVERYTHING:
        return "anything"
    if about.accept <= NO_ANSWER:
        return "nothing"
    seen = " or ".join(sorted(each.value.replace("_", " ") for each in about.accept))
    seen += f", with the client's address in {about.reported.value}" if about.reported is not Claim.NOTHING else ""
    return seen + (", one backend" if about.spread is Spread.ONE else "")
