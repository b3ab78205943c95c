"""What reports show of continuity: phases and ways in, the evidence of each action, the longest gaps. Pure."""

from collections.abc import Iterator, Mapping, Sequence

from esipp.base.document import MISSING, Block, Cell, Figure, Fold, Pairs, Section, Strong, Table, Text, number
from esipp.base.drawing import ACCENT, BAD, INK, MUTED, WIDTH, Drawing, Scale, scale_of, staggered
from esipp.base.plural import counted as many
from esipp.base.plural import form
from esipp.checks.continuity import Phase, Way
from esipp.checks.model import Family
from esipp.checks.timing import Bound
from esipp.judging.scenario import Sections
from esipp.judging.showing import attempted, headed, health_strip, of_the_cluster, shorten
from esipp.ledger.reading import RecordedRun
from esipp.scenarios.continuity.evidence import ContinuityEvidence, Window, moves
from esipp.scenarios.continuity.judge import Judge
from esipp.scenarios.continuity.windows import LEFT, Evidence, Judged, WayInPhase, judged, key, mark

SUMMARY_TITLE = "continuity: steady traffic during disruptions"
COLUMNS = ("requests", "lost", "late", "gap (s)", "broken")


def summary(run: RecordedRun) -> Section:
    """The section; empty if the scenario did not run."""
    judge = run.analysed(ContinuityEvidence, Judge)
    if judge is None:
        return Section(SUMMARY_TITLE)
    if judge.seen.trouble:
        return Section(SUMMARY_TITLE, (Text(judge.seen.trouble),))
    return Section(SUMMARY_TITLE, tuple(_blocks(judge)))


def key_figures(run: RecordedRun) -> Iterator[tuple[str, str]]:
    """The lost requests of the rolling update, and of all phases."""
    judge = run.analysed(ContinuityEvidence, Judge)
    if judge is None or judge.seen.trouble:
        return
    streams, of = of_the_cluster(judge.seen.streams, lambda stream: stream[0].balancer)
    windows = [window.phase for window in judge.seen.windows]
    of_update = [Phase.ROLLING_UPDATE] if Phase.ROLLING_UPDATE in windows else []
    for phases, meanwhile in ((of_update, "in the rolling update"), ([Phase.QUIET, *windows], "in all steady traffic")):
        found = [judge.tally(phase, *stream) for phase in phases for stream in streams]
        if asked := sum(each.requests for each in found):
            yield "requests lost", f"{sum(each.lost for each in found):,} of {asked:,} {meanwhile}{of}"


def _blocks(judge: Judge) -> Iterator[Block]:
    seen, checking = judge.seen, judge.seen.checking
    bound = "unknown: the load balancer does not report it"
    if checking.bound is not None:
        bound = f"{checking.bound:.2f} s = (N+1) x period, N={checking.failures}, period {checking.period:.2f} s"
    yield Text(
        f"terminating pods keep serving for {seen.serves:.0f} s; clock precise to {1000 * seen.uncertainty:.1f} ms; "
        f"bound of the reference load balancers: {bound}; the cluster's own load balancer: {_own(seen.bound)}"
    )
    families = [family for family in Family if any(key[1] is family for key in seen.streams)]
    ways = list(dict.fromkeys(way for way, _ in seen.streams))
    rows: list[tuple[Cell, ...]] = []
    for phase in (Phase.QUIET, *(window.phase for window in seen.windows)):
        window = seen.window(phase)
        if window is not None and window.trouble:
            rows.append((f"{phase.value}: {window.trouble}", *[""] * len(COLUMNS) * len(families)))
            continue
        rows.append((f"{phase.value}:", *[""] * len(COLUMNS) * len(families)))
        rows += [(way.slug, *_sums(judge, phase, way, families)) for way in ways]
    heads = [name if at else f"{family.value} {name}" for family in families for at, name in enumerate(COLUMNS)]
    yield Table(("", *heads), tuple(rows))
    yield Pairs.of(
        (
            window.phase.value,
            f"{window.until - window.began:.1f} s: {window.words}"
            + (f"; NOT STABLE AGAIN: {window.unsettled}" if window.unsettled else ""),
        )
        for window in seen.windows
        if not window.trouble
    )


def _own(bound: Bound | None) -> str:
    return "no bound is promised" if bound is None else f"bound {bound.seconds:.2f} s, {bound.source}"


