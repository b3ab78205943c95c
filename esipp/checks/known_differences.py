"""Known differences as claims: where each says that it is seen, and whether a run saw it there. Pure, no I/O.

A claim that is no longer seen where it is made has expired: a defect was mended, a data plane does as others do, or it
never was so; and it would hide the next failure. Claims about the cluster at large (its service proxy, its network
add-on, its load balancer, its version) must be seen by every run on such a cluster that asked one of their checks.
Those about chance, or about nobody in particular, need not.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache

from esipp.base.plural import counted
from esipp.checks.check import Check, Difference, Nature, Status, holds, older_than
from esipp.checks.ingress import AT_SERVICE, OF_SERVICE, facts_at, service_of
from esipp.checks.observation import Verdict
from esipp.checks.path import Override
from esipp.checks.patterns import patterns
from esipp.checks.reference import Reference, titles

OF_A_WINDOW = ("load-balancer.steered",)
"""Facts about what happened in one window, and not about the cluster."""

ABOUT = "known differences"
"""What notes of a run about these are about."""

MOST_NAMED = 10
"""Patterns of ids that a note names."""

ASKED = (Status.PASS, Status.RECORDED, Status.FAIL, Status.FLAKY, Status.KNOWN)
"""Verdicts of checks that were really asked."""


@dataclass(frozen=True)
class Claim:
    """A known difference, whichever checks have it.

    Args:
        when, before: the facts under which it is to be expected, and the Kubernetes from which on it is not.
        reason, references: why.
        nature: whether it is allowed, or a defect.
        in_packets: whether only packets show it.
        by_chance: whether it takes an unlucky moment to see it.
        evidence, hides: what must have been seen, and what it can still hide.
    """

    when: tuple[tuple[str, str], ...]
    before: str
    reason: str
    references: tuple[Reference, ...]
    nature: Nature
    in_packets: bool = False
    by_chance: bool = False
    evidence: str = ""
    hides: str = ""

    @property
    def binds(self) -> bool:
        """Whether it must be seen where its facts hold; a Service that may be behind a proxy need not be."""
        about = {name for name, _ in self.when}
        return bool(self.when) and not self.by_chance and not about & {*OF_A_WINDOW, AT_SERVICE, OF_SERVICE}

    @property
    def where(self) -> str:
        """On which clusters, in words."""
        facts = ", ".join(f"{name} {value}" for name, value in self.when) or "any"
        return facts + (f", {older_than(self.before)}" if self.before else "")

    def holds(self, facts: Mapping[str, str]) -> bool:
        """Whether it is to be expected on a cluster of these facts."""
        return holds(self.when, self.before, facts)


@dataclass(frozen=True)
class Sight:
    """What one run says of a claim that is made for its cluster: of how many checks with it that were asked, and of how
    many it was the reason. ``unshown`` are the checks that were as required all the same.
    """

    claim: Claim
    asked: int
    seen: int
    unshown: tuple[str, ...] = ()

    @property
    def expired(self) -> bool:
        """Whether it had to be seen, and was not."""
        return self.claim.binds and self.asked > 0 and self.seen == 0

    @property
    def sentence(self) -> str:
        """What is to be told where it has expired."""
        claim = self.claim
        return (
            f"'{claim.reason}' ({titles(claim.references)}) is claimed where {claim.where}, and was seen on none of "
            f"{counted(self.asked, 'check')}: was it mended?"
        )

    @property
    def of_checks(self) -> str:
        """What is to be told where some checks showed it and others, which have it as well, did not; or nothing.

        These checks keep an excuse that they do not need: their next failure would be known.
        """
        if not self.claim.binds or not self.seen or not self.unshown:
            return ""
        named = patterns(self.unshown)
        return (
            f"'{self.claim.reason}' ({titles(self.claim.references)}) was seen on {self.seen} of "
            f"{counted(self.asked, 'check')}; "
            f"as required all the same: {', '.join(named[:MOST_NAMED])}"
            + (f", and {len(named) - MOST_NAMED} more" if len(named) > MOST_NAMED else "")
        )


def claims_of(check: Check) -> tuple[Claim, ...]:
    """The known differences of a check: its own, or those of the path's claim that it repeats in another window."""
    own: list[Override | Difference] = []
    for holder in (check, getattr(check, "path_check", None)):
        own += [*getattr(holder, "overrides", ()), *getattr(holder, "differences", ())]
    return tuple(dict.fromkeys(map(_claim, own)))


def _claim(known: Override | Difference) -> Claim:
    in_packets = isinstance(known, Override) and known.forwarded
    return Claim(
        known.when, known.before, known.reason, known.references, known.nature, in_packets, known.by_chance,
        known.evidence, known.hides,
    )  # fmt: skip


@cache
def all_claims() -> Mapping[Claim, frozenset[str]]:
    """Every known difference of all suites, and the ids of the checks that have it."""
    from esipp.checks.catalog import all_checks

    return by_claim(all_checks())


def by_claim(checks: Iterable[Check]) -> Mapping[Claim, frozenset[str]]:
    """The known differences of checks, and the ids of those that have each."""
    found: dict[Claim, set[str]] = {}
    for check in checks:
        for claim in claims_of(check):
            found.setdefault(claim, set()).add(check.id)
    return {claim: frozenset(ids) for claim, ids in found.items()}


def sights(
    claims: Mapping[Claim, frozenset[str]],
    facts: Mapping[str, str],
    verdicts: Mapping[str, Verdict],
    *,
    packets: bool = True,
) -> list[Sight]:
    """What a run says of every claim that is made for its cluster.

    Args:
        claims: with the ids of their checks.
        facts: the run's, by name.
        verdicts: the run's, by id.
        packets: whether it captured packets; without them nobody asked what only they show.
    """
    found = []
    for claim, ids in claims.items():
        there = [name for name in sorted(ids) if claim.holds(_facts_of(name, claim, facts))]
        if (there or claim.holds(facts)) and (packets or not claim.in_packets):
            told = [verdicts[name] for name in there if name in verdicts and verdicts[name].status in ASKED]
            seen = sum(1 for each in told if _is_it(each, claim))
            unshown = tuple(each.check_id for each in told if each.status is Status.PASS)
            found.append(Sight(claim, len(told), seen, unshown))
    return found


def _facts_of(check: str, claim: Claim, facts: Mapping[str, str]) -> Mapping[str, str]:
    """The facts as they are for a check; only those that are about one Service differ from check to check."""
    if not any(name in (AT_SERVICE, OF_SERVICE) for name, _ in claim.when):
        return facts
    return facts_at(_services().get(check, ""), facts)


@cache
def _services() -> Mapping[str, str]:
    """The Service of the cluster's own load balancer that each check is about, of those that are about one."""
    from esipp.checks.catalog import all_checks

    return {check.id: service_of(check) for check in all_checks() if service_of(check)}


def _is_it(verdict: Verdict, claim: Claim) -> bool:
    """By its reason: a reference may have been completed since a run that is kept."""
    return verdict.status is Status.KNOWN and verdict.reason == claim.reason
