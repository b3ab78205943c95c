"""Topology: nodes and their roles, pods, clients and VIPs, each with its addresses. Pure.

Addresses are compared as addresses, never as strings: v4-mapped and zero-compressed forms are the same address.
"""

import ipaddress
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

from esipp.base.customisation import NOTHING, Customisation
from esipp.checks.model import Client, Family, Role

IPAddress = ipaddress.IPv4Address | ipaddress.IPv6Address


@cache
def parse_address(text: str) -> IPAddress:
    """Read an address; a scope is cut off and a v4-mapped IPv6 address becomes the IPv4 address it stands for.

    Raises:
        ValueError: the text is no address.
    """
    address = ipaddress.ip_address(text.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        return address.ipv4_mapped
    return address


def family_of(address: str | IPAddress) -> Family:
    """The IP family of an address."""
    parsed = parse_address(address) if isinstance(address, str) else address
    return Family.IPV4 if parsed.version == 4 else Family.IPV6


def by_family(addresses: Iterable[str]) -> dict[Family, str]:
    """The first address of each family, as ``status.podIPs`` and ``status.addresses`` list them."""
    found: dict[Family, str] = {}
    for address in addresses:
        found.setdefault(family_of(address), address)
    return found


EXCLUDED = "excluded-node"
"""The mark of a node that load balancers must not use."""
ZONE = "topology.kubernetes.io/zone"
"""The label of a node with its zone."""

MARKS = {
    "control-plane": "node-role.kubernetes.io/control-plane",
    EXCLUDED: "node.kubernetes.io/exclude-from-external-load-balancers",
}
"""Labels that say what a node is to load balancers."""


@dataclass(frozen=True)
class Node:
    """A node: its name, the InternalIP of each family, and every address it is known to hold.

    ``only_external`` says that it has no InternalIP, so that its ExternalIPs take their place; ``external`` are its
    ExternalIPs beside InternalIPs.

    ``usable`` means that a pod pinned to it can run our image (ready, Linux); ``schedulable`` also that the scheduler
    may place pods on it. ``marks`` are those of ``MARKS`` that it has. A node that the user has not ``chosen`` runs no
    pod of ours, but its addresses still count as a node's. ``zone`` is empty if it has none.
    """

    name: str
    internal: Mapping[Family, str]
    addresses: frozenset[IPAddress]
    schedulable: bool = True
    usable: bool = True
    provider_id: str = ""
    marks: frozenset[str] = frozenset()
    chosen: bool = True
    only_external: bool = False
    external: Mapping[Family, str] = field(default_factory=dict)
    zone: str = ""


@dataclass(frozen=True)
class Pod:
    """A pod of ours and the addresses of ``status.podIPs``."""

    name: str
    node: str
    addresses: Mapping[Family, str]


@dataclass(frozen=True)
class Stand:
    """A client's actual place: its addresses, and its node (None outside the cluster).

    ``behind_nat`` maps its own addresses to those that NAT gives them before the cluster, as client address discovery
    proved before anything was judged; ``addresses`` are then those that the cluster sees. ``only_vips`` are the
    families in which it reaches no node, so that no control listener shows whether something rewrites its address on
    the way.
    """

    client: Client
    addresses: frozenset[IPAddress]
    node: str | None = None
    behind_nat: Mapping[IPAddress, IPAddress] = field(default_factory=dict)
    only_vips: frozenset[Family] = frozenset()

    def shown(self, own: IPAddress) -> IPAddress:
        """The address with which the cluster sees a socket of this client."""
        return self.behind_nat.get(own, own)


@dataclass(frozen=True)
class Topology:
    """The part of the cluster that the judge needs."""

    nodes: Mapping[str, Node] = field(default_factory=dict)
    roles: Mapping[Role, str] = field(default_factory=dict)
    stands: Mapping[str, Stand] = field(default_factory=dict)
    backends: Mapping[str, Pod] = field(default_factory=dict)
    balancers: Mapping[str, frozenset[IPAddress]] = field(default_factory=dict)

    def shown(self, client: str, own: str) -> IPAddress:
        """The address with which the cluster sees a client's socket: its own, or its translation behind NAT."""
        stand = self.stands.get(client)
        return stand.shown(parse_address(own)) if stand else parse_address(own)

    def as_json(self) -> dict[str, Any]:
        """The topology as the ledger keeps it."""
        return {
            "nodes": {
                node.name: {
                    "internal": {family.value: address for family, address in node.internal.items()},
                    "addresses": sorted(str(address) for address in node.addresses),
                }
                for node in self.nodes.values()
            },
            "roles": {role.value: node for role, node in self.roles.items()},
            "clients": {
                name: {
                    "vantage": stand.client.vantage.value,
                    "node": stand.node,
                    "addresses": sorted(str(address) for address in stand.addresses),
                    **({"behind_nat": nat} if (nat := _pairs(stand.behind_nat)) else {}),
                    **({"only_vips": sorted(stand.only_vips)} if stand.only_vips else {}),
                }
                for name, stand in self.stands.items()
            },
            "backends": {
                pod.name: {"node": pod.node, "addresses": sorted(pod.addresses.values())}
                for pod in self.backends.values()
            },
            "balancers": {name: sorted(str(a) for a in own) for name, own in self.balancers.items() if own},
        }


def _pairs(behind_nat: Mapping[IPAddress, IPAddress]) -> dict[str, str]:
    return {str(own): str(seen) for own, seen in sorted(behind_nat.items(), key=str)}


def without_shared(nodes: Mapping[str, Node]) -> dict[str, Node]:
    """The nodes without the addresses that several of them hold (a bridge's, a local DNS cache's, an IPVS VIP).

    Such an address identifies no node, so a source that shows it is unknown.
    """
    held = Counter(address for node in nodes.values() for address in node.addresses)
    return {
        name: replace(node, addresses=frozenset(a for a in node.addresses if held[a] == 1))
        for name, node in nodes.items()
    }


def read_node(item: Mapping[str, Any], customisation: Customisation = NOTHING) -> Node:
    """A node from the API's JSON; pods may be scheduled on it unless it is cordoned or tainted against them.

    If it has no InternalIP, its ExternalIPs take their place, as in Kubernetes' own components (``GetNodeHostIPs``,
    pkg/util/node). ``customisation`` says which nodes are chosen, and which taints our pods tolerate.
    """
    metadata, spec, status = item["metadata"], item.get("spec", {}), item.get("status", {})
    listed = [a["address"] for a in status.get("addresses", []) if a["type"] in ("InternalIP", "ExternalIP")]
    held = {a["type"] for a in status.get("addresses", [])}
    kind = "InternalIP" if "InternalIP" in held else "ExternalIP"
    internal, external = (
        by_family(a["address"] for a in status.get("addresses", []) if a["type"] == each)
        for each in (kind, "ExternalIP")
    )
    repelled = customisation.repelled(spec.get("taints") or [])
    linux = status.get("nodeInfo", {}).get("operatingSystem", "linux") == "linux"
    ready = is_ready(item)
    return Node(
        name=metadata["name"],
        internal=internal,
        addresses=frozenset(parse_address(a) for a in listed),
        schedulable=ready and linux and not repelled and not spec.get("unschedulable", False),
        usable=ready and linux,
        provider_id=spec.get("providerID", ""),
        only_external=kind == "ExternalIP",
        external={} if kind == "ExternalIP" else external,
        marks=frozenset(mark for mark, label in MARKS.items() if label in (metadata.get("labels") or {})),
        chosen=customisation.takes(item),
        zone=str((metadata.get("labels") or {}).get(ZONE, "")),
    )


def is_ready(item: Mapping[str, Any]) -> bool:
    """Whether a node, as the API's JSON, is Ready."""
    conditions = item.get("status", {}).get("conditions", [])
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def marked(nodes: Iterable[Node], roles: Mapping[Role, str], mark: str, seed: int = 0) -> str | None:
    """A node with a mark that can run our pods and has no other role: the one that has this role, or one by the seed.

    It has addresses of all families of the nodes with a role: every check of a family asks every role. Seeds that
    follow each other take one node after the other, by name.
    """
    if mark == Role.CONTROL_PLANE and Role.CONTROL_PLANE in roles:
        return roles[Role.CONTROL_PLANE]
    playing = {node for role, node in roles.items() if role is not Role.CONTROL_PLANE}
    there = [node for node in nodes if node.usable and node.chosen]
    families = {family for node in there if node.name in playing for family in node.internal}
    others = (node for node in there if mark in node.marks and node.name not in playing)
    fit = sorted(node.name for node in others if families <= node.internal.keys())
    return fit[seed % len(fit)] if fit else None


def with_control_plane(nodes: Iterable[Node], roles: Mapping[Role, str], seed: int = 0) -> dict[Role, str]:
    """The roles, with that of the control plane if a node can take it; of several, the seed chooses one."""
    found = marked(nodes, roles, Role.CONTROL_PLANE.value, seed)
    return {**roles, **({Role.CONTROL_PLANE: found} if found else {})}


def cast_roles(nodes: Iterable[Node], seed: int = 0) -> dict[Role, str]:
    """Give the chosen schedulable nodes their roles: by name with seed 0, and with other seeds in turn.

    Seeds that follow each other give the first role to one node after the other, and with enough of them each node has
    each role beside each other node. Nodes that load balancers must not use come last: no VIP leads to an endpoint
    there. Among the others, nodes with addresses of more families come first, so that a node without IPv6 does not hide
    what the others do with it. With two nodes the in-cluster clients run on the node without local endpoints; checks
    that need a third node are unsupported.

    Raises:
        ValueError: fewer than two schedulable nodes.
    """
    fit = {
        node.name: (EXCLUDED not in node.marks, len(node.internal))
        for node in nodes
        if node.schedulable and node.chosen
    }
    if len(fit) < 2:
        raise ValueError("fewer than two schedulable nodes")
    names: list[str] = []
    while len(names) < min(3, len(fit)):
        left = sorted(fit.keys() - set(names))
        best = [name for name in left if fit[name] == max(fit[each] for each in left)]
        seed, at = divmod(seed, len(best))
        names.append(best[at])
    return {Role.ENDPOINT_NODE: names[0], Role.BARE_NODE: names[1], Role.OTHER_NODE: names[-1]}
