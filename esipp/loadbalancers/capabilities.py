"""Capabilities: what a load balancer does not support, as missing features of checks. Pure.

Only a *named* load balancer (``--provider``) makes a check unsupported. A detected one may be wrong, and must not
suppress a check that can run: it is only a prediction. Such a check runs, and is inconclusive if no VIP appears.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import product

from esipp.checks.check import CARRIES, Feature
from esipp.checks.model import ANYTHING, Family, Protocol
from esipp.checks.profile import Destination, Limit, LoadBalancer, Outcome

ONE_NODE_TRAP = "one-node"
"""The kind of trap of profiles that announce each VIP on one node, by ARP and NDP."""

NAMES = frozenset(f"{CARRIES}{each.value.lower()}" for each in (*Protocol, *Family))
"""What may be left out by name, also where it is carried."""


def uncarried(profile: LoadBalancer) -> Iterator[Limit]:
    """The limits of a profile that make checks unsupported: its stated limits, and what it does not support."""
    protocols = frozenset(each for each in Protocol if each not in profile.carries.protocols.value)
    if protocols:
        why = f"{profile.name} does not support {' or '.join(sorted(protocols))}"
        yield Limit(Outcome.UNSUPPORTED, why, profile.carries.protocols.sources, protocols=protocols)
    families = frozenset(each for each in Family if each not in profile.carries.families.value)
    if families:
        why = f"{profile.name} does not support {' or '.join(sorted(families))}"
        yield Limit(Outcome.UNSUPPORTED, why, profile.carries.families.sources, families=families)
    yield from (limit for limit in profile.limits if limit.outcome is Outcome.UNSUPPORTED)


def names_of(limit: Limit) -> Iterator[tuple[str, ...]]:
    """The words of checks that a limit hits (``Check.balanced``): all words of any of these."""
    fields = (limit.protocols, limit.families, limit.policies, limit.clients, limit.what)
    for each in product(*(sorted(field) or [""] for field in fields)):
        yield tuple(part.lower() for part in each if part) or (ANYTHING,)


def features_of(profile: LoadBalancer | None) -> dict[str, Feature]:
    """The missing features of a load balancer that the user named: what it does not support."""
    limits: Iterable[Limit] = uncarried(profile) if profile else ()
    return {f"{CARRIES}{'.'.join(parts)}": Feature(False, limit.why) for limit in limits for parts in names_of(limit)}


def node_ports_feature(found: Sequence[LoadBalancer]) -> Feature:
    """Whether the load balancer serves Services without nodePorts: by its profile, packets are not sent to nodes' own
    addresses.

    Args:
        found: the named profile, or all that fit.
    """
    names = " or ".join(each.name for each in found)
    where = " or ".join(dict.fromkeys(each.datapath.destination.value.value for each in found))
    needed = not found or any(each.datapath.destination.value is Destination.NODE for each in found)
    why = f"{names}: packets come with the address of the {where} as destination" if found else "no profile fits"
    return Feature(not needed, why)


def one_node_feature(found: Sequence[LoadBalancer]) -> Feature:
    """Whether one node at a time answers for a VIP, by the profile.

    Args:
        found: the named profile, or all that fit.
    """
    fit = next((each.name for each in found if any(trap.kind == ONE_NODE_TRAP for trap in each.traps)), "")
    names = " and ".join(each.name for each in found)
    why = (
        f"{fit}: one node at a time takes the traffic of a VIP, and answers ARP and NDP for it"
        if fit
        else (
            f"{names}: not said to have one node at a time answer ARP and NDP for a VIP" if found else "no profile fits"
        )
    )
    return Feature(bool(fit), why)


def guess(found: Iterable[LoadBalancer], protocols: Iterable[str], family: Family) -> str:
    """A remark on a missing VIP if the detected load balancer does not support it; empty if it does.

    Args:
        found: the detected profiles.
        protocols: those of the Service that waits for its VIP.
        family: of the VIP.
    """
    wanted = set(protocols)
    for each in found:
        if family not in each.carries.families.value or not wanted <= set(each.carries.protocols.value):
            return f"; the detected {each.name} does not support it: confirm that with --provider {each.name}"
    return ""
