"""What a load balancer lost, against what it promises: black holes and the bound, losses, balance, its checks."""

from collections.abc import Mapping
from typing import Any, NamedTuple

from esipp.ledger.reading import RecordedRun
from esipp.report.drawings.markup import (
    Html,
    details,
    figure,
    heading,
    joined,
    number,
    paragraph,
    quantile,
    real,
    shorten,
    table,
)
from esipp.report.drawings.responses import strip
from esipp.report.drawings.svg import ACCENT, BAD, INK, MUTED, WIDTH, Drawing, Scale, scale_of

SUITE = "convergence"
LEFT = 220.0
ROW = 26.0
KINDS = ("timed_out", "refused", "reset", "wrong", "stray")
Told = Mapping[str, Any]


class Bound(NamedTuple):
    """Seconds, and who says so; None where nobody promises any."""

    seconds: float | None
    words: str


def bounds(run: RecordedRun) -> dict[str, Bound]:
    """The bound of each load balancer by who promises it; what it tells of itself and packets stand beside."""
    found = {}
    for each in run.of(SUITE, "checks"):
        told, observed = each.get("told") or {}, each.get("observed") or {}
        gaps, failures = observed.get("gaps") or {}, [n for n in observed.get("failures") or [] if real(n) is not None]
        seen = (real(gaps.get("p50")), max(failures, default=None))
        claimed = (real(told.get("period")), told.get("failures"))
        beside = f"observed: N={seen[1]}, period {seen[0]:.2f} s" if seen[0] and seen[1] else ""
        if claimed[0] is not None and claimed[1] is not None:
            seconds, words = (claimed[1] + 1) * claimed[0], f"its own word: N={claimed[1]}, period {claimed[0]:.2f} s"
            words += f"; {beside}" if beside else ""
        elif seen[0] is not None and seen[1] is not None:
            seconds, words = (seen[1] + 1) * seen[0], beside
        else:
            seconds, words = None, "it makes no health checks: no bound"
        promise = each.get("promise") or {}
        if promise:
            seconds, words = real(promise.get("seconds")), "; ".join(filter(None, (str(promise.get("source")), words)))
        found[str(each["balancer"])] = Bound(seconds, words)
    return found


class Hole(NamedTuple):
    """A move that took a node's last pod from under traffic, and for how long requests were lost then."""

    balancer: str
    family: str
    number: int
    move: str
    seconds: float


def holes(run: RecordedRun) -> list[Hole]:
    """Every black hole of a run, those of no length included."""
    return [
        Hole(str(move["balancer"]), str(family), int(move["number"]), str(move["move"]), seconds)
        for move in run.of(SUITE, "move")
        for family, seen in (move.get("traffic") or {}).items()
        if (seconds := real(seen.get("black_hole"))) is not None
    ]


def black_holes(run: RecordedRun) -> Html:
    """Black holes against the bound; empty where there were none to see."""
    found, known = holes(run), bounds(run)
    if not found:
        return Html("")
    keys = sorted({(each.balancer, each.family) for each in found})
    rows, lines = [], []
    limits = [bound.seconds for bound in known.values() if bound.seconds is not None]
    scale = scale_of([*(each.seconds for each in found), *limits], LEFT, WIDTH - 270)
    drawing = Drawing("convergence-holes", "Black holes against the bound", "")
    y = 26.0
    for at, name in enumerate(("p50", "max", "over", "n", "judged")):
        drawing.text(
            WIDTH - 222 + at * 38, 14, name, anchor="start" if name == "judged" else "end", fill=MUTED, size=11
        )
    top = 20.0
    for balancer, family in keys:
        samples = sorted(each.seconds for each in found if (each.balancer, each.family) == (balancer, family))
        bound = known.get(balancer, Bound(None, "nothing is known of its health checks"))
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
        "How long requests were lost after the node itself said 503 (and another node 200), one dot a pod that was "
        "closed, killed or moved elsewhere; the thick stroke is the bound. A length is known only as well as we were "
        "able to ask: what is not known well enough decides nothing, and the check says so."
    )
    head = ["load balancer", "p50 (s)", "max (s)", "bound (s)", "over", "n", "judged", "on whose word"]
    return figure(drawing.render(), words, details("Numbers, and on whose word the bound is", table(head, rows)))


def _judged(run: RecordedRun, row: str) -> str:
    verdict = run.verdicts.get(row)
    if verdict is None:
        return "not judged"
    recorded = next((each.level for each in run.checks if each.id == row), None)
    return "recorded" if recorded is not None and recorded.value == "record" else verdict.status.value


