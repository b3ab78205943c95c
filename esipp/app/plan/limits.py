"""Checks that a load balancer's limits affect: stated limits of a profile, and implied ones. Pure."""

from collections.abc import Iterable, Iterator

from esipp.checks.check import Check, Level
from esipp.checks.continuity import ContinuityCheck
from esipp.checks.endpoint_change import EndpointChangeCheck, What
from esipp.checks.model import AddressClass, Balancer, Family, Vantage
from esipp.checks.path import PathCheck
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
        return any(check.balanced.issuperset(words) for words in names_of(limit))
    if limit.outcome is Outcome.FAILS and check.level is Level.RECORD:
        return False
    if isinstance(check, EndpointChangeCheck):
        return _hits_endpoint_change(limit, check)
    if limit.what:
        return False
    if isinstance(check, ContinuityCheck):
        policy = not limit.policies or check.way.policy.value in limit.policies
        own = check.way.balancer is Balancer.DEFAULT and _fits(limit.families, check.family)
        return own and policy and not limit.protocols and not limit.clients
    path_check = getattr(check, "path_check", check)  # an isolation check repeats a path check
    return isinstance(path_check, PathCheck) and bool(path_check.balanced) and _hits_path(limit, path_check)


def _hits_endpoint_change(limit: Limit, check: EndpointChangeCheck) -> bool:
    if check.balancer is not Balancer.DEFAULT or not _fits(limit.families, check.family):
        return False
    if limit.what:
        return check.what.value in limit.what
    if limit.policies == LOCAL and limit.outcome in (Outcome.FAILS, Outcome.DIFFERS):
        return check.what is What.SOURCE and check.family is not None
    return not limit.protocols and not limit.policies and not limit.clients


def _hits_path(limit: Limit, path_check: PathCheck) -> bool:
    path = path_check.path
    if limit.policies == LOCAL and limit.outcome in (Outcome.FAILS, Outcome.DIFFERS) and not _wants_client(path_check):
        return False
    policy = path.service.policy.value if path.service and path.service.policy else "unset"
    return (
        (not limit.protocols or path.protocol.value in limit.protocols)
        and _fits(limit.families, path.family)
        and (not limit.policies or policy in limit.policies)
        and (not limit.clients or path.client.vantage.value in limit.clients)
    )


def _fits(families: frozenset[str], family: Family | None) -> bool:
    """Whether a limit on these address families, if any, applies to a check of a family."""
    return not families or (family is not None and family.value in families)


def _wants_client(path_check: PathCheck) -> bool:
    """Whether a check requires that the backend sees an outside client's address."""
    return path_check.accept == {AddressClass.CLIENT} and path_check.path.client.vantage is Vantage.OUTSIDE
