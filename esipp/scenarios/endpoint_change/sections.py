"""What reports show of how load balancers follow endpoint changes: figures in report.html, tables elsewhere. Pure."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from esipp.base.document import Block, Cell, Code, Figure, Fold, Pairs, Section, Table, Text, number
from esipp.base.drawing import ACCENT, BAD, INK, MUTED, WIDTH, Drawing, Scale, scale_of, short, staggered
from esipp.base.plural import counted as number_of
from esipp.checks.check import Level
from esipp.checks.model import Balancer, Family
from esipp.checks.timing import Held
from esipp.judging.scenario import Sections
from esipp.judging.showing import attempted, headed, health_strip, of_the_cluster, shorten
from esipp.judging.statistics import Distribution, family_wise_words
from esipp.judging.timeline import Losses, Sample, count_losses
from esipp.ledger.reading import RecordedRun
from esipp.scenarios.endpoint_change.evidence import LEAST_P, PHASES, Moved, Timeline, Traffic, black_hole, hole_began
from esipp.scenarios.endpoint_change.judge import LOSSES, Judge, distributions, judges_of, split_words

# ------------------------------------------------------------------------------------------------------- in report.html
TITLE = "Convergence"
SUITE = "convergence"
"""The name of its checks, in ids and in anchors."""

WHOLE = "trigger to traffic"
OF_NO_FAMILY = ("call to trigger", "trigger to EndpointSlice", "EndpointSlice to node's path")
"""Phases without a family: pods have none, and nodePorts are probed in the first family only."""

Judges = Mapping[Balancer, Judge]


def section(run: RecordedRun) -> Section:
    """The section; empty if the scenario did not run."""
    moved, judges = run.evidence_of(Moved), run.analysed(Moved, judges_of)
    if moved is None or not judges:
        return Section(TITLE)
    parts = {
        "The endpoint changes": lambda: _begin(run, moved),
        "Response times": lambda: headed("Response times", responses(judges)),
        "Black holes": lambda: headed("Black holes and their bound", black_holes(run, judges)),
        "Lost requests": lambda: lost(judges),
        "Timelines": lambda: headed("Single endpoint changes", timelines(judges)),
        "Balance": lambda: headed("Balance", balance(judges)),
        "Health checks": lambda: checks(judges),
    }
    return attempted(SUITE, TITLE, parts)


def _begin(run: RecordedRun, moved: Moved) -> list[Block]:
    changes = {of.value: result.changes for of, result in moved.results.items() if result.changes}
    made = sum(map(len, changes.values()))
    said = [
        f"{number_of(made, 'endpoint change')} behind {number_of(len(changes), 'load balancer')} "
        f"({', '.join(changes)})."
    ]
    if not made:
        said = ["No endpoint change was recorded: the run ended early, or no pod could be changed."]
    short = [f"{of.value}: {result.cut_short}" for of, result in moved.results.items() if result.cut_short]
    if made and short:
        said.append(f"Fewer endpoint changes than planned: {'; '.join(short)}.")
    known = [
        f"seed {run.header.get('seed')}",
        f"planned seconds between requests: {moved.spacing}",
        f"timeout of a request in seconds: {moved.timeout}",
        f"packets: {moved.packets or 'captured on every node'}",
        f"all times on one clock, precise to {1000 * moved.uncertainty:.1f} ms",
    ]
    obstacles = [(of.value, result.obstacle) for of, result in moved.results.items() if result.obstacle]
    return [
        Text(" ".join([*said, "; ".join(known)])),
        *(Text(f"{balancer} could not be tested: {why}") for balancer, why in obstacles),
    ]


# ------------------------------------------------------------------------------------------------------ response times
DASHES = ("", "7 3", "2 3", "8 3 2 3", "1 4", "12 4")
"""The dash patterns that distinguish load balancers without colour."""

DIRECTIONS = ("up", "down")
ROW = 19
LEFT = 176
PLOT = 196
"""The width of a strip; its numbers follow on the right, ``COLUMN`` apart."""

COLUMN = 36
HALF = (WIDTH - LEFT) / 2


class Samples(NamedTuple):
    """The seconds that one phase took, for all changes in one direction."""

    balancer: str
    family: Family
    direction: str
    phase: str
    of: Distribution


def _numbers(of: Distribution) -> tuple[float, float, float, int]:
    """The median, p95, the longest, and the count."""
    return of.p50, of.p95, of.most, len(of.samples)


def _say(of: Distribution) -> str:
    """The numbers as text."""
    p50, p95, most, n = _numbers(of)
    return f"p50 {number(p50)}, p95 {number(p95)}, max {number(most)} s, n {n}"


def responses(judges: Judges) -> list[Block]:
    """All figures of response times; empty without any."""
    known = [
        Samples(balancer.value, *times)
        for balancer, judge in judges.items()
        for times in judge.times
        if times.of.samples
    ]
    families = sorted({each.family for each in known})
    whole = [each for each in known if each.phase == WHOLE]
    parts: list[Block] = []
    if whole:
        words = (
            "The share of endpoint changes that traffic followed within a number of seconds. Up: from the pod being "
            "ready to the first request through its node. Down: from the pod being unready or deleted to the last "
            "request. A line ends at the slowest change."
        )
        parts.append(Figure(_ecdf(whole, families), words))
    for first, family in enumerate(families):
        here = [each for each in known if each.family is family and (first == 0 or each.phase not in OF_NO_FAMILY)]
        words = (
            f"{family}: each dot is one endpoint change, on an axis in seconds. The tall stroke is the median (p50), "
            "the short one p95. Quantiles are nearest-rank; n counts the changes with both moments observed. "
            "Negative: the later moment was observed first."
        )
        if first:
            words += " Phases without a family are in the first figure only."
        rows = [[f"{each.phase}, {each.balancer}, {each.direction}", *_numbers(each.of)] for each in here]
        numbers = Table.of(["phase, load balancer, direction", "p50 (s)", "p95 (s)", "max (s)", "n"], rows)
        parts += [Figure(_strips(here, family, first), words), Fold(f"Numbers, {family}", (numbers,))]
    return parts


def _ecdf(whole: Sequence[Samples], families: Sequence[Family]) -> Drawing:
    words = "; ".join(f"{each.balancer} {each.family} {each.direction}: {_say(each.of)}" for each in whole)
    drawing = Drawing("convergence-ecdf", f"Cumulative distribution of response times ({WHOLE})", words)
    balancers = list(dict.fromkeys(each.balancer for each in whole))
    x = 48.0
    for at, balancer in enumerate(balancers):
        drawing.line((x, 10), (x + 34, 10), wide=2, dash=DASHES[at % len(DASHES)], stroke=_stroke(at))
        drawing.text(x + 40, 14, shorten(balancer, 30))
        x += 70 + 7 * len(shorten(balancer, 30))
    longest = max(each.of.most for each in whole)
    top, height = 44.0, 150.0
    for family in families:
        for column, direction in enumerate(DIRECTIONS):
            left = 48 + column * (WIDTH / 2)
            scale = Scale(0, longest * 1.04, left, left + WIDTH / 2 - 74)
            drawing.text(left, top - 8, f"{direction}, {family}", bold=True)
            for share in (0, 50, 95, 100):
                y = top + height * (1 - share / 100)
                drawing.line((left, y), (scale.right, y), stroke=MUTED, faint=True)
                # 95 and 100 are too close for two labels
                if share != 100:
                    drawing.text(left - 6, y + 4, f"{share} %", anchor="end", fill=MUTED, size=11)
            drawing.axis(scale, top, top + height, most=7)
            here = [each for each in whole if each.family is family and each.direction == direction]
            for each in here:
                at = balancers.index(each.balancer)
                drawing.path(
                    _steps(each, scale, top, height), stroke=_stroke(at), dash=DASHES[at % len(DASHES)], wide=1.8
                )
            drawing.text(scale.right, top - 8, _counts(here), anchor="end", fill=MUTED, size=11)
        top += height + 58
    drawing.height = top - 34
    return drawing


def _counts(here: Sequence[Samples]) -> str:
    counts = list(dict.fromkeys(len(each.of.samples) for each in here))
    return f"n = {counts[0]} each" if len(counts) == 1 else "n = " + ", ".join(str(len(e.of.samples)) for e in here)


def _stroke(at: int) -> str:
    return (INK, ACCENT, BAD)[at % 3]


def _steps(each: Samples, scale: Scale, top: float, height: float) -> str:
    """The share of samples up to each value as steps; samples at one place share a step."""
    ordered, said = each.of.samples, [f"M{short(scale.left)} {short(top + height)}"]
    for rank, sample in enumerate(ordered, 1):
        if rank == len(ordered) or short(scale(ordered[rank])) != short(scale(sample)):
            said.append(f"H{short(scale(max(0.0, sample)))}V{short(top + height * (1 - rank / len(ordered)))}")
    return "".join(said)


def _strips(here: Sequence[Samples], family: Family, which: int) -> Drawing:
    balancers = list(dict.fromkeys(each.balancer for each in here))
    words = "; ".join(f"{each.phase}, {each.balancer}, {each.direction}: {_say(each.of)}" for each in here)
    drawing = Drawing(f"convergence-phases-{which}", f"Time by phase and load balancer, {family}", words)
    everything = [sample for each in here for sample in each.of.samples]
    sides = {
        direction: scale_of(everything, LEFT + at * HALF + 8, LEFT + at * HALF + PLOT)
        for at, direction in enumerate(DIRECTIONS)
    }
    for direction, scale in sides.items():
        drawing.text(scale.left, 12, f"{direction}", bold=True)
        for at, name in enumerate(("p50", "p95", "max", "n")):
            drawing.text(scale.left + PLOT + COLUMN + at * COLUMN, 12, name, anchor="end", fill=MUTED, size=11)
    y, top = 24.0, 20.0
    by_place = {(each.phase, each.balancer, each.direction): each for each in here}
    for phase in (phase for phase in PHASES if any(each.phase == phase for each in here)):
        drawing.text(0, y + 11, phase, bold=True)
        y += ROW - 2
        for balancer in balancers:
            drawing.text(12, y + 12, shorten(balancer, 24), fill=MUTED)
            for direction, scale in sides.items():
                each = by_place.get((phase, balancer, direction))
                if each is None:
                    drawing.text(scale.left, y + 12, "none observed", fill=MUTED, size=11)
                    continue
                _strip(drawing, each.of, scale, y)
                _write_numbers(drawing, each.of, scale.left + PLOT + COLUMN, y, COLUMN)
            y += ROW
        y += 5
    for scale in sides.values():
        drawing.axis(scale, top, y, most=6)
        if scale.low < 0:
            drawing.line((scale(0), top), (scale(0), y), stroke=MUTED, wide=0.8)
    drawing.height = y + 20
    return drawing


def _strip(drawing: Drawing, of: Distribution, scale: Scale, y: float, *, p95: bool = True) -> None:
    """Samples as dots on a line, at three heights to separate close ones, with the quantiles as strokes."""
    drawing.line((scale.left, y + 8), (scale.right, y + 8), stroke=MUTED, faint=True)
    drawing.dots(
        ((scale(sample), y + 8 + (at % 3 - 1) * 3) for at, sample in enumerate(of.samples)),
        stroke=ACCENT,
        wide=5,
        clear=True,
    )
    drawing.ticks([scale(of.p50)], y, 16, wide=1.8)
    if p95:
        drawing.ticks([scale(of.p95)], y + 4, 8, wide=1.8)


def _write_numbers(drawing: Drawing, of: Distribution, x: float, y: float, apart: float) -> None:
    for at, value in enumerate(_numbers(of)):
        words = str(value) if isinstance(value, int) else number(value)
        drawing.text(x + at * apart, y + 12, words, anchor="end", size=11)


# --------------------------------------------------------------------------------------------------------- black holes
HOLES_LEFT = 220.0
HOLES_ROW = 26.0


def black_holes(run: RecordedRun, judges: Judges) -> list[Block]:
    """The figure of black holes and their bound; empty without black holes."""
    found = {
        (balancer, family): Distribution.of(times)
        for balancer, judge in judges.items()
        for family in judge.result.seen.vip
        if (times := [hole for line in judge.lines if (hole := black_hole(line, family)) is not None])
    }
    if not found:
        return []
    rows, lines = [], []
    limits = [judge.bound for judge in judges.values() if judge.bound is not None]
    scale = scale_of([*(at for of in found.values() for at in of.samples), *limits], HOLES_LEFT, WIDTH - 270)
    drawing = Drawing("convergence-holes", "Black holes and their bound", "")
    y = 26.0
    for at, name in enumerate(("p50", "max", "over", "n", "verdict")):
        anchor = "start" if name == "verdict" else "end"
        drawing.text(WIDTH - 222 + at * 38, 14, name, anchor=anchor, fill=MUTED, size=11)
    top = 20.0
    for (balancer, family), of in sorted(found.items()):
        bound, middle, most, n = judges[balancer].bound, of.p50, of.most, len(of.samples)
        drawing.text(0, y + 12, f"{shorten(balancer, 26)} {family}")
        _strip(drawing, of, scale, y, p95=False)
        beyond = number(None)
        if bound is not None:
            beyond = str(sum(1 for each in of.samples if each > bound))
            drawing.ticks([scale(bound)], y - 4, 24, stroke=BAD, wide=2.5)
            drawing.text(scale(bound) - 5, y + 3, f"bound {bound:.2f} s", anchor="end", fill=BAD, size=10)
        else:
            drawing.text(scale.right, y + 3, "no bound", anchor="end", fill=MUTED, size=10)
        judged = _judged(run, f"convergence.{balancer}.{family.lower()}.black-hole")
        for at, said in enumerate((number(middle), number(most), beyond, str(n))):
            drawing.text(WIDTH - 222 + at * 38, y + 12, said, anchor="end", size=11)
        drawing.text(WIDTH - 70, y + 12, shorten(judged, 12), size=11)
        words = judges[balancer].bound_words()
        rows.append([f"{balancer} {family}", middle, most, bound, beyond, n, judged, words])
        lines.append(f"{balancer} {family}: p50 {middle:.2f} s, max {most:.2f} s, bound {number(bound)} s, n {n}")
        y += HOLES_ROW
    drawing.axis(scale, top, y)
    drawing.height, drawing.words = y + 20, "; ".join(lines)
    words = (
        "Each dot is a pod that was closed, killed or moved to another node: how long requests were lost after its "
        "node answered 503 and another node 200. The thick stroke is the bound. The spacing of the requests limits the "
        "precision; a length that is too imprecise decides nothing, and the check says so."
    )
    head = ["load balancer", "p50 (s)", "max (s)", "bound (s)", "over", "n", "verdict", "source of the bound"]
    return [Figure(drawing, words), Fold("Numbers, and the source of the bound", (Table.of(head, rows),))]


def _judged(run: RecordedRun, check: str) -> str:
    verdict = run.verdicts.get(check)
    if verdict is None:
        return "no verdict"
    recorded = next((each.level for each in run.checks if each.id == check), None)
    return "recorded" if recorded is Level.RECORD else verdict.status.value


# -------------------------------------------------------------------------------------------------------------- losses
def lost(judges: Judges) -> list[Block]:
    """The table of lost requests through each VIP during endpoint changes."""
    rows: list[list[Cell]] = []
    for balancer, judge in judges.items():
        changes = len({line.change.number for line in judge.lines})
        for family in judge.result.seen.vip if judge.lines else ():
            found = judge.losses(family)
            rows.append([f"{balancer} {family}", changes, *(found.kinds[kind] for kind in LOSSES), found.outage])
    kinds = ("lost (timed out)", "refused", "reset", "wrong", "stray")
    head = ["load balancer", "endpoint changes", *kinds, "longest outage (s)"]
    words = "Requests through the VIP without a right answer, over all endpoint changes. Stray ones are among the lost."
    return headed("Lost requests", [Table.of(head, rows, words)] if rows else [])


# --------------------------------------------------------------------------------------------- single endpoint changes
LABELS = 150.0
BEFORE = 0.5
"""Seconds before the call that the figure includes."""

MOST_SECONDS = 15.0
MOST_NODES = 8
LANE = 15.0
SIGNS = {"timeout": "x", "unreachable": "x", "pending": "x", "refused": "v", "reset": "o"}
"""The signs of requests without a right answer; other outcomes are a plus."""

Moment = tuple[float, str]
"""A time on our clock, and what happened then."""


class Event(NamedTuple):
    """One endpoint change and its requests of one family."""

    judge: Judge
    line: Timeline
    family: Family

    @property
    def balancer(self) -> str:
        """The load balancer."""
        return self.judge.result.balancer.value

    @property
    def traffic(self) -> Traffic:
        """Its requests."""
        return self.line.traffic[self.family]

    @property
    def outage(self) -> float:
        """The longest time without an answer, in seconds."""
        return self.traffic.losses.outage

    @property
    def weight(self) -> tuple[float, bool]:
        """The severity of an event; of the two halves of a moved pod, the removal owns the losses."""
        return self.outage, not self.line.change.up and self.traffic.used

    @property
    def name(self) -> str:
        """The event in words."""
        change = self.line.change
        way = "gained a pod" if change.up else "lost its pod"
        which = f"{self.balancer} {self.family}, endpoint change {change.number}"
        return f"{which}: {change.kind}, {change.node} {way}"

    @property
    def moments(self) -> list[tuple[float | None, str]]:
        """Its moments, in the order in which they are due; None: it never happened."""
        line, seen, up = self.line, self.traffic, self.line.change.up
        found = [
            (line.change.cause, "call"),
            (line.trigger, "pod ready" if up else "pod unready or terminating"),
            (line.slice, "in the EndpointSlices" if up else "out of the EndpointSlices"),
            (line.health.get(self.family), f"health check {'200' if up else '503'}"),
            (line.path, "nodePort answers" if up else "nodePort stops answering"),
            (seen.decision, f"decided: {'healthy' if up else 'unhealthy'}"),
            (seen.at, f"{'first' if up else 'last'} request through the node"),
        ]
        return [moment for moment in found if not (line.change.graceful and moment[1].startswith("nodePort"))]

    @property
    def observed(self) -> list[Moment]:
        """The moments that happened, in order of time."""
        return sorted((at, what) for at, what in self.moments if at is not None)


def events(judges: Judges) -> list[Event]:
    """All events, the worst last."""
    found = [Event(judge, line, of) for judge in judges.values() for line in judge.lines for of in line.traffic]
    return sorted(found, key=lambda each: each.weight)


def timelines(judges: Judges) -> list[Block]:
    """The worst event and a median event of the same load balancer; the worst of each other one folded."""
    found = events(judges)
    if not found:
        return []
    worst = found[-1]
    peers = [
        each for each in found if each.balancer == worst.balancer and not each.line.change.up and each.traffic.used
    ]
    shown = [(worst, "worst", "The worst endpoint change")]
    if peers and (middle := peers[(len(peers) - 1) // 2]) is not worst:
        of = f"the median of {number_of(len(peers), 'removal')} of {worst.balancer} by longest outage"
        shown.append((middle, "median", f"A median endpoint change ({of})"))
    parts: list[Block] = [Text(_LEGEND)]
    parts += [block for each, ident, said in shown for block in _figure(each, ident, said)]
    others = list(dict.fromkeys(each.balancer for each in reversed(found) if each.balancer != worst.balancer))
    for at, balancer in enumerate(others):
        event = [each for each in found if each.balancer == balancer][-1]
        drawn = _figure(event, f"other-{at}", f"The worst endpoint change of {balancer}")
        parts.append(Fold(f"The worst endpoint change of {balancer} (longest outage {event.outage:.2f} s)", drawn))
    return parts


_LEGEND = (
    "Each node has two lines. The upper one is its health check: full bar 200, empty bar 503, dotted no answer. "
    "The lower one has a stroke for each request through the VIP that the node answered. The changed node is bold. "
    "Unanswered requests are below the nodes: a cross timed out, a triangle was refused, a diamond was reset. "
    f"The figure starts {number(BEFORE, 1)} s before the call."
)


def _figure(event: Event, ident: str, said: str) -> tuple[Block, ...]:
    losses = event.traffic.losses
    lost = f"{losses.timed_out} timed out, {losses.refused} refused, {losses.reset} reset, {losses.wrong} wrong"
    hole = black_hole(event.line, event.family)
    words = f"{said}: {event.name}. Requests: {lost}; longest outage {event.outage:.2f} s"
    words += f"; black hole {hole:.2f} s" if hole is not None else ""
    cause = event.line.change.cause
    rows = [[what, f"{at - cause:.3f}"] for at, what in event.observed]
    numbers = Table.of(["moment", "seconds after the call"], rows)
    return Figure(_timeline(event, f"convergence-{ident}", words), f"{words}."), Fold("Moments", (numbers,))


def _timeline(event: Event, ident: str, words: str) -> Drawing:
    seen, cause, bound = event.observed, event.line.change.cause, event.judge.bound
    times = ", ".join(f"{what} {at - cause:.2f} s" for at, what in seen)
    drawing = Drawing(ident, event.name, f"{words}. Seconds after the call: {times}")
    health, stream = event.judge.result.seen.health[event.family], event.judge.result.seen.vip[event.family]
    hole = _bound_began(event)
    ends = [at for at, _ in seen] + ([hole + bound] if hole is not None and bound is not None else [])
    ends += [at for at in (event.traffic.losses.last,) if at is not None]
    end = min(cause + MOST_SECONDS, max(max(ends) + 0.4, min(event.line.until, max(ends) + 1.0)))
    scale = Scale(cause - BEFORE, end, LABELS, WIDTH - 12)
    labels = staggered([(scale(at) + 3, what) for at, what in seen if scale.within(at)], WIDTH)
    rows = max((row for _, row, _ in labels), default=0) + 1
    y = 8 + rows * 14.0
    top = y
    requests = stream.view(scale.low, scale.high)
    served = {each.node for each in requests if each.answered}
    changed = event.line.change.node
    nodes = sorted({*health, *served}, key=lambda node: (node != changed, node not in served, node))
    for node in nodes[:MOST_NODES]:
        drawing.text(LABELS - 8, y + 16, shorten(node, 21), anchor="end", bold=node == changed)
        if node in health:
            health_strip(drawing, health[node].stretches(), scale, y + 3)
        own = (scale(each.started) for each in requests if each.node == node and each.answered)
        drawing.ticks(own, y + LANE + 1, 9, stroke=ACCENT)
        drawing.line((LABELS, y + LANE + 13), (scale.right, y + LANE + 13), stroke=MUTED, faint=True)
        y += 2 * LANE + 2
    if len(nodes) > MOST_NODES:
        drawing.text(
            0, y + 12, f"and {number_of(len(nodes) - MOST_NODES, 'more node')}, not drawn", fill=MUTED, size=11
        )
        y += LANE
    y = _lost(drawing, requests, scale, y)
    if hole is not None and bound is not None:
        drawing.words += f"; the bound runs from {hole - cause:.2f} to {hole + bound - cause:.2f} s"
        left, right = scale(hole), min(scale(hole + bound), scale.right)
        drawing.line((left, y + 6), (right, y + 6), stroke=BAD, wide=2)
        drawing.ticks([left, right], y + 1, 10, stroke=BAD, wide=2)
        drawing.text(LABELS - 8, y + 10, f"bound {bound:.2f} s", anchor="end", fill=BAD, size=11)
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


def _bound_began(event: Event) -> float | None:
    """When the bound of a load balancer begins; None for changes without a black hole."""
    return None if black_hole(event.line, event.family) is None else hole_began(event.line, event.family)


def _lost(drawing: Drawing, requests: Iterable[Sample], scale: Scale, y: float) -> float:
    by_outcome: dict[str, list[float]] = {}
    for each in requests:
        if not each.answered:
            by_outcome.setdefault(each.outcome, []).append(each.started)
    for outcome, starts in sorted(by_outcome.items()):
        sign = SIGNS.get(outcome, "+")
        drawing.text(LABELS - 8, y + 11, f"{shorten(outcome, 14)}, {len(starts)}", anchor="end", fill=BAD, size=11)
        drawing.signs(((scale(at), y + 7) for at in starts), sign)
        y += LANE + 1
    if not by_outcome:
        drawing.text(LABELS - 8, y + 11, "none lost", anchor="end", fill=MUTED, size=11)
        y += LANE
    return y


# ------------------------------------------------------------------------------------------------------------- balance
def balance(judges: Judges) -> list[Block]:
    """The figure of new connections by node at the end; empty if the run did not measure it."""
    found = [
        (f"{balancer} {family}", counted)
        for balancer, judge in judges.items()
        for family, counted in judge.result.counted.items()
    ]
    if not found:
        return []
    drawing = Drawing("convergence-balance", "Balance of new connections by node", "")
    scale, y, rows, descriptions = Scale(0, 1, HOLES_LEFT, WIDTH - 110), 20.0, [], []
    for name, counted in found:
        total = sum(counted.nodes.values())
        drawing.text(0, y + 13, shorten(name, 34))
        at = 0.0
        for which, (node, count) in enumerate(sorted(counted.nodes.items())):
            left, right = scale(at / max(1, total)), scale((at + count) / max(1, total))
            drawing.box(left, y, right - left, 18, fill=(ACCENT, MUTED)[which % 2], faint=True)
            drawing.box(left, y, right - left, 18, stroke=INK)
            fits = f"{node} {count}" if right - left > 7 * len(f"{node} {count}") else str(count)
            drawing.text((left + right) / 2, y + 13, shorten(fits, 30), anchor="middle", size=11)
            at += count
        p = f"p = {counted.p_value:.2g}"
        drawing.text(scale.right + 8, y + 13, p, size=11)
        split, pods = (
            ", ".join(f"{node} {count}" for node, count in sorted(of.items())) for of in (counted.nodes, counted.pods)
        )
        rows.append([name, split, pods, total, counted.lost, p])
        descriptions.append(f"{name}: {split}; n {total}, {p}")
        y += 25
    drawing.line((scale(0.5), 12), (scale(0.5), y), stroke=BAD, dash="4 3", wide=1.4)
    drawing.text(scale(0.5), 10, "half", anchor="middle", fill=BAD, size=11)
    drawing.height, drawing.words = y, "; ".join(descriptions)
    words = (
        "New connections by the node that received them; one node has two pods, another has one. p: the exact "
        "two-sided binomial test against equal halves. A load balancer that announces a VIP from one node uses only "
        "that node."
    )
    head = ["load balancer", "connections by node", "pods by node", "n", "lost", "p-value"]
    return [Figure(drawing, words), Fold("Numbers", (Table.of(head, rows),))]


# ------------------------------------------------------------------------------------- the load balancer's own checks
def checks(judges: Judges) -> list[Block]:
    """The figure of the observed intervals between health checks of each load balancer."""
    results = {balancer: judge.result for balancer, judge in judges.items() if not judge.result.obstacle}
    found = {balancer: result for balancer, result in results.items() if result.observed.gaps.samples}
    silent = [balancer.value for balancer in results if balancer not in found]
    none = [Text(f"No health checks were observed from: {', '.join(silent)}.")] if silent else []
    if not found:
        return headed("Observed health checks", none)
    drawing = Drawing("convergence-checks", "Time between two health checks of a node, from packets", "")
    every = (at for result in found.values() for at in result.observed.gaps.samples)
    scale = scale_of(every, HOLES_LEFT, WIDTH - 190)
    y, rows, descriptions = 26.0, [], []
    for at, title in enumerate(("p50", "p95", "max", "n")):
        drawing.text(WIDTH - 140 + at * 46, 14, title, anchor="end", fill=MUTED, size=11)
    for balancer, result in found.items():
        seen, period = result.observed, result.reported.period
        drawing.text(0, y + 12, shorten(balancer.value, 30))
        _strip(drawing, seen.gaps, scale, y)
        if period is not None:
            drawing.signs([(scale(period), y + 21)], "^", stroke=BAD)
        _write_numbers(drawing, seen.gaps, WIDTH - 140, y, 46)
        steps = ", ".join(f"{n} x{count}" for n, count in sorted(Counter(seen.failures).items())) or "none observed"
        failures = str(result.reported.failures) if result.reported.failures is not None else "unknown"
        rows.append([balancer.value, *_numbers(seen.gaps), period, failures, steps, ", ".join(seen.sources)])
        descriptions.append(f"{balancer}: {_say(seen.gaps)}")
        y += 30
    drawing.axis(scale, 20, y)
    drawing.height, drawing.words = y + 20, "; ".join(descriptions)
    words = (
        "Each dot is the time between two SYNs from the load balancer at the health-check port of one node. The "
        "triangle below the line is the period that the load balancer reports."
    )
    numbers = ["p50 (s)", "p95 (s)", "max (s)", "n"]
    reported = ["reported period (s)", "reported N", "failed checks until it acted", "sources"]
    table = Table.of(["load balancer", *numbers, *reported], rows)
    return headed("Observed health checks", [Figure(drawing, words), Fold("Numbers", (table,)), *none])


# ------------------------------------------------------------------------------------------------------ in the terminal
SUMMARY = "convergence: load balancers following endpoint changes"
REPORTED = "reported health"
"""The subject of notes on what load balancers and other nodes reported."""

WAYS = {"up": "added", "down": "removed"}
"""What the directions of changes are called."""


def summary(run: RecordedRun) -> Section:
    """The section; empty if the scenario did not run."""
    moved, judges = run.evidence_of(Moved), run.analysed(Moved, judges_of)
    if moved is None or not judges:
        return Section(SUMMARY)
    reported = (Text(note) for about, note in run.notes if about == REPORTED)
    return Section(SUMMARY, (*_blocks(run, moved, judges), *reported))


def _blocks(run: RecordedRun, moved: Moved, judges: Mapping[Balancer, Judge]) -> Iterator[Block]:
    moves = run.header.get("moves")
    yield Text(
        f"{moves} pods added and {moves} removed for each; --seed {run.header.get('seed')}; seconds on one clock, "
        f"precise to {1000 * moved.uncertainty:.1f} ms"
    )
    for balancer, result in moved.results.items():
        if result.cut_short:
            yield Text(f"{balancer}: {result.cut_short}")
    if tests := sum(len(result.counted) for result in moved.results.values()):
        yield Text(family_wise_words(tests, LEAST_P))
    for balancer, judge in judges.items():
        yield Section(balancer.value, tuple(_balancer(judge)))
    lost = [event for event in events(judges) if event.traffic.losses.count]
    if lost:
        yield Section(f"the worst event ({lost[-1].balancer}, {lost[-1].family})", tuple(story(lost[-1])))


def key_figures(run: RecordedRun) -> Iterator[tuple[str, str]]:
    """The slowest convergence in each direction, the black hole that came closest to its bound, the lost requests."""
    measured = [each for each in (run.analysed(Moved, judges_of) or {}).values() if not each.result.obstacle]
    judges, of = of_the_cluster(measured, lambda judge: judge.result.balancer)
    slowest = {direction: _slowest(judges, direction) for direction in WAYS}
    if any(slowest.values()):
        said = ", ".join(f"pod {WAYS[way]} {words or 'never seen'}" for way, words in slowest.items())
        yield "slowest convergence", said + of
    if hole := _closest_hole(judges):
        yield "longest black hole", hole + of
    lost, asked = 0, 0
    for judge in judges:
        for family in judge.result.seen.vip:
            losses, requests = _asked(judge, family)
            lost += losses.count + len(judge.wrong_at_vip[family])
            asked += len(requests)
    if asked:
        yield "requests lost", f"{lost:,} of {asked:,} while the load balancer followed pods{of}"


def _slowest(judges: Sequence[Judge], direction: str) -> str:
    """The longest time until traffic followed in one direction, with its family; empty if it never did."""
    found = (
        (times.of.most, times.family.value)
        for judge in judges
        for times in judge.times
        if times.phase == PHASES[-1] and times.direction == direction and times.of.samples
    )
    seconds, family = max(found, default=(0.0, ""))
    return f"{seconds:.2f} s ({family})" if family else ""


def _closest_hole(judges: Sequence[Judge]) -> str:
    """The black hole that came closest to its bound, or the longest one if none has a bound; empty without any."""
    holes = [
        (max(each.seconds for _, each in found), judge.bound, family.value)
        for judge in judges
        for family in judge.result.seen.vip
        if (found := judge.holes(family))
    ]
    if bounded := [(hole, bound, family) for hole, bound, family in holes if bound is not None]:
        hole, bound, of = max(bounded, key=lambda each: each[0] / each[1])
        return f"{hole:.2f} s of {bound:.2f} s allowed ({of})"
    hole, _, of = max(holes, default=(0.0, None, ""))
    return f"{hole:.2f} s without a bound ({of})" if of else ""


def _asked(judge: Judge, family: Family) -> tuple[Losses, list[Sample]]:
    """The requests during all changes, and those of them that were lost.

    From the stream, not the changes: a pod that moves to another node is two changes in one window.
    """
    since = min((each.cause for each in judge.result.changes), default=0.0)
    until = max((line.until for line in judge.lines), default=0.0)
    asked = judge.result.seen.vip[family].view(since, until)
    return count_losses(asked, until), asked


def _balancer(judge: Judge) -> Iterator[Block]:
    result = judge.result
    if result.obstacle:
        yield Text(result.obstacle)
        return
    rows: list[tuple[Cell, ...]] = []
    for place, family in enumerate(result.seen.vip):
        sides = [distributions(judge.lines, family, up) for up in (True, False)]
        for phase in PHASES:
            if any(side[phase].samples for side in sides) and (place == 0 or phase not in OF_NO_FAMILY):
                of = "" if phase in OF_NO_FAMILY else f"{family.value} "
                rows.append((f"{of}{phase}", *(cell for side in sides for cell in _of(side[phase]))))
    yield Table(("", *(name for way in ("up", "down") for name in (f"{way}: p50", "p95", "max", "n"))), tuple(rows))
    yield from (Text(f"{family.value} {text}") for family in result.seen.vip for text in _facts(judge, family))
    yield Text(_checks(judge))
    yield Text(_spacing(judge))


def _spacing(judge: Judge) -> str:
    """The measured spacing of the probes."""
    seen = judge.result.seen
    gaps = [Distribution.of(gap for each in of for gap in each.gaps()) for of in (seen.vip.values(), seen.checks)]
    spacing = [
        f"{what} every {1000 * of.p50:.0f} ms (p95 {1000 * of.p95:.0f} ms)"
        for what, of in zip(("one request", "one health check of the suite"), gaps, strict=True)
        if of.samples
    ]
    longest = gaps[0].samples[-1] if gaps[0].samples else 0.0
    return f"{', '.join(spacing)}; longest time without a request: {longest:.2f} s"


def _of(of: Distribution) -> tuple[Cell, ...]:
    if not of.samples:
        return None, None, None, 0
    return of.p50, of.p95, of.most, len(of.samples)


def _facts(judge: Judge, family: Family) -> list[str]:
    losses, asked = _asked(judge, family)
    by_kind = {
        "lost": losses.timed_out,
        "refused": losses.refused,
        "reset": losses.reset,
        "wrong": losses.wrong + len(judge.wrong_at_vip[family]),
    }
    losses_in_words = ", ".join(f"{count} {name}" for name, count in by_kind.items())
    facts = [f"{len(asked)} requests during endpoint changes: {losses_in_words}; longest outage {losses.outage:.2f} s"]
    holes, bound = judge.holes(family), judge.bound
    if holes:
        stray = sum(line.traffic[family].losses.stray for line, _ in holes)
        said = (
            f"black hole after the node's 503: at most {max(each.seconds for _, each in holes):.2f} s (of {len(holes)})"
        )
        said += f", {stray} stray" if stray else ""
        rests = judge.result.promise.source
        if bound is not None:
            held = {each.against(bound) for _, each in holes}
            how = "EXCEEDED" if Held.OVER in held else "undecided, too imprecise" if Held.UNKNOWN in held else "kept"
            rests = f"bound {bound:.2f} s {how} ({judge.result.promise.source})"
        facts.append(f"{said}; {rests}")
    counted = judge.result.counted.get(family)
    return facts + ([f"balance: {split_words(counted)}"] if counted else [])


def _checks(judge: Judge) -> str:
    reported, seen = judge.result.reported, judge.result.observed
    parts = []
    if reported.bound is not None:
        parts.append(f"reported: N={reported.failures}, period {reported.period:.2f} s")
    if seen.sources:
        found = seen.checking
        counts = ", ".join(f"{n} x{seen.failures.count(n)}" for n in sorted(set(seen.failures))) or "none"
        period = f"{found.period:.3f} s" if found.period is not None else "unknown"
        parts.append(f"observed at the nodes: period {period}, failed checks until it acted: {counts}")
    return "health checks " + ("; ".join(parts) or "from the load balancer: none observed")


def story(event: Event) -> Iterator[Block]:
    """The timeline of one endpoint change, from its cause."""
    change, losses = event.line.change, event.traffic.losses
    cause = f"call: pod {change.pod} on node {change.node} {change.kind.value} (endpoint change {change.number})"
    lost = [
        (losses.first, "first request lost at the VIP"),
        (losses.last, f"last request lost at the VIP ({losses.count} in all, {losses.stray} stray)"),
    ]
    known = sorted([*event.observed[1:], *((at, text) for at, text in lost if at is not None)])
    rows = [(0.0, cause), *((at - change.cause, text) for at, text in known)]
    pairs = [(f"{at:+.3f} s", text) for at, text in rows]
    pairs += [("never", text) for at, text in event.moments[1:-2] if at is None]
    yield Pairs((*pairs, (f"{event.line.until - change.cause:+.3f} s", "the next endpoint change")))
    yield Text(f"longest outage {event.outage:.2f} s")


# ---------------------------------------------------------------------------------------------------------- report.md
MOST_BALANCERS = 5
"""How many load balancers report.md lists; report.json has all."""


def brief(run: RecordedRun) -> Section:
    """How fast each load balancer followed endpoint changes, and its bound; the slower family only."""
    rows: list[tuple[Cell, ...]] = []
    for balancer, judge in (run.analysed(Moved, judges_of) or {}).items():
        if judge.result.obstacle:
            rows.append((Code(balancer.value), "-", "-", "-", "-", Code(judge.result.obstacle)))
            continue
        losses = [judge.losses(family) for family in judge.result.seen.vip]
        lost = sum(each.kinds[kind] for each in losses for kind in ("timed_out", "refused", "reset", "wrong"))
        holes = [each.black_hole for each in losses if each.black_hole is not None]
        rests = judge.result.promise.source
        rests = f"{judge.bound:.2f}, {rests}" if judge.bound is not None else rests
        sides = (_worst(judge, "up"), _worst(judge, "down"))
        rows.append((Code(balancer.value), *sides, lost, f"{max(holes):.2f}" if holes else "-", rests))
    head = ("load balancer", "pod added", "pod removed", "lost requests", "longest black hole", "bound")
    left = len(rows) - MOST_BALANCERS
    table = Table(head, tuple(rows[:MOST_BALANCERS]), more=f"And {left} more in report.json." if left > 0 else "")
    about = Text("Seconds from an endpoint change until traffic follows it: p50 / p95 / max.")
    return Section("Convergence", (about, table) if rows else ())


def _worst(judge: Judge, direction: str) -> str:
    """The numbers of the slower family."""
    whole = [each for each in judge.times if (each.direction, each.phase) == (direction, "trigger to traffic")]
    sides = [(each.of.p95, each.of.most, each) for each in whole if each.of.samples]
    if not sides:
        return "-"
    p95, longest, slowest = max(sides, key=lambda side: side[:2])
    p50, n = slowest.of.p50, len(slowest.of.samples)
    return f"{p50:.2f} / {p95:.2f} / {longest:.2f} ({slowest.family}, n={n})"


SECTIONS = Sections(section=section, summary=summary, brief=brief, key_figures=key_figures)
