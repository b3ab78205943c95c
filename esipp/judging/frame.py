"""The verdict frame: from a scenario's decision to a verdict. Pure.

A scenario only decides what the evidence shows (``Decision``). Whether the check applies at all, whether the result is
a known difference, and what in the environment may explain it is the same for all scenarios.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from esipp.checks.check import (
    Check,
    Feature,
    Level,
    Status,
    Verdict,
    in_environment,
    is_instrument,
    missing_features,
    say_missing,
    unproven_at_vips,
)
from esipp.checks.ingress import facts_at
from esipp.checks.known_differences import KnownDifference
from esipp.checks.model import AddressClass
from esipp.judging.ingress import in_doubt

OVERLOADED = 20.0
"""Tasks for each core of the nodes' machine from which something late proves nothing: work of one second takes twenty
there, and esipp allows five. Runs with 21 to 48 showed nodes that followed after 5 to 12 s; a run that causes up to 18
showed none."""


FEW = 0.05
"""On an overloaded machine, healthy paths lost 1 of 20 connections (with 28 tasks for each core, docs/soak.md, run 82),
and no cause was found. Up to this share, what got no answer counts as late."""


UNWRITTEN = "its EndpointSlices did not change, so no node could follow"
"""Why nodes that do not follow a change may be right. On a busy machine, the controller manager lost its Lease, and no
EndpointSlice changed for half a minute (kind-iptables, 2026-11-29)."""


def few(lost: int, total: int) -> bool:
    """Whether so few of all got no answer that an overloaded machine may be the cause."""
    return 0 < lost <= FEW * total


def run_queue(scenario: str) -> str:
    """The fact that says how many tasks each core had while a scenario ran, if this machine is that of the nodes."""
    return f"machine.tasks-per-core.{scenario}"


@dataclass(frozen=True)
class Known:
    """What is known of the cluster when a check is judged: facts and features, by name."""

    facts: Mapping[str, str] = field(default_factory=dict)
    features: Mapping[str, Feature] = field(default_factory=dict)


@dataclass(frozen=True)
class Decision:
    """A scenario's decision on one check, from the evidence.

    Args:
        status: the verdict, if nothing in the frame changes it.
        expected, observed: texts for people.
        reason: why.
        evidence: the evidence that known differences cover.
        tally: the number of observations, by their text.
        sees: what the check can and cannot detect, with the resolution reached.
        foreign: the only fault is source addresses of no node, pod or client; NAT before the cluster may cause them.
        environment: what in the environment may explain a failure, if the scenario knows better than the facts.
        known: the known difference that covers the connections of a path.
        shown, ports, change, witnesses: what else path checks report (see ``Verdict``).
        late: the only fault is that something took longer than esipp allows, or was not answered in time. On an
            overloaded machine that proves nothing.
    """

    status: Status
    expected: str
    observed: str
    reason: str = ""
    evidence: str = ""
    tally: Mapping[str, int] = field(default_factory=dict)
    sees: str = ""
    foreign: bool = False
    environment: str | None = None
    known: KnownDifference | None = None
    shown: tuple[AddressClass, ...] = ()
    ports: str = ""
    change: str = ""
    witnesses: str = ""
    late: bool = False


def undecided(check: Check, why: str, observed: str = "nothing") -> Decision:
    """A decision that leaves the check undecided: the evidence shows no fault of the product."""
    return Decision(Status.INCONCLUSIVE, check.expected, observed, why)


def ours_failed(check: Check, observed: str, why: str) -> Decision:
    """A decision that leaves the check unjudged because esipp itself failed."""
    return Decision(Status.ERROR, check.expected, observed, why)


def give_verdict(check: Check, known: Known, decide: Callable[[], Decision], scenario: str = "") -> Verdict:
    """The verdict on a check: unsupported, or the decision on its evidence; an informational check is recorded.

    Args:
        scenario: that of the evidence, whose machine may have been overloaded.
    """
    missing = missing_features(check, known.features)
    if missing:
        unsupported = Decision(Status.UNSUPPORTED, check.expected, "nothing", say_missing(check, missing))
        ours = any(feature.ours for feature in missing.values())
        return replace(_verdict(check, known.facts, unsupported), left_out=ours, missing=tuple(missing))
    decided = _in_time(_here(check, known.facts, decide()), known.facts.get(run_queue(scenario), ""))
    return _verdict(check, known.facts, decided)


def _in_time(decided: Decision, queue: str) -> Decision:
    """The decision, given how many tasks each core had meanwhile."""
    if decided.status not in (Status.FAIL, Status.FLAKY) or not decided.late or float(queue or 0.0) < OVERLOADED:
        return decided
    why = (
        f"the machine of the nodes was overloaded: {float(queue):.0f} tasks for each core; from {OVERLOADED:.0f} on, "
        f"a late answer proves nothing (observed: {decided.reason or decided.observed})"
    )
    return replace(decided, status=Status.INCONCLUSIVE, reason=why)


def _here(check: Check, facts: Mapping[str, str], decided: Decision) -> Decision:
    """The decision, given what is known of this cluster."""
    if check.level is Level.RECORD and decided.status in (Status.PASS, Status.FAIL, Status.FLAKY):
        return replace(decided, status=Status.RECORDED)
    if decided.status not in (Status.FAIL, Status.FLAKY):
        return decided
    unproven = unproven_at_vips(check, facts) if decided.foreign else ""
    there = facts_at(check.subject.own_service, facts)
    if decided.status is Status.FAIL and not in_doubt(unproven, there):
        for each in check.differences:
            if each.covers == decided.evidence and each.holds(there):
                return replace(decided, status=Status.KNOWN, known=each)
    if unproven:
        return replace(decided, status=Status.INCONCLUSIVE, reason=unproven)
    why = in_environment(check, facts) if decided.environment is None else decided.environment
    if why:
        observed = f"{why} (observed: {decided.reason or decided.observed})"
        return replace(decided, status=Status.INCONCLUSIVE, reason=observed)
    return decided


def _verdict(check: Check, facts: Mapping[str, str], decided: Decision) -> Verdict:
    known = decided.known
    return Verdict(
        check.id,
        check.level,
        decided.status,
        decided.expected,
        decided.observed,
        known.reason if known else decided.reason,
        dict(decided.tally),
        references=known.references if known else (),
        shown=decided.shown,
        ports=decided.ports,
        change=decided.change,
        witnesses=decided.witnesses,
        sees=decided.sees,
        nature=known.nature.value if known else "",
        instrument=is_instrument(check, facts),
    )


@dataclass
class Interruptions:
    """The parts of a scenario that broke off; each leaves only its own checks undecided.

    ``trouble`` says why a part broke off; its evidence up to then does not count. ``broken`` says the same for
    errors of esipp itself.
    """

    trouble: dict[str, str] = field(default_factory=dict)
    broken: dict[str, str] = field(default_factory=dict)

    def cut_short(self, check: Check) -> Decision | None:
        """The decision on a check whose part broke off; None if it did not."""
        if check.subject.part in self.broken:
            return ours_failed(check, "nothing", f"esipp itself failed: {self.broken[check.subject.part]}")
        if check.subject.part in self.trouble:
            return undecided(check, self.trouble[check.subject.part])
        return None
