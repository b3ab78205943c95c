"""externalIPs of a Local Service are served on every node and masqueraded, as under Cluster."""

from collections.abc import Iterator
from contextlib import AbstractContextManager

from esipp.base.json import Json
from esipp.checks.model import EntryKind, Role, TrafficPolicy, Vantage
from esipp.checks.path import PathCheck
from esipp.judging.topology import family_of
from tests.broken.breakage import Break, Group, RunOptions, path_checks
from tests.broken.forwarding import internal_addresses
from tests.broken.masquerading import CLIENT, NAMES_THE_NODE
from tests.broken.matching import MASQUERADE, came_by, hands_to, to_port
from tests.broken.nodes import Live, Nodes, Placed, Rule


def as_cluster(nodes: Nodes) -> AbstractContextManager[Placed]:
    bare = internal_addresses(nodes, nodes.bare)

    def served(live: Live, service: Json) -> Iterator[Rule]:
        for port, address, _, target in live.targets(service):
            family = family_of(address)
            words = ("--destination", bare[family], *to_port(port), *hands_to(address, target))
            yield Rule(family, "PREROUTING", words, (nodes.bare,))
            for own in (each for each in service["spec"]["externalIPs"] if family_of(each) is family):
                yield Rule(family, "POSTROUTING", (*came_by(port, port["port"], own), *MASQUERADE))

    def rules(live: Live) -> list[Rule]:
        local = [each for each in live.services if each["spec"].get("externalTrafficPolicy") == "Local"]
        return [rule for each in local if each["spec"].get("externalIPs") for rule in served(live, each)]

    return nodes.live(rules)


def notices(path_check: PathCheck) -> bool:
    """Whoever must be refused at the bare node, or be seen as himself; a host process keeps an address of its node."""
    path, service = path_check.subject.path, path_check.subject.path.service
    if service is None or service.policy is not TrafficPolicy.LOCAL or path.entry.kind is not EntryKind.EXTERNAL_IP:
        return False
    refused = path_check.subject.is_negative and path.entry.role is Role.BARE_NODE
    return refused or (path_check.subject.accept == CLIENT and path.client.vantage is not Vantage.NODE)


BREAK = Break(
    "external-ips-as-cluster",
    Group.DELIVERY,
    "every node serves externalIPs of a Local Service as under Cluster: without a local endpoint, and masqueraded",
    RunOptions(("source_ip", "interoperability")),
    as_cluster,
    path_checks(notices),
    names=NAMES_THE_NODE,
    scoped=True,
)
