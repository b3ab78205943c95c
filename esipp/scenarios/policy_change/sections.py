"""What reports show of policy changes: the summary has times and lost requests, the page draws each change. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

from esipp.base.document import Block, Cell, Figure, Fold, Pairs, Section, Table, Text, number
from esipp.base.drawing import ACCENT, BAD, INK, MUTED, PAPER, WIDTH, Drawing, Scale
from esipp.base.plural import counted
from esipp.checks.model import Family, TrafficPolicy
from esipp.checks.policy_change import At, ChangingService, PolicyClaim
from esipp.judging.scenario import Sections
from esipp.judging.showing import attempt, headed, shorten, tallied
from esipp.judging.timeline import Sample, Stream, Stretch
from esipp.ledger.reading import RecordedRun
from esipp.scenarios.policy_change.evidence import GONE, UNANSWERED, Course, Ground, PolicyChangeEvidence, Shown, Window
from esipp.scenarios.policy_change.judge import end_of, followed, say_port_times, times

ID = "policy-changes"
TITLE = "Policy changes"
LEFT = 190.0
LANE = 17.0
MOST_LANES = 24
DIRECTIONS = (TrafficPolicy.CLUSTER, TrafficPolicy.LOCAL)


def summary(run: RecordedRun) -> Section:
    """The section; empty without observations."""
    seen = run.evidence_of(PolicyChangeEvidence) or PolicyChangeEvidence()
    blocks: list[Block] = [_isolation_in_short(seen.window)] if seen.window else []
    if seen.ground is not None and seen.courses:
        ground = seen.ground
        head = [name for to in DIRECTIONS for name in (f"to {to}: p50", "max", "n")]
        rows = [row for service, course in seen.witnessed.items() for row in _times_of(service, course, ground)]
        about = "seconds from the patch until new connections follow the policy for good; requests lost meanwhile"
        blocks += [Text(about), Table(("", *head, "lost"), tuple(rows))]
        blocks.append(Pairs.of(each for of in seen.witnessed.items() for each in _more(*of, ground)))
        if seen.witnesses or seen.blind:
            blocks.append(Text(_packets(seen)))
    return Section(TITLE.lower(), tuple(blocks))


def _isolation_in_short(window: Window) -> Text:
    made = Counter(name for name, _ in window.changes)
    changes = ", ".join(f"{name} {count} times" for name, count in sorted(made.items()))
    total = sum(each.count for of in window.evidence.observations.values() for each in of)
    paths = len(window.evidence.observations)
    doubt = f"; but {window.doubt()}" if window.doubt() else ""
    return Text(
        f"isolation: {total} connections on {paths} paths of unchanged Services; policy changes in that time: "
        f"{changes}{doubt}"
    )


def _packets(seen: PolicyChangeEvidence) -> str:
    """What packets say of the connections to changing Services, and to the controls."""
    followed = [each for made in seen.witnesses.values() for each in made]
    lies = [each for each in followed if each.contradiction]
    said = f"packets show {sum(each.seen for each in followed)} of {len(followed)} connections that were followed"
    return "; ".join(filter(None, (said, f"{len(lies)} contradict the echo server" if lies else "", seen.blind)))


def _times_of(service: ChangingService, course: Course, ground: Ground) -> Iterator[tuple[Cell, ...]]:
    for at, family in course.data:
        yield f"{service} {family} {at}", *_times(course, ground, at, family)


def _more(service: ChangingService, course: Course, ground: Ground) -> Iterator[tuple[str, str]]:
    made = len(list(course.changes_made()))
    if made < course.planned:
        yield str(service), f"{made} of {course.planned} policy changes"
    for (at, family), why in course.obstacles.items():
        yield f"{service} {family} {at}", why
    for family in Family:
        for claim in (PolicyClaim.HEALTH_CLOSED, PolicyClaim.HEALTH_AGAIN):
            if words := say_port_times(course, ground, family, claim):
                yield f"{service} {family} health port", f"{claim.value.replace('-', ' ')}: {words}"
    for each in course.kept:
        kept = sum(1 for stream in each.streams if stream.samples and not end_of(stream, course))
        yield f"{service} {each.family} open at the {each.at}", f"{kept} of {len(each.streams)} kept"


def _times(course: Course, ground: Ground, at: At, family: Family) -> Iterator[Cell]:
    phases = course.phases(at, family)
    made = followed(course, ground, at, family, strictly=True)
    for to in DIRECTIONS:
        of, never = times(made, to)
        yield of.p50 if of.samples else None
        yield of.most if of.samples else None
        yield f"{len(of.samples)} ({never} never)" if never else len(of.samples)
    lost = sum(
        1
        for phase in phases
        for sample in phase.samples
        if ground.shown(at, sample)[0] in UNANSWERED and at is not At.BARE_NODE
    )
    yield "" if at is At.BARE_NODE else f"{lost} of {sum(len(phase.samples) for phase in phases)}"


class Run(NamedTuple):
    """Equal probes in a row, and what they showed."""

    since: float
    until: float
    probes: int
    what: Shown


def section(run: RecordedRun) -> Section:
    """The section; empty if no policy changed."""
    seen = run.evidence_of(PolicyChangeEvidence) or PolicyChangeEvidence()
    window, ground = seen.window, seen.ground
    blocks: list[Block] = []
    if ground is not None and seen.courses:
        blocks += [Text(_LEGEND)] if any(course.data for course in seen.courses.values()) else []
        for at, (service, course) in enumerate(seen.witnessed.items()):
            blocks += attempt(f"The policy changes of {service}", partial(_service, service.value, course, ground, at))
    if window is not None:
        blocks += attempt("Isolation", lambda: _isolation(window))
    return Section(TITLE, tuple(blocks), f"seen-{ID}" if blocks else "")


_LEGEND = (
    "Each line shows the source that new connections at one entry had. Full bar, C: the client's own address. Half "
    "bar, N: a node's address. Thin line: no answer at the node without local endpoints, as Local requires. Thick "
    "line: no answer elsewhere. Hollow bar, ?: anything else. At the health-check port: full bar 200, hollow bar 503, "
    "thin line closed. Vertical lines are the calls that change the policy."
)


def _service(service: str, course: Course, ground: Ground, which: int) -> list[Block]:
    words = [
        Text(f"{at.value} {family.value} could not be tested: {why}") for (at, family), why in course.obstacles.items()
    ]
    if not course.changes or not course.data:
        return headed(service, [Text("The run has no observations of its policy changes."), *words])
    rows = [_row(course, ground, at, family) for at, family in course.data]
    drawing = _drawing(f"policy-changes-{which}", service, course, ground)
    drawing.words = _words(rows)
    head = ["entry", *(f"to {to}: {of}" for to in DIRECTIONS for of in ("p50 (s)", "max (s)", "n", "never"))]
    numbers = Table.of([*head, "probes", "no answer"], rows)
    longest = max((at for row in rows for at in (row[2], row[6]) if at is not None), default=None)
    never = sum(row[4] + row[8] for row in rows)
    summary = f"Seconds until stable by entry: at most {number(longest)}; never stable: {never}"
    caption = (
        f"{service}: {counted(len(course.changes) - 1, 'policy change')}. The table has the "
        "seconds from the call until traffic showed the new policy and kept doing so until the next change. At the "
        "node without local endpoints, Local requires no answer."
    )
    return headed(service, [Figure(drawing, caption), Fold(summary, (numbers,)), *_kept(course), *words])


def shown(at: At, stream: Stream, ground: Ground) -> list[Run]:
    """What a stream showed; equal results in a row are one."""
    found: list[Run] = []
    for each in stream.stretches():
        what, _ = ground.shown(at, Sample(0, *each[:2], *each[3:]))
        last = found[-1] if found else None
        if last and last.what is what:
            found[-1] = last._replace(until=each.until, probes=last.probes + each.probes)
        else:
            found.append(Run(*each[:3], what))
    return found


def _row(course: Course, ground: Ground, at: At, family: Family) -> list[Any]:
    """A row of the table: seconds until stable by direction as the judge measures them, and the number of probes."""
    made = followed(course, ground, at, family, strictly=True)
    figures: list[Any] = []
    for to in DIRECTIONS:
        of, never = times(made, to)
        figures += [of.p50, of.most] if of.samples else [None, None]
        figures += [len(of.samples), never]
    samples = course.data[at, family].samples
    lost = sum(ground.shown(at, sample)[0] in UNANSWERED for sample in samples)
    return [f"{at.value} {family.value}", *figures, len(samples), lost]


def _words(rows: Iterable[Sequence[Any]]) -> str:
    """The table in words."""
    return "Seconds from the call until stable. " + "; ".join(
        f"{row[0]}: to Cluster p50 {number(row[1])}, max {number(row[2])}, n {row[3]}, never {row[4]}; "
        f"to Local p50 {number(row[5])}, max {number(row[6])}, n {row[7]}, never {row[8]}"
        for row in rows
    )


# ------------------------------------------------------------------------------------------------------------- drawing
def _drawing(ident: str, service: str, course: Course, ground: Ground) -> Drawing:
    changes, begin = course.changes, course.changes[0].cause
    drawing = Drawing(ident, f"Sources at {service} while its policy changes", "")
    scale = Scale(0, max(1.0, course.end - begin), LEFT, WIDTH - 8)
    top = y = 8.0
    drawing.text(LEFT - 8, y + 12, "policy as set", anchor="end", bold=True)
    for change, until in zip(changes, [*(each.cause - begin for each in changes[1:]), scale.high], strict=True):
        since = change.cause - begin
        local = change.to is TrafficPolicy.LOCAL
        drawing.box(scale(since), y + 1, scale(until) - scale(since), 14, fill=ACCENT if local else MUTED, faint=True)
        drawing.box(scale(since), y + 1, scale(until) - scale(since), 14, stroke=MUTED)
        drawing.text((scale(since) + scale(until)) / 2, y + 12, change.to.value, anchor="middle", size=11)
    y += LANE + 5
    for (at, family), stream in list(course.data.items())[:MOST_LANES]:
        drawing.text(LEFT - 8, y + 12, shorten(f"{at.value} {family.value}", 28), anchor="end")
        for each in shown(at, stream, ground):
            _bar(drawing, each, scale, begin, y, MUTED if at is At.BARE_NODE else BAD)
        y += LANE
    y += 5
    by_node: dict[str, list[Stretch]] = {}
    for (_, node, family), stream in course.health.items():
        by_node.setdefault(f"port at {node} {family.value}", []).extend(stream.stretches())
    for name, runs in list(by_node.items())[:MOST_LANES]:
        drawing.text(LEFT - 8, y + 11, shorten(name, 30), anchor="end", fill=MUTED, size=11)
        for run in sorted(runs, key=lambda run: run.since):
            _port(drawing, scale(run.since - begin), min(scale(run.until - begin), scale.right), run.outcome, y)
        y += LANE - 3
    for change in changes:
        x = scale(change.cause - begin)
        drawing.line((x, top), (x, y), stroke=INK, wide=0.8, dash="2 3")
    drawing.axis(scale, top, y, "s", most=12)
    drawing.height = y + 20
    return drawing


def _bar(drawing: Drawing, each: Run, scale: Scale, begin: float, y: float, silent: str) -> None:
    left, right = scale(each.since - begin), min(scale(each.until - begin), scale.right)
    width = max(right - left, 1.2)
    if each.what is Shown.KEPT:
        drawing.box(left, y + 2, width, 12, fill=ACCENT)
    elif each.what is Shown.REWRITTEN:
        drawing.box(left, y + 8, width, 6, fill=INK)
    elif each.what is Shown.NONE:
        wrong = silent == BAD  # the weight of the line shows it too
        drawing.line((left, y + 13), (left + width, y + 13), stroke=silent, wide=4 if wrong else 1.6)
    else:
        drawing.box(left, y + 2, width, 12, stroke=BAD)
    if width > 16 and each.what is not Shown.NONE:
        letter = {Shown.KEPT: "C", Shown.REWRITTEN: "N"}.get(each.what, "?")
        low = each.what is Shown.REWRITTEN
        fill = PAPER if each.what is Shown.KEPT else INK
        drawing.text(left + 3, y + (7 if low else 12), letter, size=7 if low else 10, fill=fill)


def _port(drawing: Drawing, left: float, right: float, outcome: str, y: float) -> None:
    width = max(right - left, 1.2)
    if outcome == "200":
        drawing.box(left, y + 3, width, 8, fill=INK)
    elif outcome == "503":
        drawing.box(left, y + 3, width, 8, stroke=INK)
    elif outcome in GONE or outcome == "reset":
        drawing.line((left, y + 10), (left + width, y + 10), stroke=MUTED, wide=1.2)
    else:
        drawing.box(left, y + 3, width, 8, stroke=BAD)
        drawing.text(left, y + 10, outcome if width > 30 else "?", size=8, fill=BAD)


# -------------------------------------------------------------------------------------------------- kept and neighbours
def _kept(course: Course) -> list[Block]:
    by_entry: dict[str, list[Stream]] = {}
    for each in course.kept:
        by_entry.setdefault(f"{each.at.value} {each.family.value}", []).extend(each.streams)
    if not by_entry:
        return []
    rows = []
    for name, of in by_entry.items():
        whole = sum(all(sample.answered for sample in stream.samples) for stream in of)
        rows.append([name, len(of), whole, sum(len(stream.samples) for stream in of)])
    head = ["connections opened before the changes, at", "connections", "answered in every exchange", "exchanges"]
    return [Table.of(head, rows)]


def _isolation(window: Window) -> list[Block]:
    made = Counter(name for name, _ in window.changes)
    shown_at: dict[str, Counter[str]] = {}
    for path in window.paths:
        tally = shown_at.setdefault(path.key, Counter())
        for each in window.evidence.observations[path.key]:
            tally[f"{each.outcome.value} {each.seen[0] if each.seen else ''}"] += each.count
    several = {path: tally for path, tally in shown_at.items() if len(tally) > 1}
    total = sum(tally.total() for tally in shown_at.values())
    changes = ", ".join(f"{name} changed its policy {counted(count, 'time')}" for name, count in sorted(made.items()))
    words = f"{counted(total, 'connection')} on {counted(len(shown_at), 'path')} of unchanged Services, while "
    words += f"{changes or 'no other Service changed its policy'}."
    rows = [[path, tallied(tally), tally.total()] for path, tally in several.items()]
    more = (
        Fold(
            f"{counted(len(several), 'path')} with different observations", (Table.of(["path", "observed", "n"], rows),)
        )
        if several
        else Text("The observations of each path did not change.")
    )
    return headed("Isolation: unchanged Services while others change their policy", [Text(words), more])


SECTIONS = Sections(section=section, summary=summary)
