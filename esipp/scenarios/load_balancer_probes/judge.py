"""Judge of this scenario: whether packets contradict a load balancer's profile. Pure.

A figure binds if the profile is certain and the vendor documents it; any other is recorded, with the comparison. If
several profiles fit, one that agrees is enough.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from ipaddress import ip_address, ip_network
from itertools import pairwise
from statistics import median

from esipp.base.plural import counted
from esipp.checks.check import Status
from esipp.checks.profile import Target
from esipp.checks.timing import PERIOD_OFF, unbound
from esipp.judging.frame import Decision, undecided
from esipp.judging.scenario import Scenario, Typical
from esipp.judging.showing import tallied
from esipp.scenarios.load_balancer_probes.evidence import Figures, Observed, Probe, ProbeEvidence
from esipp.scenarios.load_balancer_probes.subject import ProfileFigure, ProfileFigureCheck, What

LEAST_PROBES = 3
"""The fewest probes of one source at one node that show a period."""

CAPTURED = 0.9
"""The least share of our own connections that the captures must show, or a missing probe proves nothing."""


def decide(check: ProfileFigureCheck, evidence: ProbeEvidence) -> Decision:
    """The decision on a check."""
    subject = check.subject
    if cut := evidence.cut_short(check):
        return cut
    key = (subject.balancer, subject.policy)
    observed = evidence.observed.get(key, Observed(obstacle="its health checks were not observed"))
    figures = evidence.figures.get(key, ())
    if why := observed.obstacle or _blind(observed, evidence):
        return undecided(check, why)
    said = [each for each in figures if _says(each, subject.what)]
    if len(said) < len(figures) or not figures:
        name = " or ".join(each.profile for each in figures if each not in said) or "no known profile"
        decided = Decision(Status.RECORDED, check.expected, shown(subject.what, observed))
        return replace(decided, reason=f"nothing is required: {name} does not say it")
    decisions = [_COMPARE[subject.what](check, each, observed) for each in said]
    decided = min(decisions, key=lambda each: _ORDER.index(each.status))
    names = " or ".join(each.profile for each in said)
    documented = all(subject.what in each.documented for each in said)
    if why := unbound(names, certain=subject.balancer in evidence.certain, documented=documented):
        compared = f"; {decided.reason}" if decided.reason else ""
        return replace(decided, status=Status.RECORDED, reason=f"nothing is required: {why}{compared}")
    return decided


_ORDER = (Status.PASS, Status.INCONCLUSIVE, Status.FLAKY, Status.FAIL)


def _blind(observed: Observed, evidence: ProbeEvidence) -> str:
    """Why the captures cannot be trusted; empty if they can."""
    if not observed.answered:
        return "no connection to the VIP was answered, so the load balancer may not use the Service yet"
    arrived = sum(observed.arrived.values())
    if arrived < CAPTURED * observed.answered:
        why = evidence.incomplete or "they may have reached a node without an agent"
        return f"packets show {arrived} of {observed.answered} connections of our own: {why}"
    return evidence.incomplete


def _says(figures: Figures, what: What) -> bool:
    """Whether a profile says something of a figure."""
    probed = figures.target not in (None, Target.NONE)
    return {
        What.PORT: figures.target is not None,
        What.PATH: probed and bool(figures.path),
        What.SOURCE: probed and bool(figures.sources),
        What.PERIOD: probed and figures.period is not None,
        What.DESTINATION: True,
    }[what]


# --------------------------------------------------------------------------------------------------- comparisons
def _port(check: ProfileFigureCheck, figures: Figures, observed: Observed) -> Decision:
    said = shown(What.PORT, observed)
    reached: set[Target] = {each.target for each in observed.probes if each.target is not Target.KUBE_PROXY}
    reached |= {each.target for each in _probes(figures, observed)}
    assert figures.target is not None
    right = not reached if figures.target is Target.NONE else figures.target in reached
    if right:
        return Decision(Status.PASS, check.expected, said, f"{figures.profile}: {figures.target.words}")
    reason = f"{figures.profile} probes {figures.target.words}; packets show {said}"
    if figures.target is Target.NONE:
        reason = f"{figures.profile} makes no health checks; packets show {said}"
    return Decision(Status.FAIL, check.expected, said, reason)


def _probes(figures: Figures, observed: Observed) -> list[Probe]:
    """The probes of the target that the profile names.

    Anybody may ask kube-proxy, such as another load balancer: only probes from the profile's sources count there.
    """
    found = [each for each in observed.probes if each.target is figures.target]
    if figures.target is Target.KUBE_PROXY and figures.sources:
        return [each for each in found if _inside(figures, each.source)]
    return found


def _inside(figures: Figures, source: str) -> bool:
    return any(ip_address(source) in ip_network(each) for each in figures.sources)


def _each(check: ProfileFigureCheck, found: Counter[str], right: Callable[[str], bool], wanted: str) -> Decision:
    """Pass if each of what was found is right, flaky if some are."""
    said, good = tallied(found), sum(count for each, count in found.items() if right(each))
    if not found:
        return undecided(check, "no packet shows it")
    if good == found.total():
        return Decision(Status.PASS, check.expected, said, wanted, tally=found)
    reason = f"{wanted}; packets show {', '.join(sorted(each for each in found if not right(each))[:3])}"
    return Decision(Status.FLAKY if good else Status.FAIL, check.expected, said, reason, tally=found)


def _path(check: ProfileFigureCheck, figures: Figures, observed: Observed) -> Decision:
    found = Counter(each.path for each in _probes(figures, observed) if each.path)
    return _each(check, found, lambda path: path == figures.path, f"{figures.profile} asks for {figures.path}")


def _source(check: ProfileFigureCheck, figures: Figures, observed: Observed) -> Decision:
    asking = _probes(figures, observed) or [each for each in observed.probes if each.target is figures.target]
    found, wanted = (
        Counter(each.source for each in asking),
        f"{figures.profile} probes from {', '.join(figures.sources)}",
    )
    return _each(check, found, lambda source: _inside(figures, source), wanted)


def gaps(probes: Sequence[Probe], *, by_source: bool) -> Iterator[float]:
    """The seconds between the probes of each node, or of each source at each node, if there are enough."""
    times: dict[tuple[str, str], list[float]] = {}
    for each in probes:
        times.setdefault((each.node, each.source if by_source else _family(each.source)), []).append(each.at)
    for found in times.values():
        if len(found) >= LEAST_PROBES:
            yield from (after - before for before, after in pairwise(sorted(found)))


def _family(source: str) -> str:
    return str(ip_address(source).version)


def _period(check: ProfileFigureCheck, figures: Figures, observed: Observed) -> Decision:
    """Compare the median gap: of each source, or of each node if several probers share the work.

    Too few probes for a gap show a period that is at least as long as the window allows.
    """
    probes, period = _probes(figures, observed), figures.period
    assert period is not None
    wanted = f"{figures.profile} probes every {period:g} s"
    medians = [median(found) for by in (True, False) if (found := list(gaps(probes, by_source=by)))]
    if medians:
        said = " or ".join(dict.fromkeys(f"every {each:.2f} s" for each in medians))
        if any(abs(each - period) <= PERIOD_OFF * period for each in medians):
            return Decision(Status.PASS, check.expected, said, wanted)
        return Decision(Status.FAIL, check.expected, said, f"{wanted}; packets show one {said}")
    if not probes:
        return undecided(check, "no health check was captured")
    most = max(Counter((each.node, each.source) for each in probes).values())
    slowest = observed.seconds / (most + 1)
    said = f"at most {counted(most, 'health check')} of a node in {observed.seconds:.0f} s"
    if slowest > (1 + PERIOD_OFF) * period:
        return Decision(Status.FAIL, check.expected, said, f"{wanted}; packets show {said}")
    return undecided(check, f"{said}: too few to tell", said)


def _destination(check: ProfileFigureCheck, figures: Figures, observed: Observed) -> Decision:
    found = Counter({each.value: count for each, count in observed.arrived.items()})
    wanted = f"{figures.profile} delivers packets for the {figures.destination.value}'s address"
    return _each(check, found, lambda each: each == figures.destination.value, wanted)


_COMPARE: dict[What, Callable[[ProfileFigureCheck, Figures, Observed], Decision]] = {
    What.PORT: _port,
    What.PATH: _path,
    What.SOURCE: _source,
    What.PERIOD: _period,
    What.DESTINATION: _destination,
}


def shown(what: What, observed: Observed) -> str:
    """What packets showed of a figure, as text."""
    probes = observed.probes
    if what is What.PERIOD:
        found = list(gaps(probes, by_source=True))
        return f"every {median(found):.2f} s" if found else "too few health checks"
    shown = {
        What.PORT: Counter(each.target.words for each in probes),
        What.PATH: Counter(each.path for each in probes if each.path),
        What.SOURCE: Counter(each.source for each in probes),
        What.DESTINATION: Counter({each.value: count for each, count in observed.arrived.items()}),
    }[what]
    return tallied(shown) if shown else "no health checks"


# -------------------------------------------------------------------------------------------------------- registration
SCENARIO = Scenario(
    name="load_balancer_probes",
    suite="health_checks",
    order=1,
    record="load_balancer_probes",
    subjects=(ProfileFigure,),
    evidence=ProbeEvidence,
    decide=decide,
    phases=(Typical("load balancer probes", base=9),),
)
