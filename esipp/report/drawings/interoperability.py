"""The section on interoperability: isolation of Services, scale, and DNS names."""

import json
from collections import Counter
from collections.abc import Mapping
from typing import Any

from esipp.base.plural import counted as many
from esipp.ledger.reading import RecordedRun
from esipp.report.drawings.markup import (
    NOTHING,
    Html,
    attempt,
    counted,
    details,
    heading,
    joined,
    paragraph,
    real,
    shorten,
    summed,
    table,
)

ID = "interoperability"
TITLE = "Interoperability"
SUITE = "interoperability"

Record = Mapping[str, Any]


def draw(run: RecordedRun) -> Html:
    """The section; empty if no scenario ran."""
    parts = {
        "Isolation": lambda: _isolation(run),
        "Scale": lambda: _scale(run),
        "DNS": lambda: _dns(run),
    }
    return joined((attempt(what, make) for what, make in parts.items()), "\n")


def brief(answers: Mapping[str, int] | None) -> Counter[str]:
    """Answers of health checks as status, count of local endpoints and Service."""
    found: Counter[str] = Counter()
    for words, count in (answers or {}).items():
        status, _, body = str(words).partition(" ")
        try:
            document = json.loads(body)
            said = f"{status}, {document['localEndpoints']} local, for {document['service']['name']}"
        except (ValueError, LookupError, TypeError):
            said = str(words)
        found[said] += int(count)
    return found


def _where(each: Record) -> str:
    strange = f" ({each['strange']})" if each.get("strange") else ""
    return f"{each.get('place')} {each.get('family')}{strange}" + (
        "" if each.get("reached", True) else " (not reached)"
    )


def _isolation(run: RecordedRun) -> Html:
    found, changes = run.of(SUITE, "neighbour"), run.of(SUITE, "neighbour-changed")
    if not found and not changes:
        return Html("")
    parts = [heading("Isolation: two Services on the same nodes, one changes")]
    if changes:
        rows = [[str(each.get("what")), real(each.get("seconds"))] for each in changes]
        parts.append(table(["change of the other Service", "after (s)"], rows))
    if found:
        lines = []
        for each in found:
            answers, dialled, other = (summed([each.get(name)]) for name in ("answers", "dialled", "other"))
            said = [
                counted(brief(answers)),
                answers.total(),
                counted(dialled),
                dialled.total(),
                counted(other),
                other.total(),
            ]
            lines.append([_where(each), *said])
        head = ["node", "health check", "n", "nodePort", "n", "health check of the other Service", "n"]
        words = "Answers of the unchanged Service at each node during the changes; n counts answers"
        parts.append(table(head, lines, words))
    objects = run.of(SUITE, "neighbour-object")
    if objects:
        same = all(_spec(each.get("before")) == _spec(each.get("after")) for each in objects)
        parts.append(paragraph("Its Service object " + ("is unchanged." if same else "HAS CHANGED: see the ledger.")))
    return joined(parts)


def _spec(found: Any) -> Any:
    return {name: found.get(name) for name in ("spec", "status")} if isinstance(found, dict) else found


def _scale(run: RecordedRun) -> Html:
    scale = run.of(SUITE, "many")
    dialled, answers = run.of(SUITE, "many-dialled"), run.of(SUITE, "many-answers")
    if not scale and not dialled and not answers:
        return Html("")
    parts = [heading("Scale: many Services at once")]
    for each in scale:
        seconds = {what: real(at) for what, at in (each.get("seconds") or {}).items()}
        rows = [[what, at] for what, at in seconds.items()]
        parts.append(table([f"{each.get('services')} Services", "seconds since the first"], rows))
        if each.get("late"):
            parts.append(paragraph(f"Late: {each['late']}"))
    if dialled:
        lines = []
        for each in dialled:
            seen = summed([each.get("seen")])
            lines.append([f"{each.get('services')} at the {each.get('place')}", counted(seen), seen.total()])
        parts.append(table(["Services, dialled at", "observed", "n"], lines))
    if answers:
        nodes: dict[str, Counter[str]] = {}
        for each in answers:
            for node, counts in (each.get("answers") or {}).items():
                nodes.setdefault(str(node), Counter()).update(_own(counts, str(each.get("service"))))
        rows = [[node, counted(tally), tally.total()] for node, tally in sorted(nodes.items())]
        parts.append(table(["node", f"health checks of {len(answers)} of them", "n"], rows))
        held = [port for each in answers for port in each.get("ports") or []]
        parts.append(paragraph(f"{many(len(held), 'health-check port')}, {len(set(held))} different."))
    gone = summed(counts for each in run.of(SUITE, "many-gone") for counts in each.values() if isinstance(counts, dict))
    if gone:
        parts.append(paragraph(f"At their health-check ports after deletion: {counted(gone)}."))
    strange = [each for each in run.of(SUITE, "many-way") if each.get("strange") or not each.get("reached", True)]
    parts += [paragraph(f"Not counted: {_where(each)}") for each in strange]
    return joined(parts)


def _own(answers: Mapping[str, int] | None, service: str) -> Counter[str]:
    """Answers that name their own Service count as equal, whatever its name."""
    found: Counter[str] = Counter()
    for words, count in brief(answers).items():
        own = words.endswith(f" for {service}")
        found[words.removesuffix(f" for {service}") + " for itself" if own else words] += count
    return found


def _dns(run: RecordedRun) -> Html:
    found = run.of(SUITE, "name")
    if not found:
        return Html("")
    claims: dict[str, list[Record]] = {}
    for each in found:
        claims.setdefault(f"{each.get('claim')} {each.get('family')}", []).append(each)
    rows = [
        [
            claim,
            shorten(", ".join(dict.fromkeys(str(each.get("wanted") or NOTHING) for each in of)), 100),
            counted(summed(each.get("told") for each in of)),
            summed(each.get("told") for each in of).total(),
            ", ".join(dict.fromkeys(str(each.get("client")) for each in of)),
            counted(summed(each.get("dialled") for each in of)),
        ]
        for claim, of in claims.items()
    ]
    head = ["claim", "expected", "resolved", "n", "client", "dialled by name"]
    return joined([heading("DNS"), details(f"{many(len(rows), 'claim')} about DNS names", table(head, rows))])
