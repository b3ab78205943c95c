"""Timelines of single endpoint changes: health checks, the load balancer's decision, and requests."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from esipp.base.document import Block, Figure, Fold, Table, number
from esipp.base.drawing import ACCENT, BAD, INK, MUTED, WIDTH, Drawing, Scale, staggered
from esipp.base.plural import counted as many
from esipp.judging.showing import real, shorten
from esipp.ledger.reading import RecordedRun
from esipp.scenarios.endpoint_change.bounds import SUITE, Bound, bounds

LEFT = 150.0
BEFORE = 0.5
"""Seconds before the call that the figure includes."""

MOST_SECONDS = 15.0
MOST_NODES = 8
LANE = 15.0
SIGNS = {"timeout": "x", "unreachable": "x", "pending": "x", "refused": "v", "reset": "o"}
"""The signs of requests without a right answer; other outcomes are a plus."""

Record = Mapping[str, Any]


class Event(NamedTuple):
    """One endpoint change and its requests of one family."""

    balancer: str
    family: str
    move: Record
    seen: Record

    @property
    def outage(self) -> float:
        """The longest time without an answer, in seconds."""
        return real(self.seen.get("outage")) or 0.0

    @property
    def weight(self) -> tuple[float, bool]:
        """The severity of an event; of the two halves of a moved pod, the removal owns the losses."""
        return self.outage, not self.move.get("up") and bool(self.seen.get("used"))

    @property
    def name(self) -> str:
        """The event in words."""
        way = "gained a pod" if self.move.get("up") else "lost its pod"
        return (
            f"{self.balancer} {self.family}, endpoint change {self.move.get('number')}: {self.move.get('move')}, "
            + (f"{self.move.get('node')} {way}")
        )


class Stretch(NamedTuple):
    """Equal probes in a row, from the start of the first to the start of the last."""

    since: float
    until: float
    probes: int
    outcome: str
    node: str

    def starts(self, scale: Scale) -> list[float]:
        """The start times on the axis, spread evenly."""
        step = (self.until - self.since) / max(1, self.probes - 1)
        times = (self.since + number * step for number in range(min(self.probes, 2000)))
        return [at for at in times if scale.within(at)]


def stretches(run: RecordedRun) -> dict[str, list[Stretch]]:
    """All streams of probes by name."""
    found: dict[str, list[Stretch]] = {}
    for each in run.of(SUITE, "stretch"):
        who = each.get("answered_by") or []
        for since, until, probes, outcome, by in each["stretches"]:
            node = str(who[by][1]) if by < len(who) else ""
            found.setdefault(str(each["stream"]), []).append(
                Stretch(float(since), float(until), int(probes), str(outcome), node)
            )
    return found


def events(run: RecordedRun) -> list[Event]:
    """All events, the worst last."""
    found = [
        Event(str(move["balancer"]), str(family), move, seen)
        for move in run.of(SUITE, "move")
        for family, seen in (move.get("traffic") or {}).items()
    ]
    return sorted(found, key=lambda each: each.weight)


def timelines(run: RecordedRun) -> list[Block]:
    """The worst event and a median event of the same load balancer; the worst of each other one folded."""
    found = events(run)
    if not found:
        return []
    streams, known = stretches(run), bounds(run)
    worst = found[-1]
    peers = [
        each for each in found if each.balancer == worst.balancer and not each.move.get("up") and each.seen.get("used")
    ]
    shown = [(worst, "worst", "The worst endpoint change")]
    if peers and (middle := peers[(len(peers) - 1) // 2]) is not worst:
        of = f"the median of {many(len(peers), 'removal')} of {worst.balancer} by longest outage"
        shown.append((middle, "median", f"A median endpoint change ({of})"))
    parts: list[Block] = [block for each, ident, said in shown for block in _figure(each, streams, known, ident, said)]
    others = list(dict.fromkeys(each.balancer for each in reversed(found) if each.balancer != worst.balancer))
    for at, balancer in enumerate(others):
        event = [each for each in found if each.balancer == balancer][-1]
        drawn = _figure(event, streams, known, f"other-{at}", f"The worst endpoint change of {balancer}")
        parts.append(Fold(f"The worst endpoint change of {balancer} (longest outage {event.outage:.2f} s)", drawn))
    return parts


def moments(event: Event) -> list[tuple[float, str]]:
    """The moments of an event, in order."""
    move, seen, up = event.move, event.seen, bool(event.move.get("up"))
    known = [
        (move.get("cause"), "call"),
        (move.get("trigger"), "pod ready" if up else "pod unready or terminating"),
        (move.get("slice"), "in the EndpointSlices" if up else "out of the EndpointSlices"),
        ((move.get("health") or {}).get(event.family), f"health check {'200' if up else '503'}"),
        (move.get("path"), "nodePort answers" if up else "nodePort stops answering"),
        (seen.get("decision"), f"decided: {'healthy' if up else 'unhealthy'}"),
        (seen.get("at"), f"{'first' if up else 'last'} request through the node"),
    ]
    return sorted((at, said) for value, said in known if (at := real(value)) is not None)


def _figure(
    event: Event, streams: Mapping[str, list[Stretch]], known: Mapping[str, Bound], ident: str, said: str
) -> tuple[Block, ...]:
    kinds = ("timed_out", "refused", "reset", "wrong")
    losses = ", ".join(f"{event.seen.get(kind) or 0} {kind.replace('_', ' ')}" for kind in kinds)
    hole = real(event.seen.get("black_hole"))
    words = f"{said}: {event.name}. Requests: {losses}; longest outage {event.outage:.2f} s"
    words += f"; black hole {hole:.2f} s" if hole is not None else ""
    cause = real(event.move.get("cause")) or 0.0
    rows = [[what, f"{at - cause:.3f}"] for at, what in moments(event)]
    numbers = Table.of(["moment", "seconds after the call"], rows)
    drawing = _timeline(event, streams, known.get(event.balancer, Bound(None, "")), f"convergence-{ident}", words)
    return Figure(drawing, f"{words}."), Fold("Moments", (numbers,))


def _timeline(event: Event, streams: Mapping[str, list[Stretch]], bound: Bound, ident: str, words: str) -> Drawing:
    seen = moments(event)
    times = ", ".join(f"{what} {at - (real(event.move.get('cause')) or 0):.2f} s" for at, what in seen)
    drawing = Drawing(ident, event.name, f"{words}. Seconds after the call: {times}")
    cause = real(event.move.get("cause")) or 0.0
    checks = {
        name.split("health check of ")[1].rsplit(" ", 1)[0]: of
        for name, of in streams.items()
        if name.startswith(f"moves-{event.balancer}: health check of ") and name.endswith(f" {event.family}")
    }
    hole = _hole(event, bound, checks)
    ends = [at for at, _ in seen] + ([hole + bound.seconds] if hole is not None and bound.seconds is not None else [])
    ends += [at for at in (real(event.seen.get("last_lost")),) if at is not None]
    until = real(event.move.get("until")) or cause + 1
    end = min(cause + MOST_SECONDS, max(max(ends) + 0.4, min(until, max(ends) + 1.0)))
    scale = Scale(cause - BEFORE, end, LEFT, WIDTH - 12)
    labels = staggered([(scale(at) + 3, what) for at, what in seen if scale.within(at)], WIDTH)
    rows = max((row for _, row, _ in labels), default=0) + 1
    y = 8 + rows * 14.0
    top = y
    family = [s for name, of in streams.items() if _vip(name, event) for s in of]
    served = {each.node for each in family if each.node and each.starts(scale)}
    nodes = sorted(set(checks) | served, key=lambda node: (node != event.move.get("node"), node not in served, node))
    for node in nodes[:MOST_NODES]:
        y = _node(drawing, event, node, checks.get(node, []), family, scale, y)
    if len(nodes) > MOST_NODES:
        drawing.text(0, y + 12, f"and {many(len(nodes) - MOST_NODES, 'more node')}, not drawn", fill=MUTED, size=11)
        y += LANE
    y = _lost(drawing, family, scale, y)
    if hole is not None and bound.seconds is not None:
        drawing.words += f"; the bound runs from {hole - cause:.2f} to {hole + bound.seconds - cause:.2f} s"
        left, right = scale(hole), min(scale(hole + bound.seconds), scale.right)
        drawing.line((left, y + 6), (right, y + 6), stroke=BAD, wide=2)
        drawing.ticks([left, right], y + 1, 10, stroke=BAD, wide=2)
        drawing.text(LEFT - 8, y + 10, f"bound {bound.seconds:.2f} s", anchor="end", fill=BAD, size=11)
        y += 18
    for at, _ in seen:
        if scale.within(at):
            drawing.line((scale(at), 4), (scale(at), y), stroke=INK, wide=0.8, dash="2 3")
    for x, row, what in labels:
        drawing.text(x, 12 + row * 14, what, size=11, halo=True)
    shifted = Scale(scale.low - cause, scale.high - cause, scale.left, scale.right)
    drawing.axis(shifted, top, y, "s after the call", most=10)
    drawing.height = y + 20
    return drawing


def _hole(event: Event, bound: Bound, checks: Mapping[str, Sequence[Stretch]]) -> float | None:
    """The start of the load balancer's black hole: its end minus its length.

    Without a black hole, the node's 503 together with another node's 200 (docs/convergence.md).
    """
    hole, end = real(event.seen.get("black_hole")), real(event.seen.get("last_lost_by_steering"))
    cause, until = real(event.move.get("cause")), real(event.move.get("until"))
    unhealthy = real((event.move.get("health") or {}).get(event.family))
    if hole is None or bound.seconds is None or cause is None or until is None:
        return None
    if hole > 0 and end is not None:
        return end - hole
    others = (each for node, of in checks.items() if node != event.move.get("node") for each in of)
    firsts = [max(each.since, cause) for each in others if each.outcome == "200" and cause <= each.until]
    other = min((at for at in firsts if at < until), default=None)
    return None if unhealthy is None or other is None else max(unhealthy, other)


def _vip(name: str, event: Event) -> bool:
    start = f"moves-{event.balancer}: VIP "
    return name.startswith(start) and (":" in name[len(start) :]) is (event.family == "IPv6")


def _node(
    drawing: Drawing,
    event: Event,
    node: str,
    checks: Iterable[Stretch],
    family: Iterable[Stretch],
    scale: Scale,
    y: float,
) -> float:
    """The lanes of a node: its health check, and the requests that it answered."""
    mine = node == event.move.get("node")
    drawing.text(LEFT - 8, y + 16, shorten(node, 21), anchor="end", bold=mine)
    health(drawing, checks, scale, y + 3)
    for each in family:
        if each.node == node and each.outcome == "answered":
            drawing.ticks((scale(at) for at in each.starts(scale)), y + LANE + 1, 9, stroke=ACCENT)
    drawing.line((LEFT, y + LANE + 13), (scale.right, y + LANE + 13), stroke=MUTED, faint=True)
    return y + 2 * LANE + 2


def health(drawing: Drawing, found: Iterable[Stretch], scale: Scale, y: float) -> None:
    """A strip of a health check's answers: 200 a full bar, 503 an empty bar, no answer a dotted line."""
    for each in found:
        if each.until < scale.low or each.since > scale.high:
            continue
        left, right = scale(max(each.since, scale.low)), scale(min(each.until, scale.high))
        if each.outcome == "200":
            drawing.box(left, y, right - left, 9, fill=INK)
        elif each.outcome == "503":
            drawing.box(left, y, right - left, 9, stroke=INK)
        else:
            drawing.line((left, y + 5), (max(right, left + 2), y + 5), stroke=INK, wide=1.4, dash="1.5 2.5")
        if right - left > 34 and each.outcome in ("200", "503"):
            fill = "var(--paper,#fff)" if each.outcome == "200" else INK
            drawing.text(left + 4, y + 8, each.outcome, size=9, fill=fill)


