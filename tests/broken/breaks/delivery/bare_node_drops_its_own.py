"""The node without local endpoint drops its own clients' traffic to a Local Service by VIP, externalIP or nodePort.

kube-proxy's nftables mode did so before Kubernetes 1.34 (kubernetes/kubernetes#131765).
"""

from collections.abc import Iterator
from contextlib import AbstractContextManager

from esipp.base.json import Json
from esipp.checks.check import Level
from esipp.checks.model import Balancer, EntryKind, Family, Role, TrafficPolicy
from esipp.checks.path import PathCheck
from esipp.judging.topology import family_of
from tests.broken.breakage import Break, Group, RunOptions, path_checks
from tests.broken.forwarding import internal_addresses
from tests.broken.matching import DROP, to_port, vips
from tests.broken.nodes import Live, Nodes, Placed, Rule

WITHOUT_MANY = (
    "interop.loadbalancer",
    "interop.nodeport",
    "interop.external-ips",
    "interop.names",
    "interop.neighbours",
)
"""All of the suite but its two hundred services: breaks run side by side, and one of their connections was lost
while four suites ran at once (2026-11-23)."""


def black_holing(nodes: Nodes) -> AbstractContextManager[Placed]:
    own = internal_addresses(nodes, nodes.bare)

    def rules(live: Live) -> list[Rule]:
        return [rule for service in live.services for rule in dropped(nodes, service, own)]

    return nodes.live(rules)


def dropped(nodes: Nodes, service: Json, own: dict[Family, str]) -> Iterator[Rule]:
    """Rules that drop traffic of the node's pods, and of its own processes."""
    spec = service["spec"]
    if spec.get("externalTrafficPolicy") != "Local" or "reference" in (spec.get("loadBalancerClass") or ""):
        return
    for port in spec["ports"]:
        entries = [(address, port["port"]) for address in (*vips(service), *(spec.get("externalIPs") or ()))]
        entries += [(address, port["nodePort"]) for address in own.values() if port.get("nodePort")]
        for address, number in entries:
            family = family_of(address)
            words = ("--destination", address, *to_port(port, number), *DROP)
            pods = ("--source", nodes.pod_cidrs[family])
            yield Rule(family, "PREROUTING", (*pods, *words), (nodes.bare,), "mangle")
            yield Rule(family, "OUTPUT", words, (nodes.bare,), "mangle")


def notices(path_check: PathCheck) -> bool:
    """Whether a client on the node without local endpoint must get an answer through its own node."""
    entry, service = path_check.subject.path.entry, path_check.subject.path.service
    if service is None or service.policy is not TrafficPolicy.LOCAL or path_check.level is Level.RECORD:
        return False
    own = entry.kind is EntryKind.NODE_PORT and entry.role is Role.BARE_NODE
    vip = entry.kind is EntryKind.VIP and service.balancer is Balancer.DEFAULT
    return path_check.subject.path.client.role is Role.BARE_NODE and (own or vip or entry.kind is EntryKind.EXTERNAL_IP)


BREAK = Break(
    "interop-bare-node-drops-its-own",
    Group.DELIVERY,
    "the node without local endpoint drops its own pods' and processes' traffic to a Local Service by VIP, externalIP "
    "or its own nodePort, as kube-proxy's nftables mode did before 1.34",
    RunOptions(("interoperability",), WITHOUT_MANY),
    black_holing,
    path_checks(notices),
    names="no short circuit",
    scoped=True,
    fixed=True,
)
