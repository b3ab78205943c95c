"""Evidence of the continuity suite for the figures, and the marks of single requests."""

import string
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from esipp.base.document import number
from esipp.base.drawing import BAD, INK, Drawing, Scale
from esipp.base.plural import counted
from esipp.checks.continuity import Phase, Way
from esipp.checks.model import Family
from esipp.judging.timeline import Gap, Sample, Stream, is_late
from esipp.judging.topology import parse_address
from esipp.ledger.reading import RecordedRun
from esipp.scenarios.continuity.evidence import ContinuityEvidence, Window
from esipp.scenarios.continuity.judge import Judge

SUITE = "continuity"
LEFT = 200.0
MOST = 300
"""Wrong requests of a way in a phase, and broken connections, that figures show; their numbers count all."""


class Wrong(NamedTuple):
    """A request that was lost, late or answered wrongly."""

    at: float
    kind: str


class Broke(NamedTuple):
    """An established connection that broke, whether or not its pod stayed."""

    at: float
    outcome: str


class WayInPhase(NamedTuple):
    """The requests of one way in and family in one phase."""

    phase: str
    way: str
    family: str
    requests: int
    lost: int
    late: int
    gap: Gap | None
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
    def longest(self) -> float:
        """The longest gap in seconds; 0 without one."""
        return self.gap.seconds if self.gap else 0.0

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

    seen: ContinuityEvidence
    windows: Sequence[Window]
    ways: Sequence[WayInPhase]
    lanes: Mapping[str, Sequence[WayInPhase]]

    @classmethod
    def of(cls, judge: Judge) -> "Evidence":
        """What the judge of the evidence says of each way."""
        seen, found = judge.seen, ways(judge)
        lanes: dict[str, list[WayInPhase]] = {}
        for each in found:
            lanes.setdefault(each.name, []).append(each)
        return cls(seen, sorted(seen.windows, key=lambda each: each.began), found, lanes)

    @property
    def families(self) -> list[Family]:
        """The families with a way in."""
        return [family for family in Family if any(of is family for _, of in self.seen.streams)]

    @property
    def health(self) -> list[tuple[str, Family, Stream]]:
        """The health checks: node, family, answers."""
        return [(node, of, stream) for of in self.families for node, stream in self.seen.health.get(of, {}).items()]

    @property
    def phases(self) -> list[str]:
        """The phases with observations, in order."""
        return list(dict.fromkeys(each.phase for each in self.ways))

    @property
    def span(self) -> tuple[float, float]:
        """The start and the end of the observations."""
        since = self.seen.since
        moments = [at for each in self.windows for at in (each.began, each.until)]
        moments += [at for way in self.ways for at in way.moments]
        for _, _, stream in self.health:
            moments += [run.until for run in stream.stretches() if run.until > since]
        return since, max(moments, default=1.0)

    @property
    def budget(self) -> float | None:
        """(N+1) x period as the reference load balancer reports it; None if it does not."""
        return self.seen.checking.bound

    @property
    def budget_words(self) -> str:
        """The budget in words."""
        of = self.seen.checking
        if of.bound is None:
            return "There is no budget for gaps: the load balancer does not report its health checks"
        settings = f"N={of.failures}, period {of.period:.2f} s, as the load balancer reports"
        return f"The budget of a gap is (N+1) x period = {of.bound:.2f} s ({settings})"

    @property
    def words(self) -> str:
        """All losses in words."""
        found = [
            f"{each.phase}, {each.name}: {each.lost} of {each.requests} lost, {each.late} late, longest gap "
            f"{number(each.longest)} s, {each.broken} broken"
            for each in self.ways
            if each.lost or each.late or each.broken or each.wrong_answers
        ]
        total = sum(each.requests for each in self.ways)
        return f"{counted(total, 'request')}. " + ("; ".join(found) or "None was lost, late or answered wrongly.")


def ways(judge: Judge) -> list[WayInPhase]:
    """Each way in, family by family, in the quiet time and in each phase."""
    seen = judge.seen
    phases = (Phase.QUIET, *(window.phase for window in seen.windows))
    return [_way(judge, phase, way, family) for phase in phases for way, family in seen.streams]


def _way(judge: Judge, phase: Phase, way: Way, family: Family) -> WayInPhase:
    wrong = [
        Wrong(each.started, kind) for each in judge.of_phase(phase, way, family) if (kind := _kind(judge, way, each))
    ]
    numbers = judge.tally(phase, way, family)
    breaks = [Broke(each.at, each.sample.outcome) for each in judge.every_break(phase, way, family)]
    return WayInPhase(
        phase.value,
        way.slug,
        family.value,
        numbers.requests,
        numbers.lost,
        numbers.late,
        numbers.gap,
        tuple(wrong[:MOST]),
        len(wrong),
        len(judge.breaks(phase, way, family)),
        tuple(breaks[:MOST]),
    )


def _kind(judge: Judge, way: Way, sample: Sample) -> str:
    """What is wrong with a request; empty if nothing is."""
    if not sample.answered:
        return "lost"
    if is_late(sample):
        return "late"
    wrong = judge.wrong_place(way, sample) or parse_address(sample.source) not in judge.allowed(way, sample)
    return "wrong" if wrong else ""


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
