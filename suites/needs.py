"""The features that a cluster needs for a check."""

from enum import StrEnum

from esipp.checks.check import NAT, ROUTED, TWO_ADDRESSES
from esipp.checks.disruption import Disruption, features_of
from esipp.checks.model import Balancer, Client, Family, Vantage
from suites.clients import OUTSIDE_2, OUTSIDE_NAT, OUTSIDE_ROUTED

NODES = {
    "other-node": "nodes.three",
    "control-plane": "nodes.control-plane",
    "excluded-node": "nodes.excluded",
    "vip": "load-balancer",
}
"""The feature of a node that not every cluster has, by its role; and of the VIP."""

OTHERS_OUTSIDE = {OUTSIDE_2: TWO_ADDRESSES, OUTSIDE_ROUTED: ROUTED, OUTSIDE_NAT: NAT}
"""The feature of each client outside but the first."""


def needs(
    *others: str,
    client: Client | None = None,
    family: Family | None = None,
    node: StrEnum | None = None,
    balancer: Balancer | None = None,
    disruption: Disruption | None = None,
) -> frozenset[str]:
    """Return the features that a check needs.

    Args:
        others: features by name.
        client: the client that probes.
        family: the family that it dials.
        node: the probed node, by its role, or the VIP.
        balancer: the load balancer of the Service.
        disruption: what the check disrupts.
    """
    found = set(others)
    if client is not None and client.vantage is Vantage.OUTSIDE:
        found.add("vantage.outside")
    if client in OTHERS_OUTSIDE:
        found.add(OTHERS_OUTSIDE[client])
    if family is not None:
        found.add(f"family.{family.value.lower()}")
    if node is not None and node.value in NODES:
        found.add(NODES[node.value])
    if balancer is not None:
        found.add("load-balancer" if balancer is Balancer.DEFAULT else f"load-balancer.{balancer.value}")
    if disruption is not None:
        found |= {"disruptive", *features_of(disruption)}
    return frozenset(found)
