"""Figures of response times: each phase of an endpoint change as dots, and the whole time as an ECDF."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from esipp.base.document import Block, Figure, Fold, Table, number
from esipp.base.drawing import ACCENT, BAD, INK, MUTED, WIDTH, Drawing, Scale, scale_of, short
from esipp.judging.showing import real, shorten

WHOLE = "trigger to traffic"
OF_NO_FAMILY = ("call to trigger", "trigger to EndpointSlice", "EndpointSlice to node's path")
"""Phases without a family: pods have none, and nodePorts are probed in the first family only."""

ORDER = (
    "call to trigger",
    "trigger to EndpointSlice",
    "EndpointSlice to health check",
    "EndpointSlice to node's path",
    "health check to decision",
    "decision to traffic",
    "health check to traffic",
    WHOLE,
)
"""The order of the phases; others come last."""

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
    """A distribution from the ledger."""

    balancer: str
    family: str
    direction: str
    phase: str
    n: int
    p50: float | None
    p95: float | None
    max: float | None
    samples: tuple[float, ...]

    @property
    def figures(self) -> tuple[str, str, str, str]:
        """The numbers as text: p50, p95, max, n."""
        return number(self.p50), number(self.p95), number(self.max), str(self.n)


def read(found: Iterable[Mapping[str, Any]]) -> list[Samples]:
    """The distributions of a run."""
    return [
        Samples(
            str(each["balancer"]),
            str(each["family"]),
            str(each["direction"]),
            str(each["phase"]),
            int(each["n"]),
            real(each.get("p50")),
            real(each.get("p95")),
            real(each.get("max")),
            tuple(at for sample in each["samples"] if (at := real(sample)) is not None),
        )
        for each in found
    ]


def responses(found: Sequence[Mapping[str, Any]]) -> list[Block]:
    """All figures of response times; empty without any."""
    known = [each for each in read(found) if each.n]
    if not known:
        return []
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
        here = [each for each in known if each.family == family and (first == 0 or each.phase not in OF_NO_FAMILY)]
        words = (
            f"{family}: each dot is one endpoint change, on an axis in seconds. The tall stroke is the median (p50), "
            "the short one p95. Quantiles are nearest-rank; n counts the changes with both moments observed. "
            "Negative: the later moment was observed first."
        )
        if first:
            words += " Phases without a family are in the first figure only."
        rows = [[f"{each.phase}, {each.balancer}, {each.direction}", *_numbers(each)] for each in here]
        numbers = Table.of(["phase, load balancer, direction", "p50 (s)", "p95 (s)", "max (s)", "n"], rows)
        parts += [Figure(_strips(here, family, first), words), Fold(f"Numbers, {family}", (numbers,))]
    return parts


def _numbers(each: Samples) -> list[float | int | None]:
    return [each.p50, each.p95, each.max, each.n]


# --------------------------------------------------------------------------------------------------------------- ECDF
def _ecdf(whole: Sequence[Samples], families: Sequence[str]) -> Drawing:
    words = "; ".join(
        f"{each.balancer} {each.family} {each.direction}: p50 {number(each.p50)} s, p95 {number(each.p95)} s, "
        f"max {number(each.max)} s, n {each.n}"
        for each in whole
    )
    drawing = Drawing("convergence-ecdf", f"Cumulative distribution of response times ({WHOLE})", words)
    balancers = list(dict.fromkeys(each.balancer for each in whole))
    x = 48.0
    for at, balancer in enumerate(balancers):
        drawing.line((x, 10), (x + 34, 10), wide=2, dash=DASHES[at % len(DASHES)], stroke=_stroke(at))
        drawing.text(x + 40, 14, shorten(balancer, 30))
        x += 70 + 7 * len(shorten(balancer, 30))
    longest = max(sample for each in whole for sample in each.samples)
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
            here = [each for each in whole if each.family == family and each.direction == direction]
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
    counts = list(dict.fromkeys(each.n for each in here))
    return f"n = {counts[0]} each" if len(counts) == 1 else "n = " + ", ".join(str(each.n) for each in here)


def _stroke(at: int) -> str:
    return (INK, ACCENT, BAD)[at % 3]


def _steps(each: Samples, scale: Scale, top: float, height: float) -> str:
    """The share of samples up to each value as steps; samples at one place share a step."""
    ordered, said = sorted(each.samples), [f"M{short(scale.left)} {short(top + height)}"]
    for rank, sample in enumerate(ordered, 1):
        if rank == len(ordered) or short(scale(ordered[rank])) != short(scale(sample)):
            said.append(f"H{short(scale(max(0.0, sample)))}V{short(top + height * (1 - rank / len(ordered)))}")
    return "".join(said)


# -------------------------------------------------------------------------------------------------------------- strips
def _order(phase: str) -> tuple[int, str]:
    return (ORDER.index(phase) if phase in ORDER else len(ORDER), phase)


def _strips(here: Sequence[Samples], family: str, number_: int) -> Drawing:
    balancers = list(dict.fromkeys(each.balancer for each in here))
    phases = sorted({each.phase for each in here}, key=_order)
    words = "; ".join(
        f"{each.phase}, {each.balancer}, {each.direction}: p50 {number(each.p50)}, p95 {number(each.p95)}, "
        f"max {number(each.max)} s, n {each.n}"
        for each in here
    )
    drawing = Drawing(f"convergence-phases-{number_}", f"Time by phase and load balancer, {family}", words)
    everything = [sample for each in here for sample in each.samples]
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
    for phase in phases:
        drawing.text(0, y + 11, phase, bold=True)
        y += ROW - 2
        for balancer in balancers:
            drawing.text(12, y + 12, shorten(balancer, 24), fill=MUTED)
            for direction, scale in sides.items():
                each = by_place.get((phase, balancer, direction))
                if each is None:
                    drawing.text(scale.left, y + 12, "none observed", fill=MUTED, size=11)
                else:
                    _strip(drawing, each, scale, y)
            y += ROW
        y += 5
    for scale in sides.values():
        drawing.axis(scale, top, y, most=6)
        if scale.low < 0:
            drawing.line((scale(0), top), (scale(0), y), stroke=MUTED, wide=0.8)
    drawing.height = y + 20
    return drawing


def _strip(drawing: Drawing, each: Samples, scale: Scale, y: float) -> None:
    strip(drawing, each.samples, scale, y, each.p50, each.p95)
    for at, figure_ in enumerate(each.figures):
        drawing.text(scale.left + PLOT + COLUMN + at * COLUMN, y + 12, figure_, anchor="end", size=11)


def strip(
    drawing: Drawing, samples: Sequence[float], scale: Scale, y: float, p50: float | None, p95: float | None
) -> None:
    """Samples as dots on a line, at three heights to separate close ones, with the quantiles as strokes."""
    drawing.line((scale.left, y + 8), (scale.right, y + 8), stroke=MUTED, faint=True)
    drawing.dots(
        ((scale(sample), y + 8 + (at % 3 - 1) * 3) for at, sample in enumerate(samples)),
        stroke=ACCENT,
        wide=5,
        clear=True,
    )
    if p50 is not None:
        drawing.ticks([scale(p50)], y, 16, wide=1.8)
    if p95 is not None:
        drawing.ticks([scale(p95)], y + 4, 8, wide=1.8)
