"""The distributions of durations in a run, for the comparison of two runs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from esipp.checks.observation import Outcome
from esipp.judging.scenario import scenarios
from esipp.judging.statistics import Distribution
from esipp.ledger.reading import RecordedRun
from esipp.report.comparing.statistics import Compared, compare_samples, correct

Name = tuple[str, str]
"""The kind of measure, and the measure."""

PROBES = "answered probes"


def kinds() -> dict[str, str]:
    """The kinds of measures, and what one sample is."""
    measured = (each.durations for each in scenarios() if each.durations)
    return {
        PROBES: "from dialling to the answer; one value per path, the median of its sampled connections, as a multiple "
        "(x) of the median of all paths in its run, because all paths are dialled at once and share the machine's load",
        **{each.name: each.sample for each in measured},
    }


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
    """Every distribution of a run except its probes, in seconds.

    Evidence of another version of the suite that this version cannot read is left out.
    """
    found: dict[Name, list[float]] = {}
    for measured in (each.durations for each in scenarios() if each.durations):
        for what, taken in measured.make(run):
            found.setdefault((measured.name, what), []).extend(taken)
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
