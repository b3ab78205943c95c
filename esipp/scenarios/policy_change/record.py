"""Ledger records of policy changes: the time of each, and the result of every probe, run-length encoded."""

from esipp.checks.model import Path
from esipp.judging.timeline.streams import Stream
from esipp.ledger.run import Run
from esipp.scenarios.policy_change.evidence import Neighbour, Seen, Window
from esipp.scenarios.policy_change.timeline import Course, Flip

SUITE = "compatibility"


def keep(run: Run, seen: Seen) -> None:
    """Write everything down; times are seconds of this process's monotonic clock."""
    if seen.window is not None:
        for name, each in seen.window.neighbours.items():
            _neighbour(run, name, each)
        for (place, family), told in seen.window.health.items():
            run.evidence(SUITE, "beside-health", place=place.value, family=family.value, answers=told)
        for path in seen.window.paths:
            _path(run, seen.window, path)
    for (at, family), stream in seen.controls.items():
        _stream(run, "control", stream, at=at.value, family=family.value)
    for service, course in seen.courses.items():
        _course(run, service.value, course)


def _neighbour(run: Run, name: str, each: Neighbour) -> None:
    for flip in each.flips:
        run.evidence(SUITE, "neighbour-flip", service=name, **_flip(flip))
    for stream in ([each.bare] if each.bare else []) + list(each.health.values()):
        _stream(run, "neighbour", stream, service=name)


def _path(run: Run, window: Window, path: Path) -> None:
    """What a path showed in all, and when each was shown first."""
    made, clock = window.evidence.observations[path.key], window.clocks.get(path.client.name)
    tally: dict[tuple[str, str, str], list[float]] = {}
    for each in made:
        at = clock.ours(each.started) if clock else each.started
        tally.setdefault((each.outcome.value, each.seen[0] if each.seen else "", each.backend or ""), []).append(at)
    shown = [[*what, len(times), [round(at, 3) for at in sorted(times)[:5]]] for what, times in tally.items()]
    run.evidence(SUITE, "beside", path=path.key, shown=shown)


def _course(run: Run, service: str, course: Course) -> None:
    for flip in course.flips:
        run.evidence(SUITE, "flip", service=service, **_flip(flip))
    for (at, family), why in course.obstacles.items():
        run.evidence(SUITE, "obstacle", service=service, at=at.value, family=family.value, why=why)
    for (at, family), stream in course.data.items():
        _stream(run, "stretch", stream, service=service, at=at.value, family=family.value, end=round(course.end, 4))
    for (number, node, family), stream in course.health.items():
        _stream(run, "health", stream, service=service, flip=number, node=node, family=family.value)
    for each in course.kept:
        for stream in each.streams:
            _stream(run, "kept", stream, service=service, at=each.at.value, family=each.family.value, flip=each.number)


def _flip(flip: Flip) -> dict[str, object]:
    return {
        "number": flip.number,
        "to": flip.to.value,
        "cause": round(flip.cause, 4),
        "answered": round(flip.answered, 4),
        "policy": flip.policy,
        "health_port": flip.health_port,
    }


def _stream(run: Run, kind: str, stream: Stream, **which: object) -> None:
    runs = [
        [round(each.since, 4), round(each.until, 4), each.probes, each.outcome, each.pod, each.source]
        for each in stream.stretches()
    ]
    run.evidence(SUITE, kind, stream=stream.name, **which, stretches=runs)
