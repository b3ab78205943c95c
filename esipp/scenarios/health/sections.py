"""The section on health checks: answers of each node, how they follow pods, and the life of a port."""

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from esipp.base.document import MISSING, Block, Figure, Fold, Inline, Section, Strong, Table, Text, Words
from esipp.base.drawing import ACCENT, BAD, INK, MUTED, WIDTH, Drawing, scale_of
from esipp.base.plural import counted as many
from esipp.judging.showing import attempted, headed, quantile, real, shorten, summed, tallied
from esipp.ledger.reading import RecordedRun

ID = "health"
TITLE = "Health checks by node"
SUITE = "health_checks"
WEIGHT = "x-load-balancing-endpoint-weight"
NODES = ("endpoint-node", "bare-node", "other-node", "control-plane")
"""The nodes with a column; questions about others are in the table below."""

Record = Mapping[str, Any]


def section(run: RecordedRun) -> Section:
    """The section; empty if the suite did not run."""
    parts = {
        "The answers": lambda: _answers(run),
        "The steady windows": lambda: _long(run),
        "The placement rounds": lambda: _rounds(run),
        "The life of a port": lambda: _life(run),
    }
    return attempted(ID, TITLE, parts)


def said(answer: Record) -> str:
    """An answer in words: status and count of local endpoints, or the outcome without an answer."""
    if answer.get("outcome") != "answered":
        outcome = str(answer.get("outcome"))
        return "timed out" if outcome == "timeout" else outcome
    words = str(answer.get("status"))
    try:
        count = json.loads(str(answer.get("body") or "")).get("localEndpoints")
    except (ValueError, AttributeError):
        count = None
    weight = (answer.get("headers") or {}).get(WEIGHT)
    if count is not None:
        words += f", {count} local"
        words += f" (weight {weight})" if weight is not None and str(weight) != str(count) else ""
    elif weight is not None:
        words += f", weight {weight}"
    return words


def _tally(answers: Iterable[Record]) -> Counter[str]:
    found: Counter[str] = Counter()
    for each in answers:
        found[said(each)] += int(each.get("count") or 1)
    return found


def _sign(words: str) -> str:
    """The sign of an answer: full to receive traffic, empty to receive none, a cross for no answer."""
    return "●" if words.startswith("200") else "○" if words.startswith("503") else "✕"


# ------------------------------------------------------------------------------------------------------- by situation
def _answers(run: RecordedRun) -> list[Block]:
    by_cell: dict[tuple[str, str], dict[str, list[Record]]] = {}
    others: dict[str, list[Record]] = {}
    for each in run.of(SUITE, "answer"):
        question = str(each["question"])
        situation, family, rest = (*question.split(".", 2), "", "")[:3]
        client, _, place = rest.partition("-to-")
        if place in NODES:
            by_cell.setdefault((situation, place), {}).setdefault(f"{client} {family}", []).append(each)
        else:
            others.setdefault(question, []).append(each)
    if not by_cell and not others:
        return []
    wrong = _not_right(run)
    situations = list(dict.fromkeys(situation for situation, _ in by_cell))
    asked = sorted({way for ways in by_cell.values() for way in ways})
    rows = [
        [situation, *(_cell(situation, place, by_cell.get((situation, place), {}), wrong) for place in NODES)]
        for situation in situations
    ]
    total = sum(int(each.get("count") or 1) for each in run.of(SUITE, "answer"))
    words = (
        f"{total} answers in one window. ● 200: send traffic here. ○ 503: do not. ✕: no answer. n counts equal "
        f"answers; clients with different answers are listed separately. Clients: {_ways(asked)}."
    )
    parts: list[Block] = [Table.of(["pods of the Service", *NODES], rows, words)] if rows else []
    if others:
        lines = [
            [question, *_counted(_tally(answers)), wrong.get(question, "as required")]
            for question, answers in others.items()
        ]
        others_too = Table.of(["question", "answer", "n", "verdict"], lines)
        parts.append(Fold("Other addresses, methods and paths, and the VIP", (others_too,)))
    return parts


def _ways(asked: Iterable[str]) -> str:
    clients: dict[str, list[str]] = {}
    for way in asked:
        client, _, family = way.rpartition(" ")
        clients.setdefault(client, []).append(family.replace("ip", "IP"))
    return "; ".join(f"{client} ({', '.join(families)})" for client, families in clients.items())