def _lost(drawing: Drawing, family: Iterable[Stretch], scale: Scale, y: float) -> float:
    by_outcome: dict[str, list[float]] = {}
    for each in family:
        if each.outcome != "answered" and (starts := each.starts(scale)):
            by_outcome.setdefault(each.outcome, []).extend(starts)
    for outcome, starts in sorted(by_outcome.items()):
        sign = SIGNS.get(outcome, "+")
        drawing.text(LEFT - 8, y + 11, f"{shorten(outcome, 14)}, {len(starts)}", anchor="end", fill=BAD, size=11)
        drawing.signs(((scale(at), y + 7) for at in starts), sign)
        y += LANE + 1
    if not by_outcome:
        drawing.text(LEFT - 8, y + 11, "none lost", anchor="end", fill=MUTED, size=11)
        y += LANE
    return y


def legend() -> str:
    """How to read a timeline."""
    return (
        "Each node has two lines. The upper one is its health check: full bar 200, empty bar 503, dotted no answer. "
        "The lower one has a stroke for each request through the VIP that the node answered. The changed node is bold. "
        "Unanswered requests are below the nodes: a cross timed out, a triangle was refused, a diamond was reset. "
        f"Equal probes in a row are drawn at equal distances. The figure starts {number(BEFORE, 1)} s before the call."
    )
