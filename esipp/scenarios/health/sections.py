"""The section on health checks: answers of each node, how they follow pods, and the life of a port."""

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from esipp.base.document import MISSING, Block, Figure, Fold, Inline, Section, Strong, Table, Text, Words
from esipp.base.drawing import ACCENT, BAD, INK, MUTED, WIDTH, Drawing, scale_of
from esipp.base.plural import counted
from esipp.checks.health import LOCAL_PODS, Answer, Place, Question, Situation, parts_of
from esipp.checks.model import OUTSIDE, Family, Outcome
from esipp.judging.scenario import Sections
from esipp.judging.showing import attempted, headed, shorten, summed, tallied
from esipp.judging.statistics import Distribution
from esipp.ledger.reading import RecordedRun
from esipp.scenarios.health.evidence import Fact, Followed, HealthEvidence, Node, Round, follow_times

ID = "health"
TITLE = "Health checks by node"
WEIGHT = "x-load-balancing-endpoint-weight"
NODES = ("endpoint-node", "bare-node", "other-node", "control-plane")
"""The nodes with a column; questions about others are in the table below."""


def section(run: RecordedRun) -> Section:
    """The section; empty if the suite did not run."""
    seen = run.evidence_of(HealthEvidence) or HealthEvidence()
    parts = {
        "The answers": lambda: _answers(run, seen.answers),
        "The steady windows": lambda: _long(run, seen),
        "The placement rounds": lambda: _rounds(seen.rounds, int(run.header.get("seed", 0))),
        "The life of a port": lambda: _life(run, seen.life),
    }
    return attempted(ID, TITLE, parts)


def said(answer: Answer) -> str:
    """An answer in words: status and count of local endpoints, or the outcome without an answer."""
    if answer.outcome is not Outcome.ANSWERED:
        return answer.words
    words = answer.words
    try:
        count = json.loads(answer.body).get("localEndpoints")
    except (ValueError, AttributeError):
        count = None
    weight = answer.headers.get(WEIGHT)
    if count is not None:
        words += f", {count} local"
        words += f" (weight {weight})" if weight is not None and weight != str(count) else ""
    elif weight is not None:
        words += f", weight {weight}"
    return words


def _tally(answers: Iterable[Answer]) -> Counter[str]:
    found: Counter[str] = Counter()
    for each in answers:
        found[said(each)] += each.count
    return found


def _sign(words: str) -> str:
    """The sign of an answer: full to receive traffic, empty to receive none, a cross for no answer."""
    return "●" if words.startswith("200") else "○" if words.startswith("503") else "✕"


# ------------------------------------------------------------------------------------------------------- by situation
def _answers(run: RecordedRun, asked_of: Mapping[str, Sequence[Answer]]) -> list[Block]:
    by_cell: dict[tuple[str, str], dict[str, list[Answer]]] = {}
    others: dict[str, Sequence[Answer]] = {}
    for question, answers in asked_of.items():
        of = parts_of(question)
        if of.place in NODES and not of.otherwise:
            by_cell.setdefault((of.situation, of.place), {}).setdefault(f"{of.client} {of.family}", []).extend(answers)
        else:
            others[question] = answers
    if not by_cell and not others:
        return []
    wrong = _not_right(run)
    situations = list(dict.fromkeys(situation for situation, _ in by_cell))
    asked = sorted({way for ways in by_cell.values() for way in ways})
    rows = [
        [situation, *(_cell(situation, place, by_cell.get((situation, place), {}), wrong) for place in NODES)]
        for situation in situations
    ]
    total = sum(each.count for answers in asked_of.values() for each in answers)
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