def _not_right(run: RecordedRun) -> dict[str, str]:
    """The verdicts other than pass and unsupported, by question."""
    found: dict[str, str] = {}
    for check, verdict in run.verdicts.items():
        if check.startswith("healthcheck.") and verdict.status.value not in ("pass", "unsupported"):
            question = check.removeprefix("healthcheck.").rpartition(".")[0]
            found[question] = f"{verdict.status.value}: {shorten(verdict.observed, 80)}"
    return found


def _cell(situation: str, place: str, ways: Mapping[str, list[Record]], wrong: Mapping[str, str]) -> Words:
    if not ways:
        return "not tested"
    alike: dict[str, list[str]] = {}
    total: Counter[str] = Counter()
    for way, answers in sorted(ways.items()):
        tally = _tally(answers)
        total += tally
        key = (
            "; ".join(f"{words} x{count}" for words, count in tally.most_common())
            if len(tally) > 1
            else next(iter(tally))
        )
        alike.setdefault(key, []).append(way)
    lines: list[tuple[Inline, ...]] = []
    for words, of in sorted(alike.items(), key=lambda item: -len(item[1])):
        count = f" n = {total[words]}" if words in total else ""
        lines.append((Strong(f"{_sign(words)} {words}"), count if len(alike) == 1 else f"{count} — {', '.join(of)}"))
    judged = [
        wrong[key]
        for key in (f"{situation}.{way.rpartition(' ')[2]}.{way.rpartition(' ')[0]}-to-{place}" for way in ways)
        if key in wrong
    ]
    if len(alike) > 1:
        lines.append((Strong("≠ answers differ"),))
    lines += [(Strong(f"✗ {why}"),) for why in dict.fromkeys(judged)]
    return tuple(part for at, line in enumerate(lines) for part in (("; ",) if at else ()) + line)


def _counted(tally: Counter[str]) -> list[str | int]:
    words = "; ".join(f"{each} x{count}" if len(tally) > 1 else each for each, count in tally.most_common())
    return [f"{_sign(words)} {words}", tally.total()]


# --------------------------------------------------------------------------------------------------------- long windows
def _long(run: RecordedRun) -> list[Block]:
    rows = []
    for kind, check, words in (
        ("stable", "stable.never-wrong", "steady"),
        ("cordoned", "cordoned.status", "node cordoned"),
    ):
        nodes: dict[tuple[str, str], Counter[str]] = {}
        for each in run.of(SUITE, kind):
            node = (str(each.get("place")), str(each.get("family")))
            nodes.setdefault(node, Counter()).update(_tally([each]))
        alike: dict[tuple[str, tuple[str, ...]], list[tuple[str, Counter[str]]]] = {}
        for (place, family), tally in nodes.items():
            alike.setdefault((place, tuple(sorted(tally))), []).append((family, tally))
        for (place, _), of in alike.items():
            families = ", ".join(family for family, _ in of)
            verdicts = (run.verdicts.get(f"healthcheck.{check}.{family.lower()}.{place}") for family, _ in of)
            judged = ", ".join(dict.fromkeys(each.status.value for each in verdicts if each)) or "no verdict"
            rows.append([f"{words}, {place} ({families})", *_counted(summed(tally for _, tally in of)), judged])
    for each in run.of(SUITE, "leaving"):
        dialled = tallied(summed([each.get("dialled")]))
        more = f"nodePort in that time: {dialled}; {each.get('foreign') or 0} with another source"
        trouble = "; ".join(str(each[name]) for name in ("trouble", "disbelieved") if each.get(name))
        answers = _counted(_tally(each.get("answers") or []))
        rows.append([f"last pod terminating, {each.get('family')}", *answers, f"{more}. {trouble}"])
    if not rows:
        return []
    words = "Every answer counts: of unchanged Services, while nodes are cordoned, and while a pod terminates."
    parts: list[Block] = [Table.of(["window and node", "answers", "n", "verdict, or details"], rows, words)]
    for each in run.of(SUITE, "disrupted"):
        parts.append(Text(f"{each.get('disruption')} of {each.get('node')}: {each.get('words')}"))
    return headed("Windows in which no answer may change", parts)