def _sums(judge: Judge, phase: Phase, way: Way, families: Sequence[Family]) -> Iterator[Cell]:
    for family in families:
        if (way, family) not in judge.seen.streams:
            yield from [None] * len(COLUMNS)
            continue
        numbers = judge.tally(phase, way, family)
        yield from (numbers.requests, numbers.lost, numbers.late, numbers.gap.seconds if numbers.gap else 0.0)
        yield len(judge.breaks(phase, way, family))


# -------------------------------------------------------------------------------------------------------------- figures
ID = "continuity"
TITLE = "Continuity"
LANE = 15.0


def section(run: RecordedRun) -> Section:
    """The section; empty if the suite did not run."""
    judge = run.analysed(ContinuityEvidence, Judge)
    if judge is None:
        return Section(TITLE)
    seen = Evidence.of(judge)
    parts = {
        "The disruptions": lambda: _begin(seen),
        "The timeline": lambda: _overview(seen),
        "The gaps": lambda: longest(seen, judged(run)),
        "The phases": lambda: zooms(seen),
        "The table": lambda: _tables(run, seen),
    }
    return attempted(ID, TITLE, parts)


def _begin(evidence: Evidence) -> list[Block]:
    seen = evidence.seen
    lines: list[Block] = []
    if seen.trouble:
        lines.append(Text(Strong(f"No measurement: {seen.trouble}")))
    parts = [
        f"a new connection on every way in each {seen.spacing:g} s",
        f"lost without an answer within {seen.timeout:g} s",
        f"terminating pods keep serving for {seen.serves:g} s",
    ]
    lines.append(Text("; ".join(parts) + f". {evidence.budget_words}."))
    for (way, family), why in seen.obstacles.items():
        lines.append(Text(f"{way.slug} {family.value} could not be tested: {why}"))
    if not seen.windows:
        lines.append(Text("No disruption was recorded: there was none, or the run ended early."))
    rows = [
        [
            f"{key(at)} {each.phase.value}",
            each.until - each.began,
            each.words or MISSING,
            "; ".join(why for why in (each.trouble, each.unsettled) if why) or MISSING,
        ]
        for at, each in enumerate(evidence.windows)
    ]
    if rows:
        lines.append(Table.of(["phase", "observed (s)", "evidence", "problems"], rows, "The disruptions, in order"))
    return lines


# ------------------------------------------------------------------------------------------------------------ overview
def _overview(seen: Evidence) -> list[Block]:
    if not seen.ways:
        return [Text("No way in was tested.")]
    begin, end = seen.span
    scale = Scale(0, max(1.0, end - begin), LEFT, WIDTH - 10)
    drawing = Drawing(
        "continuity-all", "Lost, late and wrong requests on every way in, over the whole time", seen.words
    )
    top, y = 24.0, 26.0
    bottom = y + LANE * len(seen.lanes) + 4
    for at, each in enumerate(seen.windows):
        left, right = (scale(min(end, max(begin, moment)) - begin) for moment in (each.began, each.until))
        drawing.box(left, top, right - left, bottom - top, fill=MUTED, faint=True)
        drawing.line((left, top), (left, bottom), stroke=MUTED, wide=0.8)
        drawing.text((left + right) / 2, 18, key(at), anchor="middle", bold=True)
    for name, of in seen.lanes.items():
        drawing.text(LEFT - 8, y + 11, shorten(name, 32), anchor="end", size=11)
        drawing.line((LEFT, y + LANE - 2), (scale.right, y + LANE - 2), stroke=MUTED, faint=True)
        mark(
            drawing, [each for way in of for each in way.wrong], [b for way in of for b in way.breaks], scale, begin, y
        )
        y += LANE
    drawing.axis(scale, top, bottom, "s", most=14)
    drawing.height = bottom + 20
    keys = ", ".join(f"{key(at)} {each.phase.value}" for at, each in enumerate(seen.windows))
    words = (
        "Tall stroke: a lost request. Short stroke: a late answer. Diamond: a wrong answer. Cross: an established "
        "connection that broke, or whose pod ended. Grey: a disruption and its effects until traffic was stable "
        f"({keys}). There are no disruptions in between."
    )
    return headed("The whole time", [Figure(drawing, words)])


