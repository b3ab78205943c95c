"""How long things took in a run, from its ledger: every distribution that two runs may be compared by."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from esipp.comparing.statistics import Compared, compare_samples, correct
from esipp.moves.statistics import Distribution
from esipp.observation import Outcome
from esipp.report.reading import RecordedRun

Name = tuple[str, str]
"""The kind of measure, and what was measured."""

PROBES = "answered probes"
CONVERGENCE = "load balancers following the pods"
FLIPS = "policy flips"
HEALTH = "health checks following the pods"
GAPS = "longest gaps of continuous traffic"

KINDS = {
    PROBES: "from dialling to the answer; one value a path, the middle of its sampled connections, as these are made "
    "together and wait for each other",
    CONVERGENCE: "per phase of following, as the run measured it",
    FLIPS: "from the change of the policy until the last path showed the new one for good; one value a flip",
    HEALTH: "from the change of the pods until the last node's health check told of it; one value a round",
    GAPS: "per phase; one value for each way in and family",
}
"""What is compared, and what one sample is."""


def compare_times(old: RecordedRun, new: RecordedRun) -> list[Compared]:
    """All distributions that both runs have, tested, and corrected for being many."""
    before, after = samples(old), samples(new)
    return correct([compare_samples(*name, before[name], after[name]) for name in before if name in after])


def samples(run: RecordedRun) -> Mapping[Name, list[float]]:
    """Every distribution of a run, in seconds."""
    found: dict[Name, list[float]] = {}
    for source in (_probes, _convergence, _flips, _health, _gaps):
        for name, taken in source(run):
            found.setdefault(name, []).extend(taken)
    return found


def _probes(run: RecordedRun) -> Iterator[tuple[Name, Sequence[float]]]:
    places = {row.path: row.place for row in run.rows if row.place}
    for path, place in places.items():
        # of probes that are told together, the times are the first one's start and the last one's end
        single = [each for each in run.probes.get(path, ()) if each.times == 1 and each.outcome == Outcome.ANSWERED]
        if single:
            way = " ".join(part for part in (place.service, place.entry) if part)
            took = Distribution.of(each.ended - each.started for each in single)
            yield (PROBES, f"{way}, {place.protocol}, {place.family}"), [took.quantile(0.5)]


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
