"""What a run's summary shows of how load balancers follow endpoint changes. Pure."""

from collections.abc import Iterator, Mapping, Sequence

from esipp.base.document import Block, Cell, Pairs, Section, Table, Text
from esipp.checks.model import Balancer, Family
from esipp.checks.timing import Held
from esipp.judging.showing import of_the_cluster
from esipp.judging.statistics import Distribution, family_wise_words
from esipp.judging.timeline import Losses, Sample, count_losses
from esipp.ledger.reading import RecordedRun
from esipp.scenarios.endpoint_change.evidence import LEAST_P, Moved
from esipp.scenarios.endpoint_change.figures import OF_NO_FAMILY, Event, events
from esipp.scenarios.endpoint_change.judge import Judge, distributions, judges_of, split_words
from esipp.scenarios.endpoint_change.timeline import PHASES

TITLE = "convergence: load balancers following endpoint changes"
REPORTED = "reported health"
"""The subject of notes on what load balancers and other nodes reported."""

WAYS = {"up": "added", "down": "removed"}
"""What the directions of changes are called."""


def summary(run: RecordedRun) -> Section:
    """The section; empty if the scenario did not run."""
    moved, judges = run.evidence_of(Moved), run.analysed(Moved, judges_of)
    if moved is None or not judges:
        return Section(TITLE)
    reported = (Text(note) for about, note in run.notes if about == REPORTED)
    return Section(TITLE, (*_blocks(run, moved, judges), *reported))


def _blocks(run: RecordedRun, moved: Moved, judges: Mapping[Balancer, Judge]) -> Iterator[Block]:
    moves = run.header.get("moves")
    yield Text(
        f"{moves} pods added and {moves} removed for each; --seed {run.header.get('seed')}; seconds on one clock, "
        f"precise to {1000 * moved.uncertainty:.1f} ms"
    )
    for balancer, result in moved.results.items():
        if result.cut_short:
            yield Text(f"{balancer}: {result.cut_short}")
    if tests := sum(len(result.counted) for result in moved.results.values()):
        yield Text(family_wise_words(tests, LEAST_P))
    for balancer, judge in judges.items():
        yield Section(balancer.value, tuple(_balancer(judge)))
    lost = [event for event in events(judges) if event.traffic.losses.count]
    if lost:
        yield Section(f"the worst event ({lost[-1].balancer}, {lost[-1].family})", tuple(story(lost[-1])))


def key_figures(run: RecordedRun) -> Iterator[tuple[str, str]]:
    """The slowest convergence in each direction, the black hole that came closest to its bound, the lost requests."""
    measured = [each for each in (run.analysed(Moved, judges_of) or {}).values() if not each.result.obstacle]
    judges, of = of_the_cluster(measured, lambda judge: judge.result.balancer)
    slowest = {direction: _slowest(judges, direction) for direction in WAYS}
    if any(slowest.values()):
        said = ", ".join(f"pod {WAYS[way]} {words or 'never seen'}" for way, words in slowest.items())
        yield "slowest convergence", said + of
    if hole := _closest_hole(judges):
        yield "longest black hole", hole + of
    lost, asked = 0, 0
    for judge in judges:
        for family in judge.result.seen.vip:
            losses, requests = _asked(judge, family)
            lost += losses.count + len(judge.wrong_at_vip[family])
            asked += len(requests)
    if asked:
        yield "requests lost", f"{lost:,} of {asked:,} while the load balancer followed pods{of}"


def _slowest(judges: Sequence[Judge], direction: str) -> str:
    """The longest time until traffic followed in one direction, with its family; empty if it never did."""
    found = (
        (times.of.most, times.family.value)
        for judge in judges
        for times in judge.times
        if times.phase == PHASES[-1] and times.direction == direction and times.of.samples
    )
    seconds, family = max(found, default=(0.0, ""))
    return f"{seconds:.2f} s ({family})" if family else ""


def _closest_hole(judges: Sequence[Judge]) -> str:
    """The black hole that came closest to its bound, or the longest one if none has a bound; empty without any."""
    holes = [
        (max(each.seconds for _, each in found), judge.bound, family.value)
        for judge in judges
        for family in judge.result.seen.vip
        if (found := judge.holes(family))
    ]
    if bounded := [(hole, bound, family) for hole, bound, family in holes if bound is not None]:
        hole, bound, of = max(bounded, key=lambda each: each[0] / each[1])
        return f"{hole:.2f} s of {bound:.2f} s allowed ({of})"
    hole, _, of = max(holes, default=(0.0, None, ""))
    return f"{hole:.2f} s without a bound ({of})" if of else ""


def _asked(judge: Judge, family: Family) -> tuple[Losses, list[Sample]]:
    """The requests during all changes, and those of them that were lost.

    From the stream, not the changes: a pod that moves to another node is two changes in one window.
    """
    since = min((each.cause for each in judge.result.changes), default=0.0)
    until = max((line.until for line in judge.lines), default=0.0)
    asked = judge.result.seen.vip[family].view(since, until)
    return count_losses(asked, until), asked


