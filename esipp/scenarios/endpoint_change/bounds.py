"""Figures of a load balancer's losses: black holes and their bound, lost requests, balance, health checks."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from esipp.base.document import Block, Figure, Fold, Table, Text, number
from esipp.base.drawing import ACCENT, BAD, INK, MUTED, WIDTH, Drawing, Scale, scale_of
from esipp.judging.showing import headed, quantile, real, shorten
from esipp.ledger.reading import RecordedRun
from esipp.scenarios.endpoint_change.responses import strip

SUITE = "convergence"
LEFT = 220.0
ROW = 26.0
KINDS = ("timed_out", "refused", "reset", "wrong", "stray")
Record = Mapping[str, Any]


class Bound(NamedTuple):
    """A bound in seconds with its source; None if there is no bound."""

    seconds: float | None
    words: str


def bounds(run: RecordedRun) -> dict[str, Bound]:
    """The bound of each load balancer with its source, its reported settings and the observed ones."""
    found = {}
    for each in run.of(SUITE, "checks"):
        reported, observed = each.get("told") or {}, each.get("observed") or {}
        gaps, failures = observed.get("gaps") or {}, [n for n in observed.get("failures") or [] if real(n) is not None]
        seen = (real(gaps.get("p50")), max(failures, default=None))
        claimed = (real(reported.get("period")), reported.get("failures"))
        beside = f"observed: N={seen[1]}, period {seen[0]:.2f} s" if seen[0] and seen[1] else ""
        if claimed[0] is not None and claimed[1] is not None:
            seconds, words = (claimed[1] + 1) * claimed[0], f"reported: N={claimed[1]}, period {claimed[0]:.2f} s"
            words += f"; {beside}" if beside else ""
        elif seen[0] is not None and seen[1] is not None:
            seconds, words = (seen[1] + 1) * seen[0], beside
        else:
            seconds, words = None, "no health checks, so no bound"
        promise = each.get("promise") or {}
        if promise:
            seconds, words = real(promise.get("seconds")), "; ".join(filter(None, (str(promise.get("source")), words)))
        found[str(each["balancer"])] = Bound(seconds, words)
    return found


class Hole(NamedTuple):
    """An endpoint change that removed a node's last pod under traffic, and how long requests were lost."""

    balancer: str
    family: str
    number: int
    move: str
    seconds: float


def holes(run: RecordedRun) -> list[Hole]:
    """All black holes of a run, also those of length zero."""
    return [
        Hole(str(move["balancer"]), str(family), int(move["number"]), str(move["move"]), seconds)
        for move in run.of(SUITE, "move")
        for family, seen in (move.get("traffic") or {}).items()
        if (seconds := real(seen.get("black_hole"))) is not None
    ]


