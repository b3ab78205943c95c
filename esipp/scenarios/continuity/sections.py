"""What a run's summary shows of continuity: a table by phase and way in, and the evidence of each action. Pure."""

from collections.abc import Iterator, Sequence

from esipp.base.document import Block, Cell, Pairs, Section, Table, Text
from esipp.checks.continuity import Phase, Way
from esipp.checks.model import Family
from esipp.judging.promise import Bound
from esipp.ledger.reading import RecordedRun
from esipp.scenarios.continuity.evidence import ContinuityEvidence
from esipp.scenarios.continuity.judge import Judge
from esipp.scenarios.continuity.windows import ways

TITLE = "continuity: steady traffic during disruptions"
COLUMNS = ("requests", "lost", "late", "gap (s)", "broken")


def summary(run: RecordedRun) -> Section:
    """The section; empty if the scenario did not run."""
    seen = run.evidence_of(ContinuityEvidence)
    if seen is None:
        return Section(TITLE)
    if seen.trouble:
        return Section(TITLE, (Text(seen.trouble),))
    return Section(TITLE, tuple(_blocks(Judge(seen))))


def key_figures(run: RecordedRun) -> Iterator[tuple[str, str]]:
    """The lost requests of all phases."""
    seen = run.evidence_of(ContinuityEvidence)
    if seen is None or seen.trouble:
        return
    found = ways(Judge(seen))
    if asked := sum(each.requests for each in found):
        yield "requests lost", f"{sum(each.lost for each in found):,} of {asked:,} of steady traffic"


def _blocks(judge: Judge) -> Iterator[Block]:
    seen, checking = judge.seen, judge.seen.checking
    bound = "unknown: the load balancer does not report it"
    if checking.bound is not None:
        bound = f"{checking.bound:.2f} s = (N+1) x period, N={checking.failures}, period {checking.period:.2f} s"
    yield Text(
        f"terminating pods keep serving for {seen.serves:.0f} s; clock precise to {1000 * seen.uncertainty:.1f} ms; "
        f"bound of the reference load balancers: {bound}; the cluster's own load balancer: {_own(seen.bound)}"
    )
    families = [family for family in Family if any(key[1] is family for key in seen.streams)]
    ways = list(dict.fromkeys(way for way, _ in seen.streams))
    rows: list[tuple[Cell, ...]] = []
    for phase in (Phase.QUIET, *(window.phase for window in seen.windows)):
        window = seen.window(phase)
        if window is not None and window.trouble:
            rows.append((f"{phase.value}: {window.trouble}", *[""] * len(COLUMNS) * len(families)))
            continue
        rows.append((f"{phase.value}:", *[""] * len(COLUMNS) * len(families)))
        rows += [(way.slug, *_numbers(judge, phase, way, families)) for way in ways]
    heads = [name if at else f"{family.value} {name}" for family in families for at, name in enumerate(COLUMNS)]
    yield Table(("", *heads), tuple(rows))
    yield Pairs.of(
        (
            window.phase.value,
            f"{window.until - window.began:.1f} s: {window.words}"
            + (f"; NOT STABLE AGAIN: {window.unsettled}" if window.unsettled else ""),
        )
        for window in seen.windows
        if not window.trouble
    )


def _own(bound: Bound | None) -> str:
    return "no bound is promised" if bound is None else f"bound {bound.seconds:.2f} s, {bound.source}"


def _numbers(judge: Judge, phase: Phase, way: Way, families: Sequence[Family]) -> Iterator[Cell]:
    for family in families:
        if (way, family) not in judge.seen.streams:
            yield from [None] * len(COLUMNS)
            continue
        numbers = judge.tally(phase, way, family)
        yield from (numbers.requests, numbers.lost, numbers.late, numbers.gap.seconds if numbers.gap else 0.0)
        yield len(judge.breaks(phase, way, family))
