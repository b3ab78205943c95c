"""Which rows a load balancer's limits hit: those that a profile states, and those that follow from it. Pure."""

from collections.abc import Iterable, Iterator

from esipp.checks.check import Level, Row
from esipp.checks.continuity import ContinuityRow
from esipp.checks.endpoint_change import MoveRow, What
from esipp.checks.model import AddressClass, Balancer, Family, Vantage
from esipp.checks.path import Cell
from esipp.checks.profile import Class, Limit, LoadBalancer, Outcome
from esipp.loadbalancers.capabilities import uncarried, words_of

Limited = tuple[Limit, tuple[Row, ...]]

SEVERITY = (Outcome.UNSUPPORTED, Outcome.UNDECIDED, Outcome.FAILS, Outcome.DIFFERS)
"""The worst first: a row stands under one limit only."""

LOCAL = frozenset({"Local"})


def limited(profile: LoadBalancer, rows: Iterable[Row]) -> list[Limited]:
    """Each limit with the rows that it hits, each row under the worst one."""
    stated = (limit for limit in profile.limits if limit.outcome is not Outcome.UNSUPPORTED)
    limits = [*uncarried(profile), *_proxied(profile), *stated]
    limits.sort(key=lambda limit: SEVERITY.index(limit.outcome))
    found: dict[int, list[Row]] = {}
    for row in rows:
        hit = next((number for number, limit in enumerate(limits) if hits(limit, row)), None)
        if hit is not None:
            found.setdefault(hit, []).append(row)
    return [(limits[number], tuple(of)) for number, of in sorted(found.items())]


def _proxied(profile: LoadBalancer) -> Iterator[Limit]:
    """Under a proxy nobody sees the client's own address; whether that is known follows from the status."""
    if profile.kind is not Class.PROXY:
        return
    mode = profile.status.ip_mode
    told = profile.status.form.value == "hostname" or (mode is not None and mode.value == "Proxy")
    outcome, how = (Outcome.DIFFERS, "says so") if told else (Outcome.FAILS, "does not say so")
    why = f"{profile.name} is a proxy: pods see its address under Local, and the status {how}"
    yield Limit(outcome, why, profile.datapath.kind.sources, policies=LOCAL)


def hits(limit: Limit, row: Row) -> bool:
    """Whether a row is about the cluster's own load balancer, and one of those that a limit names."""
    if limit.outcome is Outcome.UNSUPPORTED:
        return any(row.balanced.issuperset(words) for words in words_of(limit))
    if limit.outcome is Outcome.FAILS and row.level is Level.RECORD:
        return False
    if isinstance(row, MoveRow):
        return _hits_move(limit, row)
    if limit.what:
        return False
    if isinstance(row, ContinuityRow):
        policy = not limit.policies or row.way.policy.value in limit.policies
        own = row.way.balancer is Balancer.DEFAULT and _fits(limit.families, row.family)
        return own and policy and not limit.protocols and not limit.clients
    cell = getattr(row, "cell", row)  # of a claim that is made again while neighbours flip
    return isinstance(cell, Cell) and bool(cell.balanced) and _hits_path(limit, cell)


def _hits_move(limit: Limit, row: MoveRow) -> bool:
    if row.balancer is not Balancer.DEFAULT or not _fits(limit.families, row.family):
        return False
    if limit.what:
        return row.what.value in limit.what
    if limit.policies == LOCAL and limit.outcome in (Outcome.FAILS, Outcome.DIFFERS):
        return row.what is What.SOURCE and row.family is not None
    return not limit.protocols and not limit.policies and not limit.clients


def _hits_path(limit: Limit, cell: Cell) -> bool:
    path = cell.path
    if limit.policies == LOCAL and limit.outcome in (Outcome.FAILS, Outcome.DIFFERS) and not _wants_client(cell):
        return False
    policy = path.service.policy.value if path.service and path.service.policy else "unset"
    return (
        (not limit.protocols or path.protocol.value in limit.protocols)
        and _fits(limit.families, path.family)
        and (not limit.policies or policy in limit.policies)
        and (not limit.clients or path.client.vantage.value in limit.clients)
    )


def _fits(families: frozenset[str], family: Family | None) -> bool:
    """Whether a row of a family is one that a limit of these, if any, is about."""
    return not families or (family is not None and family.value in families)


def _wants_client(cell: Cell) -> bool:
    """Whether it claims that a client outside is seen."""
    return cell.accept == {AddressClass.CLIENT} and cell.path.client.vantage is Vantage.OUTSIDE
