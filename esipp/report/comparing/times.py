"""The distributions of durations in a run, for the comparison of two runs."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from esipp.checks.observation import Outcome
from esipp.judging.statistics import Distribution
from esipp.ledger.reading import RecordedRun
from esipp.report.comparing.statistics import Compared, compare_samples, correct
from esipp.scenarios.continuity.evidence import Seen as Continuity
from esipp.scenarios.continuity.judge import Judge as ContinuityJudge
from esipp.scenarios.continuity.windows import ways
from esipp.scenarios.endpoint_change.evidence import Moved
from esipp.scenarios.endpoint_change.judge import judges_of
from esipp.scenarios.health.evidence import HealthEvidence as Health
from esipp.scenarios.policy_change.evidence import Seen as PolicyChanges
from esipp.scenarios.policy_change.judge import followed
from esipp.scenarios.policy_change.timeline import Flip

Name = tuple[str, str]
"""The kind of measure, and the measure."""

PROBES = "answered probes"
CONVERGENCE = "load balancers following endpoint changes"
FLIPS = "traffic following policy changes"
HEALTH = "health checks following endpoint changes"
GAPS = "longest gaps in steady traffic"

KINDS = {
    PROBES: "from dialling to the answer; one value per path, the median of its sampled connections, as a multiple (x) "
    "of the median of all paths in its run, because all paths are dialled at once and share the machine's load",
    CONVERGENCE: "each phase from the endpoint change to the traffic, as the run measured it",
    FLIPS: "from the policy change until the last path shows the new policy for good; one value per change",
    HEALTH: "from the change of pods until the last node's health check shows it; one value per round",
    GAPS: "by phase; one value for each way in and family",
}
"""The kinds of measures, and what one sample is."""


@dataclass(frozen=True)
class Times:
    """The tested distributions of two runs; ``probes`` are the medians of all paths of each run, in seconds."""

    compared: tuple[Compared, ...] = ()
    probes: tuple[float, float] | None = None


def compare_times(old: RecordedRun, new: RecordedRun) -> Times:
    """Test all distributions that both runs have, and correct for their number."""
    before, after = samples(old), samples(new)
    compared = [compare_samples(*name, before[name], after[name]) for name in before if name in after]
    one, two = _by_path(old), _by_path(new)
    both = [path for path in one if path in two]
    if not both:
        return Times(tuple(correct(compared)))
    was, now = (Distribution.of(run[path] for path in both).quantile(0.5) for run in (one, two))
    ways: dict[str, list[str]] = {}
    for path, way in _ways(new):
        if path in one and path in two:
            ways.setdefault(way, []).append(path)
    for way, paths in ways.items():
        # rounded, so that equal values stay equal
        relative = [round(one[path] / was, 6) for path in paths], [round(two[path] / now, 6) for path in paths]
        compared.append(compare_samples(PROBES, way, *relative, unit="x"))
    return Times(tuple(correct(compared)), (was, now))


def samples(run: RecordedRun) -> Mapping[Name, list[float]]:
    """Every distribution of a run except its probes, in seconds."""
    found: dict[Name, list[float]] = {}
    for source in (_convergence, _flips, _health, _gaps):
        for name, taken in source(run):
            found.setdefault(name, []).extend(taken)
    return found


def _by_path(run: RecordedRun) -> Mapping[str, float]:
    """The time to an answer by path, in seconds: the median of its sampled connections."""
    found = {}
    for path, probes in run.probes.items():
        # grouped probes have the start of the first and the end of the last probe
        took = [each.ended - each.started for each in probes if each.times == 1 and each.outcome == Outcome.ANSWERED]
        if took and min(took) > 0:
            found[path] = Distribution.of(took).quantile(0.5)
    return found


def _ways(run: RecordedRun) -> Iterable[tuple[str, str]]:
    """Each path with its way in."""
    for path, place in {check.path: check.place for check in run.checks if check.place}.items():
        way = " ".join(part for part in (place.service, place.entry) if part)
        yield path, f"{way}, {place.protocol}, {place.family}"


def _convergence(run: RecordedRun) -> Iterator[tuple[Name, Sequence[float]]]:
    for balancer, judge in (run.analysed(Moved, judges_of) or {}).items():
        for family, direction, phase, of in judge.times:
            if of.samples:
                yield (CONVERGENCE, f"{balancer}, {family}, {direction}: {phase}"), of.samples


def _health(run: RecordedRun) -> Iterator[tuple[Name, Sequence[float]]]:
    seen = run.evidence_of(Health)
    for played in seen.rounds if seen else ():
        took = [each.seconds for each in played.status.values() if each.seconds is not None]
        if took:
            yield (HEALTH, "every node"), [max(took)]


def _gaps(run: RecordedRun) -> Iterator[tuple[Name, Sequence[float]]]:
    seen = run.evidence_of(Continuity)
    for way in ways(ContinuityJudge(seen)) if seen else ():
        yield (GAPS, way.phase), [way.longest]


def _flips(run: RecordedRun) -> Iterator[tuple[Name, Sequence[float]]]:
    seen = run.evidence_of(PolicyChanges)
    ground = seen.ground if seen else None
    if seen is None or ground is None:
        return
    for course in seen.courses.values():
        took: dict[Flip, float] = {}
        for at, family in course.data:
            for phase, lasting in followed(course, ground, at, family, strictly=True):
                if lasting is not None:
                    took[phase.flip] = max(took.get(phase.flip, 0.0), lasting.since - phase.flip.cause)
        for flip, seconds in took.items():
            yield (FLIPS, f"to {flip.to.value}"), [seconds]
