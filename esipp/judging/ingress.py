"""Proxies: whether a Service's load balancer may be one, and whether the sources that pods saw can be its own. Pure.

The Service's status says so: an ingress with ``ipMode: Proxy``, or with a hostname, behind which there may be a proxy.
That alone excuses nothing: the addresses that pods saw decide (``why_not_its_own``). ``--provider`` takes precedence:
behind a forwarder only the client's own address is right. Nothing excuses a proxy that announces a plain address:
``ipMode: VIP``, or none, promises that packets reach nodes as they were sent (KEP-1860).
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from esipp.checks.ingress import AT_SERVICE, NAMED_CLASS, PROXY
from esipp.judging.topology import IPAddress, Topology, parse_address

MOST = 8
"""The most addresses that a proxy may have towards nodes: one for each zone, or those of a fail-over pair or two. A
proxy with more of them needs ``--provider`` to say that it is one."""

AT_LEAST = 2
"""The least average number of connections for each address: a new address for each connection is no stable set."""


def is_proxy_by_user(facts: Mapping[str, str]) -> bool:
    """Whether ``--provider`` says that the load balancer is a proxy."""
    return facts.get(NAMED_CLASS) == PROXY


def in_doubt(unproven: str, facts: Mapping[str, str]) -> bool:
    """Whether an unknown address may come from NAT on the route to the VIP; a hostname does not rule that out.

    Args:
        unproven: why the client's address is not proven there; empty if it is proven.
        facts: those at the Service (``facts_at``).
    """
    return bool(unproven) and not is_proxy_by_user(facts) and facts.get(AT_SERVICE) != "Proxy"


def held(topology: Topology) -> frozenset[IPAddress]:
    """Every known address of a node, a pod or a client; none of them is a load balancer's."""
    found = {address for node in topology.nodes.values() for address in node.addresses}
    found |= {parse_address(each) for pod in topology.backends.values() for each in pod.addresses.values()}
    for stand in topology.stands.values():
        found |= stand.addresses | stand.behind_nat.keys() | set(stand.behind_nat.values())
    return frozenset(found)


@dataclass(frozen=True)
class Strangers:
    """The possible origin of wrong sources.

    Args:
        foreign: all of them are unknown addresses: NAT before the cluster may cause them.
        why: why they cannot be a load balancer's own addresses; empty if they can.
    """

    foreign: bool
    why: str

    @property
    def proxied(self) -> bool:
        """Whether they can be a load balancer's own addresses."""
        return not self.why


def strangers(seen: Mapping[str, int], others: Collection[IPAddress], *, is_proxy: bool = False) -> Strangers:
    """The possible origin of the wrong sources at one VIP, for checks other than paths.

    Args:
        seen: the number of answers by the wrong source that pods saw.
        others: known addresses of nodes, pods and clients.
        is_proxy: whether ``--provider`` says that the load balancer is a proxy.
    """
    foreign = bool(seen) and not any(parse_address(each) in others for each in seen)
    return Strangers(foreign, why_not_its_own(seen, others, is_proxy=is_proxy))


def why_not_its_own(seen: Mapping[str, int], others: Collection[IPAddress], *, is_proxy: bool = False) -> str:
    """Why the sources that pods saw cannot be a load balancer's own addresses; empty if they can.

    Args:
        seen: the number of connections by the source address that pods saw: all connections through one Service's VIP
            in one family, without those that showed the client's own address.
        others: known addresses of nodes, pods and clients (``held``).
        is_proxy: whether ``--provider`` says that it is a proxy: then it may have any number of addresses.
    """
    if not seen:
        return "pods saw only the client's own address"
    known = sorted(address for address in seen if parse_address(address) in others)
    if known:
        return f"{known[0]} is the address of a node, a pod or a client"
    number, total = len({parse_address(each) for each in seen}), sum(seen.values())
    if is_proxy or (number <= MOST and total >= AT_LEAST * number):
        return ""
    return f"{number} addresses in {total} connections: a load balancer has a small, fixed set of addresses"