# -------------------------------------------------------------------------------------------------------------- losses
def lost(run: RecordedRun) -> Html:
    """What became of the requests through each VIP, while pods moved."""
    worst: dict[tuple[str, str], dict[tuple[int, str], int]] = {}
    outage: dict[tuple[str, str], float] = {}
    moves: dict[tuple[str, str], set[int]] = {}
    for move in run.of(SUITE, "move"):
        for family, seen in (move.get("traffic") or {}).items():
            key = (str(move["balancer"]), str(family))
            moves.setdefault(key, set()).add(int(move["number"]))
            outage[key] = max(outage.get(key, 0.0), real(seen.get("outage")) or 0.0)
            for kind in KINDS:
                # a pod that goes elsewhere is two moves over one window: its losses are one of them
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
        return Html("")
    head = ["load balancer", "moves", "lost (timed out)", "refused", "reset", "wrong", "stray", "longest outage (s)"]
    words = (
        "Requests through the VIP that did not come back as they must, over all moves; stray ones are among the lost."
    )
    return joined([heading("Requests that were lost"), table(head, rows, words)])


# ------------------------------------------------------------------------------------------------------------- balance
def balance(run: RecordedRun) -> Html:
    """How new connections spread over the nodes at the end; empty where nobody was asked."""
    found = run.of(SUITE, "balance")
    if not found:
        return Html("")
    drawing = Drawing("convergence-balance", "Balance of new connections by node", "")
    scale, y, rows, told = Scale(0, 1, LEFT, WIDTH - 110), 20.0, [], []
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
        told.append(f"{name}: {split}; n {total}, {said}")
        y += 25
    drawing.line((scale(0.5), 12), (scale(0.5), y), stroke=BAD, dash="4 3", wide=1.4)
    drawing.text(scale(0.5), 10, "half", anchor="middle", fill=BAD, size=11)
    drawing.height, drawing.words = y, "; ".join(told)
    words = (
        "New connections by the node that took them, when one node had two pods and another one had one. p: the exact "
        "two-sided binomial test against half each. One that announces a VIP from one node at a time uses only that."
    )
    head = ["load balancer", "connections by node", "pods by node", "n", "lost", "p-value"]
    return figure(drawing.render(), words, details("Numbers", table(head, rows)))


NO_P = "no p-value"


# -------------------------------------------------------------------------------------------------------------- checks
def checks(run: RecordedRun) -> Html:
    """How often each load balancer really asked the nodes' health checks."""
    found = [each for each in run.of(SUITE, "checks") if (each.get("observed") or {}).get("gaps", {}).get("samples")]
    silent = [str(each["balancer"]) for each in run.of(SUITE, "checks") if each not in found]
    none = paragraph(f"No health checks were seen of: {', '.join(silent)}.") if silent else Html("")
    if not found:
        return joined([heading("Health checks as observed"), none]) if silent else Html("")
    drawing = Drawing("convergence-checks", "Time between two health checks of a node, as packets show it", "")
    samples = {str(each["balancer"]): [real(s) for s in each["observed"]["gaps"]["samples"]] for each in found}
    known = {name: [s for s in of if s is not None] for name, of in samples.items()}
    scale = scale_of((s for of in known.values() for s in of), LEFT, WIDTH - 190)
    y, rows, told = 26.0, [], []
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
        steps = ", ".join(f"{n} in {failures.count(n)}" for n in sorted(set(failures))) or "none seen"
        sources = ", ".join(str(of) for of in each["observed"].get("sources") or [])
        rows.append([name, *figures, int(gaps.get("n") or 0), period, str(said.get("failures")), steps, sources])
        told.append(
            f"{name}: p50 {number(figures[0])}, p95 {number(figures[1])}, max {number(figures[2])} s, n {gaps.get('n')}"
        )
        y += 30
    drawing.axis(scale, 20, y)
    drawing.height, drawing.words = y + 20, "; ".join(told)
    words = (
        "Each dot is the time between two SYNs of the load balancer at one node's health-check port; the triangle "
        "below the line is the period that it tells."
    )
    head = [
        "load balancer",
        "p50 (s)",
        "p95 (s)",
        "max (s)",
        "n",
        "period told (s)",
        "N told",
        "503s met, in steerings",
    ]
    return joined(
        [
            heading("Health checks as observed"),
            figure(drawing.render(), words, details("Numbers", table([*head, "asked from"], rows)), none),
        ]
    )
