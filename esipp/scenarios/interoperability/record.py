"""Ledger records of the interoperability scenarios: equal results are grouped, with their count."""

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from esipp.checks.health import Answer
from esipp.judging.reading import Reading
from esipp.scenarios.health.evidence import Node
from esipp.scenarios.interoperability.evidence import Many, Names, Neighbours, Seen, Ways

Evidence = Iterator[tuple[str, dict[str, Any]]]


def as_json(seen: Seen) -> Evidence:
    """Kind and data of every piece of evidence."""
    if seen.neighbours:
        yield from _neighbours(seen.neighbours)
    if seen.many:
        yield from _many(seen.many)
    if seen.names:
        yield from _names(seen.names)


def _way(ways: Ways, node: Node) -> dict[str, Any]:
    return {"reached": ways.reached.get(node, False), "strange": ways.strange.get(node, "")}


def _where(node: Node) -> dict[str, str]:
    return {"place": node[0].value, "family": node[1].value}


def _read(readings: Iterable[Reading]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for each in readings:
        found[each.words] += each.count
    return dict(found)


def _told(answers: Iterable[Answer]) -> dict[str, int]:
    found: Counter[str] = Counter()
    for each in answers:
        found[f"{each.words} {each.body}".strip()] += each.count
    return dict(found)


def _neighbours(seen: Neighbours) -> Evidence:
    for words, seconds in seen.changes:
        yield "neighbour-changed", {"what": words, "seconds": seconds}
    for node, answers in seen.answers.items():
        dialled = _read(seen.dialled.get(node, ()))
        told = {"answers": _told(answers), "dialled": dialled, **_way(seen.ways, node)}
        yield "neighbour", {**_where(node), **told, "other": dict(seen.other.get(node, {}))}
    yield "neighbour-object", {"before": dict(seen.before), "after": dict(seen.after)}


def _many(seen: Many) -> Evidence:
    made = sum(len(names) for names in seen.names.values())
    yield "many", {"services": made, "seconds": seen.seconds, "late": seen.late}
    for node in seen.ways.reached:
        yield "many-way", {**_where(node), **_way(seen.ways, node)}
    for (kind, role), by_service in seen.dialled.items():
        readings = [each for own in by_service.values() for each in own]
        yield "many-dialled", {"services": kind.value, "place": role.value, "seen": _read(readings)}
    for name, nodes in seen.answers.items():
        told = {f"{place.value} {family.value}": _told(answers) for (place, family), answers in nodes.items()}
        yield "many-answers", {"service": name, "ports": seen.ports.get(name), "answers": told}
    yield "many-gone", {name: dict(said) for name, said in seen.gone.items()}


def _names(seen: Names) -> Evidence:
    for (claim, client, family), told in seen.told.items():
        wanted = seen.wanted.get((claim, family))
        resolved = {"domain": seen.domain, "wanted": wanted, "told": dict(told)}
        if claim == "dialled":
            resolved["dialled"] = _read(seen.dialled.get((client, family), ()))
            resolved["direct"] = _read(seen.direct.get((client, family), ()))
        yield "name", {"claim": claim, "client": client, "family": family.value, **resolved}