def black_holes(run: RecordedRun) -> list[Block]:
    """The figure of black holes and their bound; empty without black holes."""
    found, known = holes(run), bounds(run)
    if not found:
        return []
    keys = sorted({(each.balancer, each.family) for each in found})
    rows, lines = [], []
    limits = [bound.seconds for bound in known.values() if bound.seconds is not None]
    scale = scale_of([*(each.seconds for each in found), *limits], LEFT, WIDTH - 270)
    drawing = Drawing("convergence-holes", "Black holes and their bound", "")
    y = 26.0
    for at, name in enumerate(("p50", "max", "over", "n", "verdict")):
        drawing.text(
            WIDTH - 222 + at * 38, 14, name, anchor="start" if name == "verdict" else "end", fill=MUTED, size=11
        )
    top = 20.0
    for balancer, family in keys:
        samples = sorted(each.seconds for each in found if (each.balancer, each.family) == (balancer, family))
        bound = known.get(balancer, Bound(None, "its health checks are unknown"))
        middle, over = quantile(samples, 0.5), 0
        drawing.text(0, y + 12, f"{shorten(balancer, 26)} {family}")
        strip(drawing, samples, scale, y, middle, None)
        if bound.seconds is not None:
            over = sum(1 for each in samples if each > bound.seconds)
            drawing.ticks([scale(bound.seconds)], y - 4, 24, stroke=BAD, wide=2.5)
            drawing.text(
                scale(bound.seconds) - 5, y + 3, f"bound {bound.seconds:.2f} s", anchor="end", fill=BAD, size=10
            )
        else:
            drawing.text(scale.right, y + 3, "no bound", anchor="end", fill=MUTED, size=10)
        judged = _judged(run, f"convergence.{balancer}.{family.lower()}.black-hole")
        beyond = str(over) if bound.seconds is not None else number(None)
        for at, said in enumerate((number(middle), number(samples[-1]), beyond, str(len(samples)))):
            drawing.text(WIDTH - 222 + at * 38, y + 12, said, anchor="end", size=11)
        drawing.text(WIDTH - 70, y + 12, shorten(judged, 12), size=11)
        rows.append(
            [f"{balancer} {family}", middle, samples[-1], bound.seconds, beyond, len(samples), judged, bound.words]
        )
        lines.append(
            f"{balancer} {family}: p50 {middle:.2f} s, max {samples[-1]:.2f} s, bound {number(bound.seconds)} s, "
            f"n {len(samples)}"
        )
        y += ROW
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
    return "recorded" if recorded is not None and recorded.value == "record" else verdict.status.value


# -------------------------------------------------------------------------------------------------------------- losses
def lost(run: RecordedRun) -> list[Block]:
    """The table of lost requests through each VIP during endpoint changes."""
    worst: dict[tuple[str, str], dict[tuple[int, str], int]] = {}
    outage: dict[tuple[str, str], float] = {}
    moves: dict[tuple[str, str], set[int]] = {}
    for move in run.of(SUITE, "move"):
        for family, seen in (move.get("traffic") or {}).items():
            key = (str(move["balancer"]), str(family))
            moves.setdefault(key, set()).add(int(move["number"]))
            outage[key] = max(outage.get(key, 0.0), real(seen.get("outage")) or 0.0)
            for kind in KINDS:
                # a pod that moves to another node is two changes in one window: its losses belong to one of them
                count = worst.setdefault(key, {})
                at = (int(move["number"]), kind)
                count[at] = max(count.get(at, 0), int(seen.get(kind) or 0))
    rows = [
        [
            f"{balancer} {family}",
            len(moves[balancer, family]),
            *(sum(n for (_, of), n in counts.items() if of == kind) for kind in KINDS),
            outage[balancer, family],
        ]
        for (balancer, family), counts in sorted(worst.items())
    ]
    if not rows:
        return []
    head = [
        "load balancer",
        "endpoint changes",
        "lost (timed out)",
        "refused",
        "reset",
        "wrong",
        "stray",
        "longest outage (s)",
    ]
    words = "Requests through the VIP without a right answer, over all endpoint changes. Stray ones are among the lost."
    return headed("Lost requests", [Table.of(head, rows, words)])


# ------------------------------------------------------------------------------------------------------------- balance
def balance(run: RecordedRun) -> list[Block]:
    """The figure of new connections by node at the end; empty if the run did not measure it."""
    found = run.of(SUITE, "balance")
    if not found:
        return []
    drawing = Drawing("convergence-balance", "Balance of new connections by node", "")
    scale, y, rows, descriptions = Scale(0, 1, LEFT, WIDTH - 110), 20.0, [], []
    for each in found:
        name, p = f"{each['balancer']} {each['family']}", real(each.get("p_value"))
        nodes = {str(node): int(count) for node, count in sorted((each.get("nodes") or {}).items())}
        total = sum(nodes.values())
        drawing.text(0, y + 13, shorten(name, 34))
        at = 0.0
        for number_, (node, count) in enumerate(nodes.items()):
            left, right = scale(at / max(1, total)), scale((at + count) / max(1, total))
            drawing.box(left, y, right - left, 18, fill=(ACCENT, MUTED)[number_ % 2], faint=True)
            drawing.box(left, y, right - left, 18, stroke=INK)
            fits = f"{node} {count}" if right - left > 7 * len(f"{node} {count}") else str(count)
            drawing.text((left + right) / 2, y + 13, shorten(fits, 30), anchor="middle", size=11)
            at += count
        said = NO_P if p is None else f"p = {p:.2g}"
        drawing.text(scale.right + 8, y + 13, f"{said}", size=11)
        split = ", ".join(f"{node} {count}" for node, count in nodes.items())
        pods = ", ".join(f"{node} {count}" for node, count in sorted((each.get("pods") or {}).items()))
        rows.append([name, split, pods, total, int(each.get("lost") or 0), said])
        descriptions.append(f"{name}: {split}; n {total}, {said}")
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


