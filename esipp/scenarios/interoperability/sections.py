"""The section on interoperability: isolation of Services, scale, and DNS names."""

import json
from collections import Counter
from collections.abc import Iterable

from esipp.base.document import MISSING, Block, Fold, Section, Table, Text
from esipp.base.plural import counted as number_of
from esipp.checks.health import Answer
from esipp.checks.model import Family
from esipp.judging.observation import Reading
from esipp.judging.scenario import Sections
from esipp.judging.showing import attempted, headed, shorten, summed, tallied
from esipp.ledger.reading import RecordedRun
from esipp.scenarios.health.evidence import Node
from esipp.scenarios.interoperability.evidence import InteroperabilityEvidence, Many, Names, Neighbours, Ways

ID = "interoperability"
TITLE = "Interoperability"


def section(run: RecordedRun) -> Section:
    """The section; empty if no scenario ran."""
    seen = run.evidence_of(InteroperabilityEvidence) or InteroperabilityEvidence()
    parts = {
        "Isolation": lambda: _isolation(seen.neighbours),
        "Scale": lambda: _scale(seen.many),
        "DNS": lambda: _dns(seen.names),
    }
    return attempted(ID, TITLE, parts)


def brief(answers: Iterable[Answer]) -> Counter[str]:
    """Answers of health checks as status, count of local endpoints and Service."""
    found: Counter[str] = Counter()
    for each in answers:
        try:
            document = json.loads(each.body)
            said = f"{each.words}, {document['localEndpoints']} local, for {document['service']['name']}"
        except (ValueError, LookupError, TypeError):
            said = f"{each.words} {each.body}".strip()
        found[said] += each.count
    return found


def _words(readings: Iterable[Reading]) -> Counter[str]:
    found: Counter[str] = Counter()
    for each in readings:
        found[each.words] += each.count
    return found


def _where(node: Node, ways: Ways) -> str:
    """The node, and what the client sees there without a Service, if that is not as it should be."""
    strange = f" ({ways.strange[node]})" if ways.strange.get(node) else ""
    return f"{node[0].value} {node[1].value}{strange}" + ("" if ways.reached.get(node) else " (not reached)")


def _isolation(seen: Neighbours | None) -> list[Block]:
    if seen is None:
        return []
    parts: list[Block] = []
    if seen.changes:
        parts.append(Table.of(["change of the other Service", "after (s)"], seen.changes))
    lines = []
    for node, answers in seen.answers.items():
        own, dialled, other = brief(answers), _words(seen.dialled.get(node, ())), seen.other.get(node, Counter())
        said = [tallied(own), own.total(), tallied(dialled), dialled.total(), tallied(other), other.total()]
        lines.append([_where(node, seen.ways), *said])
    if lines:
        head = ["node", "health check", "n", "nodePort", "n", "health check of the other Service", "n"]
        words = "Answers of the unchanged Service at each node during the changes; n counts answers"
        parts.append(Table.of(head, lines, words))
    same = all(seen.before.get(name) == seen.after.get(name) for name in ("spec", "status"))
    parts.append(Text("Its Service object " + ("is unchanged." if same else "HAS CHANGED: see the ledger.")))
    return headed("Isolation: two Services on the same nodes, one changes", parts)


def _scale(seen: Many | None) -> list[Block]:
    if seen is None:
        return []
    made = sum(len(names) for names in seen.names.values())
    parts: list[Block] = []
    parts.append(Table.of([f"{made} Services", "seconds since the first"], list(seen.seconds.items())))
    if seen.late:
        parts.append(Text(f"Late: {seen.late}"))
    if seen.dialled:
        lines = []
        for (kind, role), by_service in seen.dialled.items():
            observed = _words(each for own in by_service.values() for each in own)
            lines.append([f"{kind.value} at the {role.value}", tallied(observed), observed.total()])
        parts.append(Table.of(["Services, dialled at", "observed", "n"], lines))
    if seen.answers:
        nodes: dict[str, Counter[str]] = {}
        for name, own in seen.answers.items():
            for (place, family), answers in own.items():
                nodes.setdefault(f"{place.value} {family.value}", Counter()).update(_own(answers, name))
        rows = [[node, tallied(tally), tally.total()] for node, tally in sorted(nodes.items())]
        parts.append(Table.of(["node", f"health checks of {len(seen.answers)} of them", "n"], rows))
        held = [port for name in seen.answers for port in seen.ports.get(name, ())]
        parts.append(Text(f"{number_of(len(held), 'health-check port')}, {len(set(held))} different."))
    gone = sum(seen.gone.values(), Counter())
    if gone:
        parts.append(Text(f"At their health-check ports after deletion: {tallied(gone)}."))
    strange = [node for node, reached in seen.ways.reached.items() if seen.ways.strange.get(node) or not reached]
    parts += [Text(f"Not counted: {_where(node, seen.ways)}") for node in strange]
    return headed("Scale: many Services at once", parts)


def _own(answers: Iterable[Answer], service: str) -> Counter[str]:
    """Answers that name their own Service count as equal, whatever its name."""
    found: Counter[str] = Counter()
    for words, count in brief(answers).items():
        own = words.endswith(f" for {service}")
        found[words.removesuffix(f" for {service}") + " for itself" if own else words] += count
    return found


def _dns(seen: Names | None) -> list[Block]:
    if seen is None or not seen.resolved:
        return []
    claims: dict[tuple[str, Family], list[str]] = {}
    for claim, client, family in seen.resolved:
        claims.setdefault((claim, family), []).append(client)
    rows = []
    for (claim, family), clients in claims.items():
        resolved = summed(seen.resolved[claim, client, family] for client in clients)
        by_name = clients if claim == "dialled" else ()
        dialled = _words(each for client in by_name for each in seen.dialled.get((client, family), ()))
        wanted = shorten(seen.wanted.get((claim, family)) or MISSING, 100)
        said = [tallied(resolved), resolved.total(), ", ".join(clients), tallied(dialled)]
        rows.append([f"{claim} {family.value}", wanted, *said])
    head = ["claim", "expected", "resolved", "n", "client", "dialled by name"]
    return headed("DNS", [Fold(f"{number_of(len(rows), 'claim')} about DNS names", (Table.of(head, rows),))])


SECTIONS = Sections(section=section)
