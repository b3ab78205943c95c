"""Figures of gaps in steady traffic: the longest gaps and their budget, and phases with losses in detail."""

from collections.abc import Mapping, Sequence

from esipp.base.document import Block, Figure, Fold, Table, Text, number
from esipp.base.drawing import ACCENT, BAD, INK, MUTED, WIDTH, Drawing, Scale, scale_of, staggered
from esipp.base.plural import counted
from esipp.judging.showing import headed, health_strip, shorten
from esipp.scenarios.continuity.evidence import Window
from esipp.scenarios.continuity.windows import LEFT, Evidence, Judged, Way, key, mark

LANE = 16.0
AROUND = 0.6
"""Seconds before and after a phase that the figure includes."""

MOST_NODES = 6


def longest(seen: Evidence, verdicts: Mapping[tuple[str, str, str], Judged]) -> list[Block]:
    """The figure of the longest gap of each phase and way in, with the budget."""
    found = [each for each in seen.ways if each.gap]
    if not found:
        return [Text("No way in had a gap.")] if seen.ways else []
    scale = scale_of([*(each.longest for each in found), seen.budget or 0.0], LEFT + 60, WIDTH - 150)
    drawing = Drawing("continuity-gaps", "The longest gap by phase and way in, with the budget", "")
    y, top = 20.0, 16.0
    for phase in (phase for phase in seen.phases if any(each.phase == phase for each in found)):
        drawing.text(0, y + 12, shorten(phase, 18), bold=True)
        for way in dict.fromkeys(each.way for each in found if each.phase == phase):
            here = [each for each in found if (each.phase, each.way) == (phase, way)]
            drawing.text(LEFT + 52, y + 12, shorten(way, 26), anchor="end", size=11)
            drawing.line((scale.left, y + 8), (scale.right, y + 8), stroke=MUTED, faint=True)
            for each in here:
                _gap_mark(drawing, scale(each.longest), y + 8, each.family)
            said = list(dict.fromkeys(verdicts[each[:3]].words for each in here if each[:3] in verdicts))
            drawing.text(scale.right + 14, y + 12, "; ".join(said) or "no verdict", size=11)
            y += 16
        y += 6
    if seen.budget is not None:
        drawing.line((scale(seen.budget), top), (scale(seen.budget), y), stroke=BAD, wide=2)
        drawing.text(scale(seen.budget) + 4, 12, f"budget {seen.budget:.2f} s", fill=BAD, size=11)
    drawing.axis(scale, top, y)
    drawing.height = y + 20
    drawing.words = "; ".join(f"{each.phase}, {each.name}: {number(each.longest)} s" for each in found)
    words = (
        "From the start of the first to the start of the last missed request in a row. Filled, above the line: IPv4. "
        "Hollow, below the line: IPv6. The budget applies where the gap is judged; the judge extends it by the time in "
        "which the prober itself could not send. Elsewhere the gap is only recorded."
    )
    return headed("The longest gaps", [Figure(drawing, words)])


def _gap_mark(drawing: Drawing, x: float, y: float, family: str) -> None:
    if family == "IPv6":
        drawing.signs([(x, y + 4)], "o", stroke=ACCENT)
    else:
        drawing.dots([(x, y - 3)], stroke=ACCENT, wide=6)


def zooms(seen: Evidence) -> list[Block]:
    """The phases with losses in detail."""
    parts = []
    calm = []
    for at, window in enumerate(seen.windows):
        here = [each for each in seen.ways if each.phase == window.phase.value and (each.wrong or each.breaks)]
        if here:
            lost, late = sum(each.lost for each in here), sum(each.late for each in here)
            broken = sum(each.broken for each in here)
            ways = counted(len(here), "way in", "ways in")
            summary = f"{key(at)} {window.phase.value}: {lost} lost, {late} late, {broken} broken, on {ways}"
            parts.append(Fold(summary, _zoom(seen, at, window, here)))
        else:
            calm.append(f"{key(at)} {window.phase.value}")
    quiet = [each for each in seen.ways if each.phase == "quiet" and (each.wrong or each.breaks)]
    if quiet:
        summary = "; ".join(f"{each.name}: {each.lost} lost, {each.late} late of {each.requests}" for each in quiet)
        calm_words = f"Without a disruption: {summary}."
    else:
        calm_words = "Without a disruption, nothing was missed." if seen.ways else ""
    if calm:
        calm_words += f" Phases without losses: {', '.join(calm)}."
    return headed("Phases in detail", [Text(calm_words), *parts])


