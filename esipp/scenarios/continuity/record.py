"""Ledger records of continuity: windows, marks, numbers by phase and way, and every failed request."""

from collections import Counter
from typing import Any

from esipp.checks.continuity import Phase, Way
from esipp.checks.model import Family
from esipp.judging.timeline.losses import is_late
from esipp.judging.timeline.streams import Sample, Stream
from esipp.judging.topology import parse_address
from esipp.ledger.run import Run
from esipp.scenarios.continuity.evidence import Seen
from esipp.scenarios.continuity.judge import Judge
from esipp.scenarios.continuity.traffic import LASTING, LASTING_PACE, PACE

SUITE = "continuity"

MOST = 300
"""Requests of a way in a phase that went wrong and are kept whole; their number is kept in any case."""


def keep(run: Run, judge: Judge, uncertainty: float) -> None:
    """Write everything down; times are seconds of this process's monotonic clock."""
    seen = judge.seen
    checking = {"period": seen.checking.period, "failures": seen.checking.failures}
    run.evidence(
        SUITE,
        "settings",
        spacing=PACE.every,
        timeout=PACE.timeout,
        lasting={"connections": LASTING, "spacing": LASTING_PACE.every},
        serves=seen.serves,
        checking=checking,
        bound={"seconds": seen.bound.seconds, "source": seen.bound.source} if seen.bound else None,
        clock_uncertainty=uncertainty,
        since=_s(seen.since),
        trouble=seen.trouble,
    )
    for window in seen.windows:
        run.evidence(SUITE, "window", **window.as_json())
    for mark in seen.marks:
        told = {"at": _s(mark.at), "what": mark.what, "pod": mark.pod, "node": seen.nodes.get(mark.pod, "")}
        run.evidence(SUITE, "mark", family=mark.family, **told)
    for way, steers in seen.steers.items():
        for steer in steers:
            told = {"at": _s(steer.at), "family": steer.family, "why": steer.why}
            run.evidence(SUITE, "steer", way=way.slug, nodes=list(steer.nodes), **told)
    for (way, family), why in seen.obstacles.items():
        run.evidence(SUITE, "obstacle", way=way.slug, family=family.value, why=why)
    for family, nodes in seen.health.items():
        for node, stream in nodes.items():
            told_so = [[_s(e.since), _s(e.until), e.probes, e.outcome] for e in stream.stretches()]
            run.evidence(SUITE, "health", node=node, family=family.value, stretches=told_so)
    for phase in (Phase.QUIET, *(window.phase for window in seen.windows)):
        for way, family in seen.streams:
            _keep(run, judge, phase, way, family)
        for family, stream in seen.control.items():
            run.evidence(SUITE, "control", phase=phase.value, family=family.value, **_of_control(seen, phase, stream))
        for (node, family), stream in seen.others.items():
            told = {"phase": phase.value, "node": node, "family": family.value}
            run.evidence(SUITE, "other-control", **told, **_of_control(seen, phase, stream))


def _of_control(seen: Seen, phase: Phase, stream: Stream) -> dict[str, Any]:
    made = seen.in_phase(phase, stream.samples)
    return {"requests": len(made), "wrong": [_sample(each) for each in made if not each.answered][:MOST]}


def _keep(run: Run, judge: Judge, phase: Phase, way: Way, family: Family) -> None:
    made = judge.of_phase(phase, way, family)
    sources = Counter(each.source for each in made if each.answered)
    pods = Counter(each.pod for each in made if each.answered)
    wrong = [each for each in made if _wrong(judge, way, each)]
    breaks = judge.every_break(phase, way, family)
    run.evidence(
        SUITE,
        "way",
        phase=phase.value,
        way=way.slug,
        family=family.value,
        **judge.tally(phase, way, family).as_json(),
        sources=dict(sources),
        pods=dict(pods),
        wrong_count=len(wrong),
        wrong=[[*_sample(each), judge.words(way, family, each)] for each in wrong[:MOST]],
        broken=len(judge.breaks(phase, way, family)),
        breaks=[[_s(each.at), each.pod, each.sample.outcome] for each in breaks[:MOST]],
    )


def _wrong(judge: Judge, way: Way, sample: Sample) -> bool:
    if not sample.answered or is_late(sample):
        return True
    return bool(judge.wrong_place(way, sample)) or parse_address(sample.source) not in judge.allowed(way, sample)


def _sample(sample: Sample) -> list[object]:
    return [_s(sample.started), _s(sample.ended), sample.outcome, sample.pod, sample.node, sample.source]


def _s(at: float) -> float:
    return round(at, 4)
