"""The verdict frame for all checks other than paths: from a suite's decision to a verdict. Pure.

A suite only decides what the evidence shows (``Decision``). Whether the check applies at all, and whether the result is
a known difference, is the same for all suites.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from esipp.checks.check import (
    Check,
    Feature,
    Level,
    Status,
    is_instrument,
    missing_features,
    say_missing,
    surrounded,
    unproven_at_vips,
)
from esipp.checks.ingress import facts_at
from esipp.checks.known_differences import KnownDifference
from esipp.checks.observation import Verdict
from esipp.checks.reference import Reference
from esipp.judging.ingress import in_doubt


@dataclass(frozen=True)
class Decision:
    """A suite's decision on one check, from the evidence.

    ``expected`` and ``observed`` are texts for people, ``seen`` is the key that known differences match.
    ``tally`` counts the observations. ``sees`` says what the check can and cannot detect, with the resolution reached.
    ``foreign``: the only fault is source addresses of no node, pod or client; NAT before the cluster may cause them.
    """

    status: Status
    expected: str
    observed: str
    reason: str = ""
    seen: str = ""
    tally: Mapping[str, int] = field(default_factory=dict)
    sees: str = ""
    foreign: bool = False


def undecided(check: Check, why: str, observed: str = "nothing") -> Decision:
    """A decision that leaves the check undecided: the evidence shows no fault of the product."""
    return Decision(Status.INCONCLUSIVE, check.expected, observed, why)


def ours_failed(check: Check, observed: str, why: str) -> Decision:
    """A decision that leaves the check unjudged because esipp itself failed."""
    return Decision(Status.ERROR, check.expected, observed, why)


def give_verdict(
    check: Check,
    features: Mapping[str, Feature],
    facts: Mapping[str, str],
    look: Callable[[], Decision],
    differences: Iterable[KnownDifference] = (),
) -> Verdict:
    """The verdict on a check: unsupported, or the decision of ``look``; an informational check is recorded."""
    blank = Verdict(
        check.id, check.level, Status.UNSUPPORTED, check.expected, "nothing", instrument=is_instrument(check, facts)
    )
    missing = missing_features(check, features)
    if missing:
        ours = any(feature.ours for feature in missing.values())
        return replace(blank, reason=say_missing(check, missing), left_out=ours, missing=tuple(missing))
    decided = look()
    status, reason, nature = decided.status, decided.reason, ""
    references: tuple[Reference, ...] = ()
    if check.level is Level.RECORD and status in (Status.PASS, Status.FAIL, Status.FLAKY):
        status = Status.RECORDED
    unproven = unproven_at_vips(check, facts) if decided.foreign else ""
    there = facts_at(check.subject.own_service, facts)
    if status is Status.FAIL:
        for known in differences:
            if known.covers == decided.seen and known.holds(there) and not in_doubt(unproven, there):
                status, reason, nature = Status.KNOWN, known.reason, known.nature.value
                references = known.references
    if status in (Status.FAIL, Status.FLAKY) and unproven:
        status, reason = Status.INCONCLUSIVE, unproven
    if status in (Status.FAIL, Status.FLAKY) and (why := surrounded(check, facts)):
        status, reason = Status.INCONCLUSIVE, f"{why} (observed: {decided.reason or decided.observed})"
    return replace(
        blank,
        status=status,
        expected=decided.expected,
        observed=decided.observed,
        reason=reason,
        tally=dict(decided.tally),
        references=references,
        sees=decided.sees,
        nature=nature,
    )
