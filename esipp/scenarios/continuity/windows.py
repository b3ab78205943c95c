"""Evidence of the continuity suite for the figures, and the marks of single requests."""

import string
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from esipp.base.document import number
from esipp.base.drawing import BAD, INK, Drawing, Scale
from esipp.base.plural import counted as many
from esipp.judging.showing import real
from esipp.ledger.reading import RecordedRun

SUITE = "continuity"
LEFT = 200.0
LATE = 0.9
"""Seconds after which an answer is late (docs/continuity.md)."""

SPLIT = 2.0
"""Seconds without a missed request that separate two gaps."""

Record = Mapping[str, Any]


class Wrong(NamedTuple):
    """A request that was lost, late or answered wrongly."""

    at: float
    kind: str
    words: str


class Broke(NamedTuple):
    """An established connection that broke, whether or not its pod stayed."""

    at: float
    outcome: str


class Way(NamedTuple):
    """The requests of one way in and family in one phase."""

    phase: str
    way: str
    family: str
    requests: int
    lost: int
    late: int
    gap: float | None
    wrong: tuple[Wrong, ...]
    wrong_count: int
    broken: int
    breaks: tuple[Broke, ...]

    @property
    def name(self) -> str:
        """The way in and the family."""
        return f"{self.way} {self.family}"

    @property
    def moments(self) -> list[float]:
        """The times of losses."""
        return [*(each.at for each in self.wrong), *(each.at for each in self.breaks)]

    @property
    def wrong_answers(self) -> int:
        """The number of requests answered in time, but wrongly."""
        return max(0, self.wrong_count - self.lost - self.late)


class Judged(NamedTuple):
    """The verdict on the losses of a way in a phase, and the last part of its check's id."""

    what: str
    status: str

    @property
    def words(self) -> str:
        """The verdict in words."""
        return f"{self.what}: {self.status}"


@dataclass(frozen=True)
class Evidence:
    """The observations; times are seconds on one clock.

    Args:
        lanes: each way in and family by name, with its requests in each phase.
    """

    settings: Record = field(default_factory=dict)
    windows: Sequence[Record] = ()
    ways: Sequence[Way] = ()
    lanes: Mapping[str, Sequence[Way]] = field(default_factory=dict)
    health: Sequence[Record] = ()
    steers: Sequence[Record] = ()

    @classmethod
    def read(cls, run: RecordedRun) -> "Evidence":
        """Read the evidence from a run's ledger."""
        ways = [_way(each) for each in run.of(SUITE, "way")]
        lanes: dict[str, list[Way]] = {}
        for each in ways:
            lanes.setdefault(each.name, []).append(each)
        settings = (run.of(SUITE, "settings") or [{}])[-1]
        windows = sorted(run.of(SUITE, "window"), key=lambda each: real(each.get("began")) or 0.0)
        return cls(settings, windows, ways, lanes, run.of(SUITE, "health"), run.of(SUITE, "steer"))

    @property
    def phases(self) -> list[str]:
        """The phases with observations, in order."""
        return list(dict.fromkeys(each.phase for each in self.ways))

    @property
    def span(self) -> tuple[float, float]:
        """The start and the end of the observations."""
        moments = [
            at for each in self.windows for name in ("began", "until") if (at := real(each.get(name))) is not None
        ]
        moments += [at for way in self.ways for at in way.moments]
        if (since := real(self.settings.get("since"))) is not None:
            moments.append(since)
        for each in self.health:
            moments += [float(run[1]) for run in each.get("stretches") or [] if since is None or run[1] > since]
        return (since if since is not None else min(moments, default=0.0)), max(moments, default=1.0)

    @property
    def budget(self) -> float | None:
        """(N+1) x period as the reference load balancer reports it; None if it does not."""
        checking = self.settings.get("checking") or {}
        period, failures = real(checking.get("period")), real(checking.get("failures"))
        return None if period is None or failures is None else (failures + 1) * period

    @property
    def budget_words(self) -> str:
        """The budget in words."""
        checking = self.settings.get("checking") or {}
        if self.budget is None:
            return "There is no budget for gaps: the load balancer does not report its health checks"
        settings = f"N={checking['failures']}, period {float(checking['period']):.2f} s, as the load balancer reports"
        return f"The budget of a gap is (N+1) x period = {self.budget:.2f} s ({settings})"

    @property
    def words(self) -> str:
        """All losses in words."""
        found = [
            f"{each.phase}, {each.name}: {each.lost} of {each.requests} lost, {each.late} late, longest gap "
            f"{number(each.gap)} s, {each.broken} broken"
            for each in self.ways
            if each.lost or each.late or each.broken or each.wrong_answers
        ]
        total = sum(each.requests for each in self.ways)
        return f"{many(total, 'request')}. " + ("; ".join(found) or "None was lost, late or answered wrongly.")

    def causes(self, window: Record) -> list[float]:
        """The times of the actions in a window."""
        return [at for each in window.get("causes") or [] if (at := real(each)) is not None]


def _way(record: Record) -> Way:
    wrong = tuple(_wrong(each) for each in record.get("wrong") or [])
    return Way(
        str(record["phase"]),
        str(record["way"]),
        str(record["family"]),
        int(record.get("requests") or 0),
        int(record.get("lost") or 0),
        int(record.get("late") or 0),
        real(record.get("gap")),
        wrong,
        int(record.get("wrong_count") or len(wrong)),
        int(record.get("broken") or 0),
        tuple(Broke(float(at), str(outcome)) for at, _, outcome in record.get("breaks") or []),
    )


def _wrong(each: Sequence[Any]) -> Wrong:
    started, ended, outcome = float(each[0]), float(each[1]), str(each[2])
    kind = "lost" if outcome != "answered" else "late" if ended - started >= LATE else "wrong"
    return Wrong(started, kind, str(each[6]) if len(each) > 6 else "")


def judged(run: RecordedRun) -> dict[tuple[str, str, str], Judged]:
    """The verdicts on losses by phase, way and family."""
    found = {}
    levels = {check.id: check.level.value for check in run.checks}
    for name, verdict in run.verdicts.items():
        parts = name.split(".")
        if parts[0] != SUITE or len(parts) < 5 or parts[-1] not in ("no-loss", "gap", "losses"):
            continue
        family = {"ipv4": "IPv4", "ipv6": "IPv6"}.get(parts[-2], parts[-2])
        status = "recorded" if levels.get(name) == "record" else verdict.status.value
        found[parts[1], ".".join(parts[2:-2]), family] = Judged(parts[-1], status)
    return found


def key(at: int) -> str:
    """The letter of a window: A, B … Z, AA …"""
    letters = string.ascii_uppercase
    return letters[at] if at < len(letters) else letters[at // len(letters) - 1] + letters[at % len(letters)]


def mark(
    drawing: Drawing, wrong: Iterable[Wrong], breaks: Iterable[Broke], scale: Scale, begin: float, y: float
) -> None:
    """Draw requests and breaks in one lane of 15 units: tall and short strokes, diamonds, crosses."""
    found = list(wrong)

    def of(kind: str) -> list[float]:
        return [scale(each.at - begin) for each in found if each.kind == kind and scale.within(each.at - begin)]

    drawing.ticks(of("late"), y + 7, 6, stroke=INK, wide=1.2)
    drawing.ticks(of("lost"), y + 1, 12, stroke=BAD, wide=1.6)
    drawing.signs(((x, y + 7) for x in of("wrong")), "o")
    at = (scale(each.at - begin) for each in breaks if scale.within(each.at - begin))
    drawing.signs(((x, y + 7) for x in at), "x", stroke=INK)
