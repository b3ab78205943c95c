"""What a run's summary shows of policy changes: their number, their duration and the lost requests. Pure."""

from collections import Counter
from collections.abc import Iterator

from esipp.base.document import Block, Cell, Pairs, Section, Table, Text
from esipp.checks.model import Family, TrafficPolicy
from esipp.checks.policy_change import At, ChangingService, PolicyClaim
from esipp.ledger.reading import RecordedRun
from esipp.scenarios.policy_change.evidence import PolicyChangeEvidence, Window
from esipp.scenarios.policy_change.judge import end_of, followed, say_port_times, times
from esipp.scenarios.policy_change.timeline import Course, Ground, Shown

TITLE = "policy changes"
DIRECTIONS = (TrafficPolicy.CLUSTER, TrafficPolicy.LOCAL)


def summary(run: RecordedRun) -> Section:
    """The section; empty without observations."""
    seen = run.evidence_of(PolicyChangeEvidence) or PolicyChangeEvidence()
    blocks: list[Block] = [_isolation(seen.window)] if seen.window else []
    if seen.ground is not None and seen.courses:
        ground = seen.ground
        head = [name for to in DIRECTIONS for name in (f"to {to}: p50", "max", "n")]
        rows = [row for service, course in seen.courses.items() for row in _times_of(service, course, ground)]
        about = "seconds from the patch until new connections follow the policy for good; requests lost meanwhile"
        blocks += [Text(about), Table(("", *head, "lost"), tuple(rows))]
        blocks.append(Pairs.of(each for of in seen.courses.items() for each in _more(*of, ground)))
    return Section(TITLE, tuple(blocks))


def _isolation(window: Window) -> Text:
    made = Counter(name for name, _ in window.changes)
    changes = ", ".join(f"{name} {count} times" for name, count in sorted(made.items()))
    total = sum(each.count for of in window.evidence.observations.values() for each in of)
    paths = len(window.evidence.observations)
    doubt = f"; but {window.doubt()}" if window.doubt() else ""
    return Text(
        f"isolation: {total} connections on {paths} paths of unchanged Services; policy changes in that time: "
        f"{changes}{doubt}"
    )


def _times_of(service: ChangingService, course: Course, ground: Ground) -> Iterator[tuple[Cell, ...]]:
    for at, family in course.data:
        yield f"{service} {family} {at}", *_times(course, ground, at, family)


def _more(service: ChangingService, course: Course, ground: Ground) -> Iterator[tuple[str, str]]:
    made = len(list(course.changes_made()))
    if made < course.planned:
        yield str(service), f"{made} of {course.planned} policy changes"
    for (at, family), why in course.obstacles.items():
        yield f"{service} {family} {at}", why
    for family in Family:
        for claim in (PolicyClaim.HEALTH_CLOSED, PolicyClaim.HEALTH_AGAIN):
            if words := say_port_times(course, ground, family, claim):
                yield f"{service} {family} health port", f"{claim.value.replace('-', ' ')}: {words}"
    for each in course.kept:
        kept = sum(1 for stream in each.streams if stream.samples and not end_of(stream, course))
        yield f"{service} {each.family} open at the {each.at}", f"{kept} of {len(each.streams)} kept"


def _times(course: Course, ground: Ground, at: At, family: Family) -> Iterator[Cell]:
    phases = course.phases(at, family)
    made = followed(course, ground, at, family, strictly=True)
    for to in DIRECTIONS:
        of, never = times(made, to)
        yield of.quantile(0.5) if of.samples else None
        yield of.samples[-1] if of.samples else None
        yield f"{len(of.samples)} ({never} never)" if never else len(of.samples)
    lost = sum(
        1
        for phase in phases
        for sample in phase.samples
        if ground.shown(at, sample)[0] is Shown.NONE and at is not At.BARE_NODE
    )
    yield "" if at is At.BARE_NODE else f"{lost} of {sum(len(phase.samples) for phase in phases)}"
