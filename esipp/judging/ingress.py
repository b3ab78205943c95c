"""Whether one Service's load balancer may be a proxy, and whether the sources that pods saw can be its own. Pure.

A Service's own status says that: an ingress with ``ipMode: Proxy``, or a hostname, behind which there may be a proxy.
That alone excuses nothing: the addresses that pods saw decide (``why_not_its_own``). What ``--provider`` says goes
before: behind a forwarder only the client's own address is right. A proxy that announces a plain address is excused by
nothing: ``ipMode: VIP``, or none, promises that packets reach nodes as they were sent (KEP-1860).
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from esipp.checks.ingress import AT_SERVICE, PROXY, TOLD
from esipp.judging.topology import IPAddress, Topology, parse_address

MOST = 8
"""Addresses that a proxy may have towards nodes, at most: one a zone, or those of a fail-over pair or two. A proxy with
more of them is believed only where ``--provider`` says that it is one."""

AT_LEAST = 2
"""Connections for each address, on average: as many addresses as connections are no set that stays the same."""


def is_told(facts: Mapping[str, str]) -> bool:
    """Whether ``--provider`` says that the load balancer is a proxy."""
    return facts.get(TOLD) == PROXY


def in_doubt(unproven: str, facts: Mapping[str, str]) -> bool:
    """Whether an unknown address may as well be NAT's on the way to the VIP: a hostname says nothing against that.

    Args:
        unproven: why it is not proven by which address the client is seen there; empty where it is.
        facts: those at the Service (``facts_at``).
    """
    return bool(unproven) and not is_told(facts) and facts.get(AT_SERVICE) != "Proxy"


def held(topology: Topology) -> frozenset[IPAddress]:
    """Every address that is known to be a node's, a pod's or a client's: none of them is a load balancer's."""
    found = {address for node in topology.nodes.values() for address in node.addresses}
    found |= {parse_address(each) for pod in topology.backends.values() for each in pod.addresses.values()}
    for stand in topology.stands.values():
        found |= stand.addresses | stand.behind_nat.keys() | set(stand.behind_nat.values())
    return frozenset(found)


@dataclass(frozen=True)
class Strangers:
    """What sources that are not as they should be can be.

    Args:
        foreign: addresses of nobody that we know, all of them: NAT before the cluster may have put them there.
        proxied: a load balancer's own addresses.
    """

    foreign: bool
    proxied: bool


def strangers(seen: Mapping[str, int], others: Collection[IPAddress]) -> Strangers:
    """What the wrong sources at one VIP can be, for checks that are no path.

    Args:
        seen: answers by the wrong source that pods saw.
        others: addresses that are known to be a node's, a pod's or a client's.
    """
    foreign = bool(seen) and not any(parse_address(each) in others for each in seen)
    return Strangers(foreign, foreign and not why_not_its_own(seen, others))


def why_not_its_own(seen: Mapping[str, int], others: Collection[IPAddress], *, told: bool = False) -> str:
    """Why the sources that pods saw cannot be a load balancer's own addresses; empty where they can.

    Args:
        seen: connections by the source address that pods saw, of everything that came by one Service's VIP in one
            family and did not show the client's own address.
        others: addresses that are known to be a node's, a pod's or a client's (``held``).
        told: whether ``--provider`` says that it is a proxy: then it may have any number of addresses.
    """
    if not seen:
        return "nothing but the client's own address was seen"
    known = sorted(address for address in seen if parse_address(address) in others)
    if known:
        return f"{known[0]} is the address of a node, a pod or a client"
    number, total = len({parse_address(each) for each in seen}), sum(seen.values())
    if told or (number <= MOST and total >= AT_LEAST * number):
        return ""
    return f"{number} addresses in {total} connections: a load balancer has few addresses, and keeps them"
