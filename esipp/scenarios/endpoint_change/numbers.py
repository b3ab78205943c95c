"""What programs read of endpoint changes: their part of report.json, and the durations that ``esipp diff`` compares."""

from collections.abc import Iterator, Sequence
from typing import Annotated

from typing_extensions import TypedDict

from esipp.base.document import Cell, Code, Section, Table, Text
from esipp.base.schema import Count, note
from esipp.checks.model import Family
from esipp.judging.promise import CheckingNumbers
from esipp.judging.scenario import Durations, Numbers
from esipp.judging.statistics import Distribution
from esipp.ledger.reading import RecordedRun
from esipp.scenarios.endpoint_change.evidence import Moved
from esipp.scenarios.endpoint_change.judge import Judge, judges_of

MOST_BALANCERS = 5
"""How many load balancers report.md lists; report.json has all."""


class ConvergenceSettings(TypedDict):
    """How it was measured; durations are seconds."""

    seed: int | None
    moves: int | None
    spacing: float | None
    timeout: float | None
    clock_uncertainty: float | None


class Bound(TypedDict):
    """The longest time that the load balancer may take."""

    seconds: Annotated[float | None, note("(N+1) x period; null without health checks")]
    rests_on: str


class Times(TypedDict):
    """Quantiles of some durations."""

    n: Count
    p50: float | None
    p95: float | None
    max: float | None


class Observed(TypedDict):
    """Its health checks, from packets at the nodes."""

    sources: list[str]
    gaps: Times | None
    failures: list[Count]


class Moves(TypedDict):
    """How many pods were added and removed."""

    up: Count
    down: Count


class Losses(TypedDict):
    """Requests lost during all changes."""

    timed_out: Count
    refused: Count
    reset: Count
    wrong: Count
    stray: Count
    outage: float
    black_hole: Annotated[float | None, note("the longest period of lost requests after a node's 503")]


class Measured(Times):
    """The durations of a phase."""

    family: str
    direction: str
    phase: str
    samples: list[float]


class Balance(TypedDict):
    """How new connections were distributed after the changes."""

    family: str
    nodes: dict[str, Count]
    pods: dict[str, Count]
    lost: Count
    p_value: float | None


class LoadBalancer(TypedDict):
    """A load balancer and how it followed."""

    name: str
    obstacle: Annotated[str, note("why it could not be tested; else empty")]
    bound: Bound
    told: CheckingNumbers
    observed: Observed
    moves: Moves
    losses: Annotated[dict[str, Losses], note("by IP family")]
    distributions: list[Measured]
    balance: list[Balance]


class Convergence(TypedDict):
    """How load balancers followed endpoint changes."""

    settings: ConvergenceSettings | None
    balancers: list[LoadBalancer]


def _numbers(run: RecordedRun) -> Convergence:
    moved, judges = run.evidence_of(Moved), run.analysed(Moved, judges_of)
    if moved is None or judges is None:
        return {"settings": None, "balancers": []}
    settings: ConvergenceSettings = {
        "seed": run.header["seed"],
        "moves": run.header["moves"],
        "spacing": moved.spacing,
        "timeout": moved.timeout,
        "clock_uncertainty": moved.uncertainty,
    }
    return {"settings": settings, "balancers": [_balancer(judge) for judge in judges.values()]}


def _balancer(judge: Judge) -> LoadBalancer:
    result = judge.result
    ups = sum(change.up for change in result.changes)
    return {
        "name": result.balancer.value,
        "obstacle": result.obstacle,
        "bound": {"seconds": judge.bound, "rests_on": result.promise.source},
        "told": result.reported.numbers,
        "observed": {
            "sources": list(result.observed.sources),
            "gaps": _times(result.observed.gaps),
            "failures": list(result.observed.failures),
        },
        "moves": {"up": ups, "down": len(result.changes) - ups},
        "losses": {family.value: _losses(judge, family) for family in result.seen.vip if judge.lines},
        "distributions": [
            {
                "family": family.value,
                "direction": direction,
                "phase": phase,
                **_times(of),
                "samples": [round(each, 4) for each in of.samples],
            }
            for family, direction, phase, of in judge.times
        ],
        "balance": [
            {
                "family": family.value,
                "nodes": dict(counted.nodes),
                "pods": dict(counted.pods),
                "lost": counted.lost,
                "p_value": counted.p_value,
            }
            for family, counted in result.counted.items()
        ],
    }


def _losses(judge: Judge, family: Family) -> Losses:
    lost = judge.losses(family)
    return {
        "timed_out": lost.kinds["timed_out"],
        "refused": lost.kinds["refused"],
        "reset": lost.kinds["reset"],
        "wrong": lost.kinds["wrong"],
        "stray": lost.kinds["stray"],
        "outage": round(lost.outage, 4),
        "black_hole": None if lost.black_hole is None else round(lost.black_hole, 4),
    }


def _times(of: Distribution) -> Times:
    """The count and the quantiles, in seconds; null without samples."""
    if not of.samples:
        return {"n": 0, "p50": None, "p95": None, "max": None}
    p50, p95, longest = (round(each, 4) for each in (of.p50, of.p95, of.most))
    return {"n": len(of.samples), "p50": p50, "p95": p95, "max": longest}


def _durations(run: RecordedRun) -> Iterator[tuple[str, Sequence[float]]]:
    for balancer, judge in (run.analysed(Moved, judges_of) or {}).items():
        for family, direction, phase, of in judge.times:
            if of.samples:
                yield f"{balancer}, {family}, {direction}: {phase}", of.samples


NUMBERS = Numbers("convergence", Convergence, _numbers)
DURATIONS = Durations(
    "load balancers following endpoint changes",
    "each phase from the endpoint change to the traffic, as the run measured it",
    _durations,
)


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
