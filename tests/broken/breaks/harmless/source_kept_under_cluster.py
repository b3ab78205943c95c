"""Harmless: a node preserves the client's source to its own pods under Cluster, as some eBPF data planes do."""

from contextlib import AbstractContextManager

from esipp.checks.model import Role, TrafficPolicy, Vantage
from esipp.checks.path import PathCheck
from esipp.judging.topology import family_of
from tests.broken.breakage import KNOWN, Break, Group, RunOptions, path_checks
from tests.broken.masquerading import NODE
from tests.broken.matching import came_by
from tests.broken.nodes import Live, Nodes, Placed, Rule
from tests.broken.ways import NODE_PORTS


def keeping(nodes: Nodes) -> AbstractContextManager[Placed]:
    """What came to a nodePort of the endpoint's node leaves it as it came; its own processes and pods are no matter."""
    here = (nodes.roles[Role.ENDPOINT_NODE],)

    def rules(live: Live) -> list[Rule]:
        found = []
        for service in live.services:
            spec = service["spec"]
            if spec["type"] == "ClusterIP" or spec.get("externalTrafficPolicy") != "Cluster":
                continue
            for port in spec["ports"]:
                for client in ("outside-1", "outside-2"):
                    for address in live.addresses_of(client):
                        words = (*came_by(port, port["nodePort"]), "--source", address, "--jump", "ACCEPT")
                        found.append(Rule(family_of(address), "POSTROUTING", words, here))
        return found

    return nodes.live(rules)


def knows(path_check: PathCheck) -> bool:
    """Clients outside at that node's nodePorts, where a rewritten source is expected. A policy not named is Cluster."""
    path = path_check.subject.path
    local = path.service is not None and path.service.policy is TrafficPolicy.LOCAL
    there = path.entry.kind in NODE_PORTS and path.entry.role is Role.ENDPOINT_NODE
    return there and not local and path.client.vantage is Vantage.OUTSIDE and path_check.subject.accept == NODE


BREAK = Break(
    "source-kept-under-cluster",
    Group.HARMLESS,
    "a node does not rewrite the source of traffic to its own pods, also under Cluster",
    RunOptions(("source_ip",)),
    keeping,
    path_checks(knows),
    names="the API allows",
    says=KNOWN,
    scoped=True,
)
