"""Checks that a load balancer's limits affect: stated limits of a profile, and implied ones. Pure."""

from collections.abc import Iterable, Iterator

from esipp.checks.check import Check, Level
from esipp.checks.profile import Class, Limit, LoadBalancer, Outcome, Policy
from esipp.loadbalancers.capabilities import names_of, uncarried

Limited = tuple[Limit, tuple[Check, ...]]

SEVERITY = (Outcome.UNSUPPORTED, Outcome.UNDECIDED, Outcome.FAILS, Outcome.DIFFERS)
"""Outcomes, the worst first: each check is listed under one limit only."""

LOCAL: frozenset[Policy] = frozenset({"Local"})


def limited(profile: LoadBalancer, checks: Iterable[Check]) -> list[Limited]:
    """Each limit with the checks that it affects; each check is listed under its worst limit."""
    stated = (limit for limit in profile.limits if limit.outcome is not Outcome.UNSUPPORTED)
    limits = [*uncarried(profile), *_proxied(profile), *stated]
    limits.sort(key=lambda limit: SEVERITY.index(limit.outcome))
    found: dict[int, list[Check]] = {}
    for check in checks:
        hit = next((number for number, limit in enumerate(limits) if hits(limit, check)), None)
        if hit is not None:
            found.setdefault(hit, []).append(check)
    return [(limits[number], tuple(of)) for number, of in sorted(found.items())]


def _proxied(profile: LoadBalancer) -> Iterator[Limit]:
    """The limit of a proxy, which hides the client's address; the status decides whether that is known."""
    if profile.kind is not Class.PROXY:
        return
    mode = profile.status.ip_mode
    reported = profile.status.form.value == "hostname" or (mode is not None and mode.value == "Proxy")
    outcome, how = (Outcome.DIFFERS, "shows this") if reported else (Outcome.FAILS, "does not show this")
    why = f"{profile.name} is a proxy: pods see its address under Local, and the Service's status {how}"
    yield Limit(outcome, why, profile.datapath.kind.sources, policies=LOCAL)


def hits(limit: Limit, check: Check) -> bool:
    """Whether a check is about the cluster's own load balancer, and a limit applies to it."""
    if limit.outcome is Outcome.UNSUPPORTED:
        return any(check.subject.balanced.issuperset(words) for words in names_of(limit))
    if limit.outcome is Outcome.FAILS and check.level is Level.RECORD:
        return False
    return check.subject.limited_by(limit)