def _balancer(judge: Judge) -> Iterator[Block]:
    result = judge.result
    if result.obstacle:
        yield Text(result.obstacle)
        return
    rows: list[tuple[Cell, ...]] = []
    for number, family in enumerate(result.seen.vip):
        sides = [distributions(judge.lines, family, up) for up in (True, False)]
        for phase in PHASES:
            if any(side[phase].samples for side in sides) and (number == 0 or phase not in OF_NO_FAMILY):
                of = "" if phase in OF_NO_FAMILY else f"{family.value} "
                rows.append((f"{of}{phase}", *(cell for side in sides for cell in _numbers(side[phase]))))
    yield Table(("", *(name for way in ("up", "down") for name in (f"{way}: p50", "p95", "max", "n"))), tuple(rows))
    yield from (Text(f"{family.value} {text}") for family in result.seen.vip for text in _facts(judge, family))
    yield Text(_checks(judge))
    yield Text(_spacing(judge))


def _spacing(judge: Judge) -> str:
    """The measured spacing of the probes."""
    seen = judge.result.seen
    gaps = [Distribution.of(gap for each in of for gap in each.gaps()) for of in (seen.vip.values(), seen.checks)]
    spacing = [
        f"{what} every {1000 * of.p50:.0f} ms (p95 {1000 * of.p95:.0f} ms)"
        for what, of in zip(("one request", "one health check of the suite"), gaps, strict=True)
        if of.samples
    ]
    longest = gaps[0].samples[-1] if gaps[0].samples else 0.0
    return f"{', '.join(spacing)}; longest time without a request: {longest:.2f} s"


def _numbers(of: Distribution) -> tuple[Cell, ...]:
    if not of.samples:
        return None, None, None, 0
    return of.p50, of.p95, of.most, len(of.samples)


def _facts(judge: Judge, family: Family) -> list[str]:
    losses, asked = _asked(judge, family)
    by_kind = {
        "lost": losses.timed_out,
        "refused": losses.refused,
        "reset": losses.reset,
        "wrong": losses.wrong + len(judge.wrong_at_vip[family]),
    }
    losses_in_words = ", ".join(f"{count} {name}" for name, count in by_kind.items())
    facts = [f"{len(asked)} requests during endpoint changes: {losses_in_words}; longest outage {losses.outage:.2f} s"]
    holes, bound = judge.holes(family), judge.bound
    if holes:
        stray = sum(line.traffic[family].losses.stray for line, _ in holes)
        said = (
            f"black hole after the node's 503: at most {max(each.seconds for _, each in holes):.2f} s (of {len(holes)})"
        )
        said += f", {stray} stray" if stray else ""
        rests = judge.result.promise.source
        if bound is not None:
            held = {each.against(bound) for _, each in holes}
            how = "EXCEEDED" if Held.OVER in held else "undecided, too imprecise" if Held.UNKNOWN in held else "kept"
            rests = f"bound {bound:.2f} s {how} ({judge.result.promise.source})"
        facts.append(f"{said}; {rests}")
    counted = judge.result.counted.get(family)
    return facts + ([f"balance: {split_words(counted)}"] if counted else [])


def _checks(judge: Judge) -> str:
    reported, seen = judge.result.reported, judge.result.observed
    parts = []
    if reported.bound is not None:
        parts.append(f"reported: N={reported.failures}, period {reported.period:.2f} s")
    if seen.sources:
        found = seen.checking
        counts = ", ".join(f"{n} x{seen.failures.count(n)}" for n in sorted(set(seen.failures))) or "none"
        period = f"{found.period:.3f} s" if found.period is not None else "unknown"
        parts.append(f"observed at the nodes: period {period}, failed checks until it acted: {counts}")
    return "health checks " + ("; ".join(parts) or "from the load balancer: none observed")


def story(event: Event) -> Iterator[Block]:
    """The timeline of one endpoint change, from its cause."""
    change, losses = event.line.change, event.traffic.losses
    cause = f"call: pod {change.pod} on node {change.node} {change.kind.value} (endpoint change {change.number})"
    lost = [
        (losses.first, "first request lost at the VIP"),
        (losses.last, f"last request lost at the VIP ({losses.count} in all, {losses.stray} stray)"),
    ]
    known = sorted([*event.observed[1:], *((at, text) for at, text in lost if at is not None)])
    rows = [(0.0, cause), *((at - change.cause, text) for at, text in known)]
    pairs = [(f"{at:+.3f} s", text) for at, text in rows]
    pairs += [("never", text) for at, text in event.moments[1:-2] if at is None]
    yield Pairs((*pairs, (f"{event.line.until - change.cause:+.3f} s", "the next endpoint change")))
    yield Text(f"longest outage {event.outage:.2f} s")