# -------------------------------------------------------------------------------------------------------------- rounds
def _rounds(run: RecordedRun) -> list[Block]:
    found = run.of(SUITE, "round")
    if not found:
        return []
    followed: dict[str, list[Record]] = {}
    for each in found:
        for node, status in each["status"].items():
            followed.setdefault(str(node), []).append(status)
    drawing = Drawing("health-rounds", "Time that each node's health check takes to follow a change of placement", "")
    took = [at for of in followed.values() for each in of if (at := real(each.get("seconds"))) is not None]
    scale, y, rows, words = scale_of(took, 180, WIDTH - 230), 26.0, [], []
    for at, name in enumerate(("p50", "p95", "max", "n", "never")):
        drawing.text(WIDTH - 190 + at * 45, 14, name, anchor="end", fill=MUTED, size=11)
    for node in sorted(followed, key=_order):
        changed = [each for each in followed[node] if each.get("last") or real(each.get("seconds")) is None]
        idle = len(followed[node]) - len(changed)
        times = sorted(at for each in changed if (at := real(each.get("seconds"))) is not None)
        never = len(changed) - len(times)
        after = summed(each.get("after") for each in followed[node])
        later = tallied(after)
        drawing.text(0, y + 12, shorten(node, 28))
        drawing.line((scale.left, y + 8), (scale.right, y + 8), stroke=MUTED, faint=True)
        drawing.dots(((scale(t), y + 8 + (i % 3 - 1) * 3) for i, t in enumerate(times)), stroke=ACCENT)
        figures = [quantile(times, 0.5), quantile(times, 0.95), times[-1]] if times else [None, None, None]
        if times:
            drawing.ticks([scale(quantile(times, 0.5))], y, 16, stroke=INK, wide=1.8)
        texts = [*(MISSING if each is None else f"{each:.2f}" for each in figures), str(len(changed)), str(never)]
        for i, text in enumerate(texts):
            drawing.text(
                WIDTH - 190 + i * 45, y + 12, text, anchor="end", size=11, fill=BAD if i == 4 and never else ""
            )
        rows.append([node, *figures, len(changed), never, idle, later])
        words.append(f"{node}: p50 {texts[0]}, p95 {texts[1]}, max {texts[2]} s, n {len(changed)}, never {never}")
        y += 22
    drawing.axis(scale, 20, y)
    drawing.height, drawing.words = y + 20, "; ".join(words)
    caption = (
        f"{many(len(found), 'round')} with pods placed at random (seed {found[0].get('seed')}). A dot is a round in "
        "which the node's answer had to change: seconds from the API server's answer until the health check was right "
        "three times in a row. The stroke is the median; quantiles are nearest-rank."
    )
    head = ["node", "p50 (s)", "p95 (s)", "max (s)", "n", "never", "rounds without change", "answers after that"]
    numbers = Fold("Numbers", (Table.of(head, rows),))
    return headed("Placement rounds", [Figure(drawing, caption), numbers, Fold("Every round", (_every(found),))])


def _order(node: str) -> tuple[int, str]:
    place = node.rpartition(" ")[0]
    return (NODES.index(place) if place in NODES else len(NODES), node)


def _every(found: Iterable[Record]) -> Table:
    rows = []
    for each in found:
        truth = ", ".join(f"{place} {count}" for place, count in (each.get("truth") or {}).items())
        slow = [
            f"{node} {t:.2f} s" if (t := real(status.get("seconds"))) is not None else f"{node} never"
            for node, status in sorted(each["status"].items())
            if status.get("last") or real(status.get("seconds")) is None
        ]
        rows.append(
            [str(each.get("number")), shorten(each.get("done"), 160), truth, ", ".join(slow) or "no change required"]
        )
    return Table.of(["round", "change", "pods by node after it", "health check right after"], rows)


# ------------------------------------------------------------------------------------------------------- a port's life
def _life(run: RecordedRun) -> list[Block]:
    found = run.of(SUITE, "step")
    if not found:
        return []
    rows = []
    for each in found:
        claim = str(each.get("claim"))
        verdict = run.verdicts.get(f"healthcheck.lifecycle.{claim}")
        ports = dict(each.get("ports") or {})
        held = [port for port in ports.values() if port is not None]
        if len(ports) > 3:
            shown = f"{len(held)} ports, {len(set(held))} different"
        else:
            shown = ", ".join(f"{name}: {'none' if port is None else port}" for name, port in ports.items())
        refused = each.get("refused")
        if refused:
            shown = f"refused, {refused[0]} {refused[1]}: {shorten(refused[2], 140)}"
        heard = summed((each.get("listeners") or {}).values())
        nodes = tallied(heard)
        shown += f" — {each['trouble']}" if each.get("trouble") else ""
        judged = verdict.status.value if verdict else "no verdict"
        rows.append([claim, str(each.get("words")), shown or MISSING, nodes or MISSING, judged])
    words = f"{len(found)} steps, in order."
    head = ["step", "action", "health-check node port", "answers at the port on all nodes", "verdict"]
    return headed("The life of a health-check port", [Table.of(head, rows, words)])