def _cell(situation: str, place: str, ways: Mapping[str, list[Answer]], wrong: Mapping[str, str]) -> Words:
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
def _long(run: RecordedRun, seen: HealthEvidence) -> list[Block]:
    rows = []
    for windows, check, words in (
        (seen.stable, "stable.never-wrong", "steady"),
        (seen.cordoned, "cordoned.status", "node cordoned"),
    ):
        alike: dict[tuple[str, tuple[str, ...]], list[tuple[str, Counter[str]]]] = {}
        for (place, family), answers in windows.items():
            tally = _tally(answers)
            alike.setdefault((place.value, tuple(sorted(tally))), []).append((family.value, tally))
        for (at, _), of in alike.items():
            families = ", ".join(name for name, _ in of)
            verdicts = (run.verdicts.get(f"healthcheck.{check}.{name.lower()}.{at}") for name, _ in of)
            judged = ", ".join(dict.fromkeys(each.status.value for each in verdicts if each)) or "no verdict"
            rows.append([f"{words}, {at} ({families})", *_counted(summed(tally for _, tally in of)), judged])
    for family, window in seen.leaving.items():
        dialled = tallied(Counter(window.dialled))
        more = f"nodePort in that time: {dialled}; {window.foreign} with another source"
        trouble = "; ".join(each for each in (window.trouble, window.disbelieved) if each)
        answered = _counted(_tally(window.answers))
        rows.append([f"last pod terminating, {family.value}", *answered, f"{more}. {trouble}"])
    if not rows:
        return []
    words = "Every answer counts: of unchanged Services, while nodes are cordoned, and while a pod terminates."
    parts: list[Block] = [Table.of(["window and node", "answers", "n", "verdict, or details"], rows, words)]
    for proof in seen.proofs:
        parts.append(Text(f"{proof.disruption.value} of {proof.node}: {proof.words}"))
    return headed("Windows in which no answer may change", parts)


# -------------------------------------------------------------------------------------------------------------- rounds
def _rounds(found: Sequence[Round], seed: int) -> list[Block]:
    if not found:
        return []
    followed: dict[str, list[Followed]] = {}
    for played in found:
        for node, status in _by_name(played.status):
            followed.setdefault(node, []).append(status)
    drawing = Drawing("health-rounds", "Time that each node's health check takes to follow a change of placement", "")
    took = [each.seconds for of in followed.values() for each in of if each.seconds is not None]
    scale, y, rows, words = scale_of(took, 180, WIDTH - 230), 26.0, [], []
    for at, name in enumerate(("p50", "p95", "max", "n", "never")):
        drawing.text(WIDTH - 190 + at * 45, 14, name, anchor="end", fill=MUTED, size=11)
    for node in sorted(followed, key=_order):
        changed = [each for each in followed[node] if each.last or each.seconds is None]
        idle = len(followed[node]) - len(changed)
        times = sorted(each.seconds for each in changed if each.seconds is not None)
        never = len(changed) - len(times)
        later = tallied(summed(each.after for each in followed[node]))
        drawing.text(0, y + 12, shorten(node, 28))
        drawing.line((scale.left, y + 8), (scale.right, y + 8), stroke=MUTED, faint=True)
        drawing.dots(((scale(t), y + 8 + (i % 3 - 1) * 3) for i, t in enumerate(times)), stroke=ACCENT)
        spread = Distribution.of(times)
        figures = [spread.p50, spread.p95, spread.most] if times else [None, None, None]
        if times:
            drawing.ticks([scale(spread.p50)], y, 16, stroke=INK, wide=1.8)
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
        f"{counted(len(found), 'round')} with pods placed at random (seed {seed}). A dot is a round in "
        "which the node's answer had to change: seconds from the API server's answer until the health check was right "
        "three times in a row. The stroke is the median; quantiles are nearest-rank."
    )
    head = ["node", "p50 (s)", "p95 (s)", "max (s)", "n", "never", "rounds without change", "answers after that"]
    numbers = Fold("Numbers", (Table.of(head, rows),))
    return headed("Placement rounds", [Figure(drawing, caption), numbers, Fold("Every round", (_every(found),))])


def _order(node: str) -> tuple[int, str]:
    place = node.rpartition(" ")[0]
    return (NODES.index(place) if place in NODES else len(NODES), node)


def _by_name(of: Mapping[Node, Followed]) -> Iterator[tuple[str, Followed]]:
    return ((f"{place.value} {family.value}", each) for (place, family), each in of.items())


