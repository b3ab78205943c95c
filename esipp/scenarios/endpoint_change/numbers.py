"""What programs read of endpoint changes: their part of report.json, and the durations that ``esipp diff`` compares."""

from collections.abc import Iterator, Sequence
from typing import Annotated

from typing_extensions import TypedDict

from esipp.base.schema import Count, note
from esipp.checks.model import Family
from esipp.checks.timing import CheckingNumbers
from esipp.judging.scenario import Durations, Numbers
from esipp.judging.statistics import Distribution
from esipp.ledger.reading import RecordedRun
from esipp.scenarios.endpoint_change.evidence import Moved
from esipp.scenarios.endpoint_change.judge import Judge, judges_of


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