# -------------------------------------------------------------------------------------------------------------- tables
def _tables(run: RecordedRun, seen: Evidence) -> list[Block]:
    verdicts = judged(run)
    control = {
        (phase, family.value): probes.get(Phase(phase), [])
        for family in seen.families
        if family in seen.seen.control
        for probes in [seen.seen.by_phase(seen.seen.control[family].samples)]
        for phase in seen.phases
    }
    rows: list[list[str | int | float | None]] = []
    for phase in seen.phases:
        for way in (each for each in seen.ways if each.phase == phase):
            said = verdicts.get((phase, way.way, way.family))
            judgement = f"{said.what}: {said.status}" if said else "no verdict"
            numbers = [way.requests, way.lost, way.late, way.longest, way.wrong_answers, way.broken]
            rows.append([f"{phase}, {way.way} {way.family}", *numbers, judgement])
        for family in sorted({family for of, family in control if of == phase}):
            asked = control[phase, family]
            lost = sum(not each.answered for each in asked)
            rows.append([f"{phase}, control {family}", len(asked), lost, None, None, None, None, "the control"])
    if not rows:
        return []
    head = ["phase, way in", "requests", "lost", "late", "longest gap (s)", "wrong answers", "broken", "verdict"]
    words = (
        f"Phases and ways in with losses. {seen.budget_words}; it applies where the gap is judged. Broken: established "
        "connections that broke while their pod stayed. The control is a listener on the endpoint node, without "
        "Service."
    )
    busy = [row for row in rows if any(isinstance(n, (int, float)) and n for n in row[2:7])]
    parts: list[Block] = []
    total = sum(way.requests for way in seen.ways)
    parts.append(
        Text(
            f"{many(total, 'request')} on {many(len(seen.lanes), 'way in', 'ways in')}; "
            f"{sum(w.lost for w in seen.ways)} lost, {sum(w.late for w in seen.ways)} late, "
            f"{many(sum(w.broken for w in seen.ways), 'connection')} broken. {len(busy)} of {many(len(rows), 'line')} "
            f"{form(len(busy), 'has', 'have')} a value other than zero."
        )
    )
    if busy:
        parts.append(Table.of(head, busy, words))
    parts.append(_all(seen))
    return headed("Phases and ways in", parts)


def _all(seen: Evidence) -> Fold:
    """A compact table of all phases and ways in: requests, lost, late, longest gap, broken."""
    ways = list(seen.lanes)
    by_place = {(each.phase, each.name): each for each in seen.ways}
    rows = [[phase, *(_numbers(by_place.get((phase, name))) for name in ways)] for phase in seen.phases]
    made = Table.of(["phase", *ways], rows, "requests / lost / late / longest gap in seconds / broken")
    return Fold("All phases and ways in, zeros included", (made,))


def _numbers(way: WayInPhase | None) -> str:
    if way is None:
        return MISSING
    return f"{way.requests} / {way.lost} / {way.late} / {number(way.longest)} / {way.broken}"


# ----------------------------------------------------------------------------------------------------------------- gaps
ZOOM_LANE = 16.0
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
        "Hollow, below the line: IPv6. The budget applies where the gap is judged. A gap near it is judged only if it "
        "was measured well enough. Elsewhere the gap is only recorded."
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
            ways = many(len(here), "way in", "ways in")
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


def _zoom(seen: Evidence, at: int, window: Window, here: Sequence[WayInPhase]) -> tuple[Block, ...]:
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
        turns = [t - begin for t in _moves(seen, way) if scale.within(t - begin)]
        drawing.signs(((scale(t), y + 4) for t in turns), "v", stroke=ACCENT)
        span = f"{number(gap.first - begin)} to {number(gap.last - begin)}" if gap else number(None)
        rows.append([way.name, way.requests, way.lost, way.late, way.longest, span, way.broken])
        y += ZOOM_LANE
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
        "marks the longest gap, with its length. A triangle: the load balancer went to other nodes, as the reference "
        "load balancer reported, or as the link address of the VIP showed."
    )
    return Figure(drawing, words), Fold("Numbers", (Table.of(head, rows),))


def _moves(seen: Evidence, way: WayInPhase) -> list[float]:
    """When a load balancer went to other nodes."""
    steers = ((of, steers) for of, steers in seen.seen.steers.items() if of.slug == way.way)
    links = (told for (of, family), told in seen.seen.links.items() if (of.slug, family.value) == (way.way, way.family))
    reported = [each.at for _, steers in steers for each in steers if each.family == way.family]
    return reported + [each.at for told in links for each in moves(told)]


SECTIONS = Sections(section=section, summary=summary, key_figures=key_figures)
