"""The summary's section on continuity: a table by phase and way in, and the evidence of each action. Pure."""

import textwrap
from collections.abc import Iterable, Sequence

from esipp.checks.continuity import Phase, Way
from esipp.checks.explain import WIDTH
from esipp.checks.model import Family
from esipp.judging.promise import Bound
from esipp.judging.timeline.losses import Tally
from esipp.scenarios.continuity.judge import Judge


def section(judge: Judge) -> list[str]:
    """The lines of the section."""
    seen = judge.seen
    if seen.trouble:
        return [f"continuity: {seen.trouble}"]
    checking = seen.checking
    bound = "unknown: the load balancer does not report it"
    if checking.bound is not None:
        bound = f"{checking.bound:.2f} s = (N+1) x period, N={checking.failures}, period {checking.period:.2f} s"
    families = [family for family in Family if any(key[1] is family for key in seen.streams)]
    ways = list(dict.fromkeys(way for way, _ in seen.streams))
    lines = [
        f"steady traffic during disruptions; terminating pods keep serving for {seen.serves:.0f} s; "
        f"clock precise to {1000 * seen.uncertainty:.1f} ms",
        f"bound of the reference load balancers: {bound}",
        f"the cluster's own load balancer: {_own(seen.bound)}",
        "",
        f"{'':<42}"
        + "   ".join(f"{family.value:<8}{'lost':>5}{'late':>5}{'gap':>7}{'broken':>7}" for family in families),
    ]
    for phase in (Phase.QUIET, *(window.phase for window in seen.windows)):
        lines += _phase(judge, phase, ways, families)
    return lines


def _own(bound: Bound | None) -> str:
    return "no bound is promised" if bound is None else f"bound {bound.seconds:.2f} s, {bound.source}"


def _phase(judge: Judge, phase: Phase, ways: Iterable[Way], families: Sequence[Family]) -> list[str]:
    window = judge.seen.window(phase)
    if window is not None and window.trouble:
        return [f"{phase.value}: {window.trouble}"]
    lines = []
    for number, way in enumerate(ways):
        cells = [_numbers(judge, phase, way, family) for family in families]
        lines.append(f"{phase.value if number == 0 else '':<16}{way.slug:<26}" + "   ".join(cells))
    if window is not None:
        took = f"{window.until - window.began:.1f} s: {window.words}"
        took += f"; NOT STABLE AGAIN: {window.unsettled}" if window.unsettled else ""
        lines += textwrap.wrap(took, WIDTH, initial_indent="  ", subsequent_indent="    ", break_on_hyphens=False)
    return lines


def _numbers(judge: Judge, phase: Phase, way: Way, family: Family) -> str:
    if (way, family) not in judge.seen.streams:
        return f"{'-':<8}{'-':>5}{'-':>5}{'-':>7}{'-':>7}"
    numbers: Tally = judge.tally(phase, way, family)
    gap = numbers.gap.seconds if numbers.gap else 0.0
    broken = len(judge.breaks(phase, way, family))
    return f"{numbers.requests:<8}{numbers.lost:>5}{numbers.late:>5}{gap:>7.2f}{broken:>7}"
