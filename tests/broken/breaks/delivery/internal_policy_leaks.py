"""Nodes without a local endpoint forward traffic to ClusterIPs with internalTrafficPolicy Local."""

from contextlib import AbstractContextManager

from esipp.checks.model import EntryKind, TrafficPolicy
from esipp.checks.path import PathCheck
from esipp.judging.topology import family_of
from tests.broken.breakage import Break, Group, RunOptions, path_checks
from tests.broken.matching import hands_to, to_port
from tests.broken.nodes import Live, Nodes, Placed, Rule


def leaking(nodes: Nodes) -> AbstractContextManager[Placed]:
    def rules(live: Live) -> list[Rule]:
        found = []
        for service in live.services:
            if service["spec"].get("internalTrafficPolicy") != "Local":
                continue
            for port, address, home, target in live.targets(service):
                family = family_of(address)
                own = [ip for ip in service["spec"]["clusterIPs"] if family_of(ip) is family]
                words = ("--destination", *own, *to_port(port), *hands_to(address, target))
                others = tuple(node for node in nodes.containers if node != home)
                found += [Rule(family, chain, words, others) for chain in ("PREROUTING", "OUTPUT") if own]
        return found

    return nodes.live(rules)


def notices(path_check: PathCheck) -> bool:
    service = path_check.subject.path.service
    local = service is not None and service.internal is TrafficPolicy.LOCAL
    return path_check.subject.is_negative and local and path_check.subject.path.entry.kind is EntryKind.CLUSTER_IP


BREAK = Break(
    "internal-policy-leaks",
    Group.DELIVERY,
    "nodes without a local endpoint forward traffic to ClusterIPs with internalTrafficPolicy Local to the endpoint "
    "node",
    RunOptions(("source_ip",)),
    leaking,
    path_checks(notices),
    names="ClusterIP leaks",
    scoped=True,
    fixed=True,
)
