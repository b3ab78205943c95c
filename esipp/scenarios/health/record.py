"""Summary lines for health checks: each node's answer by situation, and how nodes followed the rounds."""

from collections import Counter

from esipp.checks.health import LOCAL_PODS, Place, Question, Situation
from esipp.checks.model import OUTSIDE, Family
from esipp.scenarios.health.evidence import Seen, follow_times

NODES = (Place.ENDPOINT_NODE, Place.BARE_NODE, Place.OTHER_NODE, Place.CONTROL_PLANE)


def section(seen: Seen, seed: int) -> list[str]:
    """The lines; empty without evidence."""
    lines = _table(seen)
    rounds = _rounds(seen, seed)
    return lines + ([""] if lines and rounds else []) + rounds


def _table(seen: Seen) -> list[str]:
    """Status and localEndpoints, as a client outside sees them; a family of its own where they differ."""
    rows: dict[tuple[str, ...], list[str]] = {}
    for situation in Situation:
        for family in Family:
            said = tuple(_say(seen, situation, place, family) for place in NODES)
            if any(said):
                rows.setdefault((situation.value, *said), []).append(family.value)
    if not rows:
        return []
    head = ("health check, from outside", *(place.value for place in NODES), "")
    table = [head, *((*key, "" if len(families) > 1 else families[0]) for key, families in rows.items())]
    widths = [max(len(line[column]) for line in table) for column in range(len(head))]
    return ["  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip() for line in table]


def _say(seen: Seen, situation: Situation, place: Place, family: Family) -> str:
    answers = seen.answers.get(Question(situation, place, OUTSIDE, family).key, ())
    tally: Counter[str] = Counter()
    for answer in answers:
        weight = answer.headers.get("x-load-balancing-endpoint-weight")
        tally[answer.words + (f" ({weight} local)" if weight else "")] += answer.count
    said = ", ".join(words if len(tally) == 1 else f"{words} x{count}" for words, count in tally.most_common())
    wanted = "200" if LOCAL_PODS[situation].get(place) else "503"
    return said + (" !" if said and any(not words.startswith(wanted) for words in tally) else "")


def _rounds(seen: Seen, seed: int) -> list[str]:
    """The times that nodes took to follow changes."""
    if not seen.rounds:
        return []
    of = follow_times(seen.rounds)
    lines = [f"placement: {len(seen.rounds)} rounds of pods placed at random (seed {seed}), {of.answers} answers"]
    if of.most is not None:
        figures = f"p50 {of.p50:.2f} s, p95 {of.p95:.2f} s, max {of.most:.2f} s; never: {of.never}"
        lines.append(f"  time until the status was right: {figures}")
    return lines
