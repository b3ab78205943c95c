"""How long things took in a run, from its ledger: every distribution that two runs may be compared by."""

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from esipp.checks.observation import Outcome
from esipp.judging.statistics import Distribution
from esipp.ledger.reading import RecordedRun
from esipp.report.comparing.statistics import Compared, compare_samples, correct

Name = tuple[str, str]
"""The kind of measure, and what was measured."""

PROBES = "answered probes"
CONVERGENCE = "load balancers following the pods"
FLIPS = "policy flips"
HEALTH = "health checks following the pods"
GAPS = "longest gaps of continuous traffic"

KINDS = {
    PROBES: "from dialling to the answer; one value a path, the median of its sampled connections, as multiples (x) of "
    "the median of all paths in its run, because all are dialled at once and share the machine's load",
    CONVERGENCE: "per phase of following, as the run measured it",
    FLIPS: "from the change of the policy until the last path showed the new one for good; one value a flip",
    HEALTH: "from the change of the pods until the last node's health check told of it; one value a round",
    GAPS: "per phase; one value for each way in and family",
}
"""What is compared, and what one sample is."""


@dataclass(frozen=True)
class Times:
    """All distributions that two runs have, tested; ``probes`` is the median of all paths in each run, in seconds."""

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
        # rounded, so that what is equal stays equal
        relative = [round(one[path] / was, 6) for path in paths], [round(two[path] / now, 6) for path in paths]
        compared.append(compare_samples(PROBES, way, *relative, unit="x"))
    return Times(tuple(correct(compared)), (was, now))


def samples(run: RecordedRun) -> Mapping[Name, list[float]]:
    """Every distribution of a run but its probes', in seconds.

    What another version of the suite kept in a way that cannot be read here is left out.
    """
    found: dict[Name, list[float]] = {}
    for source in (_convergence, _flips, _health, _gaps):
        with contextlib.suppress(KeyError, TypeError, ValueError, AttributeError):
            for name, taken in source(run):
                found.setdefault(name, []).extend(taken)
    return found


def _by_path(run: RecordedRun) -> Mapping[str, float]:
    """How long each path took to answer, in seconds: the median of its sampled connections."""
    found = {}
    for path, probes in run.probes.items():
        # of probes that are told together, the times are the first one's start and the last one's end
        took = [each.ended - each.started for each in probes if each.times == 1 and each.outcome == Outcome.ANSWERED]
        if took and min(took) > 0:
            found[path] = Distribution.of(took).quantile(0.5)
    return found


def _ways(run: RecordedRun) -> Iterable[tuple[str, str]]:
    """Each path, and the way in that it belongs to."""
    for path, place in {check.path: check.place for check in run.checks if check.place}.items():
        way = " ".join(part for part in (place.service, place.entry) if part)
        yield path, f"{way}, {place.protocol}, {place.family}"


def _convergence(run: RecordedRun) -> Iterator[tuple[Name, Sequence[float]]]:
    for told in run.of("convergence", "distribution"):
        name = f"{told['balancer']}, {told['family']}, {told['direction']}: {told['phase']}"
        yield (CONVERGENCE, name), [float(each) for each in told["samples"]]


def _health(run: RecordedRun) -> Iterator[tuple[Name, Sequence[float]]]:
    for told in run.of("health_checks", "round"):
        took = [each["seconds"] for each in told["status"].values() if each.get("seconds") is not None]
        if took:
            yield (HEALTH, "every node"), [float(max(took))]


def _gaps(run: RecordedRun) -> Iterator[tuple[Name, Sequence[float]]]:
    for told in run.of("continuity", "way"):
        yield (GAPS, str(told["phase"])), [float(told["gap"])]


def _flips(run: RecordedRun) -> Iterator[tuple[Name, Sequence[float]]]:
    clients = {address for each in run.topology.get("clients", {}).values() for address in each["addresses"]}
    flips: dict[str, list[dict[str, Any]]] = {}
    for told in run.of("compatibility", "flip"):
        flips.setdefault(told["service"], []).append(told)
    streams: dict[str, list[list[list[Any]]]] = {}
    for told in run.of("compatibility", "stretch"):
        streams.setdefault(told["service"], []).append(told["stretches"])
    for service, own in flips.items():
        for flip, after in zip(own, [*own[1:], None], strict=True):
            if not flip["number"]:
                continue  # that is how it was created
            until = after["cause"] if after else float("inf")
            last = [_turned(stream, flip["cause"], until, clients) for stream in streams.get(service, ())]
            turned = [each for each in last if each is not None]
            if turned:
                yield (FLIPS, f"to {flip['to']}"), [max(turned) - flip["cause"]]


def _turned(stretches: list[list[Any]], since: float, until: float, clients: set[str]) -> float | None:
    """When a stream began to show for good, before ``until``, what it did not show at ``since``; None if it did not."""
    shown = None
    turned = None
    for began, _, _, outcome, _, source in stretches:
        now = (outcome, source in clients)
        if began >= until:
            break
        if began > since and shown is not None and now != shown:
            turned = began
        shown = now
    return turned
