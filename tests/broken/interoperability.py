"""Data planes that spoil what inter-operation is about: how each is made, and which rows must notice; no other may."""

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

from esipp.interoperability.model import InteropRow
from esipp.interoperability.props import A, B
from esipp.model import Balancer, Cell, EntryKind, Family, Role, TrafficPolicy, Vantage
from esipp.rows import Level, Row
from esipp.topology import family_of
from tests.broken.breaks import forwarded
from tests.broken.nodes import Live, Nodes, Placed, Rule
from tests.broken.rowbreaks import RowBreak

Json = dict[str, Any]

SETTLED = "interop.nodeport.local.tcp.ipv4.outside-1-to-bare-node"
"""Asked where all others are trials, so that it is known when the run began to look."""


# -------------------------------------------------------------------------------------------------------- the breaks
def black_holing(nodes: Nodes) -> AbstractContextManager[Placed]:
    """The bare node drops what its own pods and processes send to a Local service by VIP, externalIP or its nodePort.

    As the nftables mode did before Kubernetes 1.34 (kubernetes/kubernetes#131765).
    """
    own = {family_of(address): address for address in _addresses(nodes, nodes.bare)}

    def rules(live: Live) -> list[Rule]:
        return [rule for service in live.services for rule in _dropped(nodes, service, own)]

    return nodes.live(rules)


def _addresses(nodes: Nodes, name: str) -> list[str]:
    item = nodes.cluster.request("GET", f"/api/v1/nodes/{name}")
    return [each["address"] for each in item["status"]["addresses"] if each["type"] == "InternalIP"]


def _dropped(nodes: Nodes, service: Json, own: dict[Family, str]) -> Iterator[Rule]:
    spec = service["spec"]
    if spec.get("externalTrafficPolicy") != "Local" or "reference" in (spec.get("loadBalancerClass") or ""):
        return
    vips = [each["ip"] for each in service.get("status", {}).get("loadBalancer", {}).get("ingress") or []]
    for port in spec["ports"]:
        protocol = ("--protocol", port["protocol"].lower())
        entries = [(address, port["port"]) for address in (*vips, *(spec.get("externalIPs") or ()))]
        entries += [(address, port["nodePort"]) for address in own.values() if port.get("nodePort")]
        for address, number in entries:
            family = family_of(address)
            words = ("--destination", address, *protocol, "--dport", str(number))
            pods = ("--source", nodes.pod_cidrs[family])
            yield Rule(family, "PREROUTING", (*pods, *words, "--jump", "DROP"), (nodes.bare,), "mangle")
            yield Rule(family, "OUTPUT", (*words, "--jump", "DROP"), (nodes.bare,), "mangle")


def forwarding_for_outside(nodes: Nodes) -> AbstractContextManager[Placed]:
    """The bare node hands what comes from outside the pod network to Local nodePorts on, masqueraded."""

    def rules(live: Live) -> list[Rule]:
        made = [rule for service in live.services for rule in forwarded(nodes, live, service, masquerade=True)]
        return [replace(rule, words=("!", "--source", nodes.pod_cidrs[rule.family], *rule.words)) for rule in made]

    return nodes.live(rules)


def following(nodes: Nodes) -> AbstractContextManager[Placed]:
    """On every node the health check of service A is answered by that of service B."""

    def rules(live: Live) -> list[Rule]:
        port = {s["metadata"]["name"]: s["spec"].get("healthCheckNodePort") for s in live.services}
        local = ("--match", "addrtype", "--dst-type", "LOCAL")
        words = ("--protocol", "tcp", "--dport", str(port[A]), *local, "--jump", "REDIRECT", "--to-ports", str(port[B]))
        return [Rule(family, "PREROUTING", words) for family in Family]

    return nodes.live(rules)


# ------------------------------------------------------------------------------------------------- who must notice
def _local_cell(row: Row) -> bool:
    service = row.path.service if isinstance(row, Cell) else None
    return service is not None and service.policy is TrafficPolicy.LOCAL and row.level is not Level.RECORD


def dropped_inside(row: Row) -> bool:
    """Whether a client on the bare node must be answered in a way that its own node takes."""
    if not isinstance(row, Cell) or not _local_cell(row) or row.path.client.role is not Role.BARE_NODE:
        return False
    entry, service = row.path.entry, row.path.service
    assert service is not None
    own = entry.kind is EntryKind.NODE_PORT and entry.role is Role.BARE_NODE
    vip = entry.kind is EntryKind.VIP and service.balancer is Balancer.DEFAULT
    return own or vip or entry.kind is EntryKind.EXTERNAL_IP


def forwarded_outside(row: Row) -> bool:
    """Whether a client outside must not be answered at the bare node's nodePort."""
    return (
        isinstance(row, Cell)
        and row.is_negative
        and row.path.client.vantage is Vantage.OUTSIDE
        and (row.path.entry.kind, row.path.entry.role) == (EntryKind.NODE_PORT, Role.BARE_NODE)
    )


def followed(row: Row) -> bool:
    """Whether a row is about the answers of A's health check."""
    return isinstance(row, InteropRow) and row.trial == "neighbours" and row.claim in ("status", "document")


PATHS = ("interop.nodeport.", "interop.loadbalancer.", "interop.external-ips.")
INTEROP_BREAKS = (
    RowBreak(
        "interop-health-follows-neighbour",
        "interoperability",
        following,
        (SETTLED, "interop.neighbours."),
        followed,
        by_hand=False,
    ),
    RowBreak("interop-bare-node-drops-its-own", "interoperability", black_holing, PATHS, dropped_inside),
    RowBreak(
        "interop-bare-node-forwards-for-outside", "interoperability", forwarding_for_outside, PATHS, forwarded_outside
    ),
)
