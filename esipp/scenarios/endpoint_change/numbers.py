"""What programs read of endpoint changes: their part of report.json, and the durations that ``esipp diff`` compares."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from typing_extensions import TypedDict

from esipp.base.document import Cell, Code, Section, Table, Text
from esipp.base.json import Json
from esipp.base.schema import Count, note
from esipp.judging.scenario import Durations, Numbers
from esipp.ledger.numbers import CONVERGENCE, balancers, pick, response
from esipp.ledger.reading import RecordedRun

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


class Checking(TypedDict):
    """The health checks of a load balancer: seconds between two checks, and failed checks until it acts."""

    period: float | None
    failures: int | None


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


class Distribution(Times):
    """The durations of a phase."""

    family: str
    direction: Literal["up", "down"]
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
    told: Checking
    observed: Observed
    moves: Moves
    losses: Annotated[dict[str, Losses], note("by IP family")]
    distributions: list[Distribution]
    balance: list[Balance]


class Convergence(TypedDict):
    """How load balancers followed endpoint changes."""

    settings: ConvergenceSettings | None
    balancers: list[LoadBalancer]


def _numbers(run: RecordedRun) -> Mapping[str, Any]:
    records = run.of(CONVERGENCE, "settings")
    settings = pick(records[-1], *ConvergenceSettings.__annotations__) if records else None
    return {"settings": settings, "balancers": balancers(run.of)}


def _durations(run: RecordedRun) -> Iterator[tuple[str, Sequence[float]]]:
    for record in run.of(CONVERGENCE, "distribution"):
        name = f"{record['balancer']}, {record['family']}, {record['direction']}: {record['phase']}"
        yield name, [float(each) for each in record["samples"]]


NUMBERS = Numbers("convergence", Convergence, _numbers)
DURATIONS = Durations(
    "load balancers following endpoint changes",
    "each phase from the endpoint change to the traffic, as the run measured it",
    _durations,
)


def brief(run: RecordedRun) -> Section:
    """How fast each load balancer followed endpoint changes, and its bound; the slower family only."""
    rows: list[tuple[Cell, ...]] = []
    for each in balancers(run.of):
        if each["obstacle"]:
            rows.append((Code(each["name"]), "-", "-", "-", "-", Code(each["obstacle"])))
            continue
        sides = [_worst(each, direction) for direction in ("up", "down")]
        lost = sum(of[name] for of in each["losses"].values() for name in ("timed_out", "refused", "reset", "wrong"))
        holes = [of["black_hole"] for of in each["losses"].values() if of["black_hole"] is not None]
        seconds = each["bound"]["seconds"]
        rests = f"{seconds:.2f}, {each['bound']['rests_on']}" if seconds is not None else each["bound"]["rests_on"]
        rows.append((Code(each["name"]), *sides, lost, f"{max(holes):.2f}" if holes else "-", rests))
    head = ("load balancer", "pod added", "pod removed", "lost requests", "longest black hole", "bound")
    left = len(rows) - MOST_BALANCERS
    table = Table(head, tuple(rows[:MOST_BALANCERS]), more=f"And {left} more in report.json." if left > 0 else "")
    about = Text("Seconds from an endpoint change until traffic follows it: p50 / p95 / max.")
    return Section("Convergence", (about, table) if rows else ())


def _worst(balancer: Json, direction: str) -> str:
    """The numbers of the slower family."""
    sides = [each for each in response(balancer) if each["direction"] == direction and each["n"]]
    if not sides:
        return "-"
    slowest = max(sides, key=lambda each: (float(each["p95"]), float(each["max"])))
    return f"{slowest['p50']:.2f} / {slowest['p95']:.2f} / {slowest['max']:.2f} ({slowest['family']}, n={slowest['n']})"