NO_P = "no p-value"


# -------------------------------------------------------------------------------------------------------------- checks
def checks(run: RecordedRun) -> list[Block]:
    """The figure of the observed intervals between health checks of each load balancer."""
    found = [each for each in run.of(SUITE, "checks") if (each.get("observed") or {}).get("gaps", {}).get("samples")]
    silent = [str(each["balancer"]) for each in run.of(SUITE, "checks") if each not in found]
    none = [Text(f"No health checks were observed from: {', '.join(silent)}.")] if silent else []
    if not found:
        return headed("Observed health checks", none)
    drawing = Drawing("convergence-checks", "Time between two health checks of a node, from packets", "")
    samples = {str(each["balancer"]): [real(s) for s in each["observed"]["gaps"]["samples"]] for each in found}
    known = {name: [s for s in of if s is not None] for name, of in samples.items()}
    scale = scale_of((s for of in known.values() for s in of), LEFT, WIDTH - 190)
    y, rows, descriptions = 26.0, [], []
    for at, title in enumerate(("p50", "p95", "max", "n")):
        drawing.text(WIDTH - 140 + at * 46, 14, title, anchor="end", fill=MUTED, size=11)
    for each in found:
        name, gaps, said = str(each["balancer"]), each["observed"]["gaps"], each.get("told") or {}
        figures = [real(gaps.get(of)) for of in ("p50", "p95", "max")]
        drawing.text(0, y + 12, shorten(name, 30))
        strip(drawing, known[name], scale, y, figures[0], figures[1])
        period = real(said.get("period"))
        if period is not None:
            drawing.signs([(scale(period), y + 21)], "^", stroke=BAD)
        for at, text in enumerate([*(number(of) for of in figures), str(gaps.get("n"))]):
            drawing.text(WIDTH - 140 + at * 46, y + 12, text, anchor="end", size=11)
        failures = [n for n in each["observed"].get("failures") or [] if real(n) is not None]
        steps = ", ".join(f"{n} x{failures.count(n)}" for n in sorted(set(failures))) or "none observed"
        sources = ", ".join(str(of) for of in each["observed"].get("sources") or [])
        rows.append([name, *figures, int(gaps.get("n") or 0), period, str(said.get("failures")), steps, sources])
        descriptions.append(
            f"{name}: p50 {number(figures[0])}, p95 {number(figures[1])}, max {number(figures[2])} s, n {gaps.get('n')}"
        )
        y += 30
    drawing.axis(scale, 20, y)
    drawing.height, drawing.words = y + 20, "; ".join(descriptions)
    words = (
        "Each dot is the time between two SYNs from the load balancer at the health-check port of one node. The "
        "triangle below the line is the period that the load balancer reports."
    )
    head = [
        "load balancer",
        "p50 (s)",
        "p95 (s)",
        "max (s)",
        "n",
        "reported period (s)",
        "reported N",
        "failed checks until it acted",
    ]
    numbers = Fold("Numbers", (Table.of([*head, "sources"], rows),))
    return headed("Observed health checks", [Figure(drawing, words), numbers, *none])
