"""The section on continuity: disruptions, and their effect on steady traffic on each way in."""

from esipp.base.document import MISSING, Block, Figure, Fold, Section, Strong, Table, Text, number
from esipp.base.drawing import MUTED, WIDTH, Drawing, Scale
from esipp.base.plural import counted, form
from esipp.checks.continuity import Phase
from esipp.judging.showing import attempted, headed, shorten
from esipp.ledger.reading import RecordedRun
from esipp.scenarios.continuity.evidence import ContinuityEvidence
from esipp.scenarios.continuity.gaps import longest, zooms
from esipp.scenarios.continuity.windows import LEFT, Evidence, Way, judged, key, mark

ID = "continuity"
TITLE = "Continuity"
LANE = 15.0


def section(run: RecordedRun) -> Section:
    """The section; empty if the suite did not run."""
    observed = run.evidence_of(ContinuityEvidence)
    if observed is None:
        return Section(TITLE)
    seen = Evidence.of(observed)
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
        (phase, family.value): seen.seen.in_phase(Phase(phase), seen.seen.control[family].samples)
        for phase in seen.phases
        for family in seen.families
        if family in seen.seen.control
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
            f"{counted(total, 'request')} on {counted(len(seen.lanes), 'way in', 'ways in')}; "
            f"{sum(w.lost for w in seen.ways)} lost, {sum(w.late for w in seen.ways)} late, "
            f"{counted(sum(w.broken for w in seen.ways), 'connection')} broken. "
            f"{len(busy)} of {counted(len(rows), 'line')} {form(len(busy), 'has', 'have')} a value other than zero."
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


def _numbers(way: Way | None) -> str:
    if way is None:
        return MISSING
    return f"{way.requests} / {way.lost} / {way.late} / {number(way.longest)} / {way.broken}"