def _every(found: Iterable[Round]) -> Table:
    rows = []
    for each in found:
        truth = ", ".join(f"{place.value} {count}" for place, count in each.truth.items())
        slow = [
            f"{node} {status.seconds:.2f} s" if status.seconds is not None else f"{node} never"
            for node, status in sorted(_by_name(each.status), key=lambda item: item[0])
            if status.last or status.seconds is None
        ]
        rows.append([str(each.number), shorten(each.done, 160), truth, ", ".join(slow) or "no change required"])
    return Table.of(["round", "change", "pods by node after it", "health check right after"], rows)


# ------------------------------------------------------------------------------------------------------- a port's life
def _life(run: RecordedRun, found: Mapping[str, Fact]) -> list[Block]:
    if not found:
        return []
    rows = []
    for claim, fact in found.items():
        verdict = run.verdicts.get(f"healthcheck.lifecycle.{claim}")
        held = [port for port in fact.ports.values() if port is not None]
        if len(fact.ports) > 3:
            shown = f"{len(held)} ports, {len(set(held))} different"
        else:
            shown = ", ".join(f"{name}: {'none' if port is None else port}" for name, port in fact.ports.items())
        if fact.refused:
            code, reason, message = fact.refused
            shown = f"refused, {code} {reason}: {shorten(message, 140)}"
        nodes = tallied(summed(fact.listeners.values()))
        shown += f" — {fact.trouble}" if fact.trouble else ""
        judged = verdict.status.value if verdict else "no verdict"
        rows.append([claim, fact.words, shown or MISSING, nodes or MISSING, judged])
    words = f"{len(found)} steps, in order."
    head = ["step", "action", "health-check node port", "answers at the port on all nodes", "verdict"]
    return headed("The life of a health-check port", [Table.of(head, rows, words)])


# --------------------------------------------------------------------------------------------------------- the summary
PLACES = (Place.ENDPOINT_NODE, Place.BARE_NODE, Place.OTHER_NODE, Place.CONTROL_PLANE)


def summary(run: RecordedRun) -> Section:
    """What a run's summary shows: each node's answer by situation, and how nodes followed the rounds."""
    seen = run.evidence_of(HealthEvidence) or HealthEvidence()
    rows: dict[tuple[str, ...], list[str]] = {}
    for situation in Situation:
        for family in Family:
            shown = tuple(_outside(seen, situation, place, family) for place in PLACES)
            if any(shown):
                rows.setdefault((situation.value, *shown), []).append(family.value)
    head = ("from outside, by pods", *(place.value for place in PLACES), "")
    table = Table(head, tuple((*key, "" if len(of) > 1 else of[0]) for key, of in rows.items()))
    played = [Text(_followed(seen.rounds, int(run.header.get("seed", 0))))] if seen.rounds else []
    return Section("health checks", (*([table] if rows else []), *played))


def _outside(seen: HealthEvidence, situation: Situation, place: Place, family: Family) -> str:
    """Status and localEndpoints, as a client outside sees them."""
    tally: Counter[str] = Counter()
    for answer in seen.answers.get(Question(situation, place, OUTSIDE, family).key, ()):
        weight = answer.headers.get(WEIGHT)
        tally[answer.words + (f" ({weight} local)" if weight else "")] += answer.count
    shown = ", ".join(words if len(tally) == 1 else f"{words} x{count}" for words, count in tally.most_common())
    wanted = "200" if LOCAL_PODS[situation].get(place) else "503"
    return shown + (" !" if shown and any(not words.startswith(wanted) for words in tally) else "")


def _followed(rounds: Sequence[Round], seed: int) -> str:
    """The times that nodes took to follow changes of placement."""
    of = follow_times(rounds)
    words = f"placement: {len(rounds)} rounds of pods placed at random (seed {seed}), {of.answers} answers"
    if of.most is None:
        return words
    figures = f"p50 {of.p50:.2f} s, p95 {of.p95:.2f} s, max {of.most:.2f} s; never: {of.never}"
    return f"{words}; time until the status was right: {figures}"


SECTIONS = Sections(section=section, summary=summary)
