"""Inline SVG drawings: scales, axes, strips, dots. Each has a description in words. Pure and deterministic.

Colours are the page's custom properties with fallbacks; colour is never the only sign.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from markupsafe import escape

from esipp.base.document import clean

INK = "var(--ink,#222)"
MUTED = "var(--muted,#666)"
PAPER = "var(--paper,#fff)"
ACCENT = "var(--accent,#2457a6)"
OK = "var(--ok,#2e7d32)"
WARN = "var(--warn,#9a6700)"
BAD = "var(--bad,#b3261e)"

WIDTH = 900
"""The width of a drawing in units; at 700 pixels its text still has nine."""

SIZE = 12
"""The size of text in units."""

LETTER = 0.56
"""The approximate width of a letter as a share of its size."""


def short(value: float) -> str:
    """A coordinate in as few characters as possible."""
    text = f"{value:.1f}"
    return text[:-2] if text.endswith(".0") else text


def wide(text: str, size: float = SIZE) -> float:
    """The approximate width of a text."""
    return len(text) * size * LETTER


@dataclass(frozen=True)
class Scale:
    """A linear scale from values to coordinates."""

    low: float
    high: float
    left: float
    right: float

    def __call__(self, value: float) -> float:
        """The coordinate of a value."""
        return self.left + (value - self.low) / (self.high - self.low or 1.0) * (self.right - self.left)

    def within(self, value: float) -> bool:
        """Whether a value is on the axis."""
        return self.low <= value <= self.high

    def ticks(self, most: int = 8) -> list[float]:
        """Round values along the axis, about ``most`` of them."""
        step = nice((self.high - self.low) / max(1, most))
        first = math.ceil(self.low / step - 1e-9)
        last = math.floor(self.high / step + 1e-9)
        return [round(at * step, 6) for at in range(first, min(last, first + 4 * most) + 1)]


def nice(least: float) -> float:
    """The smallest of 1, 2, 5 times a power of ten that is not below ``least``."""
    if least <= 0 or not math.isfinite(least):
        return 1.0
    power = 10.0 ** math.floor(math.log10(least))
    return next((power * each for each in (1, 2, 5) if power * each >= least * (1 - 1e-9)), power * 10)


def scale_of(values: Iterable[float], left: float, right: float) -> Scale:
    """A scale from zero, or the smallest value if it is negative, to just above the largest value."""
    known = list(values)
    high = max([*known, 0.1])
    return Scale(min([*known, 0.0]), high * 1.02, left, right)


@dataclass
class Drawing:
    """An SVG that grows downwards; ``height`` is set at the end.

    Args:
        id: the base of the ids within; unique in a report.
        title: the title in one line.
        words: the description with the numbers, for screen readers.
    """

    id: str
    title: str
    words: str
    height: float = 0.0
    width: float = WIDTH
    _parts: list[str] = field(default_factory=list)

    def text(
        self,
        x: float,
        y: float,
        said: object,
        *,
        anchor: str = "",
        fill: str = "",
        size: float = 0,
        bold: bool = False,
        halo: bool = False,
    ) -> None:
        """Text; ``y`` is its base line, ``halo`` separates it from lines behind it."""
        more = f' text-anchor="{anchor}"' if anchor else ""
        more += f' fill="{fill}"' if fill else ""
        more += f' font-size="{short(size)}"' if size else ""
        more += ' font-weight="600"' if bold else ""
        more += f' paint-order="stroke" stroke="{PAPER}" stroke-width="3"' if halo else ""
        self._parts.append(f'<text x="{short(x)}" y="{short(y)}"{more}>{escape(clean(str(said)))}</text>')

    def line(
        self,
        a: tuple[float, float],
        b: tuple[float, float],
        *,
        stroke: str = INK,
        wide: float = 1,
        dash: str = "",
        faint: bool = False,
    ) -> None:
        """A straight line."""
        more = f' stroke-dasharray="{dash}"' if dash else ""
        more += ' stroke-opacity=".28"' if faint else ""
        said = f"M{short(a[0])} {short(a[1])}L{short(b[0])} {short(b[1])}"
        self._parts.append(f'<path d="{said}" stroke="{stroke}" stroke-width="{short(wide)}" fill="none"{more}/>')

    def path(self, said: str, *, stroke: str = INK, wide: float = 1.5, dash: str = "") -> None:
        """A path."""
        more = f' stroke-dasharray="{dash}"' if dash else ""
        self._parts.append(f'<path d="{said}" stroke="{stroke}" stroke-width="{short(wide)}" fill="none"{more}/>')

    def box(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        *,
        fill: str = "none",
        stroke: str = "",
        faint: bool = False,
    ) -> None:
        """A rectangle."""
        more = f' stroke="{stroke}"' if stroke else ""
        more += ' fill-opacity=".14"' if faint else ""
        place = f'x="{short(x)}" y="{short(y)}" width="{short(max(width, 0.8))}" height="{short(height)}"'
        self._parts.append(f'<rect {place} fill="{fill}"{more}/>')

    def dots(
        self, places: Iterable[tuple[float, float]], *, stroke: str = INK, wide: float = 4, clear: bool = False
    ) -> None:
        """Many dots as one path; dots at one place are drawn once."""
        seen = dict.fromkeys((short(x), short(y)) for x, y in places)
        if seen:
            said = "".join(f"M{x} {y}h0" for x, y in seen)
            more = ' stroke-opacity=".5"' if clear else ""
            self._parts.append(
                f'<path d="{said}" stroke="{stroke}" stroke-width="{short(wide)}" stroke-linecap="round"{more}/>'
            )

    def ticks(self, xs: Iterable[float], top: float, height: float, *, stroke: str = INK, wide: float = 1) -> None:
        """Many vertical strokes as one path."""
        seen = dict.fromkeys(short(x) for x in xs)
        if seen:
            said = "".join(f"M{x} {short(top)}v{short(height)}" for x in seen)
            self._parts.append(f'<path d="{said}" stroke="{stroke}" stroke-width="{short(wide)}"/>')

    def signs(self, places: Iterable[tuple[float, float]], sign: str, *, stroke: str = BAD) -> None:
        """The same small sign at many places: one of ``SIGNS``."""
        seen = dict.fromkeys((short(x), short(y)) for x, y in places)
        if seen:
            said = "".join(f"M{x} {y}{SIGNS[sign]}" for x, y in seen)
            self._parts.append(f'<path d="{said}" stroke="{stroke}" stroke-width="1.3" fill="none"/>')

    def axis(self, scale: Scale, top: float, bottom: float, unit: str = "s", most: int = 8) -> None:
        """Faint lines at round values, with their labels and the unit below."""
        ticks = scale.ticks(most)
        self._parts.append(f'<g stroke="{MUTED}" stroke-opacity=".22">')
        self.ticks((scale(at) for at in ticks), top, bottom - top, stroke=MUTED, wide=0.7)
        self._parts.append("</g>")
        for number, at in enumerate(ticks):
            said = f"{at:g} {unit}" if number == len(ticks) - 1 else f"{at:g}"
            x = min(scale(at), self.width - wide(said, 11) / 2)
            self.text(x, bottom + 13, said, anchor="middle", fill=MUTED, size=11)

    def render(self) -> str:
        """The element; its text is escaped."""
        title, words = (escape(f"seen-{self.id}-{part}") for part in "td")
        size = f"0 0 {short(self.width)} {short(self.height)}"
        head = f'<svg viewBox="{size}" role="img" aria-labelledby="{title} {words}" font-size="{SIZE}" fill="{INK}">'
        named = "".join(
            f'<{name} id="{at}">{escape(clean(text))}</{name}>'
            for name, at, text in (("title", title, self.title), ("desc", words, self.words))
        )
        return head + named + "\n".join(self._parts) + "</svg>"


SIGNS = {
    "x": "m-3-3l6 6m0-6l-6 6",
    "v": "m-3.5-3h7l-3.5 6z",
    "o": "m-3.5 0l3.5-3.5 3.5 3.5-3.5 3.5z",
    "+": "m-3.5 0h7m-3.5-3.5v7",
    "|": "m0-4v8",
    "^": "m-3.5 3h7l-3.5-6z",
}
"""Signs that differ without colour: a cross, a triangle down, a diamond, a plus, a stroke, a triangle up."""


def staggered(labels: Sequence[tuple[float, str]], right: float, size: float = 11) -> list[tuple[float, int, str]]:
    """Labels at their places, in as many lines as they need not to overlap: place of the text, line, text."""
    ends: list[float] = []
    placed = []
    for x, text in sorted(labels):
        at = max(0.0, min(x, right - wide(text, size)))
        row = next((number for number, end in enumerate(ends) if end + 6 <= at), len(ends))
        if row == len(ends):
            ends.append(0.0)
        ends[row] = at + wide(text, size)
        placed.append((at, row, text))
    return placed