def _zoom(seen: Evidence, at: int, window: Window, here: Sequence[Way]) -> tuple[Block, ...]:
    begin = window.began
    moments = [at for way in here for at in way.moments]
    end = max([window.until, *moments]) + AROUND
    scale = Scale(-AROUND, end - begin, LEFT, WIDTH - 60)
    drawing = Drawing(f"continuity-{key(at).lower()}", f"{window.phase.value} in detail", "")
    causes = [each - begin for each in window.causes if scale.within(each - begin)]
    labels = [(scale(each), str(number_)) for number_, each in enumerate(causes, 1)]
    if window.ended is not None and scale.within(window.ended - begin):
        labels.append((scale(window.ended - begin), "done"))
    top = y = 20.0
    for x, row, text in staggered(labels, WIDTH, 10):
        if row == 0:
            drawing.text(x, 14, text, size=10, bold=True)
    for node, family, stream in seen.health[: MOST_NODES * 2]:
        runs = [e._replace(since=e.since - begin, until=e.until - begin) for e in stream.stretches()]
        name = f"health check of {shorten(node, 16)} {family.value}"
        drawing.text(LEFT - 8, y + 10, name, anchor="end", size=11, fill=MUTED)
        health_strip(drawing, runs, scale, y + 1)
        y += 13
    y += 4
    rows = []
    for way in here:
        drawing.text(LEFT - 8, y + 11, shorten(way.name, 32), anchor="end", size=11)
        drawing.line((LEFT, y + 14), (scale.right, y + 14), stroke=MUTED, faint=True)
        mark(drawing, way.wrong, way.breaks, scale, begin, y)
        gap = way.gap
        if gap is not None and gap.seconds:
            drawing.line((scale(gap.first - begin), y + 15), (scale(gap.last - begin), y + 15), stroke=INK, wide=2)
            drawing.text(scale.right + 4, y + 12, f"{gap.seconds:.2f} s", size=10)
        moves = [t - begin for t in _steers(seen, way) if scale.within(t - begin)]
        drawing.signs(((scale(t), y + 4) for t in moves), "v", stroke=ACCENT)
        span = f"{number(gap.first - begin)} to {number(gap.last - begin)}" if gap else number(None)
        rows.append([way.name, way.requests, way.lost, way.late, way.longest, span, way.broken])
        y += LANE
    if seen.budget is not None:
        left = scale(0.0)
        right = min(scale(seen.budget), scale.right)
        drawing.line((left, y + 8), (right, y + 8), stroke=BAD, wide=2)
        drawing.ticks([left, right], y + 3, 10, stroke=BAD, wide=2)
        drawing.text(LEFT - 8, y + 12, f"budget {seen.budget:.2f} s, to scale", anchor="end", fill=BAD, size=11)
        y += 18
    drawing.ticks((scale(each) for each in causes), top - 4, y - top + 4, stroke=INK, wide=0.7)
    drawing.axis(scale, top, y, "s", most=12)
    drawing.height = y + 20
    drawing.words = "; ".join(
        f"{w.name}: {w.lost} of {w.requests} lost, {w.late} late, longest gap {number(w.longest)} s" for w in here
    )
    head = ["way in", "requests", "lost", "late", "longest gap (s)", "from, to (s)", "broken"]
    words = (
        f"{window.words or window.trouble}. Numbered lines: actions. Tall stroke: lost. Short stroke: "
        "late. Diamond: wrong answer. Cross: an established connection that broke, or whose pod ended. A bar below "
        "marks the longest gap, with its length. A triangle: the reference load balancer reported other nodes in use."
    )
    return Figure(drawing, words), Fold("Numbers", (Table.of(head, rows),))


def _steers(seen: Evidence, way: Way) -> list[float]:
    found = ((of, steers) for of, steers in seen.seen.steers.items() if of.slug == way.way)
    return [each.at for _, steers in found for each in steers if each.family == way.family]
