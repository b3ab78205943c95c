"""Known differences as claims about clusters, and whether a run confirms them. Pure, no I/O.

A claim expires when runs on matching clusters no longer see the difference: the defect is fixed, or the claim was
wrong. An expired claim would hide the next failure. A claim about the whole cluster (service proxy, network add-on,
load balancer, version) must show in every run on such a cluster with one of its checks. A claim about chance, or
without facts, need not.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from esipp.base.plural import counted
from esipp.checks.check import Check, Status, Verdict
from esipp.checks.ingress import AT_ANNOUNCER, AT_SERVICE, OF_SERVICE, facts_at
from esipp.checks.known_differences import KnownDifference
from esipp.checks.patterns import patterns
from esipp.checks.reference import titles

OF_A_WINDOW = ("load-balancer.steered",)
"""Facts about one measurement, and not about the cluster."""

OF_ONE_SERVICE = frozenset({AT_SERVICE, OF_SERVICE, AT_ANNOUNCER})
"""Facts about one Service, and not about the cluster."""

ABOUT = "known differences"
"""The subject of a run's notes about known differences."""

MOST_NAMED = 10
"""The largest number of id patterns in a note."""

ASKED = (Status.PASS, Status.RECORDED, Status.FAIL, Status.FLAKY, Status.KNOWN)
"""Verdicts of checks that really ran."""


def binds(claim: KnownDifference) -> bool:
    """Return whether it must show where its facts hold; one about a Service's proxy need not."""
    about = {name for name, _ in claim.when}
    return bool(claim.when) and not claim.by_chance and not about & {*OF_A_WINDOW, *OF_ONE_SERVICE}


@dataclass(frozen=True)
class Sight:
    """The result of one run for a claim about its cluster.

    Args:
        claim: the claim.
        asked: the number of its checks that ran.
        seen: the number of checks for which it was the reason.
        unshown: the checks that passed without it.
    """

    claim: KnownDifference
    asked: int
    seen: int
    unshown: tuple[str, ...] = ()

    @property
    def expired(self) -> bool:
        """Return whether the claim had to show and did not."""
        return binds(self.claim) and self.asked > 0 and self.seen == 0

    @property
    def sentence(self) -> str:
        """Return the note about an expired claim."""
        claim = self.claim
        return (
            f"known difference '{claim.reason}' ({titles(claim.references)}), claimed for {claim.where}, showed in "
            f"none of {counted(self.asked, 'check')}. Is it fixed?"
        )

    @property
    def of_checks(self) -> str:
        """Return the note about checks that passed without the difference while others showed it; else empty.

        These checks have a known difference that they do not need, which would excuse their next failure.
        """
        if not binds(self.claim) or not self.seen or not self.unshown:
            return ""
        named = patterns(self.unshown)
        return (
            f"known difference '{self.claim.reason}' ({titles(self.claim.references)}) showed in {self.seen} of "
            f"{counted(self.asked, 'check')}; "
            f"passed without it: {', '.join(named[:MOST_NAMED])}"
            + (f", and {len(named) - MOST_NAMED} more" if len(named) > MOST_NAMED else "")
        )


def claims_of(check: Check) -> tuple[KnownDifference, ...]:
    """Return the known differences of a check as claims."""
    return tuple(dict.fromkeys(known.claim for known in check.differences))


@cache
def all_claims() -> Mapping[KnownDifference, frozenset[str]]:
    """Return every known difference of all suites, with the ids of its checks."""
    from esipp.checks.catalog import all_checks

    return by_claim(all_checks())


def by_claim(checks: Iterable[Check]) -> Mapping[KnownDifference, frozenset[str]]:
    """Return the known differences of these checks, with the ids of their checks."""
    found: dict[KnownDifference, set[str]] = {}
    for check in checks:
        for claim in claims_of(check):
            found.setdefault(claim, set()).add(check.id)
    return {claim: frozenset(ids) for claim, ids in found.items()}


def sights(
    claims: Mapping[KnownDifference, frozenset[str]],
    facts: Mapping[str, str],
    verdicts: Mapping[str, Verdict],
) -> list[Sight]:
    """Return the result of a run for every claim about its cluster.

    Args:
        claims: the claims, with the ids of their checks.
        facts: the facts of the run, by name.
        verdicts: the verdicts of the run, by id; of a claim that only packets show, those that rest on packets count.
    """
    found = []
    for claim, ids in claims.items():
        if claim.divides(facts):
            continue  # the run may have met only nodes without it
        there = [name for name in sorted(ids) if claim.holds(_facts_of(name, claim, facts))]
        if there or claim.holds(facts):
            asked = [verdicts[name] for name in there if name in verdicts and _may_show(verdicts[name], claim)]
            seen = sum(1 for each in asked if _shows(each, claim))
            unshown = tuple(each.check_id for each in asked if each.status is Status.PASS)
            found.append(Sight(claim, len(asked), seen, unshown))
    return found


def _facts_of(check: str, claim: KnownDifference, facts: Mapping[str, str]) -> Mapping[str, str]:
    """Return the facts for a check; only those about its Service differ between checks."""
    if not any(name in OF_ONE_SERVICE for name, _ in claim.when):
        return facts
    return facts_at(_services().get(check, ""), facts)


@cache
def _services() -> Mapping[str, str]:
    """Return the Service of the cluster's own load balancer for each check with one."""
    from esipp.checks.catalog import all_checks

    return {check.id: check.subject.own_service for check in all_checks() if check.subject.own_service}


def _may_show(verdict: Verdict, claim: KnownDifference) -> bool:
    """Return whether the check ran so that it could show the claim."""
    return verdict.status in ASKED and (verdict.by_packets or not claim.in_packets)


def _shows(verdict: Verdict, claim: KnownDifference) -> bool:
    """Return whether the claim is the verdict's reason. References do not count: they may differ in older runs."""
    return verdict.status is Status.KNOWN and verdict.reason == claim.reason
